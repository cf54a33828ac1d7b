"""Kinds of statements, and whether their authors make them."""

from __future__ import annotations

from enum import StrEnum


class StatementKind(StrEnum):
    """What is at stake if the statement does not hold."""

    PRIVACY = "privacy"  # what a user gives away
    ESTIMATOR = "estimator"  # what the server makes of what it is sent
    UTILITY = "utility"  # how systems or settings compare
    TYPO = "typo"  # the text: who follows it to the letter builds something else


class Basis(StrEnum):
    """Authorship of a statement, from its authors to nobody; a derived one cannot be false of them.

    >>> Basis.weaker(Basis.DERIVED, Basis.COMPUTED)
    <Basis.DERIVED: 'derived'>
    """

    PRINTED = "printed"  # the authors, as it stands
    COMPUTED = (
        "computed"  # the authors' formula, at settings, rounds or a delta that they do not print
    )
    DERIVED = "derived"  # nobody: a reading of what they say or release
    UNKNOWN = "unknown"  # not recorded, as in records of earlier versions

    @staticmethod
    def weaker(first: Basis, second: Basis) -> Basis:
        """The basis of a statement that rests on both."""
        return max(first, second, key=list(Basis).index)
