"""Outputs of a randomizer, split into structure and single values (leaves), and their forms.

The form of an output consists of its types, its shapes, the order of keys and the signs of zeros.
"""

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

from fedrec_auditor.auditor.exact.fit import CheckResult
from fedrec_auditor.auditor.tracing.affine_noise import AffineNoise
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries
from fedrec_auditor.auditor.tracing.paths import NotTraced, RealDraw
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.worlds.fields import read_record_fields, sort_elements

_CLOSE = 1e-9
# Dtypes whose entries ``tolist`` converts to plain values: bools and numbers of at most 128 bits.
_PLAIN = "?bhilqBHILQefdFD"
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)


class Output(NamedTuple):
    """The output of one call of a randomizer, split into structure and single values (leaves).

    - ``structure``: hashable description of the nested containers, without the values.
    - ``leaves``: the single values in order, each concrete or a symbol (a value that depends on
      random draws).
    """

    structure: Hashable
    leaves: tuple[Any, ...]

    def is_close(self, other: Output) -> bool:
        """Whether this output and ``other`` are equal up to rounding."""
        return self.structure == other.structure and all(map(are_close, self.leaves, other.leaves))


class _NotANumber:
    def __repr__(self) -> str:
        return "nan"


# Replaces nan among the values of an output. NAN equals itself, so that lookups find it.
NAN_MARKER = _NotANumber()


class ErrorOutput(NamedTuple):
    """Stands for the output of a randomizer's call that raised an exception.

    ``name``: class name of the exception.
    """

    name: str


def split_output(output: Any) -> Output:
    """Splits an output into its structure (nested containers) and its single values (leaves).

    Raises NotTraced for an output of unknown type.
    """
    leaves: list[Any] = []
    structure = _split(output, leaves)
    return Output(structure, tuple(leaves))


def format_output(structure: Any, leaves: Iterator[str]) -> str:
    """Returns the text of an output for reports.

    ``structure``: structure of the output, as ``split_output`` returns it.
    ``leaves``: texts of its single values, in order.
    """
    if structure == "value":
        return next(leaves)
    kind, parts = structure
    match kind:
        case "row":
            return f"[{', '.join(islice(leaves, parts))}]"
        case "list":
            return f"[{', '.join(format_output(part, leaves) for part in parts)}]"
        case "map":
            entries = [f"{key!r}: {format_output(part, leaves)}" for key, part in parts]
            return f"{{{', '.join(entries)}}}"
        case "raised":
            return f"raises {parts}"
    return f"{kind}({format_output(parts, leaves)})"


def flatten_outputs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``function`` to return only the single values (leaves) of its output.

    The leaves are returned as an array, or as a tuple if a leaf depends on random draws
    (``Symbol``).
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        """Returns the single values of the output of ``function(*arguments)``."""
        leaves = split_output(function(*arguments)).leaves
        return leaves if any(isinstance(e, Symbol) for e in leaves) else np.array(leaves)

    return call


def get_value_key(value: Any) -> Any:
    """Converts a single concrete value of an output to a hashable key, to look up probabilities.

    Equal numbers of different types get equal keys. Raises NotTraced for a value of unknown type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return NAN_MARKER
    if value is NAN_MARKER or isinstance(value, (type(None), int, float, str, bytes, complex)):
        return value
    raise NotTraced(f"the code returns a {type(value).__name__}. Return numbers, text or arrays")


def _split(output: Any, leaves: list[Any]) -> Hashable:
    if isinstance(output, MaskedEntries):
        output = output.to_concrete()
    if isinstance(output, Symbol):
        leaves.append(output)
        return "value"
    if type(output).__module__ == "torch":
        output = output.detach().cpu().numpy()
    if isinstance(output, ErrorOutput):
        return "raised", output.name
    if isinstance(output, np.ndarray):
        output = output.view(np.ndarray)
        if output.ndim and output.dtype.char in _PLAIN and not _has_nan(output):
            leaves += output.ravel().tolist()
            return _to_structure(output.shape)
        return _split(output.tolist() if output.ndim else output[()], leaves)
    if isinstance(output, (set, frozenset)):
        return type(output).__qualname__, _split(sort_elements(output), leaves)
    if (record := read_record_fields(output)) is not None:
        return type(output).__qualname__, _split(record, leaves)
    if getattr(output, "__dict__", None) and not isinstance(output, Enum):
        raise NotTraced(f"the code returns a {type(output).__name__} with attributes. Use a dict")
    if isinstance(output, dict):
        items = output.items()  # in their order, which the output reveals
        return "map", tuple((get_value_key(key), _split(value, leaves)) for key, value in items)
    if isinstance(output, (list, tuple)):
        output = [e[()] if isinstance(e, np.ndarray) and not e.ndim else e for e in output]
        if not any(isinstance(e, _NESTED) or is_dataclass(e) for e in output):
            leaves += [e if isinstance(e, Symbol) else get_value_key(e) for e in output]
            return "row", len(output)
        return "list", tuple(_split(entry, leaves) for entry in output)
    leaves.append(get_value_key(output))
    return "value"


def _has_nan(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and array.size > 0 and math.isnan(array.min())


@lru_cache(maxsize=256)
def _to_structure(shape: tuple[int, ...]) -> Hashable:
    """Returns the structure of an array of numbers, equal to the structure of its nested lists."""
    if len(shape) == 1 or not shape[0]:
        return "row", shape[0]
    return "list", (_to_structure(shape[1:]),) * shape[0]


def are_close(one: Any, other: Any) -> bool:
    """Whether two values from outputs are equal, numbers up to a relative difference of 1e-9."""
    if not (isinstance(one, (int, float, complex)) and isinstance(other, (int, float, complex))):
        return bool(one == other)
    return bool(one == other or abs(one - other) <= _CLOSE * (1.0 + abs(one)))


# Forms of outputs: types, shapes, the order of keys, signs of zero.
#
# A traced distribution covers the values of outputs. It also covers their forms if equal values
# have equal forms for every input. This is checked for the forms seen in replays.

# Name of the check of forms in reports.
FORM_CHECK_NAME = "form of the answers"
_NOISE = "noise"
# Observed forms (types, shapes, signs of zero) of the parts of outputs, by the key of the part: a
# single value, or the structure of the containers.
FormsByPartKey = dict[Hashable, set[Hashable]]


def iter_forms(output: Any, traced: Output, values: Output) -> Iterator[tuple[Hashable, Hashable]]:
    """Yields a pair (key, form) for the containers of an output, and for each single value (leaf).

    A form consists of types, shapes and signs of zero. Forms with equal keys are compared between
    inputs.

    ``output``: output of the callable itself in a replay (a run with concrete draws).
    ``traced``: output that tracing computed on the same execution path.
    ``values``: the output ``traced`` with the concrete values of the draws.

    - The key of the containers is the structure of the output.
    - The key of a leaf is the structure, its position and its value. A continuous value is omitted.
    """
    leaves: list[tuple[str, bool]] = []
    yield values.structure, _read_form(output, leaves)
    if len(leaves) != len(values.leaves):  # for example for sets
        yield tuple(values), tuple(leaves)
    else:
        rows = zip(leaves, traced.leaves, values.leaves, strict=True)
        for place, (form, entry, value) in enumerate(rows):
            pieces = entry.list_values() if isinstance(entry, Symbol) else ()
            noisy = any(isinstance(source, RealDraw) for cells, _ in pieces for source in cells)
            dense = any(isinstance(piece, AffineNoise) for _, piece in pieces)
            plain = dense and any(not isinstance(p, AffineNoise) and p == value for _, p in pieces)
            key = _NOISE if dense and not plain else value
            # The form omits the sign of zero, because the sign of rounded noise depends on the
            # draws.
            yield (values.structure, place, key), (form[0], form[1] and not noisy)


def make_form_key(value: Any) -> Hashable:
    """Returns a value's types, shapes, order of keys and signs of zero as a hashable object."""
    leaves: list[tuple[str, bool]] = []
    return _read_form(value, leaves), tuple(leaves)


def _read_form(output: Any, leaves: list[tuple[str, bool]]) -> Hashable:
    kind = type(output)
    name = kind.__qualname__
    if kind is np.ndarray and output.ndim and output.dtype.kind != "O":
        zeros = np.signbit(output) if output.dtype.kind == "f" else np.zeros(output.shape, bool)
        signs = (zeros & (output == 0)).ravel().tolist()
        leaves += [("", sign) for sign in signs]
        return name, str(output.dtype), output.shape
    if isinstance(output, dict):
        return name, tuple((key, _read_form(value, leaves)) for key, value in output.items())
    if isinstance(output, (list, tuple)):
        return name, tuple(_read_form(value, leaves) for value in output)
    zero = isinstance(output, (float, np.floating)) and output == 0
    leaves.append((name, bool(zero and math.copysign(1, output) < 0)))
    return "value"


def check_output_forms(
    inputs: Sequence[FormsByPartKey], names: Sequence[str], delta: float
) -> CheckResult | None:
    """Returns a failed check if types, shapes or signs of zero reveal the input; None otherwise.

    ``inputs``: for each input, the observed forms (types, shapes and signs of zero) of its outputs.
    ``names``: name of each input.
    ``delta``: delta of the privacy bound.

    Raises NotTraced if forms differ between inputs at delta > 0, or if one value has several forms
    for both of two inputs.
    """
    for (one, a), (other, b) in itertools.combinations(zip(inputs, names, strict=bool(inputs)), 2):
        for values in (key for key in one if key in other):
            first, second = one[values], other[values]
            sentence = f"The same values are {_spell(first)} for {a}, and {_spell(second)} for {b}"
            if first != second and not delta:
                reason = f"{sentence}. Return them in one form, whatever the input."
                return replace(CheckResult.make_failed(reason), name=FORM_CHECK_NAME)
            if first != second or len(first) > 1:
                start = sentence[0].lower() + sentence[1:]
                raise NotTraced(f"{start}. Return them in one form, whatever the input")
    return None


def _spell(forms: set[Hashable]) -> str:
    words = []
    for form in forms:
        kind, sign = form if isinstance(form, tuple) and len(form) == 2 else (form, "")
        words.append(f"{kind} -0.0" if sign is True else str(kind if sign is False else form))
    return " or ".join(sorted(words))[:200]
