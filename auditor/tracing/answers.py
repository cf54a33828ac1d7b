"""Answers of a randomizer: structure, leaves that may be open, and forms (types, order, shapes)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import lru_cache, wraps
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries
from fedrec_auditor.auditor.tracing.lines import Line
from fedrec_auditor.auditor.tracing.paths import NotTraced, Real
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.worlds.fields import elements, record_of

_CLOSE = 1e-9
# Types of entries that are plain values as lists: truth values and numbers of at most 128 bits.
_PLAIN = "?bhilqBHILQefdFD"
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)


class Answer(NamedTuple):
    """What a call returned: the structure around the leaves, and these in order."""

    structure: Hashable
    leaves: tuple[Any, ...]

    def agrees(self, other: Answer) -> bool:
        """Whether both are equal but for rounding."""
        return self.structure == other.structure and all(map(close, self.leaves, other.leaves))


class _NotANumber:
    def __repr__(self) -> str:
        return "nan"


NAN = _NotANumber()
"""Stands for nan among leaves, and equals itself."""


class Raised(NamedTuple):
    """The answer of a call that raised."""

    name: str


def read(answer: Any) -> Answer:
    """The structure and the leaves of an answer; NotTraced for objects of other kinds."""
    leaves: list[Any] = []
    structure = _structure(answer, leaves)
    return Answer(structure, tuple(leaves))


def spelt(structure: Any, leaves: Iterator[str]) -> str:
    """An answer in words, of the words of its leaves."""
    if structure == "value":
        return next(leaves)
    kind, parts = structure
    match kind:
        case "row":
            return f"[{', '.join(islice(leaves, parts))}]"
        case "list":
            return f"[{', '.join(spelt(part, leaves) for part in parts)}]"
        case "map":
            return f"{{{', '.join(f'{key!r}: {spelt(part, leaves)}' for key, part in parts)}}}"
        case "raised":
            return f"raises {parts}"
    return f"{kind}({spelt(parts, leaves)})"


def flat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same callable, whose answers are the leaves alone, in an array where all are plain."""

    @wraps(function)
    def answer(*arguments: Any) -> Any:
        leaves = read(function(*arguments)).leaves
        return leaves if any(isinstance(e, Symbol) for e in leaves) else np.array(leaves)

    return answer


def leaf(value: Any) -> Any:
    """A plain value as one that can be looked up: numbers by their value, whatever their type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return NAN
    if value is None or value is NAN or isinstance(value, (bool, int, float, str, bytes, complex)):
        return value
    raise NotTraced(f"it answers with {type(value).__name__}, whose parts are not known")


def _structure(answer: Any, leaves: list[Any]) -> Hashable:
    if isinstance(answer, MaskedEntries):
        answer = answer.plain()
    if isinstance(answer, Symbol):
        leaves.append(answer)
        return "value"
    if type(answer).__module__ == "torch":
        answer = answer.detach().cpu().numpy()
    if isinstance(answer, Raised):
        return "raised", answer.name
    if isinstance(answer, np.ndarray):
        answer = answer.view(np.ndarray)
        if answer.ndim and answer.dtype.char in _PLAIN and not _has_nan(answer):
            leaves += answer.ravel().tolist()
            return _of_shape(answer.shape)
        return _structure(answer.tolist() if answer.ndim else answer[()], leaves)
    if isinstance(answer, (set, frozenset)):
        return type(answer).__qualname__, _structure(elements(answer), leaves)
    if (record := record_of(answer)) is not None:
        return type(answer).__qualname__, _structure(record, leaves)
    if getattr(answer, "__dict__", None) and not isinstance(answer, Enum):
        raise NotTraced(f"it answers with {type(answer).__name__}, which has attributes")
    if isinstance(answer, dict):
        items = answer.items()  # in their order, which is part of what is sent
        return "map", tuple((leaf(key), _structure(value, leaves)) for key, value in items)
    if isinstance(answer, (list, tuple)):
        answer = [e[()] if isinstance(e, np.ndarray) and not e.ndim else e for e in answer]
        if not any(isinstance(e, _NESTED) or is_dataclass(e) for e in answer):
            leaves += [e if isinstance(e, Symbol) else leaf(e) for e in answer]
            return "row", len(answer)
        return "list", tuple(_structure(entry, leaves) for entry in answer)
    leaves.append(leaf(answer))
    return "value"


def _has_nan(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and array.size > 0 and math.isnan(array.min())


@lru_cache(maxsize=256)
def _of_shape(shape: tuple[int, ...]) -> Hashable:
    """The structure of an array of numbers: that of its lists."""
    if len(shape) == 1 or not shape[0]:
        return "row", shape[0]
    return "list", (_of_shape(shape[1:]),) * shape[0]


def close(one: Any, other: Any) -> bool:
    """Whether two leaves are equal but for rounding."""
    if not (isinstance(one, (int, float, complex)) and isinstance(other, (int, float, complex))):
        return bool(one == other)
    return bool(one == other or abs(one - other) <= _CLOSE * (1.0 + abs(one)))


# Forms of answers beside their values: types, shapes, the order of keys, signs of zero.
#
# A law is of values. It is one of answers too if the form of an answer follows from its values, in
# the same way for every input: that is what is checked here, of the forms that replays gave.

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
        for values in (key for key in one if key in other):
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
