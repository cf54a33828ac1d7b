"""Searches the noise, as a multiple of the paper's, at which a condition on leaks or utility just
holds.
"""

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
from fedrec_auditor.reports.say import short_number
from fedrec_auditor.reports.say.metrics import ERRORS

WEAKEST, STRONGEST = 2.0**-4, 2.0**8
"""Smallest and largest factor of the paper's noise that the search tries."""
STEPS = 6
"""Number of bisections, after which the factor is within a factor of 1.14 of the best."""
MAX_SEEDS_FACTOR = 4
"""Factor by which the number of trainings may grow while they are inconclusive."""
MIN_TRAININGS = 3
"""Minimum number of trainings from which a further training is predicted."""
ASSUMED = "The search assumes that more noise does not leak more."
USELESS = "The search assumes that more noise does not recommend better."
_FORM = re.compile(
    r"(?P<what>attacks|epsilon)\s*(\((?P<of>[\w\s,-]+)\))?\s*<=\s*"
    r"(?P<guessing>guessing\s*\+\s*)?(?P<limit>[0-9.eE+-]+|guessing)"
)
_UTILITY = re.compile(
    r"(?P<what>utility)\s*(\((?P<of>[\w@]+)\))?\s*>=\s*(?P<limit>[0-9.eE+-]+)\s*unprotected"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the gains of attacks, on epsilon in a scope, or on utility.

    ``text``: the condition as given.
    ``what``: "attacks", "epsilon" or "utility".
    ``limit``: largest gain over guessing, largest proved epsilon (a lower bound cannot satisfy a
        condition), or smallest utility as a fraction of the noiseless counterpart's.
    ``of``: words that restrict the condition: name of an attack; unit and horizon of a scope; or
        name of a metric of utility, by default the most informative one.
    """

    text: str
    what: str
    limit: float
    of: tuple[str, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> Condition:
        """Parses a condition. Raises InputError if the text has another form.

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
            number = form["limit"]
            try:
                limit = 0.0 if number == "guessing" else float(number)
            except ValueError:
                form = None
        wrong = form is None or not limit >= 0.0 or math.isinf(limit)
        if form is not None and not wrong and form["what"] != "utility":
            relative = bool(form["guessing"]) or form["limit"] == "guessing"
            wrong = relative != (form["what"] == "attacks")
        if form is None or wrong:
            raise InputError(
                f"Expected a condition, got {text!r}. Write 'attacks <= guessing + .05', "
                "'epsilon(user, training) <= 4' or 'utility >= .9 unprotected', for example."
            )
        of = tuple(word.strip() for word in (form["of"] or "").split(",") if word.strip())
        return cls(text, form["what"], limit, of)

    def check(self, plan: Plan) -> None:
        """Raises InputError if an audit of this plan has no result to which the condition
        applies.
        """
        words = {str(word) for kind in (Unit, Vantage, Horizon) for word in kind}
        if self.what == "attacks":
            words = set(FAMILIES["attacks"].able() if plan.attacks is None else plan.attacks)
        unknown = [word for word in self.of if word not in words]
        if unknown and self.what != "utility":  # metrics are only known after the measurement
            raise InputError(
                f"Expected a condition on a result of this plan, got {unknown[0]!r} in "
                f"{self.text!r}. {near_names(unknown[0], sorted(words), 'There are')}"
            )
        if not words or (self.what != "epsilon" and LOCAL not in plan.games):
            raise InputError(
                f"Expected a plan that measures {self.what} for {self.text!r}, got a plan that "
                "does not. Add the game local, and do not leave all attacks out."
            )

    def rows(self, swept: SweepContents) -> list[SweepRow]:
        """The results of the first variant of a sweep; utility is relative to the noiseless
        counterpart's.
        """
        rows = ratios(swept.rows, swept.variants) if self.what == "utility" else swept.rows
        return [row for row in rows if row.variant == 0]

    def holds(
        self, rows: Sequence[SweepRow], trainings: int, confidence: float, looks: int = 1
    ) -> bool | None:
        """Whether a further training is predicted to satisfy the condition; None if this is
        inconclusive.

        ``rows``: results of the trainings so far.
        ``trainings``: number of these trainings.
        ``confidence``: confidence of the rows' intervals.
        ``looks``: number of times that conditions are examined in all.

        The result is inconclusive if there are fewer than ``MIN_TRAININGS`` trainings, or if some
        of them lack a result. The intervals of all attacks in all examinations hold jointly at
        ``confidence`` (Bonferroni). Raises InputError if no row is about the condition.
        """
        groups = self.figures(rows)
        if self.what == "epsilon":
            return self._proved(groups)
        results = [
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
        if any(each.value < self.limit if utility else each.value > self.limit for each in results):
            return False
        if trainings < MIN_TRAININGS or any(each.trainings < trainings for each in results):
            return None
        within = _above if utility else _below
        return all(within(each, self.limit) for each in results) or None

    def figures(self, rows: Sequence[SweepRow]) -> dict[tuple[str, str], list[SweepRow]]:
        """The rows that are about the condition, by (metric, view), without adversaries who break
        the protocol.

        For epsilon, these are claims, upper bounds and lower bounds. For utility, there is a single
        metric. Raises InputError if there are no such rows.
        """
        if self.what == "utility":
            metric = self.of[0].lower() if self.of else ""
            utility = [row for row in rows if row.kind == "utility"]
            named = [row for row in utility if metric in ("", row.metric.lower())]
            relevant = [row for row in named if _figure(row) == _figure(telling(named))]
        else:
            relevant = [row for row in rows if self._names(row)]
        groups: dict[tuple[str, str], list[SweepRow]] = {}
        for row in relevant:
            groups.setdefault(_figure(row), []).append(row)
        if not groups:
            raise InputError(
                f"Expected results for the condition {self.text!r}, got none. Correct the "
                "condition, or sweep without it to see all results."
            )
        return groups

    def _names(self, row: SweepRow) -> bool:
        """Whether a row is a gain, or an epsilon, to which the condition applies."""
        kinds = ("gain",) if self.what == "attacks" else EPSILONS
        words = row.view.partition(AT_DELTA)[0].split(" / ")
        named = all(word in words or f"{word}:" in row.metric for word in self.of)
        return row.kind in kinds and named and not row.view.endswith(BEYOND)

    def _proved(self, groups: Mapping[tuple[str, str], Sequence[SweepRow]]) -> bool:
        """Whether every scope has an upper bound within the limit, and no lower bound above it at
        that delta.
        """
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
        """Sentences that state the decisive results, and the gain of attacks that break the
        protocol.
        """
        rows = self.rows(swept)
        groups = self.figures(rows)
        if self.what == "utility":
            ((metric, view),) = groups
            return f"Judged by {metric} ({view})."
        if self.what == "epsilon":
            views = [v for (_, v), g in groups.items() for r in g if r.kind == "proved"]
            return f"Proved: {'; '.join(dict.fromkeys(views))}."
        names = dict.fromkeys(metric.partition(":")[0] for metric, _ in groups)
        words = f"Judged by {', '.join(names)}, for attackers who keep the protocol."
        beyond = [row for row in rows if row.kind == "gain" and row.view.endswith(BEYOND)]
        if beyond and (top := max(beyond, key=lambda row: row.value)).value > self.limit:
            words += (
                f" An attacker who breaks it gains up to {short_number(top.value)} ({top.metric})."
            )
        return words


def _figure(row: FigureRow) -> tuple[str, str]:
    return row.metric, row.view


def _above(figure: OverTrainings, limit: float) -> bool:
    """Whether the intervals of the mean and of a further training lie above; false for one training
    (NaN).
    """
    return figure.ci_low >= limit and figure.next_low >= limit


def _below(figure: OverTrainings, limit: float) -> bool:
    """Whether the intervals of the mean and of a further training lie below; false for one training
    (NaN).
    """
    return figure.ci_high <= limit and figure.next_high <= limit


def search(
    target: str,
    condition: Condition,
    trained: Callable[[float, int], SweepContents],
    seeds: int,
    confidence: float,
) -> tuple[AnswerRow, tuple[float, ...]]:
    """Searches the smallest noise that satisfies ``condition`` (the largest, for a condition on
    utility).

    ``target``: name of the system.
    ``condition``: the condition.
    ``trained``: function that maps a factor of the noise and a number of trainings to a sweep.
    ``seeds``: number of trainings per factor.
    ``confidence``: confidence of the decision.

    The search bisects the factors, and assumes that more noise does not leak more and does not
    improve utility. A factor with inconclusive trainings gets more of them, up to
    ``MAX_SEEDS_FACTOR`` times the number, and then counts as not satisfying the condition. Returns
    the answer, and all factors tried.
    """
    tried: dict[float, bool] = {}
    trainings: dict[float, int] = {}
    # At most STEPS + 2 factors are examined a few times each. All decisions must hold jointly
    # (Bonferroni).
    looks = (STEPS + 2) * MAX_SEEDS_FACTOR.bit_length()
    unsure: list[float] = []

    def keeps(factor: float) -> bool:
        holds: bool | None = None
        count = seeds
        while holds is None and count <= seeds * MAX_SEEDS_FACTOR:
            swept = trained(factor, count)
            holds = condition.holds(condition.rows(swept), count, confidence, looks)
            if swept.errors and holds is not False:  # the training that failed may leak more
                holds = None
                break
            trainings[factor] = count
            count *= 2
        if holds is None:
            unsure.append(factor)
        tried[factor] = bool(holds)
        return tried[factor]

    useful = condition.what == "utility"
    # The factor that most likely satisfies the condition, and the factor that would be ideal.
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
        cannot = " (the trainings are inconclusive)" if best in unsure else ""
        largest = short_number(best)
        words = f"No noise {to} to {largest} times the paper's keeps {condition.text}{cannot}."
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
    """Sentences on the noise that satisfies a condition, on the basis of the decision, and on
    utility.
    """
    settings = swept.variants[0].settings
    named = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )
    limit = {WEAKEST: "at most ", STRONGEST: "at least "}.get(best, "") if best == wished else ""
    words = f"{limit}{short_number(best)} times the paper's noise ({named}) keeps {condition.text}."
    if unsure and wished != best:
        words += f" At {short_number(wished)} times the trainings are inconclusive."
    words = f"{words[0].upper()}{words[1:]} {condition.basis(swept)} {_useful(swept)}".strip()
    return f"{words} {USELESS if condition.what == 'utility' else ASSUMED}"


def _useful(swept: SweepContents) -> str:
    """Sentence on whether the system, at this noise, is shown to recommend better than simpler
    methods.
    """
    rows = [row for row in swept.overall if row.variant == 0 and row.kind == "utility"]
    if not rows or (row := telling(rows)).baseline is None:
        return ""
    ahead = next(
        r for r in swept.overall if (r.variant, r.kind, _figure(r)) == (0, "ahead", _figure(row))
    )
    end = ahead.ci_high if row.metric in ERRORS else ahead.ci_low
    better = end is not None and (end < 0.0 if row.metric in ERRORS else end > 0.0)
    beside = (
        f"{row.metric} {short_number(row.value)} ({row.view}), popularity or two means "
        f"{short_number(row.baseline)}"
    )
    shown = "is shown" if better else "is not shown"
    return f"There the system {shown} to recommend better than simpler ones: {beside}."
