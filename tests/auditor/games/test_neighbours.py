"""The game of a demonstration: bounds that hold, streamed counts, and accusations made twice."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE
from fedrec_auditor.auditor.demonstrations.base import Contest
from fedrec_auditor.auditor.games import neighbours
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp

SCOPE = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)
RUNS = 200


def response(epsilon: float, claimed: float, samples: int = 2_000) -> Contest:
    """Randomized response of this epsilon: world 0 says 1 with e^eps/(1 + e^eps), world 1 else."""

    def sample(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        rate = 1 / (1 + math.exp(-epsilon if world == 0 else epsilon))
        return (rng.random(size) < rate).astype(np.float64)

    return Contest(
        system=DplcfSp(),
        claim=Claim(epsilon=claimed, scope=SCOPE, statement="a claim", source="a test"),
        scope=SCOPE,
        delta=0.0,
        worlds=("a one", "a zero"),
        statistic="the answer",
        sample=sample,
        samples=samples,
    )


def test_a_leak_is_found_and_measured_again() -> None:
    duel = neighbours.play(
        response(2.0, claimed=1.0), confidence=0.95, rng=np.random.default_rng(0)
    )
    assert 1.5 < duel.bound.epsilon < 2.0
    assert duel.repeated
    assert duel.bound.confidence == 0.95
    assert duel.alarm.confidence == ALARM_CONFIDENCE
    assert duel.alarm.epsilon < 2.0
    assert duel.bound.samples == 2 * (1_000 + 2 * 2_000)
    witness = duel.bound.witness
    assert witness is not None
    assert {witness.input_a, witness.input_b} == {"a one", "a zero"}
    assert "the answer" in witness.output


def test_what_stays_below_its_claim_is_measured_once() -> None:
    duel = neighbours.play(
        response(1.0, claimed=1.2), confidence=0.95, rng=np.random.default_rng(0)
    )
    assert not duel.repeated
    assert duel.bound.samples == 2 * (1_000 + 2_000)


def test_a_repeated_accusation_is_rarer_than_the_confidence_says() -> None:
    """A tight, honest mechanism exceeds its claim twice in (1 - 0.6)^2 of all games at most.

    Refused if so many were less likely than 1e-6 at that rate.
    """
    contest = response(1.0, claimed=1.0, samples=400)
    found = [
        neighbours.play(contest, confidence=0.6, rng=np.random.default_rng([1, seed]))
        for seed in range(RUNS)
    ]
    accused = sum(duel.bound.epsilon > 1.0 for duel in found)
    assert stats.binom.sf(accused - 1, RUNS, 0.4**2) > 1e-6
    assert any(duel.repeated for duel in found), "nothing was measured twice"


def test_the_smaller_bound_of_two_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    certified = neighbours._certified

    def noted(*given: object) -> object:
        bound = certified(*given)  # type: ignore[arg-type]
        seen.append(bound.epsilon)
        return bound

    monkeypatch.setattr(neighbours, "_certified", noted)
    for seed in range(20):
        seen.clear()
        duel = neighbours.play(
            response(3.0, claimed=1.0), confidence=0.95, rng=np.random.default_rng(seed)
        )
        first, _, second = seen
        assert duel.bound.epsilon == min(first, second)


def test_runs_are_drawn_in_blocks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 300)
    asked: Counter[int] = Counter()
    contest = response(2.0, claimed=1.0)

    def counted(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        asked[world] += size
        assert size <= 300
        return contest.sample(world, size, rng)

    watched = replace(contest, sample=counted)
    neighbours.play(watched, confidence=0.95, rng=np.random.default_rng(0), samples=1_000)
    assert asked == {0: 3_000, 1: 3_000}  # a pilot, and two counts


def test_the_world_in_which_the_event_is_rare_may_be_either() -> None:
    """A 0 of world 1 only: the bound is large in one direction, and found in both orders."""

    def sample(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(world == 0, 1.0, (rng.random(size) < 0.4).astype(np.float64))

    base = response(1.0, claimed=1.0)
    for swapped in (False, True):
        contest = replace(
            base, sample=lambda w, size, rng, s=swapped: sample(w ^ int(s), size, rng)
        )
        duel = neighbours.play(contest, confidence=0.95, rng=np.random.default_rng(0))
        assert duel.bound.epsilon > 4.0
        witness = duel.bound.witness
        assert witness is not None
        assert witness.input_a == base.worlds[0 if swapped else 1]


def test_equal_generators_give_equal_duels() -> None:
    contest = response(2.0, claimed=1.0)
    first, again = (
        neighbours.play(contest, confidence=0.95, rng=np.random.default_rng(3)) for _ in range(2)
    )
    assert first == again


@pytest.mark.parametrize("spoilt", [np.nan, None])
def test_a_broken_statistic_is_refused_by_its_world(spoilt: float | None) -> None:
    def sample(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.full(size, spoilt) if spoilt is not None else np.zeros(size + 1)

    contest = replace(response(1.0, 1.0), sample=sample)
    with pytest.raises(InputError, match=r"world 0 \(a one\).*Mend the statistic: the answer"):
        neighbours.play(contest, confidence=0.95, rng=np.random.default_rng(0))
