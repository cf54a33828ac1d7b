"""The least noise for which a condition holds: a search over how many times the paper's noise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage
from fedrec_auditor.auditor.games.canary_games import LOCAL
from fedrec_auditor.auditor.plan.families import FAMILIES, near_names
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.sweep.trainings import OverTrainings, over_trainings
from fedrec_auditor.reports.frontier import telling
from fedrec_auditor.reports.sweep_rows import AT_DELTA, BEYOND, AnswerRow, SweepContents, SweepRow
from fedrec_auditor.reports.usefulness import ERRORS
from fedrec_auditor.reports.words import brief

WEAKEST, STRONGEST = 2.0**-4, 2.0**8
"""Ends of the search, times the paper's noise."""
STEPS = 6
"""Halvings of the logarithm: the answer is within a factor of 1.14 of the least that was found."""
MOST_SEEDS = 4
"""Times the trainings of a setting at most, where fewer cannot tell."""
FEWEST = 3
"""Trainings below which nothing is said of a further one."""
ASSUMED = "More noise is taken to leak no more."
_FORM = re.compile(
    r"(?P<what>attacks|epsilon)\s*(\((?P<of>[\w\s,-]+)\))?\s*<=\s*"
    r"(?P<guessing>guessing\s*\+\s*)?(?P<limit>[0-9.eE+-]+|guessing)"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a setting must keep: gains of all attacks, or of one, or epsilon of a scope.

    ``of`` are words: the name of an attack; or unit and horizon of the scope. Of an epsilon it is
    what is proved: a bound from below cannot keep a condition.
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
        """
        form = _FORM.fullmatch(text.strip())
        limit = math.nan
        if form is not None:
            said = form["limit"]
            try:
                limit = 0.0 if said == "guessing" else float(said)
            except ValueError:
                form = None
        wrong = form is None or not limit >= 0.0 or math.isinf(limit)
        if form is not None and not wrong:
            relative = bool(form["guessing"]) or form["limit"] == "guessing"
            wrong = relative != (form["what"] == "attacks")
        if form is None or wrong:
            raise InputError(
                f"Expected a condition, got {text!r}. For example 'attacks <= guessing + .05' or "
                "'epsilon(user, training) <= 4'."
            )
        of = tuple(word.strip() for word in (form["of"] or "").split(",") if word.strip())
        return cls(text, form["what"], limit, of)

    def check(self, plan: Plan) -> None:
        """InputError where no figure of this plan can speak of it."""
        words = {str(word) for kind in (Unit, Vantage, Horizon) for word in kind}
        if self.what == "attacks":
            words = set(FAMILIES["attacks"].able() if plan.attacks is None else plan.attacks)
        if unknown := [word for word in self.of if word not in words]:
            raise InputError(
                f"Expected a condition on what this plan has, got {unknown[0]!r} in {self.text!r}. "
                f"{near_names(unknown[0], sorted(words), 'There are')}"
            )
        if self.what == "attacks" and (LOCAL not in plan.games or not words):
            raise InputError(
                f"Expected a plan that plays attacks for {self.text!r}, got one without. They go "
                "with the local game: add it, and name some attacks or leave them out for all."
            )

    def kept(self, rows: Sequence[SweepRow], trainings: int, confidence: float) -> bool | None:
        """Whether a further training keeps it: by all ``trainings`` of one variant, its ``rows``.

        None if they cannot tell: fewer than ``FEWEST``, or not all of them have each figure. All
        attacks keep it at once (Bonferroni). InputError if nothing here speaks of it.
        """
        groups = self.figures(rows)
        if self.what == "epsilon":
            return self._proved(groups)
        told = [
            over_trainings(
                [row.value for row in group],
                [row.value if row.ci_low is None else row.ci_low for row in group],
                [row.value if row.ci_high is None else row.ci_high for row in group],
                1.0 - (1.0 - confidence) / len(groups),
            )
            for group in groups.values()
        ]
        if any(each.value > self.limit for each in told):
            return False
        if trainings < FEWEST or any(each.trainings < trainings for each in told):
            return None
        return all(_below(each, self.limit) for each in told) or None

    def figures(self, rows: Sequence[SweepRow]) -> dict[tuple[str, str], list[SweepRow]]:
        """The figures that speak of it, by metric and view, of attackers who keep the protocol.

        Of an epsilon they are all that is claimed, proved or shown.
        """
        kinds = ("gain",) if self.what == "attacks" else ("claimed", "proved", "shown")
        groups: dict[tuple[str, str], list[SweepRow]] = {}
        for row in rows:
            words = row.view.partition(AT_DELTA)[0].split(" / ")
            named = all(word in words or f"{word}:" in row.metric for word in self.of)
            if row.kind in kinds and named and not row.view.endswith(BEYOND):
                groups.setdefault((row.metric, row.view), []).append(row)
        if not groups:
            raise InputError(
                f"Expected figures that speak of {self.text!r}, got none. Mend the condition, or "
                "sweep without it to see what there is."
            )
        return groups

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
        rows = [row for row in swept.rows if row.variant == 0]
        groups = self.figures(rows)
        if self.what == "epsilon":
            views = [v for (_, v), g in groups.items() for r in g if r.kind == "proved"]
            return f"Proved: {'; '.join(dict.fromkeys(views))}."
        names = dict.fromkeys(metric.partition(":")[0] for metric, _ in groups)
        words = f"Judged by {', '.join(names)}, of attackers who keep the protocol."
        beyond = [row for row in rows if row.kind == "gain" and row.view.endswith(BEYOND)]
        if beyond and (most := max(beyond, key=lambda row: row.value)).value > self.limit:
            words += f" Who breaks it gains up to {brief(most.value)} ({most.metric})."
        return words


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
    """The least noise that keeps the condition, and all that were tried.

    ``trained`` gives the sweep of one factor of the noise and so many trainings. More noise is
    taken to leak no more: the search halves the interval of factors. A setting of which trainings
    cannot tell is trained more often, up to ``MOST_SEEDS`` times, and then counts as one that does
    not keep it.
    """
    tried: dict[float, bool] = {}
    trainings: dict[float, int] = {}
    # Of at most STEPS + 2 factors, each looked at a few times, all hold at once (Bonferroni).
    sure = 1.0 - (1.0 - confidence) / ((STEPS + 2) * MOST_SEEDS.bit_length())
    unsure: list[float] = []

    def keeps(factor: float) -> bool:
        kept: bool | None = None
        count = seeds
        while kept is None and count <= seeds * MOST_SEEDS:
            swept = trained(factor, count)
            rows = [row for row in swept.rows if row.variant == 0]
            kept = condition.kept(rows, count, sure)
            if swept.errors and kept is not False:  # what failed may be what leaks
                kept = None
                break
            trainings[factor] = count
            count *= 2
        if kept is None:
            unsure.append(factor)
        tried[factor] = bool(kept)
        return tried[factor]

    weak, strong = WEAKEST, STRONGEST
    if keeps(weak):
        strong = weak
    elif keeps(strong):
        for _ in range(STEPS):
            middle = float(f"{math.sqrt(weak * strong):.3g}")
            if keeps(middle):
                strong = middle
            else:
                weak = middle
    factors = tuple(sorted(tried))
    if not tried[strong]:
        told = " (trainings cannot tell)" if strong in unsure else ""
        words = f"No noise up to {brief(strong)} times the paper's keeps {condition.text}{told}."
        return AnswerRow(target=target, condition=condition.text, words=words), factors
    swept = trained(strong, trainings[strong])
    settings = swept.variants[0].settings
    named = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )
    least = "at most " if strong == WEAKEST else ""
    words = f"{least}{brief(strong)} times the paper's noise ({named}) keeps {condition.text}."
    if weak in unsure and weak != strong:
        words += f" Of {brief(weak)} times the trainings cannot tell."
    words = f"{words[0].upper()}{words[1:]} {condition.basis(swept)} {_useful(swept)}".strip()
    answer = AnswerRow(
        target=target,
        condition=condition.text,
        factor=strong,
        settings=settings,
        trainings=trainings[strong],
        words=f"{words} {ASSUMED}",
    )
    return answer, factors


def _useful(swept: SweepContents) -> str:
    """Whether it recommends better than popularity there."""
    rows = [row for row in swept.overall if row.variant == 0 and row.kind == "utility"]
    if not rows or (row := telling(rows)).baseline is None:
        return ""
    better = row.value < row.baseline if row.metric in ERRORS else row.value > row.baseline
    beside = (
        f"{row.metric} {brief(row.value)} ({row.view}), popularity or two means "
        f"{brief(row.baseline)}"
    )
    return f"There it {'does' if better else 'does not'} better than what is simpler: {beside}."
