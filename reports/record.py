"""The record of an audit: the one file from which every report is rendered.

``report.json`` is this model, versioned by ``schema_version``. Rows carry what a reader needs to
doubt them: scope, delta, confidence, method, sample size. An infinite epsilon is the string "inf".
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness, guess_probability
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import Judgement, Verdict, judge, refutes

SCHEMA_VERSION: Literal[1] = 1


def _read_epsilon(value: Any) -> Any:
    return math.inf if value == "inf" else value


def _write_epsilon(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


Epsilon = Annotated[
    float,
    Field(ge=0, allow_inf_nan=True),
    BeforeValidator(_read_epsilon),
    PlainSerializer(_write_epsilon, return_type=float | str),
]


class Row(BaseModel):
    """A frozen row of the record; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class ScopeRow(Row):
    """A scope: for this unit, under this adjacency, from this vantage, over this horizon."""

    unit: Unit
    adjacency: Adjacency
    vantage: Vantage
    horizon: Horizon

    @classmethod
    def of(cls, scope: Scope) -> ScopeRow:
        """The row of a scope."""
        return cls(
            unit=scope.unit,
            adjacency=scope.adjacency,
            vantage=scope.vantage,
            horizon=scope.horizon,
        )

    def scope(self) -> Scope:
        """The scope of the row."""
        return Scope(
            unit=self.unit,
            adjacency=self.adjacency,
            vantage=self.vantage,
            horizon=self.horizon,
        )


class ClaimRow(Row):
    """What the authors say, in our words."""

    epsilon: Epsilon
    delta: float
    scope: ScopeRow
    statement: str
    source: str

    @classmethod
    def of(cls, claim: Claim) -> ClaimRow:
        """The row of a claim."""
        return cls(
            epsilon=claim.epsilon,
            delta=claim.delta,
            scope=ScopeRow.of(claim.scope),
            statement=claim.statement,
            source=claim.source,
        )

    def claim(self) -> Claim:
        """The claim of the row."""
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            scope=self.scope.scope(),
            statement=self.statement,
            source=self.source,
        )


class AccountedRow(Row):
    """What an accountant proves: an upper bound."""

    epsilon: Epsilon
    delta: float
    scope: ScopeRow
    source: str
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(cls, bound: Bound) -> AccountedRow:
        """The row of an upper bound."""
        return cls(
            epsilon=bound.epsilon,
            delta=bound.delta,
            scope=ScopeRow.of(bound.scope),
            source=bound.source,
            assumptions=bound.assumptions,
        )

    def bound(self) -> Bound:
        """The upper bound of the row."""
        return Bound(
            epsilon=self.epsilon,
            delta=self.delta,
            side=Side.UPPER,
            scope=self.scope.scope(),
            source=self.source,
            assumptions=self.assumptions,
        )


class WitnessRow(Row):
    """The pair of inputs and the output that show a lower bound."""

    input_a: str
    input_b: str
    output: str
    probability_a: float
    probability_b: float
    copies: int
    note: str

    @classmethod
    def of(cls, witness: Witness) -> WitnessRow:
        """The row of a witness."""
        return cls(
            input_a=witness.input_a,
            input_b=witness.input_b,
            output=witness.output,
            probability_a=witness.probability_a,
            probability_b=witness.probability_b,
            copies=witness.copies,
            note=witness.note,
        )


class MeasuredRow(Row):
    """A lower bound that was computed exactly (confidence 1, no samples) or measured."""

    epsilon: Epsilon
    delta: float
    scope: ScopeRow
    confidence: float
    method: str
    samples: int | None
    witness: WitnessRow | None
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(cls, bound: Bound) -> MeasuredRow:
        """The row of a lower bound."""
        return cls(
            epsilon=bound.epsilon,
            delta=bound.delta,
            scope=ScopeRow.of(bound.scope),
            confidence=bound.confidence,
            method=bound.source,
            samples=bound.samples,
            witness=None if bound.witness is None else WitnessRow.of(bound.witness),
            assumptions=bound.assumptions,
        )

    def bound(self) -> Bound:
        """The lower bound of the row."""
        return Bound(
            epsilon=self.epsilon,
            delta=self.delta,
            side=Side.LOWER,
            scope=self.scope.scope(),
            source=self.method,
            confidence=self.confidence,
            assumptions=self.assumptions,
            samples=self.samples,
            witness=None if self.witness is None else Witness(**self.witness.model_dump()),
        )


class Finding(Row):
    """One claim judged in one scope.

    ``scope`` is the scope in question (the claim's own, or one a reader would take it for), and
    ``delta`` the delta in question.
    ``claimed_guess`` is the success rate at guessing one bit that the claim would allow.
    ``shown_guess`` is the rate e^eps/(1+e^eps) at which the lower bound shows the guess to be
    right on the outputs that tell the most (on average over all outputs it may be far lower: a
    rare output is enough for a large epsilon). ``beyond`` is what is asked that no scope names and
    the paper does not speak of.
    """

    target: str
    claim: ClaimRow
    scope: ScopeRow
    delta: float
    accounted: AccountedRow | None
    measured: MeasuredRow | None
    verdict: Verdict
    vacuous: bool
    reason: str
    note: str
    claimed_guess: float
    shown_guess: float | None
    beyond: str = ""

    @classmethod
    def of(
        cls,
        target: str,
        claim: Claim,
        scope: Scope,
        judgement: Judgement,
        *,
        delta: float,
        accounted: Bound | None,
        measured: Bound | None,
        note: str = "",
        beyond: str = "",
    ) -> Finding:
        """The row of a judged claim."""
        shown = None
        if measured is not None:
            shown = guess_probability(measured.epsilon)
        return cls(
            target=target,
            claim=ClaimRow.of(claim),
            scope=ScopeRow.of(scope),
            delta=delta,
            accounted=None if accounted is None else AccountedRow.of(accounted),
            measured=None if measured is None else MeasuredRow.of(measured),
            verdict=judgement.verdict,
            vacuous=judgement.vacuous,
            reason=judgement.reason,
            note=note,
            claimed_guess=guess_probability(claim.epsilon, claim.delta),
            shown_guess=shown,
            beyond=beyond,
        )

    def judged(self) -> Judgement:
        """The verdict made again from the row's claim, proof and measurement."""
        return judge(
            self.claim.claim(),
            scope=self.scope.scope(),
            delta=self.delta,
            accounted=None if self.accounted is None else self.accounted.bound(),
            measured=None if self.measured is None else self.measured.bound(),
            beyond=self.beyond,
        )


class Measurement(Row):
    """A lower bound of the record, whether or not a finding quotes it."""

    target: str
    bound: MeasuredRow


class AttackRow(Row):
    """One metric of one attack on one target, with its interval and its baselines.

    ``baseline`` is the best of ``baselines``: what an adversary reaches without the upload.
    ``n`` is the number of subjects, ``subject`` says what they are.
    """

    target: str
    attack: str
    family: str
    vantage: Vantage
    metric: str
    value: float
    ci_low: float
    ci_high: float
    confidence: float
    baseline: float | None
    baselines: dict[str, float]
    n: int
    subject: str
    reference: str
    note: str = ""


class UtilityRow(Row):
    """How well the target recommends, as its paper measures it, with the paper's figure beside."""

    target: str
    metric: str
    protocol: str
    value: float
    ci_low: float
    ci_high: float
    confidence: float
    random: float
    n: int
    paper_value: float | None = None
    paper_note: str = ""


class TrialRow(Row):
    """What one side of a demonstration gave: a claim, and the lower bound that was found.

    ``settings`` are those of the system's that differ from its paper's. ``worlds`` are the two
    neighbouring ones that were run, None where the bound is that of one exact transcript.
    """

    target: str
    settings: dict[str, bool | int | float | str]
    claim: ClaimRow
    worlds: tuple[str, str] | None
    statistic: str
    bound: MeasuredRow

    @property
    def exceeds(self) -> bool:
        """Whether the bound refutes the claim."""
        return refutes(self.bound.bound(), self.claim.claim())


class DemonstrationRow(Row):
    """A violated claim shown on the target itself, beside a control that must stay below its own.

    ``entries`` are the numbers of the catalogue's entries that it shows. ``shown`` if the violation
    exceeds its claim, on fresh draws too where it was sampled, and the control does not.
    """

    name: str
    entries: tuple[str, ...]
    target: str
    violation: TrialRow
    control: TrialRow
    shown: bool
    note: str = ""

    @property
    def holds(self) -> bool:
        """``shown`` made again from the two trials."""
        return self.violation.exceeds and not self.control.exceeds


class DataRow(Row):
    """Which data the audit ran on."""

    name: str
    digest: str
    n_users: int
    n_items: int
    n_interactions: int


class Provenance(Row):
    """Where the numbers come from; only ``timing`` and ``machine`` differ between equal plans.

    ``data`` is None where nothing was run on a data set.
    """

    versions: dict[str, str]
    seed: int
    data: DataRow | None
    timing: dict[str, float]
    machine: dict[str, str | int | float]


class Record(Row):
    """A whole audit."""

    schema_version: Literal[1] = SCHEMA_VERSION
    plan: dict[str, Any]
    provenance: Provenance
    findings: tuple[Finding, ...]
    measurements: tuple[Measurement, ...]
    attacks: tuple[AttackRow, ...]
    utility: tuple[UtilityRow, ...]
    demonstrations: tuple[DemonstrationRow, ...] = ()
    errors: tuple[str, ...] = ()
