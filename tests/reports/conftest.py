"""A sample record of four audited targets, builders of its parts, and strategies for any record."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from pydantic import BaseModel

from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Claim,
    Horizon,
    Scope,
    Side,
    Unit,
    Vantage,
    Witness,
)
from fedrec_auditor.auditor.testing.targets import ALL_SCOPES
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import (
    AttackRow,
    Baseline,
    DataRow,
    Finding,
    FurtherFigure,
    Provenance,
    RocRow,
    SkippedRow,
    UsersRow,
    UtilityRow,
)
from fedrec_auditor.reports.say.summary import Summary, summarize_systems
from tests.texts import LETTERS

Part = TypeVar("Part", bound=BaseModel)


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
    return Finding.from_bounds(
        target, claim, where, delta=delta, accounted=accounted, measured=measured, note=note
    )


def vary(part: Part, **changes: Any) -> Part:
    """A copy of a row or record with some fields changed, unvalidated."""
    return part.model_copy(update=changes)


def get_summary(record: Record, target: str) -> Summary:
    """The summary of one system of a record."""
    return next(each for each in summarize_systems(record) if each.section.target == target)


def utility(target: str, value: float, paper: float | None) -> UtilityRow:
    return UtilityRow(
        target=target, metric="HR@10", protocol="leave one out, 99 sampled negatives", value=value,
        ci_low=value - 0.03, ci_high=value + 0.03, confidence=0.95, random=0.1, n=943,
        paper_value=paper,
        paper_note="" if paper is None else "ML-1M, users with 60 interactions or more",
    )  # fmt: skip


def roc(area: float, negatives: int = 500, points: int = 60) -> RocRow:
    """A ROC curve of this area, from the resolution up to 1: TPR is a power of FPR."""
    fpr = [negatives ** (place / (points - 1) - 1.0) for place in range(points)]
    tpr = [rate ** (1.0 / area - 1.0) for rate in fpr]
    return RocRow(
        fpr=tuple(fpr), tpr=tuple(tpr),
        low=tuple(max(0.0, rate_ - 0.05) for rate_ in tpr),
        high=tuple(min(1.0, rate_ + 0.05) for rate_ in tpr),
    )  # fmt: skip


def sample() -> Record:
    """FCF, FMF-LDP and both DPLCF variants: a claim per kind of verdict, and two attacks each."""
    return Record.read(Path(__file__).with_name("record-5.json"))


@pytest.fixture(scope="session")
def record() -> Record:
    return sample()


EPSILONS = st.one_of(st.just(math.inf), st.just(0.0), st.floats(0, 1e12, allow_nan=False))
DELTAS = st.one_of(st.just(0.0), st.floats(0, 0.999))
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False) | st.sampled_from((math.inf, -math.inf))
TEXTS = st.text(LETTERS, max_size=12) | st.sampled_from(
    ("<script>alert(1)</script>", "a|b`c", "$x_1$", "]]>", "\x00\x1b[31m", "[bold]x", "&amp;")
)
PLANS = st.dictionaries(TEXTS, st.integers() | TEXTS | st.lists(st.floats(0, 9)), max_size=3)


def witnesses() -> st.SearchStrategy[Witness]:
    probability = st.floats(0, 1e6)
    return st.builds(
        Witness, input_a=TEXTS, input_b=TEXTS, output=TEXTS, probability_a=probability,
        probability_b=probability, copies=st.integers(1, 10**6), note=TEXTS,
    )  # fmt: skip


@st.composite
def findings(draw: Callable[..., Any], targets: st.SearchStrategy[str]) -> Finding:
    where = draw(st.sampled_from(ALL_SCOPES))
    claim = Claim(
        epsilon=draw(EPSILONS), delta=draw(DELTAS), scope=draw(st.sampled_from(ALL_SCOPES)),
        statement=draw(TEXTS), source=draw(TEXTS),
    )  # fmt: skip
    above = [s for s in ALL_SCOPES if s.covers(where)]
    below = [s for s in ALL_SCOPES if where.covers(s)]
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
def rocs(draw: Callable[..., Any]) -> RocRow:
    rates = st.floats(0, 1, allow_nan=False)
    fpr = sorted(draw(st.lists(rates, max_size=5)))
    rest = [draw(st.lists(rates, min_size=len(fpr), max_size=len(fpr))) for _ in range(3)]
    return RocRow(fpr=fpr, tpr=rest[0], low=rest[1], high=rest[2])


SIZES = st.integers(0, 10**9)
FIGURES = st.builds(FurtherFigure, value=NUMBERS, ci_low=NUMBERS, ci_high=NUMBERS)
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: SIZES,
    float: NUMBERS,
    float | None: st.none() | NUMBERS,
    Vantage: st.sampled_from(Vantage),
    FurtherFigure: FIGURES,
    FurtherFigure | None: st.none() | FIGURES,
    dict[str, float]: st.dictionaries(TEXTS, NUMBERS, max_size=2),
    dict[str, FurtherFigure]: st.dictionaries(TEXTS, FIGURES, max_size=2),
}


def rows(kind: type[Part], **given: Any) -> st.SearchStrategy[Part]:
    """Rows of any content, except for the fields in ``given``."""
    free = {
        name: KINDS[field.annotation]
        for name, field in kind.model_fields.items()
        if name not in given and field.annotation in KINDS
    }
    return st.builds(kind, **free, **given)


SPREADS = rows(
    UsersRow,
    quantiles=st.dictionaries(st.sampled_from(("5%", "50%", "95%")), FIGURES, max_size=3),
    groups=st.dictionaries(TEXTS, KINDS[dict[str, FurtherFigure]], max_size=2),
)


@st.composite
def records(draw: Callable[..., Any]) -> Record:
    targets = st.sampled_from(draw(st.lists(TEXTS, min_size=1, max_size=2)))
    fields = {"target": targets, "confidence": st.floats(0.5, 0.999)}
    attacks = rows(AttackRow, **fields, roc=st.none() | rocs(), users=st.none() | SPREADS)
    utilities = rows(UtilityRow, **fields, baseline=st.none() | rows(Baseline))
    parts = {
        "findings": findings(targets),
        "attacks": attacks,
        "skipped": rows(SkippedRow, target=targets),
        "utility": utilities,
        "notes": TEXTS,
        "errors": TEXTS,
    }
    words = st.dictionaries(TEXTS, TEXTS, max_size=2)
    return Record(
        plan=draw(PLANS),
        provenance=Provenance(
            versions=draw(words),
            seed=draw(st.integers(0, 2**64)),
            data=draw(st.none() | rows(DataRow)),
            timing=draw(st.dictionaries(TEXTS, st.floats(0, 1e6), max_size=2)),
            machine=draw(words | st.dictionaries(TEXTS, st.integers(), max_size=2)),
        ),
        measurements=(),
        **{name: tuple(draw(st.lists(each, max_size=3))) for name, each in parts.items()},
    )
