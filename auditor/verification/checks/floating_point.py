"""Checks that low-order bits of a noisy double do not reveal the value before noise."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.fit import CheckResult
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    CheckEvidence,
    ClaimUnderTest,
    CountedEvent,
    quote_value,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler

# Uniform doubles in (0, 1) as integer multiples of 2^-53, the resolution of numpy's generators.
UniformNumerators = NDArray[np.int64]

# Number of random bits of a uniform double.
UNIFORM_BITS = 53
_WORDS = 624
_BATCH = _WORDS // 2
_MAX_NUMBERS = 32
# Number of uniforms that are tried on each side of the uniform that bisection finds, because
# rounding may break the order there; and distances of further uniforms, to test the order.
_NEIGHBOURS, _FARTHER = 8, 2 ** np.arange(4, UNIFORM_BITS - 1, 3)
_MAX_DISORDER = 0.01


@dataclass(frozen=True, slots=True)
class MonotoneSampler:
    """A randomizer whose k-th output number is a monotone function of its k-th uniform draw, a
    double from (0, 1).

    ``sampler``: the randomizer.
    ``is_rising``: True if the output numbers increase with the uniforms, False if they decrease.

    Examples are randomizers that use numpy's ``laplace``, ``logistic``, ``gumbel`` or ``uniform``,
    or that invert a distribution function. Counterexamples are numpy's ``normal`` and torch's
    samplers.
    """

    # Bisection finds the uniforms from which an output can come. For this the randomizer itself is
    # run, with a generator whose state is set so that it returns given uniforms next. Therefore no
    # formula, order of operations or mathematical library is assumed.

    sampler: Sampler
    is_rising: bool

    @classmethod
    def recognise(
        cls, sampler: Sampler, inputs: list[Any], shape: tuple[int, ...], rng: np.random.Generator
    ) -> MonotoneSampler | None:
        """Returns ``sampler`` as a ``MonotoneSampler`` if it meets four conditions, otherwise None.

        ``inputs``: inputs whose outputs are examined.
        ``shape``: shape of one output, with at most 32 numbers.
        ``rng``: generator of the uniforms with which the sampler is run.

        The conditions are:

        - Each output number uses two words of a Mersenne twister, as one uniform double does.
        - The outputs do not depend on the bits of these words that a uniform double does not use.
        - A permutation of the uniforms permutes the output numbers in the same way.
        - The output numbers increase (or decrease) with the uniforms throughout.
        """
        number = _BATCH // math.prod(shape) if math.prod(shape) <= _MAX_NUMBERS else 0
        uniforms = np.sort(rng.integers(1, 1 << UNIFORM_BITS, (number, *shape)), axis=0)
        rows = np.arange(number).reshape(number, *(1,) * len(shape))
        order = rng.permuted(np.broadcast_to(rows, uniforms.shape), axis=0)
        directions = set()
        for value in inputs if number else ():
            outputs, words = _run_sampler(sampler, value, uniforms)
            if words != 2 * uniforms.size or outputs.shape != uniforms.shape:
                return None
            if not np.array_equal(outputs, _run_sampler(sampler, value, uniforms, dropped=~0)[0]):
                return None
            shuffled = _run_sampler(sampler, value, np.take_along_axis(uniforms, order, axis=0))[0]
            if not np.array_equal(shuffled, np.take_along_axis(outputs, order, axis=0)):
                return None
            with np.errstate(invalid="ignore"):
                steps = np.diff(outputs.astype(np.float64), axis=0)
            if not ((steps >= 0).all() or (steps <= 0).all()):
                return None
            directions.add(bool((steps >= 0).all()))
        return cls(sampler, directions.pop()) if len(directions) == 1 else None

    def compute_outputs(self, value: Any, uniforms: UniformNumerators) -> NDArray[np.float64]:
        """Returns the outputs (n, *shape) of the randomizer for ``value`` from given uniform draws.

        ``uniforms``: integers; each uniform draw is such an integer times 2^-53, (n, *shape).
        """
        batch = _BATCH // math.prod(uniforms.shape[1:])
        parts = [
            _run_sampler(self.sampler, value, uniforms[start : start + batch])[0]
            for start in range(0, len(uniforms), batch)
        ]
        return np.concatenate([np.empty((0, *uniforms.shape[1:])), *parts])

    def flag_impossible_outputs(
        self, value: Any, outputs: NDArray[np.float64]
    ) -> NDArray[np.bool_] | None:
        """Flags output numbers that rounding makes impossible for the input ``value``.

        ``outputs``: outputs for another input (n, *shape).

        Returns one flag per number (n, *shape). A number is flagged if, for ``value``, some
        uniforms give smaller numbers and some give larger ones, but none gives the number itself.
        The result is None if the outputs for ``value`` near these numbers are not monotone in the
        uniforms.
        """
        # Bisection over all 2^53 uniforms finds the uniform at which the outputs for ``value``
        # reach the number. The uniforms around it are tried one by one. The outputs are not
        # monotone there if low bits of a uniform select numbers between those that its high bits
        # select.
        wanted = outputs if self.is_rising else -outputs
        low = np.ones(outputs.shape, dtype=np.int64)
        high = np.full(outputs.shape, (1 << UNIFORM_BITS) - 1)
        lowest, highest = self._orient(value, low), self._orient(value, high)
        inside = (lowest < wanted) & (wanted < highest)
        while (open_ := (inside & (low < high)).reshape(len(low), -1).any(axis=1)).any():
            middle = (low[open_] + high[open_]) // 2
            made = self._orient(value, middle)
            low[open_] = np.where(made < wanted[open_], middle + 1, low[open_])
            high[open_] = np.where(made < wanted[open_], high[open_], middle)
            inside[open_] &= made != wanted[open_]
        rows = inside.reshape(len(low), -1).any(axis=1)
        near = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1)
        steps = np.concatenate([-_FARTHER[::-1], near, _FARTHER])
        around = np.clip(np.add.outer(steps, low[rows]), 1, (1 << UNIFORM_BITS) - 1)
        tried = self._orient(value, around.reshape(-1, *outputs.shape[1:])).reshape(around.shape)
        if rows.any() and (np.diff(tried, axis=0) < 0).any(axis=0).mean() > _MAX_DISORDER:
            return None
        inside[rows] &= (tried != wanted[rows]).all(axis=0)
        return inside

    def _orient(self, value: Any, uniforms: UniformNumerators) -> NDArray[np.float64]:
        made = self.compute_outputs(value, uniforms)
        return made if self.is_rising else -made


def _run_sampler(
    sampler: Sampler, value: Any, uniforms: UniformNumerators, dropped: int = 0
) -> tuple[NDArray[Any], int]:
    """Runs the sampler on given uniform draws; returns outputs, and the number of random words
    drawn.

    At most ``_BATCH`` uniforms are possible. ``dropped`` gives the bits of the words that a uniform
    does not use.
    """
    # A uniform consists of 27 high bits of one 32-bit word and 26 of the next. ``dropped`` gives
    # the remaining bits of both words.
    words = np.zeros(_WORDS, dtype=np.uint32)
    used = words[: 2 * uniforms.size]
    used[0::2] = ((uniforms >> 26) << 5).ravel() | dropped & 31
    used[1::2] = ((uniforms & ((1 << 26) - 1)) << 6).ravel() | dropped & 63
    twister = np.random.MT19937(0)
    twister.state = {"bit_generator": "MT19937", "state": {"key": _untemper(words), "pos": 0}}
    outputs = sampler.draw(value, np.random.Generator(twister), len(uniforms))
    return outputs, int(twister.state["state"]["pos"])


def _untemper(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Computes the state of a Mersenne twister that outputs ``words`` (Matsumoto and Nishimura
    1998).
    """
    # Each step of the output function (tempering) is inverted by repetition, because the step does
    # not change the bits that it reads.
    state = words ^ (words >> np.uint32(18))
    state ^= (state << np.uint32(15)) & np.uint32(0xEFC60000)
    wanted = state
    for _ in range(4):
        state = wanted ^ ((state << np.uint32(7)) & np.uint32(0x9D2C5680))
    wanted = state
    for _ in range(2):
        state = wanted ^ (state >> np.uint32(11))
    return state


_REMEDY = (
    "Round the output (the sum, not the noise) to a grid much coarser than the noise's own steps, "
    "or use a discrete or snapped mechanism: DiscreteLaplace, DiscreteGaussian, SnappedLaplace of "
    "fedrec_auditor.targets.mechanisms."
)
# Minimum draws, minimum numbers, and maximum ordered pairs of inputs for the exact method: if a
# call returns many outputs, and if it returns one.
_BATCH_LIMITS = (96, 624, 4)
_SINGLE_LIMITS = (96, 96, 2)
# Minimum number of expected draws with which an empty cell counts as impossible for an input.
_MIN_COUNT = 20.0
_MAX_ENTRIES = 16


def check_floating_point(evidence: CheckEvidence) -> CheckResult:
    """Checks that low-order bits of floating-point outputs do not exclude an input.

    The sum of a value and noise is rounded to a double, so the set of possible outputs depends on
    the value (Mironov 2012, "On significance of the least significant bits for differential
    privacy"). Three methods look for outputs that are possible for one input only:

    - Sign of zero: the counts of outputs with -0.0 are compared between inputs.
    - Inversion, for a ``MonotoneSampler``, such as ``value + rng.laplace()``: the check measures
      the share of one input's outputs that another input cannot give. If the lower confidence limit
      of the share exceeds delta, any epsilon is refuted.
    - Groups of numbers with equal sign, exponent and lowest set bit: the check looks for groups
      that occur under one input only.

    Limitation: without inversion (numpy's ``normal``, torch), the check misses a fault if the two
    inputs are doubles with equal lowest set bits.
    """
    # Inversion: an output counts if no uniform gives it for the other input, although some uniforms
    # give smaller and larger outputs. Cells: the first half of the draws selects cells that occur
    # under one input and never under another, although 20 draws were expected by the frequency of
    # sign and exponent. The check fails if the counts in the second half refute the claim. Outputs
    # with few distinct numbers are not examined, because the ratio of their probabilities is
    # measured directly.
    batch, dtype = evidence.shared_outputs, evidence.shared_outputs.dtype
    if dtype.kind != "f":
        return CheckResult.make_passed(f"Outputs are not in floating point, but of {dtype.name}.")
    draws, numbers, n_pairs = _BATCH_LIMITS if evidence.sampler.takes_size else _SINGLE_LIMITS
    size = max(draws, numbers // max(1, math.prod(batch.shape[2:])))
    places = itertools.combinations(range(len(evidence.inputs)), 2)
    pairs = [pair for both in places for pair in (both, both[::-1])]
    claim = evidence.claim.split_alpha(2 * len(pairs) + n_pairs)
    fault = _check_zero_sign(batch, evidence.inputs, pairs, claim)
    if fault is not None:
        return fault
    shares = _invert_sampler(evidence, pairs[:n_pairs], claim, size)
    if isinstance(shares, CheckResult):
        return shares
    fault = _check_low_bits(batch, evidence.inputs, pairs, claim)
    return fault or CheckResult.make_passed(_describe_pass(batch, shares))


def _check_zero_sign(
    batch: NDArray[Any], inputs: list[Any], pairs: list[tuple[int, int]], claim: ClaimUnderTest
) -> CheckResult | None:
    """Returns a failed check if the sign of a zero in outputs distinguishes inputs; otherwise None.

    The events are "an output with a -0.0" and "an output without".
    """
    negative = ((batch == 0) & np.signbit(batch)).reshape(*batch.shape[:2], -1).any(axis=2)
    for a, b in pairs:
        for name, seen in (("an output with a -0.0", negative), ("an output without", ~negative)):
            hits, misses = (int(seen[place].sum()) for place in (a, b))
            event = CountedEvent(name, (inputs[a], inputs[b]), hits, misses, seen.shape[1])
            if claim.is_refuted_by(event):
                return CheckResult.make_failed(
                    f"{event}: -0.0 equals 0.0, but the output contains its sign. Add 0.0 to the "
                    "output, or send whole numbers."
                )
    return None


def _invert_sampler(
    evidence: CheckEvidence, pairs: list[tuple[int, int]], claim: ClaimUnderTest, size: int
) -> CheckResult | list[float]:
    """Measures which share of one input's outputs another input cannot give, by inverting the
    sampler.

    ``pairs``: indices of the two inputs of each pair.
    ``size``: number of outputs per pair.

    Returns one share per pair, or a failed check if a share refutes the claim. Shares are missing
    if the sampler cannot be inverted or its draws are used up.
    """
    inputs, shape = evidence.inputs, evidence.shared_outputs.shape[2:]
    sampler = evidence.make_check_sampler("floating point")
    rng = np.random.default_rng(evidence.seeds["floating point"])
    shares: list[float] = []
    with suppress(InputError):
        inverse = MonotoneSampler.recognise(sampler, inputs, shape, rng)
        if inverse is None:
            return shares
        for a, b in pairs:
            uniforms = rng.integers(1, 1 << UNIFORM_BITS, (size, *shape))
            outputs = inverse.compute_outputs(inputs[a], uniforms)
            skipped = inverse.flag_impossible_outputs(inputs[b], outputs)
            changed = not np.array_equal(inverse.compute_outputs(inputs[a], uniforms), outputs)
            if changed or skipped is None:  # the outputs are not a function of the uniforms
                break
            hits = int(skipped.reshape(size, -1).any(axis=1).sum())
            shares.append(hits / size)
            if claim.is_every_epsilon_refuted(hits, size):
                return _make_failure(
                    inputs[a],
                    claim.compute_lower_prob(hits, size),
                    f"cannot come from {quote_value(inputs[b])} ({hits} of {size} draws, found by "
                    "inverting its sampler exactly)",
                    "with certainty",
                    outputs[skipped][0],
                )
    return shares


def _check_low_bits(
    batch: NDArray[Any], inputs: list[Any], pairs: list[tuple[int, int]], claim: ClaimUnderTest
) -> CheckResult | None:
    """Checks without inversion that no low-order bits occur under one input only.

    - If counts of such bits refute the claim: a failed check.
    - If the draws are too few for that: a check with status "not run".
    - Otherwise: None.
    """
    suspected = None
    cells, sizes, codes = _bucket(batch)
    half = codes.shape[1] // 2
    train = [np.bincount(row.ravel(), minlength=len(cells)) for row in codes[:, :half]]
    alike = [np.bincount(sizes, weights=row)[sizes] for row in train]
    for a, b in pairs:
        avoided = (train[b] == 0) & (train[a] * alike[b] >= _MIN_COUNT * np.maximum(alike[a], 1))
        if not avoided.any() or _has_few_values(batch[a, :half], avoided[codes[a, :half]]):
            continue
        shown = avoided[codes[[a, b], half:]]
        seen_here, seen_there = shown.any(axis=2)
        hits, misses, n_held = int(seen_here.sum()), int(seen_there.sum()), len(seen_here)
        place = int(np.argmax(seen_here))
        example = batch[a, half + place].ravel()[int(np.argmax(shown[0, place]))]
        if claim.is_refuted(hits, n_held, misses, n_held):
            return _make_failure(
                inputs[a],
                claim.compute_lower_prob(hits, n_held),
                f"have low-order bits that {quote_value(inputs[b])} gave {misses} times in "
                f"{n_held} draws (by sign, exponent and lowest set bit; {hits} draws here)",
                "with the certainty of these counts",
                example,
            )
        if misses == 0 and hits >= _MIN_COUNT:
            suspected = suspected or CheckResult.make_not_run(
                f"{hits} of {n_held} outputs for {quote_value(inputs[a])} have low-order bits that "
                f"never occurred under {quote_value(inputs[b])}, such as {_to_hex(example)}; the "
                f"draws are too few to refute a claim of {claim.epsilon:g} by that. {_REMEDY}"
            )
    return suspected


def _has_few_values(outputs: NDArray[Any], chosen: NDArray[np.bool_]) -> bool:
    """Whether fewer than half of the ``chosen`` numbers of the outputs are distinct."""
    numbers = outputs.reshape(len(outputs), -1)[:, : chosen.shape[1]][chosen]
    return 2 * len(np.unique(numbers)) < len(numbers)


def _make_failure(one: Any, share: float, how: str, certainty: str, example: Any) -> CheckResult:
    return CheckResult.make_failed(
        f"At least {100 * share:.3g}% of the outputs for the input {quote_value(one)} {how}: "
        f"whoever sees one, such as {_to_hex(example)}, distinguishes the inputs {certainty}. "
        f"{_REMEDY}"
    )


def _to_hex(number: Any) -> str:
    return f"{float(number)!r} ({float(number).hex()})"


def _bucket(batch: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Classifies numbers into cells: numbers of equal sign, exponent and lowest set bit, in one
    entry of the output.

    Returns three arrays: the cells, the size (sign and exponent) of each cell, and the cell of each
    number as an index into the first array, shape (inputs, n, entries).
    """
    numbers = batch.reshape(*batch.shape[:2], -1)[:, :, :_MAX_ENTRIES].astype(np.float64)
    mantissa, exponent = np.frexp(numbers)
    lowest = _find_lowest_bit(np.where(np.isfinite(mantissa), mantissa, 0.0))
    size = (exponent.astype(np.int64) + 1100) * 2 + np.signbit(numbers)
    size = size * _MAX_ENTRIES + np.arange(numbers.shape[2])
    cells, codes = np.unique(size * 64 + lowest, return_inverse=True)
    sizes = np.unique(cells // 64, return_inverse=True)[1]
    return cells, sizes.astype(np.int64), codes.reshape(numbers.shape).astype(np.int64)


def _find_lowest_bit(mantissa: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the position of the lowest set bit: 1 for one half, up to ``UNIFORM_BITS``; 0 for
    zero.
    """
    whole = np.ldexp(mantissa, UNIFORM_BITS).astype(np.int64)
    place = np.frexp((whole & -whole).astype(np.float64))[1]
    return np.where(whole == 0, 0, UNIFORM_BITS + 1 - place).astype(np.int64)


def _describe_pass(batch: NDArray[Any], shares: list[float]) -> str:
    """Describes the result of a check that did not fail, for its report."""
    numbers = batch[np.isfinite(batch) & (batch != 0)].astype(np.float64)
    how = "No low-order bits occurred under one input only."
    if shares and max(shares) == 0:
        how = f"The inverted sampler can give every output tried ({len(shares)} pairs of inputs)."
    mantissa, exponent = np.frexp(numbers)
    grid = int((exponent - _find_lowest_bit(mantissa)).min(initial=0))
    if int(exponent.max(initial=0)) - grid < UNIFORM_BITS - 4:
        return f"Outputs lie on a grid of 2^{grid} for all inputs. {how}"
    if shares:
        return how
    return (
        f"{how} Outputs use all bits of a double and the sampler could not be inverted, so closer "
        "inputs may still be distinguished."
    )
