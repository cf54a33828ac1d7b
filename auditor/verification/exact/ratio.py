"""The largest log-ratio of one pair of inputs, over drawn outputs and those that may lie beyond."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.hockey_stick import log_ratio
from fedrec_auditor.accountants.statements.bound import Witness
from fedrec_auditor.auditor.verification.exact.law import DEEPEST, Law, in_singles, unlost
from fedrec_auditor.auditor.verification.exact.outputs import Outputs, by_simplicity, sums_to_one

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Error of a log-probability by rounding, relative to its size: given away. Doubles, and singles.
_ROUNDING, _ROUNDING_OF_SINGLES = 2.0**-46, 2.0**-17
_DRAWS, _ENTRIES = 64, 1 << 18
_ROWS, _CLIMBS = 8, 4
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``output`` is e^``value`` times as probable under ``a`` as under ``b``.

    ``log_a`` and ``log_b`` are its log-probabilities.
    """

    value: float
    a: Any = None
    b: Any = None
    output: Any = None
    log_a: float = -math.inf
    log_b: float = -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Log-ratios at delta 0 of a law, ``every`` its outputs where they are known to be all."""

    law: Law
    outputs: Outputs
    every: NDArray[Any] | None
    claim: float
    seed: int

    @property
    def strategy(self) -> SearchStrategy[Any]:
        """Outputs to try."""
        from hypothesis import strategies as st

        if self.every is not None:
            return st.sampled_from(by_simplicity(self.every))
        return self.outputs.strategy()

    def best(self, a: Any, b: Any, output: Any = None) -> Found:
        """The largest ratio of the pair, either way, over outputs drawn, beyond, and ``output``."""
        if self.every is not None:
            laws = self.law.guesses(self.every, (a, b))
            if sums_to_one(laws):
                return self._largest(a, b, self.every, laws, None)
        draws = max(4, min(_DRAWS, _ENTRIES // max(1, math.prod(self.outputs.shape))))
        one, other = (self.law.draw(value, draws, self.seed) for value in (a, b))
        drawn = np.concatenate([one, other])
        laws = np.stack([self.law.log_prob(drawn, value) for value in (a, b)])
        typical = float(np.median(laws.max(axis=0)))
        more = [self.outputs.around(one, other, a, b)]
        if output is not None:
            more.append(np.asarray(output)[None])
        if self.law.named is not None:
            more.append(self.law.named.outputs)
        found = self._largest(a, b, drawn, laws, None)
        for outputs in more:
            guess = self._largest(a, b, outputs, self.law.guesses(outputs, (a, b)), typical)
            if guess.value > found.value:
                found = guess
        return found

    def at(self, a: Any, b: Any, output: Any) -> Found:
        """The ratio at this output, either way."""
        outputs = np.asarray(output)[None]
        return self._largest(a, b, outputs, self.law.guesses(outputs, (a, b)), None)

    def climb(self, found: Found) -> Found:
        """Move entries of the output to where other outputs have them, while the ratio rises."""
        size = math.prod(self.outputs.shape)
        if self.every is not None or size < 2 or size * size * _ROWS > _MOST_ENTRIES:
            return found
        one, other = (self.law.draw(value, 64, self.seed) for value in (found.a, found.b))
        far = self.outputs.around(one, other, found.a, found.b)
        rows = np.concatenate([one[: _ROWS // 2], far[:: max(1, len(far) // _ROWS)]])
        rows = rows.reshape(len(rows), size)
        typical = float(np.median(self.law.log_prob(one, found.a)))
        for _ in range(_CLIMBS):
            flat = np.asarray(found.output).reshape(size)
            tried = np.broadcast_to(flat, (len(rows), size, size)).copy()
            entry = np.arange(size)
            tried[:, entry, entry] = rows
            outputs = tried.reshape(-1, *self.outputs.shape)
            laws = self.law.guesses(outputs, (found.a, found.b))
            gains = self._ratios(laws[0], laws[1], typical).reshape(len(rows), size)
            best = gains.argmax(axis=0)
            moved = np.where(gains.max(axis=0) > found.value, rows[best, entry], flat)
            outputs = np.concatenate([moved[None], tried[best, entry]])
            outputs = outputs.reshape(-1, *self.outputs.shape)
            laws = self.law.guesses(outputs, (found.a, found.b))
            better = self._largest(found.a, found.b, outputs, laws, typical)
            if not better.value > found.value:
                break
            found = better
        return found

    def grows(self, found: Found) -> bool:
        """Whether the ratio of the pair goes on growing towards the least probable outputs."""
        one, other = (self.law.draw(value, 64, self.seed) for value in (found.a, found.b))
        far = self.outputs.around(one, other, found.a, found.b)
        laws = self.law.guesses(far, (found.a, found.b))
        depth = float(np.median(self.law.log_prob(one, found.a))) - laws.max(axis=0)
        ratios = np.abs(laws[0] - laws[1], where=np.isfinite(laws).all(axis=0), out=0.0 * depth)
        near, deep = (ratios[depth <= most].max(initial=0.0) for most in (DEEPEST / 4, DEEPEST))
        return bool(deep > 1.2 * near)

    def witness(self, found: Found, note: str = "") -> Witness:
        """What was found, in words; no integral shows that a vector nobody drew can come at all."""
        if self.every is None and self.outputs.apart(found.output):
            unseen = "no draw was as far out: if none can be, log_prob must say so"
            note = f"{note}; {unseen}" if note else unseen
        return Witness(
            input_a=self.law.name_input(found.a),
            input_b=self.law.name_input(found.b),
            output=self.law.name_output(found.output),
            probability_a=_exp(found.log_a),
            probability_b=_exp(found.log_b),
            note=note,
        )

    def _ratios(
        self, one: NDArray[np.float64], other: NDArray[np.float64], typical: float | None
    ) -> NDArray[np.float64]:
        """How much likelier each output is under the first: -inf where that does not count.

        An output that nobody drew counts only if the claim would leave it, in log-probability, near
        the ``typical`` one of those drawn: beyond, doubles underflow.
        """
        counts = ~np.isneginf(one) & ~np.isnan(one) & ~np.isnan(other)
        if typical is not None:
            counts &= one >= typical - max(DEEPEST - self.claim, 0.0)
        one, other = np.where(counts, one, -np.inf), np.where(counts, other, 0.0)
        sizes = np.nan_to_num(np.abs([one, other]), posinf=0.0)
        rounding = _ROUNDING_OF_SINGLES if in_singles(sizes) else _ROUNDING
        return np.asarray(log_ratio(one, other) - rounding * sizes.max(axis=0))

    def _largest(
        self,
        a: Any,
        b: Any,
        outputs: NDArray[Any],
        laws: NDArray[np.float64],
        typical: float | None,
    ) -> Found:
        found = Found(value=-math.inf)
        if not self.outputs.shape:
            laws = unlost(laws, self.claim)
        for first, second, one, other in ((a, b, laws[0], laws[1]), (b, a, laws[1], laws[0])):
            ratios = self._ratios(one, other, typical)
            k = int(np.argmax(ratios))
            if ratios[k] > found.value:
                found = Found(
                    value=float(ratios[k]),
                    a=first,
                    b=second,
                    output=outputs[k],
                    log_a=float(one[k]),
                    log_b=float(other[k]),
                )
        return found


def _exp(log: float) -> float:
    """e^log; infinite for a density that has left the doubles."""
    return math.exp(log) if log < 709 else math.inf
