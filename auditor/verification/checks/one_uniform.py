"""Samplers that turn one uniform double into one output can be inverted, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.sampler import Sampler

Uniforms = NDArray[np.int64]
"""Uniform doubles in (0, 1) as multiples of 2^-53: all that numpy's generators ever give."""

BITS = 53
_WORDS = 624
_BATCH = _WORDS // 2
_ENTRIES = 32
# Uniforms on either side of the inverse that are tried, should rounding break the order there; and
# farther ones, a power of two away, to see that the order holds on every scale.
_NEIGHBOURS, _FARTHER = 8, 2 ** np.arange(4, BITS - 1, 3)
_DISORDER = 0.01


@dataclass(frozen=True, slots=True)
class OneUniform:
    """A randomizer whose k-th number is a monotone function of the k-th uniform it draws.

    Inversion of a distribution function is of this kind, and so are numpy's ``laplace``,
    ``logistic``, ``gumbel`` and ``uniform`` with anything monotone done to them; numpy's
    ``normal`` (ziggurat) and torch's samplers are not. Which uniforms an output could come from is
    then found by bisection, and the randomizer itself is the judge: it is run on a generator whose
    state is set so that the wanted uniforms come next, so no formula, order of operations or
    mathematical library is assumed.
    """

    sampler: Sampler
    rises: bool

    @classmethod
    def recognise(
        cls,
        sampler: Sampler,
        inputs: list[Any],
        shape: tuple[int, ...],
        rng: np.random.Generator,
    ) -> OneUniform | None:
        """The sampler behind ``sampler`` if, for every input, it passes for one of this kind.

        One output has ``shape``, at most ``_ENTRIES`` numbers. It must take two words of a Mersenne
        twister a number, as a uniform double does, whatever the bits that the double drops (else it
        knows more uniforms than these), give the same numbers in another order for uniforms in
        another order, and rise (or fall) with them throughout.
        """
        number = _BATCH // math.prod(shape) if math.prod(shape) <= _ENTRIES else 0
        uniforms = np.sort(rng.integers(1, 1 << BITS, (number, *shape)), axis=0)
        rows = np.arange(number).reshape(number, *(1,) * len(shape))
        order = rng.permuted(np.broadcast_to(rows, uniforms.shape), axis=0)
        directions = set()
        for value in inputs if number else ():
            outputs, words = _run(sampler, value, uniforms)
            if words != 2 * uniforms.size or outputs.shape != uniforms.shape:
                return None
            if not np.array_equal(outputs, _run(sampler, value, uniforms, dropped=~0)[0]):
                return None
            shuffled = _run(sampler, value, np.take_along_axis(uniforms, order, axis=0))[0]
            if not np.array_equal(shuffled, np.take_along_axis(outputs, order, axis=0)):
                return None
            with np.errstate(invalid="ignore"):
                steps = np.diff(outputs.astype(np.float64), axis=0)
            if not ((steps >= 0).all() or (steps <= 0).all()):
                return None
            directions.add(bool((steps >= 0).all()))
        return cls(sampler, directions.pop()) if len(directions) == 1 else None

    def outputs(self, value: Any, uniforms: Uniforms) -> NDArray[np.float64]:
        """The outputs for ``value`` that these uniforms make, of the same shape (n, *shape)."""
        batch = _BATCH // math.prod(uniforms.shape[1:])
        parts = [
            _run(self.sampler, value, uniforms[start : start + batch])[0]
            for start in range(0, len(uniforms), batch)
        ]
        return np.concatenate([np.empty((0, *uniforms.shape[1:])), *parts])

    def skips(self, value: Any, outputs: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """Whether no uniform makes a number of ``outputs``, (n, *shape), though some lie around it.

        Bisection over all 2^53 uniforms finds where the outputs for ``value`` pass the number; the
        uniforms there are tried one by one. None if the sampler does not keep its order there, near
        and far: low bits of a uniform that fill places below those which its high bits set.
        """
        wanted = outputs if self.rises else -outputs
        low = np.ones(outputs.shape, dtype=np.int64)
        high = np.full(outputs.shape, (1 << BITS) - 1)
        least, most = self._ordered(value, low), self._ordered(value, high)
        inside = (least < wanted) & (wanted < most)
        while (open_ := (inside & (low < high)).reshape(len(low), -1).any(axis=1)).any():
            middle = (low[open_] + high[open_]) // 2
            made = self._ordered(value, middle)
            low[open_] = np.where(made < wanted[open_], middle + 1, low[open_])
            high[open_] = np.where(made < wanted[open_], high[open_], middle)
            inside[open_] &= made != wanted[open_]
        rows = inside.reshape(len(low), -1).any(axis=1)
        near = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1)
        steps = np.concatenate([-_FARTHER[::-1], near, _FARTHER])
        around = np.clip(np.add.outer(steps, low[rows]), 1, (1 << BITS) - 1)
        found = self._ordered(value, around.reshape(-1, *outputs.shape[1:])).reshape(around.shape)
        if rows.any() and (np.diff(found, axis=0) < 0).any(axis=0).mean() > _DISORDER:
            return None
        inside[rows] &= (found != wanted[rows]).all(axis=0)
        return inside

    def _ordered(self, value: Any, uniforms: Uniforms) -> NDArray[np.float64]:
        made = self.outputs(value, uniforms)
        return made if self.rises else -made


def _run(
    sampler: Sampler, value: Any, uniforms: Uniforms, dropped: int = 0
) -> tuple[NDArray[Any], int]:
    """Outputs when these uniforms, at most ``_BATCH``, are drawn; and how many words were taken.

    A uniform is 27 high bits of one word and 26 of the next; the others are those of ``dropped``.
    """
    words = np.zeros(_WORDS, dtype=np.uint32)
    used = words[: 2 * uniforms.size]
    used[0::2] = ((uniforms >> 26) << 5).ravel() | dropped & 31
    used[1::2] = ((uniforms & ((1 << 26) - 1)) << 6).ravel() | dropped & 63
    twister = np.random.MT19937(0)
    twister.state = {
        "bit_generator": "MT19937",
        "state": {"key": _untempered(words), "pos": 0},
    }
    outputs = sampler.draw(value, np.random.Generator(twister), len(uniforms))
    return outputs, int(twister.state["state"]["pos"])


def _untempered(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """States of a Mersenne twister that it tempers into ``words`` (Matsumoto and Nishimura 1998).

    Each step of the tempering is undone by repeating it, as it leaves the bits it reads from.
    """
    state = words ^ (words >> np.uint32(18))
    state ^= (state << np.uint32(15)) & np.uint32(0xEFC60000)
    wanted = state
    for _ in range(4):
        state = wanted ^ ((state << np.uint32(7)) & np.uint32(0x9D2C5680))
    wanted = state
    for _ in range(2):
        state = wanted ^ (state >> np.uint32(11))
    return state
