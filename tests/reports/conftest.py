"""A record as an audit of four targets leaves it, and Hypothesis strategies for any other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.testing.targets import SCOPES
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import (
    AttackRow,
    Baseline,
    DataRow,
    DemonstrationRow,
    Finding,
    FurtherFigure,
    Measurement,
    Provenance,
    RocRow,
    SkippedRow,
    TrialRow,
    UtilityRow,
)


def scope(unit: str, horizon: str, vantage: str = "server", adjacency: str = "any pair") -> Scope:
    return Scope(
        unit=Unit(unit),
        adjacency=Adjacency(adjacency),
        vantage=Vantage(vantage),
        horizon=Horizon(horizon),
    )


def upper(epsilon: float, where: Scope, source: str, delta: float = 0.0, *more: str) -> Bound:
    return Bound(
        epsilon=epsilon, side=Side.UPPER, scope=where, source=source, delta=delta, assumptions=more
    )


def lower(epsilon: float, where: Scope, method: str, **more: Any) -> Bound:
    return Bound(epsilon=epsilon, side=Side.LOWER, scope=where, source=method, **more)


def finding(
    target: str,
    claim: Claim,
    where: Scope,
    accounted: Bound | None,
    measured: Bound | None,
    note: str = "",
    delta: float = 0.0,
) -> Finding:
    return Finding.of(
        target,
        claim,
        where,
        delta=delta,
        accounted=accounted,
        measured=measured,
        note=note,
    )


EXACT = "largest log-ratio of exact output probabilities"
ADD = "epsilons of independent reports add up"


def fcf() -> list[Finding]:
    where = scope("user", "round")
    claim = Claim(
        epsilon=math.inf,
        scope=where,
        statement="Gradients leave the device as they are; no epsilon is promised.",
        source="Minto et al. 2021, section 3, equation 5.",
    )
    proof = upper(math.inf, where, "the upload is a deterministic function of the profile")
    witness = Witness(
        input_a="item 7 met", input_b="item 7 not met", output="gradient row 7 off the plane -V x",
        probability_a=1.0, probability_b=0.0,
    )  # fmt: skip
    return [finding("fcf", claim, where, proof, lower(math.inf, where, EXACT, witness=witness))]


def fmf() -> list[Finding]:
    def claim(epsilon: float, where: Scope, statement: str, source: str) -> Claim:
        return Claim(epsilon=epsilon, scope=where, statement=statement, source=source)

    report, round_ = scope("report", "report"), scope("user", "round")
    training = scope("user", "training")
    shuffled = scope("user", "training", "shuffled")
    one = claim(2.5, report, "Each report satisfies local DP at epsilon.", "Theorem 3.")
    many = claim(250.0, round_, "A user who sends k reports has k epsilon.", "Section 4.2.")
    probabilities = (0.9241418199787566, 0.07585818002124355)
    witness = Witness(
        input_a="value +1", input_b="value -1", output="+B",
        probability_a=probabilities[0], probability_b=probabilities[1],
    )  # fmt: skip

    def repeated(copies: int) -> Witness:
        return Witness(
            input_a="all values +1", input_b="all values -1", output="+B in every report",
            probability_a=probabilities[0], probability_b=probabilities[1], copies=copies,
        )  # fmt: skip

    return [
        finding("fmf-ldp", one, report, upper(2.5, report, "law of the randomizer"),
                lower(2.5, report, EXACT, witness=witness)),
        finding("fmf-ldp", many, round_, upper(250.0, round_, ADD),
                lower(250.0, round_, EXACT, witness=repeated(100))),
        finding("fmf-ldp", many, training, upper(5000.0, training, ADD),
                lower(5000.0, training, EXACT, witness=repeated(2000)),
                "Twenty rounds are trained: a reader of the paper would take k epsilon for all."),
        finding("fmf-ldp", many, shuffled,
                upper(431.7, shuffled, "numeric clone bound composed over k T reports", 1e-6,
                      "the shuffler is honest", "all 943 users take part"),
                lower(1.87, shuffled, "Clopper-Pearson on a threshold from a separate half",
                      delta=1e-6, confidence=0.95, samples=200_000),
                "What shuffling buys, in a scope of which the claim does not speak.", 1e-6),
    ]  # fmt: skip


def dplcf(kind: str) -> list[Finding]:
    bit = scope("interaction", "report", adjacency="replace")
    user = scope("user", "training")
    claim = Claim(
        epsilon=1.0,
        scope=bit,
        statement="One flipped interaction bit satisfies local DP at epsilon.",
        source="Gao et al. 2020, section 4.1, equation 4.",
    )
    if kind == "dplcf-ap":
        witness = Witness(
            input_a="true bit 1", input_b="true bit 0", output="uploaded 0",
            probability_a=0.0, probability_b=0.6321205588285577,
            note="An uploaded 0 proves that the user did not meet the item.",
        )  # fmt: skip
        return [finding(kind, claim, bit, None, lower(math.inf, bit, EXACT, witness=witness))]
    keep, flip = 0.7310585786300049, 0.2689414213699951
    one = Witness(
        input_a="true bit 1", input_b="true bit 0", output="uploaded 1",
        probability_a=keep, probability_b=flip,
    )  # fmt: skip
    every = Witness(
        input_a="all bits 1", input_b="all bits 0", output="all ones",
        probability_a=keep, probability_b=flip, copies=1682,
    )  # fmt: skip
    return [
        finding(kind, claim, bit, upper(1.0, bit, "law of the randomizer"),
                lower(1.0, bit, EXACT, witness=one)),
        finding(kind, claim, user, upper(1682.0, user, ADD),
                lower(1682.0, user, EXACT, witness=every),
                "A user with N items sends N bits; a reader may take the claim for the user."),
    ]  # fmt: skip


def attack(
    target: str, name: str, family: str, metric: str, value: float, **more: Any
) -> AttackRow:
    base = more.pop("baselines", {"random": 0.5})
    return AttackRow(
        target=target, attack=name, family=family, vantage=Vantage.SERVER, metric=metric,
        value=value, ci_low=max(0.0, value - 0.03), ci_high=min(1.0, value + 0.03),
        confidence=0.95, baseline=max(base.values()), baselines=base, n=943,
        subject=more.pop("subject", "users"),
        reference=more.pop("reference", "closed form"), **more,
    )  # fmt: skip


def utility(target: str, value: float, paper: float | None) -> UtilityRow:
    return UtilityRow(
        target=target, metric="HR@10", protocol="leave one out, 99 sampled negatives", value=value,
        ci_low=value - 0.03, ci_high=value + 0.03, confidence=0.95, random=0.1, n=943,
        paper_value=paper,
        paper_note="" if paper is None else "ML-1M, users with 60 interactions or more",
    )  # fmt: skip


def roc(area: float, negatives: int = 500, points: int = 60) -> RocRow:
    """A curve of this area, from its resolution up to 1: its power of the false alarms."""
    fpr = [negatives ** (place / (points - 1) - 1.0) for place in range(points)]
    tpr = [rate ** (1.0 / area - 1.0) for rate in fpr]
    return RocRow(
        fpr=tuple(fpr), tpr=tuple(tpr),
        low=tuple(max(0.0, found - 0.05) for found in tpr),
        high=tuple(min(1.0, found + 0.05) for found in tpr),
        users={"5%": area - 0.1, "50%": area, "95%": min(1.0, area + 0.1)},
    )  # fmt: skip


def sample() -> Record:
    gender = {"majority": 0.71, "random": 0.5, "no upload": 0.715}
    attacks = []
    for target, membership, f1 in (
        ("fcf", 1.0, 0.79), ("fmf-ldp", 0.512, 0.716), ("dplcf-sp", 0.731, 0.72),
        ("dplcf-ap", 0.816, 0.74),
    ):  # fmt: skip
        attacks += [
            attack(target, "attribute-mlp", "attribute inference", "gender F1", f1,
                   baselines=gender, reference="MLP 100-30 on the uploads"),
            attack(target, "membership", "membership inference", "AUC", membership,
                   subject="user-item pairs", roc=roc(membership)),
        ]  # fmt: skip
    other = lower(
        0.97, scope("interaction", "report", adjacency="replace"),
        "Clopper-Pearson on a threshold from a separate half", confidence=0.95, samples=100_000,
    )  # fmt: skip
    return Record(
        plan={"targets": ["fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap"], "data": "ml-100k", "seed": 0,
              "confidence": 0.95, "rounds": 20},
        provenance=Provenance(
            versions={"fedrec-auditor": "0.1.0", "python": "3.11.9", "numpy": "2.3.4"},
            seed=0,
            data=DataRow(name="ml-100k", digest="9f" * 32, n_users=943, n_items=1682,
                         n_interactions=100_000),
            timing={"total": 171.25, "fcf": 61.5},
            machine={"cores": 2, "platform": "Linux", "memory_gb": 7.6},
        ),
        findings=(*fcf(), *fmf(), *dplcf("dplcf-sp"), *dplcf("dplcf-ap")),
        measurements=(Measurement(target="dplcf-sp", bound=other),),
        attacks=tuple(attacks),
        skipped=(
            SkippedRow(target="dplcf-ap", attack="attribute-rows", reason="No rows are uploaded."),
        ),
        utility=(utility("fcf", 0.62, 0.66), utility("fmf-ldp", 0.31, 0.45),
                 utility("dplcf-sp", 0.41, None), utility("dplcf-ap", 0.55, None)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def record() -> Record:
    return sample()


EPSILONS = st.one_of(st.just(math.inf), st.just(0.0), st.floats(0, 1e12, allow_nan=False))
DELTAS = st.one_of(st.just(0.0), st.floats(0, 0.999))
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False) | st.sampled_from((math.inf, -math.inf))
TEXTS = st.text(max_size=12) | st.sampled_from(
    ("<script>alert(1)</script>", "a|b`c", "$x_1$", "]]>", "\x00\x1b[31m", "[bold]x", "&amp;")
)
PLANS = st.dictionaries(TEXTS, st.integers() | TEXTS | st.lists(st.floats(0, 9)), max_size=3)


def witnesses() -> st.SearchStrategy[Witness]:
    chance = st.floats(0, 1e6)
    return st.builds(
        Witness, input_a=TEXTS, input_b=TEXTS, output=TEXTS, probability_a=chance,
        probability_b=chance, copies=st.integers(1, 10**6), note=TEXTS,
    )  # fmt: skip


@st.composite
def findings(draw: Callable[..., Any], targets: st.SearchStrategy[str]) -> Finding:
    where = draw(st.sampled_from(SCOPES))
    claim = Claim(
        epsilon=draw(EPSILONS), delta=draw(DELTAS), scope=draw(st.sampled_from(SCOPES)),
        statement=draw(TEXTS), source=draw(TEXTS),
    )  # fmt: skip
    above = [s for s in SCOPES if s.covers(where)]
    below = [s for s in SCOPES if where.covers(s)]
    accounted = measured = None
    if draw(st.booleans()):
        accounted = upper(
            draw(EPSILONS), draw(st.sampled_from(above)), draw(TEXTS), draw(DELTAS), draw(TEXTS)
        )
    if draw(st.booleans()):
        measured = lower(
            draw(EPSILONS), draw(st.sampled_from(below)), draw(TEXTS), delta=draw(DELTAS),
            confidence=draw(st.sampled_from((0.5, 0.95, 0.999, 1.0))),
            samples=draw(st.none() | st.integers(1, 10**9)),
            witness=draw(st.none() | witnesses()),
        )  # fmt: skip
    return finding(draw(targets), claim, where, accounted, measured, draw(TEXTS), draw(DELTAS))


@st.composite
def trials(draw: Callable[..., Any], targets: st.SearchStrategy[str]) -> TrialRow:
    claim = Claim(
        epsilon=draw(EPSILONS), delta=draw(DELTAS), scope=draw(st.sampled_from(SCOPES)),
        statement=draw(TEXTS), source=draw(TEXTS),
    )  # fmt: skip
    below = [s for s in SCOPES if claim.scope.covers(s)]
    bound = lower(
        draw(EPSILONS), draw(st.sampled_from(below)), draw(TEXTS), delta=draw(DELTAS),
        confidence=draw(st.sampled_from((0.95, 1.0))),
        samples=draw(st.none() | st.integers(1, 10**9)), witness=draw(st.none() | witnesses()),
    )  # fmt: skip
    return TrialRow(
        target=draw(targets),
        settings=draw(st.dictionaries(TEXTS, TEXTS | st.booleans() | st.integers(), max_size=2)),
        claim=claim,
        worlds=draw(st.tuples(TEXTS, TEXTS)),
        statistic=draw(TEXTS),
        bound=bound,
    )


@st.composite
def demonstrations(draw: Callable[..., Any], targets: st.SearchStrategy[str]) -> DemonstrationRow:
    violation, control = draw(trials(targets)), draw(trials(targets))
    return DemonstrationRow(
        name=draw(TEXTS),
        entries=tuple(draw(st.lists(TEXTS, max_size=2))),
        target=violation.target,
        violation=violation,
        control=control,
        shown=violation.exceeds and not control.exceeds,
        note=draw(TEXTS),
    )


@st.composite
def rocs(draw: Callable[..., Any]) -> RocRow:
    rates = st.floats(0, 1, allow_nan=False)
    fpr = sorted(draw(st.lists(rates, max_size=5)))
    rest = [draw(st.lists(rates, min_size=len(fpr), max_size=len(fpr))) for _ in range(3)]
    users = draw(st.dictionaries(st.sampled_from(("5%", "50%", "95%")), rates, max_size=3))
    return RocRow(fpr=fpr, tpr=rest[0], low=rest[1], high=rest[2], users=users)


@st.composite
def records(draw: Callable[..., Any]) -> Record:
    targets = st.sampled_from(draw(st.lists(TEXTS, min_size=1, max_size=2)))
    attacks = st.builds(
        AttackRow, target=targets, attack=TEXTS, family=TEXTS, vantage=st.sampled_from(Vantage),
        metric=TEXTS, value=NUMBERS, ci_low=NUMBERS, ci_high=NUMBERS,
        confidence=st.floats(0.5, 0.999), baseline=st.none() | NUMBERS,
        baselines=st.dictionaries(TEXTS, NUMBERS, max_size=2), n=st.integers(0, 10**9),
        subject=TEXTS, reference=TEXTS, note=TEXTS, from_interactions=st.none() | NUMBERS,
        roc=st.none() | rocs(),
        further=st.dictionaries(
            TEXTS, st.builds(FurtherFigure, value=NUMBERS, ci_low=NUMBERS, ci_high=NUMBERS),
            max_size=2,
        ),
    )  # fmt: skip
    rows = st.builds(
        UtilityRow, target=targets, metric=TEXTS, protocol=TEXTS, value=NUMBERS, ci_low=NUMBERS,
        ci_high=NUMBERS, confidence=st.floats(0.5, 0.999), random=NUMBERS, n=st.integers(0, 10**9),
        paper_value=st.none() | NUMBERS, paper_note=TEXTS,
        baseline=st.none() | st.builds(
            Baseline, name=TEXTS, value=NUMBERS,
            difference=st.builds(FurtherFigure, value=NUMBERS, ci_low=NUMBERS, ci_high=NUMBERS),
        ),
    )  # fmt: skip
    size = st.integers(0, 10**9)
    return Record(
        plan=draw(PLANS),
        provenance=Provenance(
            versions=draw(st.dictionaries(TEXTS, TEXTS, max_size=2)),
            seed=draw(st.integers(0, 2**64)),
            data=draw(st.none() | st.builds(
                DataRow, name=TEXTS, digest=TEXTS, n_users=size, n_items=size, n_interactions=size
            )),
            timing=draw(st.dictionaries(TEXTS, st.floats(0, 1e6), max_size=2)),
            machine=draw(st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=2)),
        ),
        findings=tuple(draw(st.lists(findings(targets), max_size=3))),
        measurements=(),
        attacks=tuple(draw(st.lists(attacks, max_size=2))),
        skipped=tuple(draw(st.lists(
            st.builds(SkippedRow, target=targets, attack=TEXTS, reason=TEXTS),
            max_size=2,
        ))),
        utility=tuple(draw(st.lists(rows, max_size=2))),
        demonstrations=tuple(draw(st.lists(demonstrations(targets), max_size=2))),
        notes=tuple(draw(st.lists(TEXTS, max_size=2))),
        errors=tuple(draw(st.lists(TEXTS, max_size=2))),
    )  # fmt: skip
