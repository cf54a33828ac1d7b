"""Rows of an audit's record, and the contents of report.json, from which reports are rendered.

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
    compute_guess_probability,
)
from fedrec_auditor.accountants.verdict import Judgement, Verdict, judge_claim

_DEEPEST = 32
# Version of the schema; it grows if a field is removed, renamed, or changes its meaning.
SCHEMA_VERSION: Literal[5] = 5


class Row(BaseModel):
    """Base class of the immutable rows of an audit's record; unknown fields are rejected."""

    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, ser_json_inf_nan="strings"
    )


class Finding(Row):
    """One privacy claim of a system, judged in one scope.

    target: name of the system.
    claim: the claim.
    scope: scope in which the claim is judged: its own, or another scope to which a reader may apply
        it.
    delta: delta at which the claim is judged.
    accounted: proved upper bound of epsilon in this scope; None without a proof.
    measured: lower bound of epsilon in this scope; None if none was measured or calculated.
    verdict, vacuous, reason: the judgement, whether the claim is vacuous, and the reason in
        sentences.
    note: remark for the reader.
    claimed_guess: highest success rate, by the claim, of a guess which of two equally likely inputs
        a system had.
    shown_guess: success rate e^eps / (1 + e^eps) on the most revealing outputs by the lower bound.
        The average over all outputs may be far lower, because a rare output suffices for a large
        epsilon. None without a lower bound.
    outside_model: condition of the judgement that no scope expresses and that the paper does not
        mention, such as a budget that it does not print; empty if there is none.
    untested: reason why no measurement could have refuted the claim; empty if one could, or if none
        was needed.
    game: name of the game (simulated experiment) for whose users the claim is judged; empty if the
        claim is judged for the users of the data.
    holds_at: delta at which a refuted epsilon holds; None if it is not known exactly.
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
        """Judges a claim in a scope at a delta, by the upper bound and the lower bound of epsilon.

        ``accounted`` and ``measured`` are these bounds. ``verdict.judge_claim`` describes all
        arguments.
        """
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
            vacuous=judgement.is_vacuous,
            reason=judgement.reason,
            note=note,
            claimed_guess=compute_guess_probability(claim.epsilon, claim.delta),
            shown_guess=None if measured is None else compute_guess_probability(measured.epsilon),
        )

    @property
    def lower_bound(self) -> Bound | None:
        """The lower bound ``measured`` if it holds without assumptions, else None."""
        return None if self.measured is None or self.measured.assumptions else self.measured

    @property
    def is_claimed(self) -> bool:
        """Whether the claim is finite and covers the judged scope and delta, or is refuted there.

        A claim with a condition in ``outside_model`` does not cover them.
        """
        covers = self.claim.scope.covers(self.scope) and self.claim.delta <= self.delta
        covers = (covers and not self.outside_model) or self.verdict is Verdict.VIOLATED
        return covers and math.isfinite(self.claim.epsilon)

    def drop_proof(self, why: str) -> Finding:
        """Returns the finding judged again without its upper bound of epsilon.

        ``why`` is appended to the note of the finding.
        """
        unproved = self.model_copy(update={"accounted": None, "note": f"{self.note} {why}".strip()})
        return unproved.judge_again()

    def judge_again(self) -> Finding:
        """Returns the finding with the verdict that follows from its claim and its bounds."""
        again = self.judge()
        return self.model_copy(
            update={"verdict": again.verdict, "vacuous": again.is_vacuous, "reason": again.reason}
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
    """A lower bound of epsilon of one system, whether or not it judges a claim."""

    target: str
    bound: Bound


class FurtherFigure(Row):
    """A number with its confidence interval; the row that contains it states the confidence."""

    value: float
    ci_low: float
    ci_high: float


class RocRow(Row):
    """A ROC curve of at most 200 points, with its pointwise confidence band.

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
    sure: share of users at whom the success is .9 or more; None if it was not computed.
    groups: mean success in groups of users, by user attribute and name of the group.
    each: pairs (index of the user in the data, from 0; success) for every user; empty unless
        requested.
    """

    success: str
    quantiles: dict[Annotated[str, Field(pattern=r"^\d{1,2}(\.\d+)?%$")], FurtherFigure]
    sure: FurtherFigure | None = None
    groups: dict[str, dict[str, FurtherFigure]] = {}
    each: tuple[tuple[int, float], ...] = ()

    @property
    def group_means(self) -> tuple[tuple[str, str, FurtherFigure], ...]:
        """The attribute, name and mean success of each group of users, sorted by the first two."""
        named = ((trait, sorted(groups.items())) for trait, groups in sorted(self.groups.items()))
        return tuple((trait, name, mean) for trait, groups in named for name, mean in groups)


class AttackRow(Row):
    """One metric of one attack on one system, with its confidence interval and its baselines.

    target, attack, family, vantage, metric: names that identify the row.
    value, ci_low, ci_high, confidence: value of the metric, and its interval over subjects and
        trainings. With one training, the interval does not cover another training.
    baseline: best of ``baselines``, which are the values that adversaries without the uploads
        reach; None without a baseline.
    gain: value minus baseline with the interval of this difference, if value and baseline have the
        same subjects; else None. If the interval is above 0, the attack beats the best of these
        adversaries.
    from_interactions: value of this attack on the true interactions instead of the uploads, which
        may reveal less or more; None if it was not computed.
    further: other metrics of the same guesses, by name.
    roc: ROC curve of the attack's scores; None without scores.
    users: spread of the attack's success over users; None if it was not computed.
    n, subject: number of subjects (the units that the attack guesses about), and their kind, such
        as "users".
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
        """The gain over the baseline; if no gain is stored, the metric's value minus the baseline.

        None without a baseline.
        """
        if self.gain is not None or self.baseline is None:
            return self.gain
        value, low, high = (x - self.baseline for x in (self.value, self.ci_low, self.ci_high))
        return FurtherFigure(value=value, ci_low=low, ci_high=high)


class SkippedRow(Row):
    """An attack that did not run on a system.

    target: name of the system.
    attack: name of the attack.
    reason: reason in words.
    """

    target: str
    attack: str
    reason: str


class Baseline(Row):
    """Utility of a simple recommender without federated training, such as popularity.

    name: name of the recommender.
    value: its utility, on the system's split and candidate items.
    difference: the system's utility minus this value, computed per user, with its interval.
    """

    name: str
    value: float
    difference: FurtherFigure


class UtilityRow(Row):
    """One result of a system's utility, measured by the protocol of its paper.

    target, metric, protocol: names that identify the row.
    value, ci_low, ci_high, confidence: value of the metric, and its interval over users and
        trainings. With one training, the interval does not cover another training.
    random: value of a random ranking, or of the mean rating.
    baseline: value of popularity, or of user and item means; None in older records.
    n: number of test users or test ratings.
    trainings: number of trainings.
    paper_value, paper_note: the paper's value (None if it prints none) and its conditions.
    unprotected: name of the system without protection; empty if there is none.
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

    target: name of the system.
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
    """A number that a paper prints, with our measurement of it.

    place: table or figure of the paper.
    system: name of the system.
    what: row and column of the number, without the system.
    printed: the paper's number; None if the paper draws a curve or compares in words.
    value, ci_low, ci_high: our measurement and its interval; the limits are None without an
        interval.
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

    target: name of the system.
    check: name of the check.
    failed: whether the check failed; None if it did not run or was waived.
    reason: explanation in words.
    """

    target: str
    check: str
    failed: bool | None
    reason: str


class DataRow(Row):
    """The data set of an audit.

    name: name of the data set.
    digest: digest of its content.
    n_users, n_items, n_interactions: numbers of users, items and interactions.
    """

    name: str
    digest: str
    n_users: int
    n_items: int
    n_interactions: int


class Provenance(Row):
    """Origin of an audit's results: versions, seed, data, timing and machine.

    versions: versions of packages, by name.
    seed: seed of the audit.
    data: the data set; None without one.
    timing: durations in seconds, by name.
    machine: properties of the machine, by name.

    Audits with equal plans differ only in ``timing`` and ``machine``.
    """

    versions: dict[str, str]
    seed: int
    data: DataRow | None
    timing: dict[str, float]
    machine: dict[str, str | int | float]


def _shallow(plan: dict[str, Any]) -> dict[str, Any]:
    """Returns the plan; raises ValueError if it is nested too deeply for renderers."""
    layer: list[Any] = [plan]
    for _ in range(_DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [part for each in parts for part in each if isinstance(part, dict | list | tuple)]
    if layer:
        raise ValueError(f"Expected a plan of at most {_DEEPEST} nested levels. Flatten it.")
    return plan


class Contents(Row):
    """The contents of an audit's record; ``reports.record.record.Record`` adds methods to it.

    plan, provenance: the plan, and the versions, seed, data, timing and machine.
    findings: judged claims.
    measurements: lower bounds of epsilon.
    attacks, skipped: results of attacks, and attacks that did not run.
    utility, messages: utility of the systems, and counts of messages.
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


def flatten_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Converts rows to dictionaries with equal keys, in which nested objects are flattened.

    Such keys are dotted (``claim.epsilon``). A key that a row lacks has the value None.
    """
    tables = [dict(walk_leaves(row.model_dump(mode="python"))) for row in rows]
    names = dict.fromkeys(name for row in tables for name in row)
    parts = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [{name: row.get(name) for name in names if name not in parts} for row in tables]


def walk_leaves(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted name, value) for each entry of nested mappings that is not a mapping.

    ``above`` precedes each name.
    """
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from walk_leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", str(value) if isinstance(value, StrEnum) else value
