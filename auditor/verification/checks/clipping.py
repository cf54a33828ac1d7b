"""A bound that inputs are clipped to must not come from the inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.check import Check, Status
from fedrec_auditor.auditor.verification.checks.claim import FALSE_ALARM, ClaimUnderTest, words
from fedrec_auditor.auditor.verification.checks.shared_evidence import SharedEvidence
from fedrec_auditor.auditor.worlds.sampler import Sampler, UsedUp

_REMEDY = "Clip to a bound that is fixed beforehand, and scale the noise to that."
_DRAWS = 2048
_NUMBERS = 1 << 17
# To the largest factor in small steps: a sampler that draws again until its output fits is seen to
# slow down before it hangs.
_STEPS = (*(1 + 2.0**k for k in range(-6, 2)), 4.0, 8.0, 16.0, 32.0, 64.0)
_FEW = 16
_PROPORTIONAL = (2.0, 8.0)  # growth of a spread where the input grows 4 times
# Noise with such tails may follow the data and keep a claim at delta 0: Student's t of few degrees.
_HONEST = (1, 2, 3, 4, 5)
# So much more likely must a sample be as Laplace or Gaussian noise, in logarithms; a false alarm
# takes a likelihood ratio of that size, whose chance is at most its inverse.
_SURELY = math.log(1 / FALSE_ALARM) + 6.0
# How much a ratio of two spreads may be off.
_DOUBT = 1.2
_SLOWER = 4.0
_NOT_CLIPPED = (
    "It neither refuses inputs beyond those given nor clips them to a fixed bound: the claim rests "
    "on its caller."
)


def clipping(evidence: SharedEvidence) -> Check:
    """Beyond the inputs given, outputs stay where they are, or the randomizer refuses.

    The largest input is multiplied by 4, 16 and 64. Fails if the spread of the outputs grows in
    proportion to it, by more than 8 in all and in one shape (noise scaled to the data; not a
    factor, which would leave every output on its side of zero). Noise of heavy tails may follow the
    data, as that of smooth sensitivity does: its density ratio stays small. So it must be far more
    like Laplace or Gaussian noise, of which no epsilon holds at two scales; at a delta above 0, the
    spreads under the inputs given must differ by more than that delta lets pass. Fails as well if
    the outputs follow a vector as a whole without end but not its largest entry alone (a bound
    taken from the vector). The differences asked for are beyond ten standard errors. Where all
    inputs given are vectors of length 1, the randomizer may be made for these alone, and multiples
    tell nothing. Not run for a randomizer of a bounded domain that takes anything, nor for one that
    is linear: neither says what its caller does.
    """
    inputs = evidence.inputs
    try:
        numbers = [np.asarray(value, dtype=np.float64) for value in inputs]
    except (TypeError, ValueError):
        return Check.not_run("Inputs are not numbers: there is nothing to clip.")
    if all(np.asarray(value).dtype.kind != "f" for value in inputs):
        return Check.not_run("Inputs are not in floating point: there is nothing to clip.")
    base = max(numbers, key=lambda array: float(np.abs(array).max(initial=0.0)))
    if not base.any() or not np.isfinite(base).all():
        return Check.not_run("No input given is finite and other than zero.")
    draws = max(64, min(_DRAWS, _NUMBERS // base.size))
    sampler, seed = evidence.own("clipping"), evidence.seeds["clipping"]
    probe = _Probe(sampler, base, int(np.abs(base).argmax()), draws, seed)
    first = probe.outputs(1.0)
    if len(np.unique(first)) < draws // 2:
        return Check.not_run("Outputs are of few values: there is nothing to clip.")
    if probe.words(1.0) == 0:
        return Check.not_run(
            "It draws from a source of its own, and may never end on an input out of range."
        )
    for factor in _STEPS:
        try:
            if probe.words(factor) > _SLOWER * probe.words(1.0):
                return Check.not_run(f"It draws ever longer beyond its domain. {_NOT_CLIPPED}")
        except UsedUp:
            raise
        except InputError:
            return Check.passed(f"It refuses the input {words(probe.scaled(factor))}.")
    found = _judged(probe, first, numbers, evidence.claim)
    lengths = [float(np.linalg.norm(array)) for array in numbers if array.size > 1]
    if found.status is Status.FAILED and lengths and np.allclose(lengths, 1.0, rtol=1e-9):
        return Check.not_run(
            "All inputs given are vectors of length 1: it may be made for these alone, so what it "
            "does beyond is not asked. Give inputs of other lengths if it takes them."
        )
    return found


def _judged(
    probe: _Probe,
    first: NDArray[np.float64],
    inputs: list[NDArray[np.float64]],
    claim: ClaimUnderTest,
) -> Check:
    samples = [first, *(probe.outputs(factor) for factor in (4.0, 16.0, 64.0))]
    places = [float(np.median(sample)) for sample in samples]
    spreads = [_spread(sample) for sample in samples]
    error = max(spreads) / math.sqrt(len(first))
    reach = 48.0 * abs(probe.base.flat[probe.entry])
    largest = words(probe.scaled(1.0))
    if (
        spreads[3] > 8.0 * spreads[0]
        and spreads[1] > 2.0 * spreads[0]
        and _PROPORTIONAL[0] < spreads[3] / spreads[2] < _PROPORTIONAL[1]
        and min(spreads) > 0
        and _one_shape(samples[0], samples[3])
        and all((sample > 0).any() and (sample < 0).any() for sample in samples)
    ):
        grows = (
            f"The spread of the outputs is {spreads[0]:.3g} for the input {largest} and "
            f"{spreads[3]:.3g} for 64 times that: the noise is scaled to the data"
        )
        given = [_spread(probe.outputs_for(value)) for value in inputs]
        if _tells(samples, max(given) / max(min(given), 1e-300), claim):
            return Check.failed(f"{grows}, and tells them. {_REMEDY}")
        return Check.not_run(
            f"{grows}. Noise of smooth sensitivity is that as well, and may keep the claim."
        )
    if 10.0 * error > reach / 4.0:
        return Check.not_run("The noise is too large to see where 64 times the largest input lies.")
    if abs(places[3] - places[2]) < reach / 4.0:
        return Check.passed(f"Outputs for {largest} times 16 and times 64 lie at one place.")
    if probe.base.size > 1 and 3.0 < places[3] / places[2] < 5.0:
        alone = float(np.median(probe.outputs(64.0, alone=True)))
        if abs(alone - places[0]) < 0.1 * abs(places[3] - places[0]):
            return Check.failed(
                f"Entry {probe.entry} of the output follows the input {largest} when all of it "
                f"grows 64 times (to {places[3]:.3g}), and stays at {alone:.3g} when that entry "
                f"alone does: the bound is taken from the data. {_REMEDY}"
            )
    return Check.not_run(_NOT_CLIPPED)


def _spread(sample: NDArray[np.float64]) -> float:
    return float(np.subtract(*np.quantile(sample, [0.75, 0.25])))


def _standard(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    return (sample - np.median(sample)) / _spread(sample)


def _tells(samples: list[NDArray[np.float64]], ratio: float, claim: ClaimUnderTest) -> bool:
    """Whether noise of one shape, of spreads up to ``ratio`` apart, breaks the claim."""
    shape = np.concatenate([*map(_standard, samples)])
    light = {
        stats.laplace: stats.laplace.logpdf(shape, scale=np.abs(shape).mean()).sum(),
        stats.norm: stats.norm.logpdf(shape, scale=shape.std()).sum(),
    }
    likely = max(light, key=lambda each: light[each])
    if light[likely] - max(_log_likelihood(shape, degrees) for degrees in _HONEST) < _SURELY:
        return False
    distances = np.linspace(0.0, 40.0, 1000)
    wide, narrow = (2.0 * likely.sf(distances / by) for by in (max(1.0, ratio / _DOUBT), 1.0))
    return claim.delta == 0 or bool((wide - np.exp(claim.epsilon) * narrow).max() > claim.delta)


def _log_likelihood(sample: NDArray[np.float64], degrees: int) -> float:
    """That of Student's t at the scale that makes it largest, by expectation-maximization."""
    squared, scale = sample**2, 1.0
    for _ in range(50):
        scale = float(((degrees + 1) * squared / (degrees + squared / scale)).mean())
    return float(stats.t.logpdf(sample, degrees, scale=math.sqrt(scale)).sum())


@dataclass(frozen=True, slots=True)
class _Probe:
    """The randomizer at multiples of one input, seen through the entry that is largest there."""

    sampler: Sampler
    base: NDArray[np.float64]
    entry: int
    draws: int
    seed: np.random.SeedSequence

    def scaled(self, factor: float, alone: bool = False) -> Any:
        """The input times ``factor``, or with its largest entry ``alone`` so multiplied."""
        factors = np.full(self.base.size, factor)
        if alone:
            factors = np.where(np.arange(self.base.size) == self.entry, factor, 1.0)
        value = self.base * factors.reshape(self.base.shape)
        return value if value.ndim else float(value)

    def outputs(self, factor: float, alone: bool = False) -> NDArray[np.float64]:
        """That entry of ``draws`` outputs, (draws,); InputError unless they are like the input."""
        return self.outputs_for(self.scaled(factor, alone))

    def outputs_for(self, value: Any) -> NDArray[np.float64]:
        """The same for any input."""
        rng = np.random.default_rng(self.seed)
        drawn = self.sampler.draw(value, rng, self.draws)
        if drawn.dtype.kind != "f" or drawn.shape[1:] != self.base.shape:
            raise InputError(
                "Expected numbers in floating point of the shape of an input, got outputs of "
                f"{drawn.dtype.name} and shape {drawn.shape[1:]}. There is nothing to clip."
            )
        return drawn.reshape(self.draws, -1)[:, self.entry].astype(np.float64)

    def words(self, factor: float) -> int:
        """How many words of a generator a few outputs take."""
        generator = np.random.Philox(self.seed)
        self.sampler.answer(self.scaled(factor), np.random.Generator(generator), _FEW)
        state = generator.state
        return 4 * int(state["state"]["counter"][0]) + int(state["buffer_pos"]) - 4


def _one_shape(one: NDArray[np.float64], two: NDArray[np.float64]) -> bool:
    """Whether two samples are of one distribution but for place and scale (Kolmogorov-Smirnov)."""
    a, b = np.sort(_standard(one)), np.sort(_standard(two))
    both = np.concatenate([a, b])
    gap = np.searchsorted(a, both, side="right") - np.searchsorted(b, both, side="right")
    return bool(np.abs(gap).max() < 0.1 * len(a))
