"""Inputs that are one of k categories."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain


def check_categories(categories: int) -> None:
    """InputError unless there are two categories at least."""
    if categories < 2 or categories != int(categories):
        raise InputError(
            f"Expected at least 2 categories, got categories={categories!r}. Give a whole number."
        )


def categories_domain(categories: int) -> Domain:
    """The whole numbers 0 ... categories - 1."""
    return Domain(low=0, high=categories - 1, values=tuple(map(float, range(categories))))


def one_hot(category: ArrayLike, categories: int) -> NDArray[np.bool_]:
    """(..., categories): True at the category."""
    return np.asarray(np.asarray(category)[..., None] == np.arange(categories))
