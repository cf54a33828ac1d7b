"""The low-order bits of a double must not tell what was added to the noise."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.verification.checks.claim import ClaimUnderTest, Event, words
from fedrec_auditor.auditor.verification.checks.one_uniform import BITS, OneUniform
from fedrec_auditor.auditor.verification.checks.shared_evidence import SharedEvidence

_REMEDY = (
    "Round the output (the sum, not the noise) to a grid much coarser than the noise's own steps, "
    "or use a discrete or snapped mechanism: DiscreteLaplace, DiscreteGaussian, SnappedLaplace of "
    "fedrec_auditor.targets.mechanisms."
)
# Least draws, numbers and ordered pairs for the exact answer; fewer if a call gives one output.
_INVERTED = (96, 624, 4)
_INVERTED_SLOWLY = (96, 96, 2)
# A cell counts as avoided where this many draws were to be expected in it.
_EXPECTED = 20.0
_ENTRIES = 16


def floating_point(evidence: SharedEvidence) -> Check:
    """No output in floating point tells by its low-order bits what it cannot have come from.

    Noise in doubles takes some doubles only, and adding a value to it keeps or rounds away bits by
    the sizes of both, so that the set of possible sums depends on the value (Mironov 2012, "On
    significance of the least significant bits for differential privacy").

    Exactly, for samplers of the ``OneUniform`` kind, such as ``value + rng.laplace()``: the share
    of one input's outputs that no uniform at all makes of another input, though some make smaller
    and larger ones. Such an output is proof, so a share whose lower confidence limit is above delta
    refutes any epsilon.

    As a black box: one half of the draws chooses cells (sign, exponent and lowest set bit of a
    number) that come up under one input and never under another, though numbers of their sign
    and exponent do, so often that ``_EXPECTED`` were due; the other half counts them. Fails if the
    counts refute the claim. Numbers that repeat are left to the ratio.

    The sign of a zero is one such bit: -0.0 equals 0.0, and is written with its sign. An output
    with a -0.0 is an event known beforehand, so all draws count it.

    Not seen: inputs so near that only the choice of doubles differs, not their lowest set bits,
    under a sampler that cannot be inverted, as numpy's ``normal`` and torch's noise.
    """
    batch = evidence.outputs
    if batch.dtype.kind != "f":
        return Check.passed(f"Outputs are not in floating point, but of {batch.dtype.name}.")
    least, numbers, most = _INVERTED if evidence.sampler.sized else _INVERTED_SLOWLY
    size = max(least, numbers // max(1, math.prod(batch.shape[2:])))
    places = itertools.combinations(range(len(evidence.inputs)), 2)
    pairs = [pair for both in places for pair in (both, both[::-1])]
    claim = evidence.claim.shared(2 * len(pairs) + most)
    found = _sign_of_zero(batch, evidence.inputs, pairs, claim)
    if found is not None:
        return found
    shares = _inverted(evidence, pairs[:most], claim, size)
    if isinstance(shares, Check):
        return shares
    return _black_box(batch, evidence.inputs, pairs, claim) or Check.passed(_seen(batch, shares))


def _sign_of_zero(
    batch: NDArray[Any], inputs: list[Any], pairs: list[tuple[int, int]], claim: ClaimUnderTest
) -> Check | None:
    """An output with a -0.0, or without one, that tells inputs apart."""
    negative = ((batch == 0) & np.signbit(batch)).reshape(*batch.shape[:2], -1).any(axis=2)
    for a, b in pairs:
        for name, seen in (("an output with a -0.0", negative), ("an output without", ~negative)):
            hits, misses = (int(seen[place].sum()) for place in (a, b))
            event = Event(name, (inputs[a], inputs[b]), hits, misses, seen.shape[1])
            if claim.refuted_by(event):
                return Check.failed(
                    f"{event}: -0.0 equals 0.0, and its sign is sent all the same. Add 0.0 to the "
                    "output, or send whole numbers."
                )
    return None


def _inverted(
    evidence: SharedEvidence, pairs: list[tuple[int, int]], claim: ClaimUnderTest, size: int
) -> Check | list[float]:
    """The share of ``size`` outputs that an input cannot give, by pairs; a fault where it proves.

    Fewer pairs, or none, where the sampler is of another kind, or its draws are used up.
    """
    inputs, shape = evidence.inputs, evidence.outputs.shape[2:]
    sampler = evidence.own("floating point")
    rng = np.random.default_rng(evidence.seeds["floating point"])
    shares: list[float] = []
    with suppress(InputError):
        inverse = OneUniform.recognise(sampler, inputs, shape, rng)
        if inverse is None:
            return shares
        for a, b in pairs:
            uniforms = rng.integers(1, 1 << BITS, (size, *shape))
            outputs = inverse.outputs(inputs[a], uniforms)
            skipped = inverse.skips(inputs[b], outputs)
            changed = not np.array_equal(inverse.outputs(inputs[a], uniforms), outputs)
            if changed or skipped is None:  # what it makes of uniforms is no function of them
                break
            hits = int(skipped.reshape(size, -1).any(axis=1).sum())
            shares.append(hits / size)
            if claim.impossible(hits, size):
                return _failed(
                    inputs[a],
                    claim.share(hits, size),
                    f"cannot come from {words(inputs[b])} ({hits} of {size} draws, found by "
                    "inverting its sampler exactly)",
                    "with certainty",
                    outputs[skipped][0],
                )
    return shares


def _black_box(
    batch: NDArray[Any], inputs: list[Any], pairs: list[tuple[int, int]], claim: ClaimUnderTest
) -> Check | None:
    """Low-order bits that are seen under one input only, and counted on the other half."""
    suspected = None
    cells, sizes, codes = _cells(batch)
    half = codes.shape[1] // 2
    train = [np.bincount(row.ravel(), minlength=len(cells)) for row in codes[:, :half]]
    alike = [np.bincount(sizes, weights=row)[sizes] for row in train]
    for a, b in pairs:
        avoided = (train[b] == 0) & (train[a] * alike[b] >= _EXPECTED * np.maximum(alike[a], 1))
        if not avoided.any() or _repeat(batch[a, :half], avoided[codes[a, :half]]):
            continue
        shown = avoided[codes[[a, b], half:]]
        seen, other = shown.any(axis=2)
        hits, misses, held = int(seen.sum()), int(other.sum()), len(seen)
        place = int(np.argmax(seen))
        example = batch[a, half + place].ravel()[int(np.argmax(shown[0, place]))]
        if claim.refuted(hits, held, misses, held):
            return _failed(
                inputs[a],
                claim.share(hits, held),
                f"have low-order bits of which {words(inputs[b])} gave {misses} in {held} draws "
                f"(by sign, exponent and lowest set bit; {hits} draws here)",
                "as surely as these counts say",
                example,
            )
        if misses == 0 and hits >= _EXPECTED:
            suspected = suspected or Check.not_run(
                f"{hits} of {held} outputs for {words(inputs[a])} have low-order bits never seen "
                f"under {words(inputs[b])}, such as {_hex(example)}; so few draws cannot refute a "
                f"claim of {claim.epsilon:g} by that. {_REMEDY}"
            )
    return suspected


def _repeat(outputs: NDArray[Any], chosen: NDArray[np.bool_]) -> bool:
    """Whether the numbers ``chosen`` are few ones again and again."""
    numbers = outputs.reshape(len(outputs), -1)[:, : chosen.shape[1]][chosen]
    return 2 * len(np.unique(numbers)) < len(numbers)


def _failed(one: Any, share: float, how: str, certainty: str, example: Any) -> Check:
    return Check.failed(
        f"At least {100 * share:.3g}% of the outputs for the input {words(one)} {how}: whoever "
        f"sees one, such as {_hex(example)}, decides {certainty}. {_REMEDY}"
    )


def _hex(number: Any) -> str:
    return f"{float(number)!r} ({float(number).hex()})"


def _cells(
    batch: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cells of sign, exponent and lowest set bit: which, of which size, and that of each number.

    A size is a sign and an exponent (of one entry of the output); codes are (inputs, n, entries).
    """
    numbers = batch.reshape(*batch.shape[:2], -1)[:, :, :_ENTRIES].astype(np.float64)
    mantissa, exponent = np.frexp(numbers)
    lowest = _lowest(np.where(np.isfinite(mantissa), mantissa, 0.0))
    size = (exponent.astype(np.int64) + 1100) * 2 + np.signbit(numbers)
    size = size * _ENTRIES + np.arange(numbers.shape[2])
    cells, codes = np.unique(size * 64 + lowest, return_inverse=True)
    sizes = np.unique(cells // 64, return_inverse=True)[1]
    return cells, sizes.astype(np.int64), codes.reshape(numbers.shape).astype(np.int64)


def _lowest(mantissa: NDArray[np.float64]) -> NDArray[np.int64]:
    """How far down the lowest set bit lies, 1 for one half, ..., ``BITS``; 0 for zero."""
    whole = np.ldexp(mantissa, BITS).astype(np.int64)
    place = np.frexp((whole & -whole).astype(np.float64))[1]
    return np.where(whole == 0, 0, BITS + 1 - place).astype(np.int64)


def _seen(batch: NDArray[Any], shares: list[float]) -> str:
    """In words what was looked at and not found wanting."""
    numbers = batch[np.isfinite(batch) & (batch != 0)].astype(np.float64)
    how = (
        f"The sampler, inverted, leaves out no output tried ({len(shares)} pairs of inputs)."
        if shares and max(shares) == 0
        else "No low-order bits were seen under one input only."
    )
    mantissa, exponent = np.frexp(numbers)
    grid = int((exponent - _lowest(mantissa)).min(initial=0))
    if int(exponent.max(initial=0)) - grid < BITS - 4:
        return f"Outputs lie on a grid of 2^{grid} for all inputs. {how}"
    if shares:
        return how
    return (
        f"{how} Outputs use all bits of a double and the sampler could not be inverted, so nearer "
        "inputs may still be told apart."
    )
