"""How many draws a verification may take, and how long."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
WIDE_NUMBERS, WIDE_SAMPLES = 1 << 28, 10_000
"""Most numbers per input by default, and the draws of outputs however wide."""
# Calls by which draws are timed: so many, each for so many times as many outputs as the last, while
# the next one, at the last one's pace, ends within this share of the seconds; a call's own cost is
# negligible where an output of it takes so many times the least at most; turns there are at least.
_PILOTS, _LARGER, _PILOTED, _NEAR, _FEWEST_TURNS = 5, 8, 0.5, 1.25, 8
# The share of the seconds after which no real draws are held against a proof.
_LATEST = 0.5
# The share of what is left that draws are planned to take.
_PLANNED = 0.85


@dataclass(frozen=True, slots=True)
class Budget(Checked):
    """The ``samples`` of each input and the ``seconds`` in all that were asked for, or None."""

    samples: Annotated[int | None, Range("[100, 1e10]", "from 100 to 10,000,000,000")] = None
    seconds: Annotated[float | None, Range("(0, inf)", "above 0")] = None
    begun: float = field(default_factory=lambda: time.perf_counter())

    def until(self, share: float = 1.0) -> float:
        """When a share of the seconds is over; never where there is no limit."""
        return math.inf if self.seconds is None else self.begun + share * self.seconds

    def within(self, share: float, sampler: Sampler) -> Sampler:
        """The sampler until a share of the seconds is over."""
        return sampler.allowed(math.inf, self.until(share))

    def most(self, sampler: Sampler) -> int:
        """Draws of an input: those asked for, or as many as are usual."""
        many = sampler.sized and not sampler.fields
        return self.samples or (SIZED_SAMPLES if many else SINGLE_SAMPLES)

    def real_draws(self, sampler: Sampler, inputs: Sequence[Any], most: int) -> tuple[Sampler, int]:
        """The sampler until half of the seconds are over, and how many draws it is to make."""
        return self.within(_LATEST, sampler), self.paced(sampler, inputs, most)[1]

    def paced(self, sampler: Sampler, inputs: Sequence[Any], most: int) -> tuple[Sampler, int, str]:
        """Draws of an input that take as long as is left of the seconds, by the time of some.

        ``most`` at most, and that where there is no limit. Two measurements of two inputs each,
        their selection splits of all inputs, and the checks. The slower one of the first and the
        last input counts. Calls that cost much whatever they are for are made for more outputs:
        fewer turns, as the sampler that is given back makes them, and the words say. InputError if
        fewer than 100 draws are allowed, or than 8 turns.
        """
        if self.seconds is None:
            return sampler, most, ""
        left = self.until() - time.perf_counter()
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
        left = self.until() - time.perf_counter()

        def draws_at(each: float) -> int:
            return int(_PLANNED * left / max(each * (4.0 + len(inputs)), 1e-12))

        size, each = 1, best
        if sampler.sized:
            enough = (n for n in costs if draws_at(costs[n]) >= most or costs[n] <= _NEAR * best)
            each = costs[size := next(enough)]
        draws, least = draws_at(each), max(size, LEAST_TOGETHER)
        fewest = max(100, _FEWEST_TURNS * size)
        if draws < fewest:
            call = f"a call for {size}" if size > 1 else "one draw"
            wanted = math.ceil(1.6 * fewest * each * (4 + len(inputs)))
            raise InputError(
                f"Expected seconds for {fewest} draws of an input at least, got "
                f"seconds={self.seconds:g}, where {call} takes {each * size:.3g} s. Give {wanted}, "
                "say."
            )
        if draws >= most or least <= LEAST_TOGETHER:
            return sampler, min(draws, most), ""
        slow = f"; a call takes {least * each:.2g} s, so each was for {least} outputs of an input"
        return replace(sampler, least=least), draws, slow
