"""Rows of the record, and the contents of report.json, from which every report is rendered.

``report.json`` is a ``Contents``, versioned by ``schema_version``. Its rows have everything that is
needed to check them: claims and bounds with scope, delta, confidence, source and sample size.
Infinite numbers are stored as the strings "inf" and "-inf".
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
from fedrec_auditor.accountants.verdict import Judgement, Verdict, judge_claim

_DEEPEST = 32
# Version of the schema; it grows if a field is removed, renamed, or changes its meaning.
SCHEMA_VERSION: Literal[5] = 5


class Row(BaseModel):
    """Base class of the immutable rows of the record; a row with an unknown field is rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Finding(Row):
    """One privacy claim, judged in one scope.

    target: name of the system.
    claim: the claim.
    scope: scope in which the claim is judged: its own, or another scope to which a reader may apply
        it.
    delta: delta at which the claim is judged.
    accounted: proved upper bound of epsilon in this scope.
    measured: lower bound of epsilon in this scope.
    verdict, vacuous, reason: the judgement, whether the claim is vacuous, and the reason in
        sentences.
    note: remark for the reader.
    claimed_guess: highest success rate of a guess at one bit that the claim allows.
    shown_guess: success rate e^eps / (1 + e^eps) on the most revealing outputs by the lower bound.
        The average over all outputs may be far lower, because a rare output suffices for a large
        epsilon.
    outside_model: condition of the judgement that no scope expresses and that the paper does not
        mention; empty if there is none.
    untested: reason why no measurement could have refuted the claim; empty if one could, or if none
        was needed.
    game: name of the game in whose population the claim is judged; empty if the claim
        is judged for the users of the data.
    holds_at: delta at which a refuted epsilon holds, if that is known exactly.
    repair: settings of the system with which the claim is proved; empty if none are known.

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
        """Judges a claim in a scope at a delta; ``verdict.judge`` describes the arguments."""
        arguments: dict[str, Any] = {
            "scope": scope,
            "delta": delta,
            "accounted": accounted,
            "measured": measured,
            "outside_model": outside_model,
        }
        judgement = judge_claim(claim, sizes=sizes, **arguments)
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
    def lower_bound(self) -> Bound | None:
        """The lower bound if it holds without assumptions, else None."""
        return None if self.measured is None or self.measured.assumptions else self.measured

    @property
    def is_claimed(self) -> bool:
        """Whether the claim states an epsilon for the judged scope and delta, or is refuted."""
        covers = self.claim.scope.covers(self.scope) and self.claim.delta <= self.delta
        covers = (covers and not self.outside_model) or self.verdict is Verdict.VIOLATED
        return covers and math.isfinite(self.claim.epsilon)

    def without_proof(self, why: str) -> Finding:
        """Returns the finding judged again without its upper bound.

        ``why`` is appended to the note of the finding.
        """
        unproved = self.model_copy(update={"accounted": None, "note": f"{self.note} {why}".strip()})
        return unproved.with_new_judgement()

    def with_new_judgement(self) -> Finding:
        """Returns the finding with the verdict that follows from its claim and its bounds."""
        again = self.judge()
        return self.model_copy(
            update={"verdict": again.verdict, "vacuous": again.vacuous, "reason": again.reason}
        )

    def judge(self) -> Judgement:
        """The judgement that follows from the finding's claim and its bounds."""
        return judge_claim(
            self.claim,
            scope=self.scope,
            delta=self.delta,
            accounted=self.accounted,
            measured=self.measured,
            outside_model=self.outside_model,
            untested=self.untested,
        )


class Measurement(Row):
    """A lower bound of epsilon on a system, whether or not a finding has it."""

    target: str
    bound: Bound


class FurtherFigure(Row):
    """A figure with its confidence interval; the row that contains it states the confidence."""

    value: float
    ci_low: float
    ci_high: float


class RocRow(Row):
    """A ROC curve with its pointwise confidence band, of at most 200 points.

    fpr: false-alarm rates, increasing from the smallest that the data resolve up to 1.
    tpr: true positive rates at these false-alarm rates.
    low, high: limits of the band at these false-alarm rates.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class UsersRow(Row):
    """The spread of an attack's success over users, without names.

    success: measure of the success at one user in words; its values are in [0, 1].
    quantiles: quantiles of the success over users, by level; "99%" is for the most exposed users.
    sure: share of users at whom the success is .9 or more.
    groups: mean success in groups of users, by trait and name of the group.
    each: pairs (row of the user in the data, from 0; success) for every user; empty unless
        requested.
    """

    success: str
    quantiles: dict[Annotated[str, Field(pattern=r"^\d{1,2}(\.\d+)?%$")], FurtherFigure]
    sure: FurtherFigure | None = None
    groups: dict[str, dict[str, FurtherFigure]] = {}
    each: tuple[tuple[int, float], ...] = ()

    @property
    def group_means(self) -> tuple[tuple[str, str, FurtherFigure], ...]:
        """The trait, name and mean success of each group of users, sorted by trait and name."""
        named = ((trait, sorted(groups.items())) for trait, groups in sorted(self.groups.items()))
        return tuple((trait, name, mean) for trait, groups in named for name, mean in groups)


class AttackRow(Row):
    """One metric of one attack on one system, with its confidence interval and its baselines.

    target, attack, family, vantage, metric: names that identify the row.
    value, ci_low, ci_high, confidence: the figure and its interval over subjects and trainings.
        With one training, the interval does not cover another training.
    baseline: best figure of ``baselines``, which are the figures of adversaries without the
        uploads.
    gain: value minus baseline with the interval of this difference, if both have the same subjects.
        If it has an interval above 0, the attack beats guessing.
    from_interactions: figure of the same attack on the true interactions instead of the uploads,
        which may reveal less or more.
    further: other figures of the same guesses, by name.
    roc: ROC curve of the attack's scores.
    users: spread of the attack's success over users.
    n, subject: number of subjects, and their kind, such as "users".
    trainings: number of attacked trainings.
    reference: publication of the attack.
    note: assumptions of the attack, and remarks.
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
    def net_gain(self) -> FurtherFigure | None:
        """The gain over the baseline; if no gain is stored, the figure minus the baseline."""
        if self.gain is not None or self.baseline is None:
            return self.gain
        value, low, high = (x - self.baseline for x in (self.value, self.ci_low, self.ci_high))
        return FurtherFigure(value=value, ci_low=low, ci_high=high)


class SkippedRow(Row):
    """An attack that did not run on a system, with the reason."""

    target: str
    attack: str
    reason: str


class Baseline(Row):
    """Utility of a recommender without federated training, on the same split and candidates.

    ``difference`` is the system's figure minus this figure, computed per user.
    """

    name: str
    value: float
    difference: FurtherFigure


class UtilityRow(Row):
    """One figure of a system's utility, measured by the protocol of its paper.

    target, metric, protocol: names that identify the row.
    value, ci_low, ci_high, confidence: the figure and its interval over users and trainings. With
        one training, the interval does not cover another training.
    random: figure of a random ranking, or of the mean rating.
    baseline: figure of popularity, or of user and item means; None in older records.
    n: number of test users or test ratings.
    trainings: number of trainings.
    paper_value, paper_note: the paper's figure and its conditions.
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
    """Counts of the messages in all trainings of a system, and of those that attacks cannot use.

    sent: number of messages.
    empty: number of messages that leave the model unchanged.
    oversized: number of messages with infinities, NaN or numbers too large for computation.
    """

    target: str
    sent: int
    empty: int
    oversized: int

    @property
    def n_unusable(self) -> int:
        """The number of messages that attacks cannot use."""
        return self.empty + self.oversized


class ReproducedRow(Row):
    """One figure that a paper prints, with our measurement of it.

    place: table or figure of the paper.
    system: name of the system.
    what: row and column of the figure, without the system.
    printed: the paper's number; None if the paper draws a curve or compares in words.
    value, ci_low, ci_high: our measurement and its interval.
    beside: further measurements for comparison, such as the accuracy of the majority class.
    note: reason for a difference.
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
    """The result of a check of a property that no epsilon covers.

    ``failed`` is None if the check did not run.
    """

    target: str
    check: str
    failed: bool | None
    reason: str


class DataRow(Row):
    """The name, digest and size of the data set of an audit."""

    name: str
    digest: str
    n_users: int
    n_items: int
    n_interactions: int


class Provenance(Row):
    """Versions, seed, data, timing and machine of an audit.

    Audits with equal plans differ only in ``timing`` and ``machine``. ``data`` is None without a
    data set.
    """

    versions: dict[str, str]
    seed: int
    data: DataRow | None
    timing: dict[str, float]
    machine: dict[str, str | int | float]


def _shallow(plan: dict[str, Any]) -> dict[str, Any]:
    """Returns the plan; raises ValueError if it is nested so deeply that renderers would fail."""
    layer: list[Any] = [plan]
    for _ in range(_DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [part for each in parts for part in each if isinstance(part, dict | list | tuple)]
    if layer:
        raise ValueError(f"Expected a plan of at most {_DEEPEST} nested levels. Flatten it.")
    return plan


class Contents(Row):
    """The contents of the record of an audit; ``reports.record.record.Record`` adds methods to it.

    plan, provenance: the plan, and the versions, seed, data, timing and machine.
    findings, measurements, attacks, skipped, utility, messages: rows of the record.
    own: names of the caller's own systems: wrapped callables, apps and recordings.
    notes: sentences on parts of the audit that were left out.
    errors: sentences on parts of the audit that failed.
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


def flatten(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Converts rows to dictionaries with equal keys, such as ``claim.epsilon``.

    The value of a key that a row lacks is None.
    """
    tables = [dict(walk_leaves(row.model_dump(mode="python"))) for row in rows]
    names = dict.fromkeys(name for row in tables for name in row)
    parts = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [{name: row.get(name) for name in names if name not in parts} for row in tables]


def walk_leaves(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the dotted name and the value of each leaf of nested mappings."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from walk_leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", str(value) if isinstance(value, StrEnum) else value
