"""The rows of a record and the contents of report.json, from which every report is rendered.

``report.json`` is ``Contents``, versioned by ``schema_version``. Rows have everything that a reader
needs to check them: claims and bounds with scope, delta, confidence, source and sample size.
Infinite numbers are the strings "inf" and "-inf".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fedrec_auditor.accountants.statements import (
    Bound,
    Claim,
    Scope,
    Sizes,
    Vantage,
    guess_probability,
)
from fedrec_auditor.accountants.verdict import Judgement, Verdict, judge

_DEEPEST = 32
SCHEMA_VERSION: Literal[5] = 5
"""Version of the schema, which grows if a field is removed, renamed, or changes its meaning."""


class Row(BaseModel):
    """An immutable row of the record; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Finding(Row):
    """One claim judged in one scope.

    target: the system.
    claim: the claim.
    scope: scope of the judgement: the claim's own, or one that a reader may mistake for it.
    delta: delta of the judgement.
    accounted: upper bound in this scope.
    measured: lower bound in this scope.
    verdict, vacuous, reason: the judgement, and why.
    note: remark for the reader.
    claimed_guess: success rate of a guess at one bit that the claim would allow.
    shown_guess: success rate e^eps/(1+e^eps) that the lower bound shows on the most revealing
        outputs (on average over all outputs it may be far lower: a rare output is enough for a
        large epsilon).
    outside_model: a condition of the judgement that no scope names and the paper does not mention.
    untested: reason why nothing was measured that could have refuted the claim, if something
        should have been.
    game: name of a game that is not about one upload, and for whose users the claim is then
        judged; empty if these are the users of the data.
    holds_at: delta at which a refuted epsilon does hold, if it is known exactly.
    repair: settings of the system with which a claim that is not proved is proved.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> claim = Claim(epsilon=1.0, scope=scope, statement="A report is 1-LDP.", source="Theorem 1")
    >>> finding = Finding.of("a target", claim, scope, delta=0.0)
    >>> finding.verdict, round(finding.claimed_guess, 3)
    (<Verdict.UNSUBSTANTIATED: 'UNSUBSTANTIATED'>, 0.731)
    """

    target: str
    claim: Claim
    scope: Scope
    delta: float
    accounted: Bound | None
    measured: Bound | None
    verdict: Verdict
    vacuous: bool
    reason: str
    note: str
    claimed_guess: float
    shown_guess: float | None
    outside_model: str = ""
    untested: str = ""
    game: str = ""
    holds_at: float | None = None
    repair: str = ""

    @classmethod
    def of(
        cls,
        target: str,
        claim: Claim,
        scope: Scope,
        *,
        delta: float,
        accounted: Bound | None = None,
        measured: Bound | None = None,
        sizes: Sizes | None = None,
        note: str = "",
        outside_model: str = "",
    ) -> Finding:
        """Judges a claim in a scope at a delta; see ``verdict.judge`` for the arguments."""
        arguments: dict[str, Any] = {
            "scope": scope,
            "delta": delta,
            "accounted": accounted,
            "measured": measured,
            "outside_model": outside_model,
        }
        judgement = judge(claim, sizes=sizes, **arguments)
        return cls(
            **arguments,
            claim=claim,
            target=target,
            verdict=judgement.verdict,
            vacuous=judgement.vacuous,
            reason=judgement.reason,
            note=note,
            claimed_guess=guess_probability(claim.epsilon, claim.delta),
            shown_guess=None if measured is None else guess_probability(measured.epsilon),
        )

    @property
    def shown(self) -> Bound | None:
        """The lower bound; None if it rests on an assumption and thus decides nothing."""
        return None if self.measured is None or self.measured.assumptions else self.measured

    @property
    def is_claimed(self) -> bool:
        """Whether the claim has an epsilon, and covers the scope or is refuted in it."""
        covers = self.claim.scope.covers(self.scope) and self.claim.delta <= self.delta
        covers = (covers and not self.outside_model) or self.verdict is Verdict.VIOLATED
        return covers and math.isfinite(self.claim.epsilon)

    def without_proof(self, why: str) -> Finding:
        """The finding judged again without its proof; ``why`` is appended to its note."""
        unproved = self.model_copy(update={"accounted": None, "note": f"{self.note} {why}".strip()})
        return unproved.judged_again()

    def judged_again(self) -> Finding:
        """The finding with the verdict that follows from its claim, proof and measurement."""
        again = self.judged()
        return self.model_copy(
            update={"verdict": again.verdict, "vacuous": again.vacuous, "reason": again.reason}
        )

    def judged(self) -> Judgement:
        """The judgement that follows from the row's claim, proof and measurement."""
        return judge(
            self.claim,
            scope=self.scope,
            delta=self.delta,
            accounted=self.accounted,
            measured=self.measured,
            outside_model=self.outside_model,
            untested=self.untested,
        )


class Measurement(Row):
    """A lower bound on a system, whether or not a finding quotes it."""

    target: str
    bound: Bound


class FurtherFigure(Row):
    """A figure with its interval, at the confidence of its row."""

    value: float
    ci_low: float
    ci_high: float


class RocRow(Row):
    """A ROC curve with its pointwise band: at most 200 points, from the resolution of FPR up to 1.

    ``fpr``, ``tpr``, ``low`` and ``high`` have equal lengths.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class UsersRow(Row):
    """The spread of an attack's success over the users behind a figure, without naming anybody.

    success: the measure of one user's success in words, a number in [0, 1].
    quantiles: quantiles over users by level, such as 99% for the most exposed users.
    sure: share of users with a success of .9 or more.
    groups: means over groups of users, by trait and group.
    each: (row in the data, from 0; success) of every user; empty unless requested.
    """

    success: str
    quantiles: dict[Annotated[str, Field(pattern=r"^\d{1,2}(\.\d+)?%$")], FurtherFigure]
    sure: FurtherFigure | None = None
    groups: dict[str, dict[str, FurtherFigure]] = {}
    each: tuple[tuple[int, float], ...] = ()

    @property
    def means(self) -> tuple[tuple[str, str, FurtherFigure], ...]:
        """Trait, group and mean of each group of users, sorted by name."""
        named = ((trait, sorted(groups.items())) for trait, groups in sorted(self.groups.items()))
        return tuple((trait, name, mean) for trait, groups in named for name, mean in groups)


class AttackRow(Row):
    """One metric of one attack on one target, with its interval and its baselines.

    target, attack, family, vantage, metric: identify the row.
    value, ci_low, ci_high, confidence: the figure and its interval over subjects and trainings;
        with one training it does not cover another training.
    baseline: the best of ``baselines``, the figures of adversaries without the upload.
    gain: value minus baseline with the interval of the difference, if both have the same subjects;
        the row then beats guessing as far as the gain is above 0.
    from_interactions: the figure of the same attack from the true interaction set alone; an upload
        may reveal less, or more.
    further: other figures of the same guesses, by name.
    roc: ROC curve of the scores.
    users: spread of success over users.
    n, subject: number of subjects, and what they are.
    trainings: number of trainings.
    reference: source of the attack.
    note: assumptions and remarks.
    """

    target: str
    attack: str
    family: str
    vantage: Vantage
    metric: str
    value: float
    ci_low: float
    ci_high: float
    confidence: float = Field(gt=0.0, le=1.0)
    baseline: float | None
    baselines: dict[str, float]
    gain: FurtherFigure | None = None
    from_interactions: float | None = None
    further: dict[str, FurtherFigure] = {}
    roc: RocRow | None = None
    users: UsersRow | None = None
    n: int
    trainings: int = 1
    subject: str
    reference: str
    note: str = ""

    @property
    def ahead(self) -> FurtherFigure | None:
        """The gain over the baseline; without one, as if the baseline were known exactly."""
        if self.gain is not None or self.baseline is None:
            return self.gain
        value, low, high = (x - self.baseline for x in (self.value, self.ci_low, self.ci_high))
        return FurtherFigure(value=value, ci_low=low, ci_high=high)


class SkippedRow(Row):
    """An attack that did not run on a target, and the reason."""

    target: str
    attack: str
    reason: str


class Baseline(Row):
    """The figure of a recommender without federated training, on the same split and candidates.

    ``difference`` is the target's figure minus this one, taken user by user.
    """

    name: str
    value: float
    difference: FurtherFigure


class UtilityRow(Row):
    """A figure of utility of a target, measured as in its paper.

    target, metric, protocol: identify the row.
    value, ci_low, ci_high, confidence: the figure and its interval over users and trainings; with
        one training it does not cover another training.
    random: figure of a random list, or of the mean rating.
    baseline: popularity, or user and item means; None in older records.
    n: number of users or ratings.
    trainings: number of trainings.
    paper_value, paper_note: the paper's figure, and its conditions.
    unprotected: name of the same system without protection, if there is one.
    """

    target: str
    metric: str
    protocol: str
    value: float
    ci_low: float
    ci_high: float
    confidence: float = Field(gt=0.0, le=1.0)
    random: float
    baseline: Baseline | None = None
    n: int
    trainings: int = 1
    paper_value: float | None = None
    paper_note: str = ""
    unprotected: str = ""


class MessagesRow(Row):
    """Counts of the messages in all trainings of a target that attacks cannot use, if any.

    sent: number of messages.
    empty: messages that leave the model unchanged.
    oversized: messages with numbers too large to compute with, infinities or NaN.
    """

    target: str
    sent: int
    empty: int
    oversized: int

    @property
    def unread(self) -> int:
        """The number of messages that attacks cannot use."""
        return self.empty + self.oversized


class ReproducedRow(Row):
    """One figure that a paper prints, and our measurement.

    place: table or figure of the paper.
    system: the system.
    what: row and column of the figure, without the system.
    printed: the paper's number; None if the paper draws a curve or compares in words.
    value, ci_low, ci_high: our figure and its interval.
    beside: figures for comparison, such as that of guessing the majority class.
    note: reason of a difference.
    """

    place: str
    system: str
    what: str
    printed: float | None = None
    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    beside: dict[str, float] = Field(default_factory=dict)
    note: str = ""


class CheckRow(Row):
    """The outcome of a check beside the claims; ``failed`` is None if it was not checked."""

    target: str
    check: str
    failed: bool | None
    reason: str


class DataRow(Row):
    """The data set of the audit."""

    name: str
    digest: str
    n_users: int
    n_items: int
    n_interactions: int


class Provenance(Row):
    """The origin of the numbers; only ``timing`` and ``machine`` differ between equal plans.

    ``data`` is None if the audit used no data set.
    """

    versions: dict[str, str]
    seed: int
    data: DataRow | None
    timing: dict[str, float]
    machine: dict[str, str | int | float]


def _shallow(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan as it is; ValueError if it is so deeply nested that renderers fail."""
    layer: list[Any] = [plan]
    for _ in range(_DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [part for each in parts for part in each if isinstance(part, dict | list | tuple)]
    if layer:
        raise ValueError(f"a plan is nested {_DEEPEST} deep at most")
    return plan


class Contents(Row):
    """The contents of an audit's record, to which ``reports.record.record.Record`` adds methods.

    plan, provenance: the plan and the origin of the numbers.
    findings, measurements, attacks, skipped, utility, messages: rows.
    own: targets that are the caller's own: wrapped callables, apps and recordings.
    notes: parts that were left out.
    errors: parts that failed.
    """

    schema_version: Literal[5] = SCHEMA_VERSION
    plan: Annotated[dict[str, Any], AfterValidator(_shallow)]
    provenance: Provenance
    findings: tuple[Finding, ...]
    measurements: tuple[Measurement, ...]
    attacks: tuple[AttackRow, ...]
    skipped: tuple[SkippedRow, ...] = ()
    utility: tuple[UtilityRow, ...]
    messages: tuple[MessagesRow, ...] = ()
    own: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def flat(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries with the same keys; the value is None if a row has no such part."""
    tables = [dict(leaves(row.model_dump(mode="python"))) for row in rows]
    names = dict.fromkeys(name for row in tables for name in row)
    parts = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [{name: row.get(name) for name in names if name not in parts} for row in tables]


def leaves(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of the leaves of nested mappings."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", str(value) if isinstance(value, StrEnum) else value
