"""What a statement of a paper is about, and whether the paper itself makes it."""

from __future__ import annotations

from enum import StrEnum


class StatementKind(StrEnum):
    """What is at stake if the statement does not hold."""

    PRIVACY = "privacy"  # what a user gives away
    ESTIMATOR = "estimator"  # what the server makes of what it is sent
    UTILITY = "utility"  # how systems or settings compare
    TYPO = "typo"  # the text: who follows it to the letter builds something else


class Basis(StrEnum):
    """Where the statement comes from."""

    PRINTED = "printed"  # it stands in the paper
    DERIVED = "derived"  # a reading of it, or what it comes to at settings that it does not print
