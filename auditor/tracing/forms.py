"""Forms of answers beside their values: types, shapes, the order of keys, signs of zero.

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

from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.tracing.answers import Answer
from fedrec_auditor.auditor.tracing.lines import Line
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.sources import Real
from fedrec_auditor.auditor.tracing.symbols import Symbol

NAME = "form of the answers"
_NOISE = "noise"
Forms = dict[Hashable, set[Hashable]]
"""The forms that the same values had, and those of the containers around them."""


def forms_of(answer: Any, path: Answer, values: Answer) -> Iterator[tuple[Hashable, Hashable]]:
    """Forms by place and value; of noise, in ``path``, by place alone and without signs of zero.

    Signs of rounded noise are a matter of the draws, which the check "floating point" counts.
    """
    leaves: list[tuple[str, bool]] = []
    yield values.structure, _form(answer, leaves)
    if len(leaves) != len(values.leaves):  # of sets, say
        yield tuple(values), tuple(leaves)
    else:
        for place, (form, entry, value) in enumerate(
            zip(leaves, path.leaves, values.leaves, strict=True)
        ):
            pieces = entry.pieces() if isinstance(entry, Symbol) else ()
            noisy = any(isinstance(source, Real) for cells, _ in pieces for source in cells)
            dense = any(isinstance(piece, Line) for _, piece in pieces)
            plain = dense and any(not isinstance(p, Line) and p == value for _, p in pieces)
            key = _NOISE if dense and not plain else value
            yield (values.structure, place, key), (form[0], form[1] and not noisy)


def form_of(value: Any) -> Hashable:
    """Types and shapes of a value, all of it."""
    leaves: list[tuple[str, bool]] = []
    return _form(value, leaves), tuple(leaves)


def _form(answer: Any, leaves: list[tuple[str, bool]]) -> Hashable:
    kind = type(answer)
    name = kind.__qualname__
    if kind is np.ndarray and answer.ndim and answer.dtype.kind != "O":
        zeros = np.signbit(answer) if answer.dtype.kind == "f" else np.zeros(answer.shape, bool)
        signs = (zeros & (answer == 0)).ravel().tolist()
        leaves += [("", sign) for sign in signs]
        return name, str(answer.dtype), answer.shape
    if isinstance(answer, dict):
        return name, tuple((key, _form(value, leaves)) for key, value in answer.items())
    if isinstance(answer, (list, tuple)):
        return name, tuple(_form(value, leaves) for value in answer)
    zero = isinstance(answer, (float, np.floating)) and answer == 0
    leaves.append((name, bool(zero and math.copysign(1, answer) < 0)))
    return "value"


def check_forms(inputs: Sequence[Forms], names: Sequence[str], delta: float) -> Check | None:
    """A check that failed where forms tell inputs apart; None where they do not.

    NotTraced where chances would have to be compared: at a ``delta``, or of several forms.
    """
    for (one, a), (other, b) in itertools.combinations(zip(inputs, names, strict=bool(inputs)), 2):
        for values in one.keys() & other.keys():
            first, second = one[values], other[values]
            sentence = f"The same values are {_words(first)} for {a}, and {_words(second)} for {b}"
            if first != second and not delta:
                failed = Check.failed(f"{sentence}. Return them in one form, whatever the input.")
                return replace(failed, name=NAME)
            if first != second or len(first) > 1:
                raise NotTraced(
                    f"{sentence[0].lower()}{sentence[1:]}, by chances that are not compared"
                )
    return None


def _words(forms: set[Hashable]) -> str:
    words = []
    for form in forms:
        kind, sign = form if isinstance(form, tuple) and len(form) == 2 else (form, "")
        words.append(f"{kind} -0.0" if sign is True else str(kind if sign is False else form))
    return " or ".join(sorted(words))[:200]
