"""What every demonstration must keep. Each check raises AssertionError naming what is broken.

Whether a violation shows is not asked here, for it takes the samples of a run: ``auditor run --only
claims`` says it.
"""

from __future__ import annotations

import math
from unittest import SkipTest

import numpy as np

from fedrec_auditor.auditor import catalogue
from fedrec_auditor.auditor.demonstrations.base import Demonstration, DistinguishingGame
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.parts.checks import checks_of, run_checks

RUNS = 24


def games(demonstration: Demonstration) -> tuple[tuple[str, DistinguishingGame], ...]:
    """Violation and control by name."""
    return ("violation", demonstration.violation()), ("control", demonstration.control())


def check_statement(demonstration: Demonstration) -> None:
    """It says which claims of which target it is about, finitely, in words."""
    assert demonstration.entries, "no entry of the catalogue is named"
    assert all(entry and entry[0].isdigit() for entry in demonstration.entries)
    assert demonstration.target in FAMILIES["targets"].names(), demonstration.target
    assert demonstration.violation().system.name == demonstration.target, "another system is run"
    for name, game in games(demonstration):
        assert 0 <= game.claim.epsilon < math.inf, f"{name}: nothing is claimed"
        assert game.claim.statement, f"{name}: the claim is not said"
        assert game.claim.source, f"{name}: the claim has no source"
        # a violation of what the proof itself assumes cannot be held to it; its control can
        compared = name == "violation" or game.population is not None
        assert compared, f"{name}: no proof can be compared"
        assert game.samples >= RUNS, f"{name}: {game.samples} samples"
        assert len(set(game.worlds.names)) == 2, f"{name}: one world twice"
        assert game.worlds.statistic, f"{name}: the statistic is not said"


def check_scope(demonstration: Demonstration) -> None:
    """What is measured is within what is claimed, scope and delta."""
    for name, game in games(demonstration):
        scope, delta = game.worlds.scope, game.delta
        assert game.claim.scope.covers(scope), (
            f"{name}: a bound in [{scope}] says nothing of a claim in [{game.claim.scope}]"
        )
        assert delta >= game.claim.delta, f"{name}: the claim speaks at a larger delta"


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
    blockwise = [(name, game) for name, game in games(demonstration) if game.blockwise]
    if not blockwise:
        raise SkipTest("it says that its numbers depend on the blocks they are drawn in")
    for name, game in blockwise:
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


CHECKS = checks_of(__name__)


def check_demonstration(demonstration: Demonstration) -> tuple[str, ...]:
    """Run every check on it; return which do not apply, and why.

    Raises AssertionError at the first check that fails.

    >>> from fedrec_auditor.auditor.demonstrations.lcf_ap_zeros import LcfApZeros
    >>> check_demonstration(LcfApZeros())
    ()
    """
    return run_checks(CHECKS, demonstration)
