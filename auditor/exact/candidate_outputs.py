"""Outputs of a randomizer at which the search for the largest epsilon compares two inputs: drawn
outputs, and others that are possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.worlds.statistics import grid_step

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Floats = NDArray[np.float64]

_DRAWS = 256
_MOST = 1 << 14
# Total number of entries drawn for all inputs to find rare outputs, if outputs are few and repeat.
RARE_DRAWS = 1 << 21
# Largest number of entries if a call returns a single output, and number of draws per call.
_SINGLY, _AT_ONCE = 1 << 18, 1 << 17
_REACH = 2.0 ** np.arange(-6, 12.5, 0.5)
_STEPS = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 256.0, 4096.0])
# Number of entries of a vector that are tested for a grid.
_GRIDS = 64
# Larger integers do not fit into int64.
_FARTHEST = 2.0**62
# Tolerance of the sum of probabilities. Outputs with a smaller total probability may be missed.
_WHOLE = 1e-9
# Text for the probability of the outputs that a list of "all outputs" may lack.
EXCEPT_RARE = f" but for {_WHOLE:g} of probability"


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateOutputs:
    """Outputs drawn from a randomizer under some inputs, and the properties of its outputs that
    these draws show.

    - ``observed``: the different drawn outputs, (k, *output shape).
    - ``is_symbolic``: true if outputs are names, bits or a few numbers that are not on a grid, so
      that only combinations of drawn values are possible.
    - ``entry_step``: distance between neighbouring values of an entry (1 for integers); 0 if the
      values are not on a grid.
    - ``entry_origin``: offset of the grid. The values of an entry are ``entry_origin`` plus
      multiples of ``entry_step``.
    - ``is_continuous``: true if outputs are numbers that seldom repeat and are not on a grid; they
      are taken to have densities.
    - ``centre``, ``spread``: centre and width of the range of each entry, (*output shape).
    - ``all_outputs``: all possible outputs, (m, *output shape), if they are few enough to be
      determined; otherwise None.
    """

    observed: NDArray[Any]
    is_symbolic: bool
    entry_step: Floats
    entry_origin: Floats
    is_continuous: bool
    centre: Floats
    spread: Floats
    all_outputs: NDArray[Any] | None = None

    @classmethod
    def explore(
        cls, dist: OutputDistribution, inputs: CandidateInputs, seed: int, samples: int
    ) -> CandidateOutputs:
        """Draws outputs under some of ``inputs``, at most ``samples`` under each, and determines
        the properties of the outputs.

        ``dist`` is the randomizer with its claimed output probabilities, and ``seed`` the seed of
        the draws.
        """
        drawn = np.concatenate(
            [
                dist.draw(value, min(_DRAWS, samples), seed + k)
                for k, value in enumerate(inputs.probes)
            ]
        )
        pool, shape = np.unique(drawn, axis=0), drawn.shape[1:]
        numbers, few = drawn.dtype.kind in "iuf", len(pool) <= len(drawn) // 4
        if few:
            pool = _seldom_too(dist, inputs, pool, seed, samples)
        values = (
            np.where(np.isfinite(pool), pool, 0).astype(float) if numbers else np.zeros((1, *shape))
        )
        low, high = values.min(axis=0), values.max(axis=0)
        flat = values.reshape(len(values), -1)
        step = np.all(flat == np.rint(flat), axis=0).astype(float)
        for entry in np.flatnonzero(step == 0)[:_GRIDS]:
            step[entry] = grid_step(flat[:, entry])
        step = step.reshape(shape)
        grid = bool(np.all(step > 0))
        found = cls(
            observed=pool,
            is_symbolic=not numbers or (few and not grid),
            entry_step=step,
            entry_origin=np.asarray(np.where(step == np.rint(step), 0.0, low)),
            is_continuous=numbers and not few and not grid,
            centre=np.asarray((low + high) / 2.0),
            spread=np.asarray(np.where(high > low, high - low, 1.0)),
        )
        return replace(found, all_outputs=found._all_of(dist, inputs.all_inputs or inputs.probes))

    def __str__(self) -> str:
        return "drawn and far outputs" if self.all_outputs is None else f"all outputs{EXCEPT_RARE}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output."""
        return self.observed.shape[1:]

    def _all_of(self, dist: OutputDistribution, inputs: list[Any]) -> NDArray[Any] | None:
        """All possible outputs, (m, *output shape), if they can be determined; otherwise None.

        The probabilities of the outputs must sum to 1 under each of ``inputs``, within rounding,
        and no further point of their grid, nearby or far away, may be possible.
        """
        if self.is_continuous:
            return None
        worst_case = dist.named
        told = worst_case is not None and worst_case.exhaustive
        outputs = worst_case.outputs if worst_case is not None and told else self.full_grid()
        table = dist.try_log_probs(outputs, inputs)
        if not sums_to_one(table):
            return None
        further = not self.is_symbolic and not told
        if further and np.isfinite(dist.try_log_probs(self._beyond(), inputs)).any():
            return None
        return outputs[np.isfinite(table).any(axis=0)]

    def unobserved(
        self, drawn_a: NDArray[Any], drawn_b: NDArray[Any], a: Any, b: Any
    ) -> NDArray[Any]:
        """Returns outputs to try besides the drawn ones, within and far beyond their range.

        - ``drawn_a``, ``drawn_b``: outputs drawn under the inputs ``a`` and ``b``, (k, *output
          shape).

        The returned outputs lie at many distances from the centre of all drawn outputs. Others lie
        beyond the typical outputs of each input, on the side away from the other input. If outputs
        are symbols (names or bits), the drawn outputs or bit vectors similar to the inputs are
        returned.
        """
        if self.is_symbolic:
            return self._alike(a, b)
        ends = [(np.median(drawn_a, axis=0), np.median(drawn_b, axis=0))]
        if self._fits(a) and self._fits(b):
            ends.append((np.asarray(a, dtype=float), np.asarray(b, dtype=float)))
        tall = (-1, *(1,) * len(self.shape))
        steps, reach = _STEPS.reshape(tall), _REACH.reshape(tall) * self.spread
        parts = [self.centre + reach, self.centre - reach]
        with np.errstate(over="ignore", invalid="ignore"):
            for one, other in ends:
                apart, ahead = steps * (one - other), np.sign(one - other) * reach
                parts += [one + apart, other - apart, one + ahead, other - ahead]
        outputs = np.concatenate(parts)
        inside = np.abs(outputs.reshape(len(outputs), -1)) < _FARTHEST
        return self._rounded(outputs[inside.all(axis=1)])

    def is_outside(self, output: Any) -> bool:
        """Whether an entry of the vector ``output`` lies outside the range of the drawn outputs;
        false for symbols and single numbers.
        """
        if self.is_symbolic or not self.shape:
            return False
        return bool(np.any(np.abs(np.asarray(output) - self.centre) > self.spread / 2.0))

    def strategy(self) -> SearchStrategy[Any]:
        """Returns a Hypothesis strategy that generates outputs of the randomizer: all possible
        outputs, if they are known.

        Otherwise the strategy generates numbers within and far outside the range of drawn outputs
        or, if outputs are symbols, drawn outputs.
        """
        from hypothesis import strategies as st
        from hypothesis.extra import numpy as hnp

        if self.is_symbolic or self.all_outputs is not None:
            return st.sampled_from(
                _by_simplicity(self.observed if self.all_outputs is None else self.all_outputs)
            )
        reach = min(_FARTHEST, float(np.max(np.abs(self.centre) + _REACH[-1] * self.spread)))
        if self.observed.dtype.kind in "iu":
            whole = st.integers(-math.ceil(reach), math.ceil(reach))
            if not self.shape:
                return whole
            return hnp.arrays(np.int64, self.shape, elements=whole, fill=whole)
        entries = st.floats(-reach, reach)
        if not self.shape:
            return entries.map(lambda output: float(self._rounded(np.array(output))))
        return hnp.arrays(np.float64, self.shape, elements=entries, fill=entries).map(self._rounded)

    def _fits(self, value: Any) -> bool:
        array = np.asarray(value)
        return array.shape == self.shape and array.dtype.kind in "biuf"

    def _alike(self, a: Any, b: Any) -> NDArray[Any]:
        if self.observed.dtype.kind != "b":
            return self.observed
        more = [np.asarray(v).astype(bool) for v in (a, b) if self._fits(v)]
        more += [~output for output in more]
        plain = [np.zeros(self.shape, dtype=bool), np.ones(self.shape, dtype=bool)]
        return np.stack([*more, *plain])

    def _rounded(self, outputs: NDArray[Any]) -> NDArray[Any]:
        step = np.where(self.entry_step > 0, self.entry_step, 1.0)
        grid = self.entry_origin + np.rint((outputs - self.entry_origin) / step) * step
        rounded = np.where(self.entry_step > 0, grid, outputs)
        return rounded.astype(np.int64) if self.observed.dtype.kind in "iu" else rounded

    def full_grid(self) -> NDArray[Any]:
        """Returns outputs with all combinations of values of their entries, (m, *output shape).

        The values of an entry are the drawn ones and the grid points between them. If there are too
        many combinations, only the drawn outputs are returned.
        """
        flat = self.observed.reshape(len(self.observed), -1)
        columns = [np.unique(column) for column in flat.T]
        if not self.is_symbolic:
            columns = [
                _between(column, step, origin).astype(flat.dtype)
                for column, step, origin in zip(
                    columns, self.entry_step.ravel(), self.entry_origin.ravel(), strict=True
                )
            ]
        if math.prod(map(len, columns)) > _MOST:
            return self.observed
        mesh = np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1)
        return mesh.reshape(-1, *self.shape)

    def _beyond(self) -> NDArray[Any]:
        """Outputs in which one entry lies outside its drawn range, to test whether such outputs are
        possible.
        """
        flat = self.observed.reshape(len(self.observed), -1).astype(float)
        low, high = flat.min(axis=0), flat.max(axis=0)
        many = np.array([1.0, 2.0, 3.0, 10.0, 100.0])[:, None]
        steps = many * self.entry_step.ravel()
        ends = np.concatenate([high + steps, low - steps, high + many * (high - low) + steps])
        rows = np.repeat(flat[:1], ends.size, axis=0)
        columns = np.tile(np.arange(flat.shape[1]), len(ends))
        rows[np.arange(ends.size), columns] = ends.ravel()
        return self._rounded(rows.reshape(-1, *self.shape))


def _seldom_too(
    dist: OutputDistribution, inputs: CandidateInputs, pool: NDArray[Any], seed: int, samples: int
) -> NDArray[Any]:
    """Adds the outputs that the user lists, and rare ones (with probabilities of about 1e-5) from
    further draws, to ``pool``.

    Outputs are drawn in blocks, and only the different outputs of a block are stored.
    """
    listed = [] if dist.outputs is None else [dist.outputs]
    most = (RARE_DRAWS if dist.sampler.takes_size else _SINGLY) // max(1, math.prod(pool.shape[1:]))
    size = min(samples, most // len(inputs.probes))
    streams = np.random.SeedSequence([seed, 1]).spawn(len(inputs.probes))
    for value, stream in zip(inputs.probes, streams, strict=True):
        rng = np.random.default_rng(stream)
        for start in range(0, size, _AT_ONCE):
            block = dist.sampler.draw(value, rng, min(_AT_ONCE, size - start))
            listed.append(np.unique(block, axis=0))
    return np.unique(np.concatenate([pool, *listed]), axis=0)


def _between(column: NDArray[Any], step: float, origin: float) -> NDArray[Any]:
    """Grid values origin + step * n between the ends of ``column``; ``column`` itself if there is
    no grid or too many values.
    """
    if not step or (column[-1] - column[0]) / step >= _MOST:
        return column
    first, last = (round((float(end) - origin) / step) for end in (column[0], column[-1]))
    return np.asarray(origin + step * np.arange(first, last + 1))


def sums_to_one(log_probs: Floats) -> bool:
    """Whether the probabilities of every row of ``log_probs`` sum to 1, within rounding."""
    with np.errstate(over="ignore"):
        return bool(np.allclose(np.exp(log_probs).sum(axis=1), 1.0, rtol=_WHOLE, atol=0.0))


def _by_simplicity(outputs: NDArray[Any]) -> list[Any]:
    """The outputs in ascending order of the sum of the absolute values of their entries. Names keep
    their order.
    """
    if outputs.dtype.kind not in "biuf":
        return list(outputs)
    sizes = np.abs(outputs.reshape(len(outputs), -1).astype(float)).sum(axis=1)
    return list(outputs[np.argsort(sizes, kind="stable")])
