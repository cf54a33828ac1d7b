"""Rows of an audit's record, and the contents of report.json, from which reports are rendered.

``report.json`` is a ``Contents``, versioned by ``schema_version``. Infinite numbers are stored as
the strings "inf" and "-inf".
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
RECORD_SCHEMA_VERSION: Literal[5] = 5


class Row(BaseModel):
    """Base class of the immutable rows of an audit's record; unknown fields are rejected.

    model_config: settings of pydantic.
    """

    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, ser_json_inf_nan="strings"
    )


class Finding(Row):
    """One privacy claim of a system, judged in one scope.

    target: name of the system.
    claim: the claim.
    scope: scope in which the claim is judged: its own, or another one to which a reader may apply
        it.
    delta: delta at which the claim is judged.
    accounted: proved upper bound of epsilon in this scope; None without a proof.
    measured: lower bound of epsilon in this scope; None if none was measured or calculated.
    verdict: judgement of the claim.
    vacuous: whether the claim is vacuous (an epsilon of 6.91 or more).
    reason: reason of the verdict, in sentences.
    note: remark for the reader.
    claimed_guess: largest success rate of guessing which of two equally likely inputs the system
        had, if the claim holds.
    shown_guess: success rate e^eps / (1 + e^eps) of such guesses on the most revealing outputs,
        where eps is the lower bound. The average over all outputs may be far lower. None without a
        lower bound.
    outside_model: condition that the paper leaves open, such as a budget that it does not print;
        empty if there is none. A lower bound above the claim then does not refute it.
    untested: sentences that state why the audit did not test the claim: no measurement could have
        refuted it. Empty if the claim was tested, or needed no test.
    game: name of the game (simulated experiment) for whose users the claim is judged; empty for the
        users of the data.
    holds_at: delta at which the claimed epsilon holds although it is refuted at the claim's delta;
        None if this delta is not known exactly.
    repair: settings of the system with which the claim is proved; empty if none are known.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> claim = Claim(epsilon=1.0, scope=scope, statement="A report is 1-LDP.", source="Theorem 1")
    >>> finding = Finding.from_bounds("a target", claim, scope, delta=0.0)
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
    def from_bounds(
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
        """Judges a claim in a scope at a delta, by the upper and the lower bound of epsilon.

        ``accounted`` is the upper bound and ``measured`` the lower bound. ``verdict.judge_claim``
        describes all arguments.
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
        """Lower bound of epsilon, if it holds without assumptions; else None."""
        return None if self.measured is None or self.measured.assumptions else self.measured

    @property
    def is_claimed_in_scope(self) -> bool:
        """Whether the claim states a finite epsilon for the judged scope and delta.

        The scope and delta of the claim must cover the judged ones, without a further condition
        (``outside_model``). The verdict VIOLATED implies this.
        """
        covers = self.claim.scope.covers(self.scope) and self.claim.delta <= self.delta
        # Only a lower bound in a scope that the claim covers refutes it.
        covers = (covers and not self.outside_model) or self.verdict is Verdict.VIOLATED
        return covers and math.isfinite(self.claim.epsilon)

    def drop_proof(self, why: str) -> Finding:
        """Returns the finding without its upper bound of epsilon, judged again.

        ``why`` is appended to the note of the finding.
        """
        unproved = self.model_copy(update={"accounted": None, "note": f"{self.note} {why}".strip()})
        return unproved.judge_again()

    def judge_again(self) -> Finding:
        """Returns a copy whose verdict and reason follow from its claim and its bounds."""
        again = self.compute_judgement()
        return self.model_copy(
            update={"verdict": again.verdict, "vacuous": again.is_vacuous, "reason": again.reason}
        )

    def compute_judgement(self) -> Judgement:
        """Computes the judgement that follows from the finding's claim and its bounds."""
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
    """A lower bound of epsilon of one system, whether or not a claim is judged by it.

    target: name of the system.
    bound: the lower bound.
    """

    target: str
    bound: Bound


class FurtherFigure(Row):
    """A number besides the main value of a result, such as its gain over a baseline.

    value: the number.
    ci_low, ci_high: ends of its confidence interval, at the confidence that the result states.
    """

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
    """The spread of an attack's success over users, without the users' names.

    success: name of the measure of an attack's success at one user; its values are in [0, 1].
    quantiles: quantiles of the success over users, by level; "99%" is for the most exposed users.
    sure: share of users with a success of 0.9 or more; None if it was not computed.
    groups: mean success in groups of users, by user attribute and name of the group.
    each: success at each user, as pairs (index of the user in the data, from 0; success); empty
        unless requested.
    """

    success: str
    quantiles: dict[Annotated[str, Field(pattern=r"^\d{1,2}(\.\d+)?%$")], FurtherFigure]
    sure: FurtherFigure | None = None
    groups: dict[str, dict[str, FurtherFigure]] = {}
    each: tuple[tuple[int, float], ...] = ()

    @property
    def group_means(self) -> tuple[tuple[str, str, FurtherFigure], ...]:
        """Attribute, name and mean success of each group of users, sorted by the first two."""
        named = ((trait, sorted(groups.items())) for trait, groups in sorted(self.groups.items()))
        return tuple((trait, name, mean) for trait, groups in named for name, mean in groups)


class AttackRow(Row):
    """One metric of one attack on one system, with its confidence interval and its baselines.

    target: name of the system.
    attack, family: name of the attack, and of its family, such as "linkage".
    vantage: view of the adversary (server, another client, ...).
    metric: name of the metric.
    value: value of the metric.
    ci_low, ci_high: ends of the confidence interval of the value over subjects and trainings. After
        one training, the interval does not cover another training.
    confidence: confidence of all intervals in this row.
    baseline: best of ``baselines``; None without a baseline.
    baselines: values of the metric for guesses that do not use the uploads, by name of the guess.
    gain: ``value`` minus ``baseline``, with its interval; None if the two have different subjects.
        If the interval is above 0, the attack beats every baseline.
    from_interactions: value of the metric if the attack reads the true interactions in place of the
        uploads; None if it was not computed. Uploads may reveal more.
    further: further metrics of the same guesses, by name of the metric.
    roc: ROC curve of the attack's scores; None without scores.
    users: spread of the attack's success over users; None if it was not computed.
    n: number of subjects. A subject is a unit that the attack guesses about, such as a user.
    subject: plural noun for the subjects, such as "users".
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
    def gain_over_baseline(self) -> FurtherFigure | None:
        """Gain over the baseline: the stored ``gain``, or else the value minus the baseline.

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
    reason: reason why it did not run, in words.
    """

    target: str
    attack: str
    reason: str


class Baseline(Row):
    """Utility of a simple recommender without federated training, such as popularity.

    name: name of the simple recommender.
    value: its utility, with the system's test interactions and candidate items.
    difference: the system's utility minus this value, computed per user, with its interval.
    """

    name: str
    value: float
    difference: FurtherFigure


class UtilityRow(Row):
    """One result of a system's utility, measured by the protocol of its paper.

    target: name of the system.
    metric: name of the metric, such as "HR@10".
    protocol: test protocol in words.
    value: value of the metric.
    ci_low, ci_high: ends of the confidence interval of the value over users and trainings. After
        one training, the interval does not cover another training.
    confidence: confidence of the intervals.
    random: value of the metric for a random ranking, or for the mean rating as prediction.
    baseline: popularity, or user and item means, for comparison; None in older records.
    n: number of test users or test ratings.
    trainings: number of trainings.
    paper_value: value that the paper prints; None if it prints none.
    paper_note: conditions under which the paper measured its value.
    unprotected: name of the same system without protection; empty if there is none.
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
    """Counts of the messages in all trainings of a system.

    target: name of the system.
    sent: number of all messages.
    empty: number of messages that leave the model unchanged.
    oversized: number of messages with infinities, NaN or numbers too large for computation.
    """

    target: str
    sent: int
    empty: int
    oversized: int

    @property
    def n_unusable(self) -> int:
        """Number of messages that attacks cannot use: empty or oversized messages."""
        return self.empty + self.oversized


class ReproducedRow(Row):
    """A number that a paper prints, with our measurement of it.

    place: table or figure of the paper.
    system: name of the system.
    what: name of the quantity: row and column of the number in the paper, without the system.
    printed: number in the paper; None if the paper only draws a curve or compares in words.
    value: our measurement of this quantity.
    ci_low, ci_high: ends of its confidence interval; None without an interval.
    beside: further measurements for comparison, by name, such as the accuracy of always guessing
        the majority class.
    note: reason why the two numbers differ.
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
    """Result of a check of a property that epsilon does not express, such as repeatability.

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
    digest: SHA-256 digest of its content.
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
    seed: random seed of the audit.
    data: the data set; None if the audit used none.
    timing: duration of each task in seconds, by name of the task.
    machine: properties of the machine, by name.

    Audits with equal plans differ only in ``timing`` and ``machine``.
    """

    versions: dict[str, str]
    seed: int
    data: DataRow | None
    timing: dict[str, float]
    machine: dict[str, str | int | float]


def _check_depth(plan: dict[str, Any]) -> dict[str, Any]:
    """Returns the plan; raises ValueError if it is nested too deeply for renderers."""
    layer: list[Any] = [plan]
    for _ in range(_DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [part for each in parts for part in each if isinstance(part, dict | list | tuple)]
    if layer:
        limit = f"at most {_DEEPEST} nested levels"
        raise ValueError(f"Expected a plan with {limit}, got more. Flatten the plan.")
    return plan


class Contents(Row):
    """Contents of an audit's record, as in report.json; the subclass ``Record`` adds methods.

    schema_version: version of the schema of report.json.
    plan: plan of the audit: settings by name.
    provenance: versions, seed, data, timing and machine.
    findings: judged claims.
    measurements: lower bounds of epsilon.
    attacks: results of attacks.
    skipped: attacks that did not run.
    utility: results of utility.
    messages: numbers of sent and of unusable messages, one row per system.
    own: names of the caller's own systems, which no paper describes: wrapped functions, apps and
        recordings.
    notes: sentences on parts of the audit that were left out.
    errors: sentences on parts of the audit that failed.
    """

    schema_version: Literal[5] = RECORD_SCHEMA_VERSION
    plan: Annotated[dict[str, Any], AfterValidator(_check_depth)]
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
    """Converts rows to flat dictionaries that all have the same keys.

    An entry of a nested object has a dotted key, such as ``claim.epsilon``. A key that a row lacks
    has the value None.
    """
    tables = [dict(walk_leaves(row.model_dump(mode="python"))) for row in rows]
    names = dict.fromkeys(name for row in tables for name in row)
    parts = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [{name: row.get(name) for name in names if name not in parts} for row in tables]


def walk_leaves(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields pairs (dotted name, value) of all values in nested mappings that are not mappings.

    ``prefix`` is put before each name.
    """
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from walk_leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value) if isinstance(value, StrEnum) else value
