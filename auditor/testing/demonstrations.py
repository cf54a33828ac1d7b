"""What every demonstration must keep. Each check raises AssertionError naming what is broken.

Whether a violation shows is not asked here, for it takes the samples of a run: ``auditor run --only
claims`` says it.
"""

from __future__ import annotations

import math
from unittest import SkipTest

import numpy as np

from fedrec_auditor.auditor.judging import catalogue
from fedrec_auditor.auditor.judging.demonstrations import claim_of
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.parts.checks import Contract
from fedrec_auditor.targets.declarations.demonstration import Demonstration, DistinguishingGame

RUNS = 24


def sides(demonstration: Demonstration) -> tuple[tuple[str, DistinguishingGame], ...]:
    """Violation and control by name."""
    return ("violation", demonstration.violation), ("control", demonstration.control)


def check_statement(demonstration: Demonstration) -> None:
    """It says which claims of which target it is about, finitely, in words."""
    assert demonstration.entries, "no entry of the catalogue is named"
    assert all(entry and entry[0].isdigit() for entry in demonstration.entries)
    assert demonstration.target in FAMILIES["targets"].names(), demonstration.target
    for name, side in sides(demonstration):
        claim = claim_of(side)
        assert 0 <= claim.epsilon < math.inf, f"{name}: nothing is claimed"
        assert claim.statement, f"{name}: the claim is not said"
        assert claim.source, f"{name}: the claim has no source"
        # a violation of what the proof itself assumes cannot be held to it; its control can
        assert name == "violation" or side.proved, f"{name}: no proof can be compared"
        assert side.samples >= RUNS, f"{name}: {side.samples} samples"
        assert len(set(side.worlds)) == 2, f"{name}: one world twice"
        assert side.statistic, f"{name}: the statistic is not said"


def check_statistic(demonstration: Demonstration) -> None:
    """One finite number a run, in both worlds."""
    for name, side in sides(demonstration):
        for world in (0, 1):
            scores = side.draw(world, RUNS, np.random.default_rng(world))
            assert np.shape(scores) == (RUNS,), f"{name}, world {world}: shape {np.shape(scores)}"
            assert np.isfinite(scores).all(), f"{name}, world {world}: not finite"


def check_seeds(demonstration: Demonstration) -> None:
    """Equal generators give equal numbers, also after the other world was drawn from."""
    for name, side in sides(demonstration):
        first = side.draw(0, RUNS, np.random.default_rng(7))
        side.draw(1, RUNS, np.random.default_rng(8))
        again = side.draw(0, RUNS, np.random.default_rng(7))
        assert first.tobytes() == again.tobytes(), f"{name}: equal generators, other numbers"


def check_blocks(demonstration: Demonstration) -> None:
    """Runs drawn in two calls are those drawn in one, unless the member says otherwise."""
    blockwise = [(name, side) for name, side in sides(demonstration) if side.blockwise]
    if not blockwise:
        raise SkipTest("it says that its numbers depend on the blocks they are drawn in")
    for name, side in blockwise:
        one, two = np.random.default_rng(9), np.random.default_rng(9)
        whole = side.draw(0, RUNS, one)
        parts = [side.draw(0, size, two) for size in (5, RUNS - 5)]
        assert whole.tobytes() == np.concatenate(parts).tobytes(), (
            f"{name}: blocks change the answer"
        )


def check_entries(demonstration: Demonstration) -> None:
    """The catalogue has these entries."""
    known = {entry.number for entry in catalogue.entries()}
    missing = [number for number in demonstration.entries if number not in known]
    assert not missing, f"no entries {', '.join(missing)} in the catalogue"


class DemonstrationContract(Contract, suite=__name__):
    """What every demonstration must keep.

    >>> from fedrec_auditor.auditor.plan.demonstrations import demonstration
    >>> DemonstrationContract.check(demonstration("lcf-ap-zeros"))
    ()
    """
