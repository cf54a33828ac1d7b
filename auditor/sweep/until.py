"""The least noise for which a condition holds: a search over how many times the paper's noise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.sweep.trainings import OverTrainings, over_trainings
from fedrec_auditor.reports.sweep_rows import BEYOND, AnswerRow, SweepContents, SweepRow
from fedrec_auditor.reports.usefulness import ERRORS
from fedrec_auditor.reports.words import brief

WEAKEST, STRONGEST = 2.0**-4, 2.0**8
"""Ends of the search, times the paper's noise."""
STEPS = 6
"""Halvings of the logarithm: the answer is within a factor of 1.14 of the least that was found."""
MOST_SEEDS = 4
"""Times the trainings of a setting at most, where fewer cannot tell."""
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

    def kept(self, rows: Sequence[SweepRow], confidence: float) -> bool | None:
        """Whether a further training keeps it: by the trainings of ``rows``, of one variant.

        None if they cannot tell. All attacks keep it at once (Bonferroni). InputError if nothing
        here speaks of it.
        """
        groups = self._spoken_of(rows)
        if self.what == "epsilon":
            return max(row.value for group in groups for row in group) <= self.limit
        wanted = 1.0 - (1.0 - confidence) / len(groups)
        told = [
            over_trainings(
                [row.value for row in group],
                [row.value if row.ci_low is None else row.ci_low for row in group],
                [row.value if row.ci_high is None else row.ci_high for row in group],
                wanted,
            )
            for group in groups
        ]
        if any(each.value > self.limit for each in told):
            return False
        return all(_below(each, self.limit) for each in told) or None

    def _spoken_of(self, rows: Sequence[SweepRow]) -> list[list[SweepRow]]:
        kind = "gain" if self.what == "attacks" else "proved"
        groups: dict[tuple[str, str], list[SweepRow]] = {}
        for row in rows:
            words = row.view.replace(",", " /").split(" / ") if kind == "proved" else [row.metric]
            named = all(word in words or f"{word}:" in row.metric for word in self.of)
            if row.kind == kind and named and not row.view.endswith(BEYOND):
                groups.setdefault((row.metric, row.view), []).append(row)
        if not groups:
            raise InputError(
                f"Expected figures that speak of {self.text!r}, got none: of attacks they are "
                "played in the local game, of epsilon proved in the scope. Mend the condition, or "
                "see sweep.html for what there is."
            )
        return list(groups.values())


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
    unsure: list[float] = []

    def keeps(factor: float) -> bool:
        kept: bool | None = None
        count = seeds
        while kept is None and count <= seeds * MOST_SEEDS:
            swept = trained(factor, count)
            # A factor is one of at most STEPS + 2 that are looked at: each errs so much less.
            sure = 1.0 - (1.0 - confidence) / (STEPS + 2)
            kept = condition.kept([row for row in swept.rows if row.variant == 0], sure)
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
    swept = trained(strong, seeds)
    settings = swept.variants[0].settings
    named = ", ".join(f"{name}={value:.4g}" for name, value in settings.items())
    least = "at most " if strong == WEAKEST else ""
    words = f"{least}{brief(strong)} times the paper's noise ({named}) keeps {condition.text}."
    if weak in unsure and weak != strong:
        words += f" Of {brief(weak)} times the trainings cannot tell."
    words = f"{words[0].upper()}{words[1:]} {_useful(swept)}".strip()
    answer = AnswerRow(
        target=target, condition=condition.text, factor=strong, settings=settings, words=words
    )
    return answer, factors


def _useful(swept: SweepContents) -> str:
    """Whether it recommends better than popularity there; less noise would leak more."""
    rows = [row for row in swept.overall if row.variant == 0 and row.kind == "utility"]
    known = [row for row in rows if row.baseline is not None]
    if not known:
        return ""
    kind = known[0].metric.partition("@")[0]
    row = [each for each in known if each.metric.partition("@")[0] == kind][-1]
    assert row.baseline is not None
    better = row.value < row.baseline if row.metric in ERRORS else row.value > row.baseline
    beside = f"{row.metric} {brief(row.value)}, popularity or two means {brief(row.baseline)}"
    if better:
        return f"There it reaches {beside}."
    return f"No setting that keeps it recommends better than what is simpler: {beside}."
