"""What every demonstration must keep. Each check raises AssertionError naming what is broken.

Whether a violation shows is not asked here, for it takes the samples of a run: ``auditor run --only
claims`` says it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.auditor import catalogue
from fedrec_auditor.auditor.demonstrations.base import Demonstration, DistinguishingGame, WorstCase
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.parts.checks import run_checks

RUNS = 24
Either = DistinguishingGame | WorstCase


def sides(demonstration: Demonstration) -> tuple[tuple[str, Either], tuple[str, Either]]:
    """Violation and control by name."""
    return ("violation", demonstration.violation()), ("control", demonstration.control())


def games(demonstration: Demonstration) -> list[tuple[str, DistinguishingGame]]:
    """Those sides that are sampled."""
    return [(n, side) for n, side in sides(demonstration) if isinstance(side, DistinguishingGame)]


def check_statement(demonstration: Demonstration) -> None:
    """It says which claims of which target it is about, finitely, in words."""
    assert demonstration.entries, "no entry of the catalogue is named"
    assert all(entry and entry[0].isdigit() for entry in demonstration.entries)
    assert demonstration.target in FAMILIES["targets"].names(), demonstration.target
    assert demonstration.violation().system.name == demonstration.target, "another system is run"
    for name, side in sides(demonstration):
        assert 0 <= side.claim.epsilon < math.inf, f"{name}: nothing is claimed"
        assert side.claim.statement, f"{name}: the claim is not said"
        assert side.claim.source, f"{name}: the claim has no source"
        # a violation of what the proof itself assumes cannot be held to it; its control can
        compared = name == "violation" or side.population is not None
        assert compared, f"{name}: no proof can be compared"
        if isinstance(side, DistinguishingGame):
            assert side.samples >= RUNS, f"{name}: {side.samples} samples"
            assert len(set(side.worlds.names)) == 2, f"{name}: one world twice"
            assert side.worlds.statistic, f"{name}: the statistic is not said"
        else:
            assert side.statistic, f"{name}: the statistic is not said"


def check_scope(demonstration: Demonstration) -> None:
    """What is measured is within what is claimed, scope and delta."""
    for name, side in sides(demonstration):
        if isinstance(side, DistinguishingGame):
            scope, delta = side.worlds.scope, side.delta
        else:
            scope, delta = side.bound.scope, side.bound.delta
        assert side.claim.scope.covers(scope), (
            f"{name}: a bound in [{scope}] says nothing of a claim in [{side.claim.scope}]"
        )
        assert delta >= side.claim.delta, f"{name}: the claim speaks at a larger delta"


def check_transcript(demonstration: Demonstration) -> None:
    """An exact bound is a lower one, without samples, found again, on the right side of its claim.

    Its witness has the two probabilities whose ratio it is, unless no double holds them.
    """
    for name, side in sides(demonstration):
        if isinstance(side, DistinguishingGame):
            continue
        bound = side.bound
        assert bound.side is Side.LOWER, name
        assert bound.confidence == 1.0, f"{name}: an exact bound has no confidence"
        assert bound.samples is None, f"{name}: an exact bound has no samples"
        assert bound.witness is not None, f"{name}: the transcript is not shown"
        assert refutes(bound, side.claim) == (name == "violation"), (
            f"{name}: {bound.epsilon} against a claimed {side.claim.epsilon}"
        )
    again = demonstration.violation()
    first = demonstration.violation()
    if isinstance(first, WorstCase) and isinstance(again, WorstCase):
        assert first.bound == again.bound, "another transcript on every call"


def check_statistic(demonstration: Demonstration) -> None:
    """One finite number a run, in both worlds."""
    for name, game in games(demonstration):
        for world in (0, 1):
            scores = game.worlds.draw(world, RUNS, np.random.default_rng(world))
            assert np.shape(scores) == (RUNS,), f"{name}, world {world}: shape {np.shape(scores)}"
            assert np.isfinite(scores).all(), f"{name}, world {world}: not finite"


def check_seeds(demonstration: Demonstration) -> None:
    """Equal generators give equal numbers, also from a game made anew and asked before."""
    for (name, game), (_, other) in zip(games(demonstration), games(demonstration), strict=True):
        first = game.worlds.draw(0, RUNS, np.random.default_rng(7))
        other.worlds.draw(1, RUNS, np.random.default_rng(8))
        again = other.worlds.draw(0, RUNS, np.random.default_rng(7))
        assert first.tobytes() == again.tobytes(), f"{name}: equal generators, other numbers"


def check_blocks(demonstration: Demonstration) -> None:
    """Runs drawn in two calls are those drawn in one, unless the member says otherwise."""
    if not getattr(demonstration, "blockwise", True):
        return
    for name, game in games(demonstration):
        one, two = np.random.default_rng(9), np.random.default_rng(9)
        whole = game.worlds.draw(0, RUNS, one)
        parts = [game.worlds.draw(0, size, two) for size in (5, RUNS - 5)]
        assert whole.tobytes() == np.concatenate(parts).tobytes(), (
            f"{name}: blocks change the answer"
        )


def check_entries(demonstration: Demonstration) -> None:
    """The catalogue has these entries."""
    known = {entry.number for entry in catalogue.entries()}
    missing = [number for number in demonstration.entries if number not in known]
    assert not missing, f"no entries {', '.join(missing)} in the catalogue"


CHECKS: tuple[Callable[[Demonstration], None], ...] = (
    check_statement,
    check_entries,
    check_scope,
    check_transcript,
    check_statistic,
    check_seeds,
    check_blocks,
)


def check_demonstration(demonstration: Demonstration) -> tuple[str, ...]:
    """Run every check on it; return which do not apply, and why.

    Raises AssertionError at the first check that fails.
    """
    return run_checks(CHECKS, demonstration)
