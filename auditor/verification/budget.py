"""How many draws a verification takes; seconds are made a number of draws once."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.sampler import LEAST_TOGETHER, TOGETHER, Sampler
from fedrec_auditor.targets.settings import Checked, Range

MOST_SAMPLES = 10**10
SIZED_SAMPLES = 1_000_000
"""Default draws per input of a callable that draws many at once."""
SINGLE_SAMPLES = 100_000
"""Default draws per input of a callable that draws one at a time, or answers that are no arrays."""
FEWEST = 100
"""Draws of an input that are worth a measurement."""
WIDE_NUMBERS, WIDE_SAMPLES = 1 << 28, 10_000
"""Most numbers per input by default, and the draws of outputs however wide."""
# Calls by which draws are timed: so many, each for so many times as many outputs as the last, while
# the next one, at the last one's pace, ends within this share of the seconds; a call's own cost is
# negligible where an output of it takes so many times the least at most; turns there are at least.
_PILOTS, _LARGER, _PILOTED, _NEAR, _FEWEST_TURNS = 5, 8, 0.5, 1.25, 8
# The share of the seconds that draws are planned to take: rules are fitted, too.
_PLANNED = 0.6


@dataclass(frozen=True, slots=True)
class Budget(Checked):
    """The ``samples`` of each input and the ``seconds`` in all that were asked for, or None."""

    samples: Annotated[int | None, Range("[100, 1e10]", "from 100 to 10,000,000,000")] = None
    seconds: Annotated[float | None, Range("(0, inf)", "above 0")] = None

    def most(self, sampler: Sampler) -> int:
        """Draws of an input: those asked for, or as many as are usual."""
        many = sampler.sized and not sampler.fields
        return self.samples or (SIZED_SAMPLES if many else SINGLE_SAMPLES)

    def paced(
        self,
        sampler: Sampler,
        inputs: Sequence[Any],
        most: int,
        *,
        share: float = 1.0,
        fewest: int = FEWEST,
    ) -> tuple[Sampler, int, str]:
        """Draws of an input that take a share of the seconds, by the time of some made for that.

        ``most`` at most, and that where there is no limit. No clock is looked at afterwards: load
        changes how many draws are made, and not what they say. Two measurements of two inputs each,
        their selection splits of all inputs, and the checks. The slower one of the first and the
        last input counts. Calls that cost much whatever they are for are made for more outputs:
        fewer turns, as the sampler that is given back makes them, and the words say, as they say
        the number. InputError if fewer than ``fewest`` draws are allowed, or than 8 turns.
        """
        if self.seconds is None:
            return sampler, most, ""
        left = share * self.seconds
        rng, size, spent, best = np.random.default_rng(0), 1, 0.0, math.inf
        costs: dict[int, float] = {}  # seconds of an output, by the outputs of a call
        for _ in range(_PILOTS):  # in larger and larger calls: the first ones warm up
            taken = []
            for value in (inputs[0], inputs[-1]):
                start = time.perf_counter()
                sampler.draw(value, rng, size)
                taken.append(time.perf_counter() - start)
            last, best = best, max(taken) / size
            costs[size] = best
            spent += sum(taken)
            flat = last < _NEAR * best and spent > left / 40
            if flat or spent + _LARGER * sum(taken) > _PILOTED * left:
                break
            size = min(_LARGER * size, TOGETHER)

        def draws_at(each: float) -> int:
            return int(_PLANNED * left / max(each * (4.0 + len(inputs)), 1e-12))

        size, each = 1, best
        if sampler.sized:
            enough = (n for n in costs if draws_at(costs[n]) >= most or costs[n] <= _NEAR * best)
            each = costs[size := next(enough)]
        draws, least = draws_at(each), max(size, LEAST_TOGETHER)
        fewest = max(fewest, _FEWEST_TURNS * size)
        if draws < fewest:
            call = f"a call for {size}" if size > 1 else "one draw"
            wanted = math.ceil(2.0 / share * fewest * each * (4 + len(inputs)))
            raise InputError(
                f"Expected seconds for {fewest} draws of an input at least, got "
                f"seconds={self.seconds:g}, where {call} takes {each * size:.3g} s. Give {wanted}, "
                "say."
            )
        if draws >= most:
            return sampler, most, ""
        paced = (
            f"; {self.seconds:g} seconds became {draws:,} draws of an input, by the time of some"
        )
        if least <= LEAST_TOGETHER:
            return sampler, draws, paced
        slow = f"; a call takes {least * each:.2g} s, so each was for {least} outputs of an input"
        return replace(sampler, least=least), draws, f"{paced}{slow}"
