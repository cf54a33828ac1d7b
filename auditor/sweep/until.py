"""The noise for which a condition just holds: a search over how many times the paper's noise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage
from fedrec_auditor.auditor.games.canary_games import LOCAL
from fedrec_auditor.auditor.plan.families import FAMILIES, near_names
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run.trainings import OverTrainings, over_trainings
from fedrec_auditor.auditor.sweep.grid import ratios
from fedrec_auditor.reports.record.frontier import (
    AT_DELTA,
    BEYOND,
    EPSILONS,
    AnswerRow,
    FigureRow,
    SweepContents,
    SweepRow,
    telling,
)
from fedrec_auditor.reports.say import brief
from fedrec_auditor.reports.say.metrics import ERRORS

WEAKEST, STRONGEST = 2.0**-4, 2.0**8
"""Ends of the search, times the paper's noise."""
STEPS = 6
"""Halvings of the logarithm: the answer is within a factor of 1.14 of the least that was found."""
MOST_SEEDS = 4
"""Times the trainings of a setting at most, where fewer cannot tell."""
FEWEST = 3
"""Trainings below which nothing is said of a further one."""
ASSUMED = "More noise is taken to leak no more."
USELESS = "More noise is taken to recommend no better."
_FORM = re.compile(
    r"(?P<what>attacks|epsilon)\s*(\((?P<of>[\w\s,-]+)\))?\s*<=\s*"
    r"(?P<guessing>guessing\s*\+\s*)?(?P<limit>[0-9.eE+-]+|guessing)"
)
_UTILITY = re.compile(
    r"(?P<what>utility)\s*(\((?P<of>[\w@]+)\))?\s*>=\s*(?P<limit>[0-9.eE+-]+)\s*unprotected"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a setting must keep: gains of all attacks, or of one, or epsilon of a scope; or utility.

    ``of`` are words: the name of an attack; or unit and horizon of the scope; or a metric. Of an
    epsilon it is what is proved: a bound from below cannot keep a condition. Utility is over that
    of the twin, of the metric to name where none is given.
    """

    text: str
    what: str
    limit: float
    of: tuple[str, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> Condition:
        """The condition of a text; InputError if it is none.

        >>> Condition.of_text("attacks <= guessing + .05").limit
        0.05
        >>> Condition.of_text("epsilon(user, training) <= 4").of
        ('user', 'training')
        >>> Condition.of_text("utility(NDCG@10) >= .9 unprotected").of
        ('NDCG@10',)
        """
        form = _FORM.fullmatch(text.strip()) or _UTILITY.fullmatch(text.strip())
        limit = math.nan
        if form is not None:
            said = form["limit"]
            try:
                limit = 0.0 if said == "guessing" else float(said)
            except ValueError:
                form = None
        wrong = form is None or not limit >= 0.0 or math.isinf(limit)
        if form is not None and not wrong and form["what"] != "utility":
            relative = bool(form["guessing"]) or form["limit"] == "guessing"
            wrong = relative != (form["what"] == "attacks")
        if form is None or wrong:
            raise InputError(
                f"Expected a condition, got {text!r}. For example 'attacks <= guessing + .05', "
                "'epsilon(user, training) <= 4' or 'utility >= .9 unprotected'."
            )
        of = tuple(word.strip() for word in (form["of"] or "").split(",") if word.strip())
        return cls(text, form["what"], limit, of)

    def check(self, plan: Plan) -> None:
        """InputError where no figure of this plan can speak of it."""
        words = {str(word) for kind in (Unit, Vantage, Horizon) for word in kind}
        if self.what == "attacks":
            words = set(FAMILIES["attacks"].able() if plan.attacks is None else plan.attacks)
        unknown = [word for word in self.of if word not in words]
        if unknown and self.what != "utility":  # its metrics are known when it was measured
            raise InputError(
                f"Expected a condition on what this plan has, got {unknown[0]!r} in {self.text!r}. "
                f"{near_names(unknown[0], sorted(words), 'There are')}"
            )
        if not words or (self.what != "epsilon" and LOCAL not in plan.games):
            raise InputError(
                f"Expected a plan that has {self.what} for {self.text!r}, got one without. Utility "
                "and attacks go with the local game: add it, and do not leave all attacks out."
            )

    def rows(self, swept: SweepContents) -> list[SweepRow]:
        """What is known of the first variant: all of its figures, or utility over its twin's."""
        rows = ratios(swept.rows, swept.variants) if self.what == "utility" else swept.rows
        return [row for row in rows if row.variant == 0]

    def kept(
        self, rows: Sequence[SweepRow], trainings: int, confidence: float, looks: int = 1
    ) -> bool | None:
        """Whether a further training keeps it: by all ``trainings`` of a variant, its ``rows``.

        None if they cannot tell: fewer than ``FEWEST``, or not all of them have each figure. All
        attacks of all ``looks`` keep it at once, at the ``confidence`` of the rows (Bonferroni).
        InputError if nothing here speaks of it.
        """
        groups = self.figures(rows)
        if self.what == "epsilon":
            return self._proved(groups)
        told = [
            over_trainings(
                [row.value for row in group],
                [row.value if row.ci_low is None else row.ci_low for row in group],
                [row.value if row.ci_high is None else row.ci_high for row in group],
                1.0 - (1.0 - confidence) / (looks * len(groups)),
                users=confidence,
            )
            for group in groups.values()
        ]
        utility = self.what == "utility"
        if any(each.value < self.limit if utility else each.value > self.limit for each in told):
            return False
        if trainings < FEWEST or any(each.trainings < trainings for each in told):
            return None
        within = _above if utility else _below
        return all(within(each, self.limit) for each in told) or None

    def figures(self, rows: Sequence[SweepRow]) -> dict[tuple[str, str], list[SweepRow]]:
        """The figures that speak of it, by metric and view, of attackers who keep the protocol.

        Of an epsilon they are all that is claimed, proved or shown; of utility there is one.
        """
        if self.what == "utility":
            metric = self.of[0].lower() if self.of else ""
            mine = [row for row in rows if row.kind == "utility"]
            named = [row for row in mine if metric in ("", row.metric.lower())]
            spoken = [row for row in named if _figure(row) == _figure(telling(named))]
        else:
            spoken = [row for row in rows if self._names(row)]
        groups: dict[tuple[str, str], list[SweepRow]] = {}
        for row in spoken:
            groups.setdefault(_figure(row), []).append(row)
        if not groups:
            raise InputError(
                f"Expected figures that speak of {self.text!r}, got none. Mend the condition, or "
                "sweep without it to see what there is."
            )
        return groups

    def _names(self, row: SweepRow) -> bool:
        """Whether a gain or an epsilon is one that it speaks of."""
        kinds = ("gain",) if self.what == "attacks" else EPSILONS
        words = row.view.partition(AT_DELTA)[0].split(" / ")
        named = all(word in words or f"{word}:" in row.metric for word in self.of)
        return row.kind in kinds and named and not row.view.endswith(BEYOND)

    def _proved(self, groups: Mapping[tuple[str, str], Sequence[SweepRow]]) -> bool:
        """Whether every scope has a proof within the limit, and nothing above it is shown there."""
        scopes: dict[str, list[tuple[float, float]]] = {}
        for (_, view), group in groups.items():
            proofs = [row.value for row in group if row.kind == "proved"]
            proof = max(proofs, default=math.inf)
            shown = max((row.value for row in group if row.kind == "shown"), default=0.0)
            scopes.setdefault(view.partition(AT_DELTA)[0], []).append((proof, shown))
        return all(
            any(max(proof, shown) <= self.limit for proof, shown in bounds)
            for bounds in scopes.values()
        )

    def basis(self, swept: SweepContents) -> str:
        """What was looked at, in words, and what lies beside it."""
        rows = self.rows(swept)
        groups = self.figures(rows)
        if self.what == "utility":
            ((metric, view),) = groups
            return f"Judged by {metric} ({view})."
        if self.what == "epsilon":
            views = [v for (_, v), g in groups.items() for r in g if r.kind == "proved"]
            return f"Proved: {'; '.join(dict.fromkeys(views))}."
        names = dict.fromkeys(metric.partition(":")[0] for metric, _ in groups)
        words = f"Judged by {', '.join(names)}, of attackers who keep the protocol."
        beyond = [row for row in rows if row.kind == "gain" and row.view.endswith(BEYOND)]
        if beyond and (most := max(beyond, key=lambda row: row.value)).value > self.limit:
            words += f" Who breaks it gains up to {brief(most.value)} ({most.metric})."
        return words


def _figure(row: FigureRow) -> tuple[str, str]:
    return row.metric, row.view


def _above(told: OverTrainings, limit: float) -> bool:
    """Whether mean and a further training are above; of one training nothing is (NaN)."""
    return told.ci_low >= limit and told.next_low >= limit


def _below(told: OverTrainings, limit: float) -> bool:
    """Whether mean and a further training are below; of one training nothing is (NaN)."""
    return told.ci_high <= limit and told.next_high <= limit


def search(
    target: str,
    condition: Condition,
    trained: Callable[[float, int], SweepContents],
    seeds: int,
    confidence: float,
) -> tuple[AnswerRow, tuple[float, ...]]:
    """The least noise that keeps the condition, of utility the most, and all that were tried.

    ``trained`` gives the sweep of one factor of the noise and so many trainings. More noise is
    taken to leak no more, and to recommend no better: the search halves the interval of factors. A
    setting of which trainings cannot tell is trained more often, up to ``MOST_SEEDS`` times, and
    then counts as one that does not keep it.
    """
    tried: dict[float, bool] = {}
    trainings: dict[float, int] = {}
    # Of at most STEPS + 2 factors, each looked at a few times, all hold at once (Bonferroni).
    looks = (STEPS + 2) * MOST_SEEDS.bit_length()
    unsure: list[float] = []

    def keeps(factor: float) -> bool:
        kept: bool | None = None
        count = seeds
        while kept is None and count <= seeds * MOST_SEEDS:
            swept = trained(factor, count)
            kept = condition.kept(condition.rows(swept), count, confidence, looks)
            if swept.errors and kept is not False:  # what failed may be what leaks
                kept = None
                break
            trainings[factor] = count
            count *= 2
        if kept is None:
            unsure.append(factor)
        tried[factor] = bool(kept)
        return tried[factor]

    useful = condition.what == "utility"
    # Where it is likeliest kept, and where nobody would ask for more.
    best, wished = (WEAKEST, STRONGEST) if useful else (STRONGEST, WEAKEST)
    if keeps(wished):
        best = wished
    elif keeps(best):
        for _ in range(STEPS):
            middle = float(f"{math.sqrt(best * wished):.3g}")
            if keeps(middle):
                best = middle
            else:
                wished = middle
    factors = tuple(sorted(tried))
    if not tried[best]:
        to = "down" if useful else "up"
        cannot = " (trainings cannot tell)" if best in unsure else ""
        words = f"No noise {to} to {brief(best)} times the paper's keeps {condition.text}{cannot}."
        return AnswerRow(target=target, condition=condition.text, words=words), factors
    swept = trained(best, trainings[best])
    answer = AnswerRow(
        target=target,
        condition=condition.text,
        factor=best,
        settings=swept.variants[0].settings,
        trainings=trainings[best],
        words=_answer_words(condition, swept, best, wished, unsure=wished in unsure),
    )
    return answer, factors


def _answer_words(
    condition: Condition, swept: SweepContents, best: float, wished: float, *, unsure: bool
) -> str:
    """The noise that keeps a condition, by what, and whether the system is of use there."""
    settings = swept.variants[0].settings
    named = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )
    least = {WEAKEST: "at most ", STRONGEST: "at least "}.get(best, "") if best == wished else ""
    words = f"{least}{brief(best)} times the paper's noise ({named}) keeps {condition.text}."
    if unsure and wished != best:
        words += f" Of {brief(wished)} times the trainings cannot tell."
    words = f"{words[0].upper()}{words[1:]} {condition.basis(swept)} {_useful(swept)}".strip()
    return f"{words} {USELESS if condition.what == 'utility' else ASSUMED}"


def _useful(swept: SweepContents) -> str:
    """Whether it is shown to recommend better than popularity there, by users and trainings."""
    rows = [row for row in swept.overall if row.variant == 0 and row.kind == "utility"]
    if not rows or (row := telling(rows)).baseline is None:
        return ""
    ahead = next(
        r for r in swept.overall if (r.variant, r.kind, _figure(r)) == (0, "ahead", _figure(row))
    )
    end = ahead.ci_high if row.metric in ERRORS else ahead.ci_low
    better = end is not None and (end < 0.0 if row.metric in ERRORS else end > 0.0)
    beside = (
        f"{row.metric} {brief(row.value)} ({row.view}), popularity or two means "
        f"{brief(row.baseline)}"
    )
    shown = "is shown" if better else "is not shown"
    return f"There it {shown} to recommend better than what is simpler: {beside}."
