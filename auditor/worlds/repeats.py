"""Scores that were logged several times, told from scores of a discrete distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError

# Numbers closer than this share of their size are one: single precision, rounded twice.
_SAME = 2.0**-22
# Numbers of so few significant digits, bits, or denominators are of a discrete distribution.
_DIGITS, _BITS, _DENOMINATORS = 5, 12, 1_000
# Scores that may come again, at least and as a share of a side, beside so many times those that do
# by chance, by the numbers that are up to so many times as far from each other.
_FEW, _SHARE, _TIMES, _FARTHER = 2, 0.01, 2.0, 8
_CHANCE = 1e-9  # of equal counts by chance


def check_repeats(inside: NDArray[Any], outside: NDArray[Any]) -> None:
    """InputError if scores (n, ...) and (m, ...) of two sides come again as no independent ones do.

    Each value equally often, or r, 2r, 3r times: of independent draws of any discrete distribution
    k values are seen in multiples of r with a chance of at most (2r)^(-(k-1)/2), about that of so
    many Poisson counts at their likeliest. Or numbers of many digits that come again on their own
    side and not on the other: of a continuous distribution as many are as near as that to each
    other, and a little farther. Whole numbers, short decimals, short binary numbers and fractions
    of a small denominator may come again. Equal but for rounding to single precision is equal.
    """
    sides = [each.reshape(len(each), -1) for each in (inside, outside)]
    codes = _codes(np.concatenate(sides))
    counts = np.stack(
        [
            np.bincount(part, minlength=int(codes.max()) + 1)
            for part in np.split(codes, [len(inside)])
        ]
    )
    continuous = _continuous(np.concatenate(sides))
    names = ("in", "out")
    for own, other, rows, where in zip(counts, counts[::-1], sides, names, strict=True):
        seen, n = own[own > 0], len(rows)
        again = int((own - 1)[(own > 0) & (other == 0)].sum())
        times = int(np.gcd.reduce(seen))
        chance = -(len(seen) - 1) / 2 * math.log(2 * times) if times > 1 else 0.0
        why = ""
        if chance < math.log(_CHANCE):
            why = f"each {times} times or a multiple of it, as no independent draws come"
        elif continuous and again > max(_FEW, _SHARE * n) + _TIMES * _by_chance(rows):
            why = f"{again:,} of them again, of more digits than come again by chance"
        if why:
            raise InputError(
                f"Expected a score of each training (or canary), once, got {len(seen):,} different "
                f"ones among {n:,} with the canary {where}, {why}. Keep one of each; if all are of "
                "trainings (or canaries) of their own, say so: --repeats, or repeats=True."
            )


def _codes(rows: NDArray[Any]) -> NDArray[np.intp]:
    """A number for each of ``rows`` (n, d), the same for those that are equal but for rounding."""
    columns = []
    for column in rows.T.astype(np.float64):
        values, place = np.unique(column, return_inverse=True)
        with np.errstate(invalid="ignore"):
            new = np.append(True, ~(np.diff(values) <= _SAME * np.abs(values[1:])))
        columns.append((np.cumsum(new) - 1)[place.ravel()])
    codes = np.stack(columns, axis=1)
    return np.asarray(np.unique(codes, axis=0, return_inverse=True)[1].reshape(len(rows)), np.intp)


def _by_chance(rows: NDArray[Any]) -> float:
    """How many of ``rows`` (n, d) come as near another as equal ones, of a continuous density."""
    found = []
    for column in rows.T.astype(np.float64):
        values = np.unique(column[np.isfinite(column)])
        gaps = np.diff(values) / (_SAME * np.maximum(np.abs(values[1:]), 1e-300))
        found.append(np.count_nonzero((gaps > 1) & (gaps <= 1 + _FARTHER)) / _FARTHER)
    return min(found)


def _continuous(rows: NDArray[Any]) -> bool:
    """Whether numbers of some column look as if drawn from a continuous distribution."""
    return rows.dtype.kind == "f" and any(map(_many_digits, rows.T))


def _many_digits(column: NDArray[Any]) -> bool:
    values = np.unique(column[np.isfinite(column)].astype(np.float64))
    values, precision = values[values != 0], 4 * float(np.finfo(column.dtype).eps)
    decimals = values / 10.0 ** (np.floor(np.log10(np.abs(values))) - _DIGITS + 1)
    mantissas = np.frexp(values)[0] * 2.0**_BITS
    fractions = np.arange(1, _DENOMINATORS + 1)[:, None] * values[:: max(1, len(values) // 64)]
    return not any(
        (np.abs(each - np.rint(each)) <= precision * np.maximum(np.abs(each), 1)).all(axis=-1).any()
        for each in (decimals, mantissas, fractions)
    )
