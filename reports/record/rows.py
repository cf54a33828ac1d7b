"""The rows of a record, and what report.json holds: all from which every report is rendered.

``report.json`` is ``Contents``, versioned by ``schema_version``. Rows carry what a reader needs to
doubt them: claims and bounds with scope, delta, confidence, source and sample size. Infinite
numbers are the strings "inf" and "-inf".
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
"""Version of the schema: it grows when a field goes, is renamed, or means something else."""


class Row(BaseModel):
    """A frozen row of the record; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Finding(Row):
    """One claim judged in one scope.

    ``scope`` is the scope in question (the claim's own, or one a reader would take it for), and
    ``delta`` the delta in question. ``claimed_guess`` is the success rate at guessing one bit that
    the claim would allow. ``shown_guess`` is the rate e^eps/(1+e^eps) at which the lower bound
    shows the guess to be right on the outputs that tell the most (on average over all outputs it
    may be far lower: a rare output is enough for a large epsilon). ``outside_model`` is what is
    asked that no scope names and the paper does not speak of; ``untested`` is why nothing was
    measured that could have refuted the claim, where something should have been. ``game`` names a
    game that is not of one upload, and whose users the claim is then judged for; empty where these
    are the data's.
    Of a refuted claim ``holds_at`` is the delta at which its epsilon does hold, where that is known
    exactly; of one that is not proved ``repair`` are settings of the system with which it is.

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
        """Judge a claim in a scope at a delta; see ``verdict.judge`` for the arguments."""
        asked: dict[str, Any] = {
            "scope": scope,
            "delta": delta,
            "accounted": accounted,
            "measured": measured,
            "outside_model": outside_model,
        }
        judgement = judge(claim, sizes=sizes, **asked)
        return cls(
            **asked,
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
        """The lower bound, unless it rests on an assumption: then it decides nothing."""
        return None if self.measured is None or self.measured.assumptions else self.measured

    @property
    def is_claimed(self) -> bool:
        """Whether the claim has an epsilon and speaks of the scope, or of what refutes it there."""
        speaks = self.claim.scope.covers(self.scope) and self.claim.delta <= self.delta
        speaks = (speaks and not self.outside_model) or self.verdict is Verdict.VIOLATED
        return speaks and math.isfinite(self.claim.epsilon)

    def without_proof(self, why: str) -> Finding:
        """The finding judged again without its proof; ``why`` goes to its note."""
        unproved = self.model_copy(update={"accounted": None, "note": f"{self.note} {why}".strip()})
        return unproved.judged_again()

    def judged_again(self) -> Finding:
        """The finding with the verdict that its claim, proof and measurement give."""
        again = self.judged()
        return self.model_copy(
            update={"verdict": again.verdict, "vacuous": again.vacuous, "reason": again.reason}
        )

    def judged(self) -> Judgement:
        """The verdict made again from the row's claim, proof and measurement."""
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
    """A lower bound of the record, whether or not a finding quotes it."""

    target: str
    bound: Bound


class FurtherFigure(Row):
    """A further figure of a row, with its interval at the row's confidence."""

    value: float
    ci_low: float
    ci_high: float


class RocRow(Row):
    """A ROC curve with its pointwise band: at most 200 points, from the resolution of FPR up to 1.

    ``fpr``, ``tpr``, ``low`` and ``high`` have as many entries.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class UsersRow(Row):
    """How success is spread over the users behind a figure; nobody is named.

    ``success`` says what it is of one user, in [0, 1]. ``quantiles`` are those over users by their
    level, such as 99%: who is most at risk. ``sure`` is the share of users of whom it is .9 or
    more, ``groups`` are means over users who are alike, by what they are alike in. ``each``, if it
    was asked for, has every user's success behind the user's row in the data, from 0.
    """

    success: str
    quantiles: dict[Annotated[str, Field(pattern=r"^\d{1,2}(\.\d+)?%$")], FurtherFigure]
    sure: FurtherFigure | None = None
    groups: dict[str, dict[str, FurtherFigure]] = {}
    each: tuple[tuple[int, float], ...] = ()

    @property
    def means(self) -> tuple[tuple[str, str, FurtherFigure], ...]:
        """Each trait of users, the group and its mean, in the order of the names."""
        named = ((alike, sorted(groups.items())) for alike, groups in sorted(self.groups.items()))
        return tuple((alike, name, one) for alike, groups in named for name, one in groups)


class AttackRow(Row):
    """One metric of one attack on one target, with its interval and its baselines.

    ``baseline`` is the best of ``baselines``: what an adversary reaches without the upload.
    ``gain`` is how far the figure is above it, with the interval of the difference, where both are
    of the same subjects; the row then beats guessing as far as the gain is above 0. Intervals are
    over subjects and ``trainings``; of one training they say nothing of another.
    ``from_interactions`` is what the same attack reaches from the true interaction set alone: an
    upload may tell less, or more. ``further`` are other figures of the same guesses by name,
    ``roc`` the curve of scores, ``users`` how success is spread over users. ``n`` is the number of
    subjects, ``subject`` says what they are.
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
        """How far above the baseline: the gain, or else as if the baseline were known exactly."""
        if self.gain is not None or self.baseline is None:
            return self.gain
        value, low, high = (x - self.baseline for x in (self.value, self.ci_low, self.ci_high))
        return FurtherFigure(value=value, ci_low=low, ci_high=high)


class SkippedRow(Row):
    """An attack that did not run on a target, and why."""

    target: str
    attack: str
    reason: str


class Baseline(Row):
    """A recommender without any federated training, on the same split and candidates.

    ``difference`` is the target's figure less this one, taken user by user.
    """

    name: str
    value: float
    difference: FurtherFigure


class UtilityRow(Row):
    """How well the target recommends, as its paper measures it, with the paper's figure beside.

    Intervals are over users and ``trainings``; of one training they say nothing of another.
    ``baseline`` is popularity, or user and item means; older records have none. ``unprotected`` is
    the name of the same system without protection, where there is one.
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
    """How many of the ``sent`` messages of all trainings attacks leave out; no row for none.

    ``empty`` ones left the model as it was, ``oversized`` ones hold numbers too large to compute
    with, infinities or NaN.
    """

    target: str
    sent: int
    empty: int
    oversized: int

    @property
    def unread(self) -> int:
        """How many attacks leave out."""
        return self.empty + self.oversized


class ReproducedRow(Row):
    """One figure that a paper prints, and ours.

    ``place`` is the table or figure, ``what`` its row and column but for the system. ``printed`` is
    None where the paper draws a curve, or says in words what is compared. ``beside`` are figures
    that a reader should hold both against, such as guessing the majority class.
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
    """Something looked at beside claims, and how it ended; ``failed`` is None where it was not."""

    target: str
    check: str
    failed: bool | None
    reason: str


class DataRow(Row):
    """The data the audit ran on."""

    name: str
    digest: str
    n_users: int
    n_items: int
    n_interactions: int


class Provenance(Row):
    """The origin of the numbers; only ``timing`` and ``machine`` differ between equal plans.

    ``data`` is None where nothing was run on a data set.
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
        held = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [one for each in held for one in each if isinstance(one, dict | list | tuple)]
    if layer:
        raise ValueError(f"a plan is nested {_DEEPEST} deep at most")
    return plan


class Contents(Row):
    """Contents of an audit's record; ``notes`` say what was left out, ``errors`` what failed.

    ``own`` are the targets that are the caller's: wrapped callables, apps and recordings.

    ``reports.record.record.Record`` is this with what users do with it.
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
    """Rows as dictionaries of one set of keys, None where a row has no such part."""
    told = [dict(leaves(row.model_dump(mode="python"))) for row in rows]
    names = dict.fromkeys(name for row in told for name in row)
    parts = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [{name: row.get(name) for name in names if name not in parts} for row in told]


def leaves(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Parts without parts of their own, by the names on the way to them."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", str(value) if isinstance(value, StrEnum) else value
