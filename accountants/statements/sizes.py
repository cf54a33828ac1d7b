"""How much of the narrower a wider unit or horizon holds."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError


class UnknownSize(InputError):
    """A size is needed that is not given; ``size`` names it."""

    def __init__(self, message: str, size: str = "") -> None:
        super().__init__(message)
        self.size = size


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many of the narrower a wider unit or horizon holds, at most; None where unknown.

    ``items``: bits of an upload, or interactions of a user. ``ratings``: of a user. ``coordinates``
    of an upload; ``reports`` of a user and round; ``rounds`` of a training.
    """

    items: int | None = None
    ratings: int | None = None
    coordinates: int | None = None
    reports: int | None = None
    rounds: int | None = None

    def get(self, name: str, purpose: str) -> int:
        """The size of this name; InputError where it is unknown."""
        size: int | None = getattr(self, name)
        if size is None:
            raise UnknownSize(
                f"Expected the number of {name}, to carry a bound from {purpose}, got none. "
                f"Give {name} in the sizes.",
                name,
            )
        return size
