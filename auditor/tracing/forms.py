"""What an answer is beside its values: types, shapes, the order of keys, signs of zero.

A law is of values. It is one of answers too if the form of an answer follows from its values, in
the same way for every input: that is what is checked here, of the forms that replays gave.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedrec_auditor.auditor.exact.check import Check
from fedrec_auditor.auditor.tracing.answers import Answer
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.symbols import Symbol

NAME = "form of the answers"
_NOISE = "noise"
Forms = dict[Hashable, set[Hashable]]
"""The forms that the same values had, and those of the containers around them."""


def forms_of(answer: Any, path: Answer, values: Answer) -> Iterator[tuple[Hashable, Hashable]]:
    """Forms by place and value; those of draws that have a density, in ``path``, by place alone."""
    leaves: list[Hashable] = []
    yield values.structure, _form(answer, leaves)
    if len(leaves) != len(values.leaves):  # of sets, say
        yield tuple(values), tuple(leaves)
    else:
        for place, (form, entry, value) in enumerate(
            zip(leaves, path.leaves, values.leaves, strict=True)
        ):
            dense = isinstance(entry, Symbol) and isinstance(value, float) and value % 1
            yield (values.structure, place, _NOISE if dense else value), form


def form_of(value: Any) -> Hashable:
    """Types and shapes of a value, all of it."""
    leaves: list[Hashable] = []
    return _form(value, leaves), tuple(leaves)


def _form(answer: Any, leaves: list[Hashable]) -> Hashable:
    kind = type(answer)
    name = kind.__qualname__
    if kind is np.ndarray and answer.ndim and answer.dtype.kind != "O":
        zeros = np.signbit(answer) if answer.dtype.kind == "f" else np.zeros(answer.shape, bool)
        signs = (zeros & (answer == 0)).ravel().tolist()
        leaves += ["-0.0" if sign else "" for sign in signs]
        return name, str(answer.dtype), answer.shape
    if isinstance(answer, dict):
        return name, tuple((key, _form(value, leaves)) for key, value in answer.items())
    if isinstance(answer, (list, tuple)):
        return name, tuple(_form(value, leaves) for value in answer)
    zero = isinstance(answer, (float, np.floating)) and answer == 0
    leaves.append("-0.0" if zero and math.copysign(1, answer) < 0 else name)
    return "value"


def check_forms(inputs: Sequence[Forms], names: Sequence[str], delta: float) -> Check | None:
    """A check that failed where forms tell inputs apart; None where they do not.

    NotTraced where chances would have to be compared: at a ``delta``, or of several forms.
    """
    for (one, a), (other, b) in itertools.combinations(zip(inputs, names, strict=bool(inputs)), 2):
        for values in one.keys() & other.keys():
            first, second = one[values], other[values]
            said = f"The same values are {_words(first)} for {a}, and {_words(second)} for {b}"
            if first != second and not delta:
                failed = Check.failed(f"{said}. Return them in one form, whatever the input.")
                return replace(failed, name=NAME)
            if first != second or len(first) > 1:
                raise NotTraced(f"{said[0].lower()}{said[1:]}, by chances that are not compared")
    return None


def _words(forms: set[Hashable]) -> str:
    return " or ".join(sorted(str(form) for form in forms))[:200]
