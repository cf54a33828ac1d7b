"""Noise as somebody states it: a kind with its size, as a number or as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, RandomizedResponseDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Range

StatedNoise = float | str
"""A number, or text such as "z=1.1", "1.1", "epsilon=1,k=4"; a name alone asks for its value."""
# A chance of a flipped bit that doubles still divide by; larger ones tell less.
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """A kind of noise, by the name of its argument.

    ``symbol`` is what its size is called, ``sizes`` what it may be; ``least`` and ``most`` are
    where one is searched for.
    """

    name: str
    symbol: str
    sizes: Range
    least: float
    most: float


GAUSSIAN = NoiseKind("gaussian", "z", Range("(0, inf)"), 1e-3, 1e6)
LAPLACE = NoiseKind("laplace", "b", Range("(0, inf)"), 1e-3, 1e9)
# Above 700, e^eps leaves the doubles.
RESPONSE = NoiseKind("randomized_response", "epsilon", Range("(0, 700]"), 1e-9, 500.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a kind; ``size`` is None where it is to be found.

    For Gaussian and Laplace noise on a sum it is the deviation, or the scale, over the norm of what
    one unit adds at most: the L2 norm, or the L1 norm. For randomized response it is the pure
    epsilon of one report, of ``categories``: the true one is reported with probability
    e^eps / (e^eps + k - 1).
    """

    kind: NoiseKind
    size: float | None
    categories: int = 2

    @classmethod
    def of(cls, kind: NoiseKind, stated: StatedNoise) -> Self:
        """From what is stated, see ``StatedNoise``; InputError for what is none of that."""
        given = _read(kind, stated)
        size, k, p = given.get(kind.symbol), given.get("k", 2.0), given.get("p")
        if k is None or k != math.floor(k) or not 2 <= k <= 1e9:
            raise InputError(
                f"Expected a whole number for k, from 2 to 1e9, got {stated!r}. Give k=2, say."
            )
        if "p" in given and (p is None or "epsilon" in given):
            raise InputError(
                f"Expected p with its value and without epsilon, got {stated!r}. Give one of them."
            )
        if p is not None and not 1.0 / k < p < 1.0:
            raise InputError(
                f"Expected p between 1/k and 1, the chance that the true category is reported, got "
                f"p={p!r} with k={k:g}. At 1/k nothing is told, and at 1 all."
            )
        if p is not None:
            size = math.log(p) + math.log(k - 1.0) - math.log1p(-p)
        if size is not None and not kind.sizes.takes(size):
            raise InputError(
                f"Expected {kind.symbol} {kind.sizes.said} for {kind.name}, got "
                f"{kind.symbol}={size!r}. Give how much noise there is."
            )
        return cls(kind, size, int(k))

    def event(self) -> DpEvent:
        """One use: a noisy sum, or one report."""
        assert self.size is not None
        if self.kind is RESPONSE:
            k = self.categories
            return RandomizedResponseDpEvent(k / (math.expm1(self.size) + k), k)
        return (GaussianDpEvent if self.kind is GAUSSIAN else LaplaceDpEvent)(self.size)

    @property
    def local_epsilon(self) -> float:
        """The pure epsilon of one report, of Laplace noise or of randomized response."""
        assert self.size is not None
        # Two vectors of norm C are 2 C apart.
        return self.size if self.kind is RESPONSE else 2.0 / self.size

    @property
    def bit(self) -> tuple[float, float]:
        """P(0 | one input) and P(1 | another) of a bit that a report tells.

        Of randomized response whether it is the one category, of Laplace noise its sign.
        """
        assert self.size is not None
        if self.kind is LAPLACE:
            return (max(math.exp(-1.0 / self.size) / 2.0, _LEAST),) * 2
        one = 1.0 / (math.expm1(self.size) + self.categories)
        return (self.categories - 1.0) * one, one


def _read(kind: NoiseKind, stated: StatedNoise) -> dict[str, float | None]:
    """Names with their values; None for a name alone."""
    if isinstance(stated, (int, float)) and not isinstance(stated, bool):
        return {kind.symbol: float(stated)}
    names = (kind.symbol, "p", "k") if kind is RESPONSE else (kind.symbol,)
    found: dict[str, float | None] = {}
    for part in str(stated).split(","):
        name, sign, value = (word.strip() for word in part.partition("="))
        if not sign and name not in names:
            name, value = kind.symbol, name
        try:
            number = float(value) if value else None
        except ValueError:
            number = math.nan
        if name not in names or name in found or (number is not None and number != number):
            example = "epsilon=1,k=4" if kind is RESPONSE else f"{kind.symbol}=1.1"
            raise InputError(
                f"Expected {kind.name} such as {example}, got {str(stated)[:80]!r}. A name alone, "
                f"{kind.symbol}, asks for its value."
            )
        found[name] = number
    return found
