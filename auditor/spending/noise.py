"""What hides the data, as somebody states it: a kind of noise and its size, or an event."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, RandomizedResponseDpEvent

from fedrec_auditor.accountants.errors import InputError

Stated = float | str
"""A number, or text such as "z=1.1", "1.1", "epsilon=1,k=4"; a name alone asks for its value."""
# Local epsilon above which e^eps leaves the doubles.
_MOST = 700.0
# A chance of a flipped bit that doubles still divide by; larger ones tell less.
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """A kind of noise, by the name of its argument; ``symbol`` is what its size is called.

    ``event`` is one use of it, ``words`` what it is called, ``meaning`` how its size is measured.
    """

    name: str
    symbol: str
    event: type[DpEvent]
    words: str
    meaning: str

    def __str__(self) -> str:
        return self.name


GAUSSIAN = NoiseKind(
    "gaussian",
    "z",
    GaussianDpEvent,
    "Gaussian noise",
    "Its deviation is z times the L2 norm that one {unit} is clipped to.",
)
LAPLACE = NoiseKind(
    "laplace",
    "b",
    LaplaceDpEvent,
    "Laplace noise",
    "Its scale is b times the L1 norm that one {unit} is clipped to.",
)
RESPONSE = NoiseKind(
    "randomized_response",
    "epsilon",
    RandomizedResponseDpEvent,
    "randomized response",
    "Its epsilon is that of one report.",
)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a kind; ``size`` is None where it is to be found.

    For Gaussian and Laplace noise on a sum it is the deviation, or the scale, over the norm of what
    one unit adds at most: the L2 norm, or the L1 norm. For randomized response it is the pure
    epsilon of one report, of ``categories``: the true one is reported with probability
    e^eps / (e^eps + k - 1). InputError for a size that is not positive, or fewer than 2 categories.
    """

    kind: NoiseKind
    size: float | None
    categories: int = 2

    def __post_init__(self) -> None:
        name = self.kind.symbol
        if self.size is not None and not 0.0 < self.size < math.inf:
            raise InputError(
                f"Expected a finite {name} above 0 for {self.kind}, got {name}={self.size!r}. "
                "Give how much noise there is."
            )
        if self.kind is RESPONSE and self.size is not None and self.size > _MOST:
            raise InputError(f"Expected epsilon up to {_MOST:g}, got {self.size!r}. Give less.")
        if self.categories < 2 or self.categories > 10**9:
            raise InputError(f"Expected 2 to 1e+09 categories, got k={self.categories}. Give k.")

    @classmethod
    def of(cls, kind: NoiseKind, stated: Stated) -> Self:
        """From what is stated, see ``Stated``; InputError for what is none of that."""
        given = _read(kind, stated)
        categories = given.get("k", 2.0)
        if categories is None or categories != math.floor(categories):
            raise InputError(f"Expected a whole number for k, got {stated!r}. Give k=2, say.")
        if "p" in given and ("epsilon" in given or given["p"] is None):
            raise InputError(
                f"Expected p with its value and without epsilon, got {stated!r}. Give one of them."
            )
        k, p = int(categories), given.get("p")
        if p is None:
            return cls(kind, given.get(kind.symbol), k)
        if not 1.0 / max(k, 2) < p < 1.0:
            raise InputError(
                f"Expected p between 1/k and 1, the chance that the true category is reported, got "
                f"p={p!r} with k={k}. At 1/k nothing is told, and at 1 all."
            )
        return cls(kind, math.log(p) + math.log(k - 1.0) - math.log1p(-p), k)

    def event(self) -> DpEvent:
        """One use: a noisy sum, or one report."""
        assert self.size is not None
        if self.kind is not RESPONSE:
            return self.kind.event(self.size)
        k = self.categories
        return RandomizedResponseDpEvent(k / (math.expm1(self.size) + k), k)

    @property
    def local_epsilon(self) -> float:
        """The pure epsilon of one report between any two inputs; infinite for Gaussian noise."""
        assert self.size is not None
        if self.kind is LAPLACE:
            return 2.0 / self.size  # two vectors of norm C are 2 C apart
        return self.size if self.kind is RESPONSE else math.inf

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

    def __str__(self) -> str:
        of = f" of {self.categories:,} categories" if self.kind is RESPONSE else ""
        size = "?" if self.size is None else f"{self.size:.6g}"
        return f"{self.kind.words}{of}, {self.kind.symbol} = {size}"


def _read(kind: NoiseKind, stated: Stated) -> dict[str, float | None]:
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
                f"Expected {kind} such as {example}, got {str(stated)[:80]!r}. A name alone, "
                f"{kind.symbol}, asks for its value."
            )
        found[name] = number
    return found
