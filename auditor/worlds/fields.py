"""Encoding of a randomizer's structured outputs (dictionaries, lists, text) as numbers or strings.

Estimators of epsilon need arrays. The encoding turns a structured output into a row of numbers,
with columns for each field, or into one string.
"""

from __future__ import annotations

import copy
import json
import math
import re
import zlib
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NUMBER = re.compile(r"[ \t\r\n]*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?[ \t\r\n]*")
_MAX_DEPTH, _MAX_PATHS = 8, 64
# Pattern of a word; numbers of words, and of letters, that are read from the start and from the end
# of a text.
_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_WORDS, _LAST_WORDS, _LETTERS, _LAST_LETTERS = 16, 2, 24, 4
# Maximum number of letters of a word that is one value; a longer word may encode several.
_ONE_THING = 16
# Characters of hexadecimal digits, base64 and the like.
_ENCODED = re.compile(r"[\w+/=-]+")
# Marks in paths to derived values: a word of a text, or a letter of bytes or of a text of one word;
# the order of the keys of a dictionary; a text that is JSON; the class name of a set, a named tuple
# or a dataclass. Each possible element of a set is a key, whose value is True if the set has it.
_PIECE, _ORDER, _OPENED, _CLASS = " piece ", " (order of keys)", " (text)", " (class)"
# Kinds of the value at a path; 0 if there is no value.
_NULL, _TRUTH, _NUMERIC, _TEXT, _EMPTY, _MINUS_ZERO = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0
# Maximum number of recent outputs or parts that are kept, and maximum letters of each part.
MAX_OUTPUTS, _LONGEST = 1 << 18, 200


@dataclass(frozen=True, slots=True)
class OutputEncoder:
    """An encoder of a randomizer's structured outputs as rows of numbers, or as strings.

    A path, such as .age or [2], leads to a value in an output. Other paths lead to derived values,
    such as a word of a text or the order of a dictionary's keys.

    paths: the paths that have columns of their own. If there are none, each output is encoded as
        one string, its ``repr``; equal strings mean equal outputs.
    stored_outputs: outputs by the string that encodes them, or texts (their first 200 letters) by
        checksum. Only the latest ``MAX_OUTPUTS`` are kept.

    Each path in ``paths`` gives three numbers of a row:

    - a code for the kind of the value, such as absent, null, boolean, number or text;
    - the value as a number, if it is a boolean, a number or the text of a number; otherwise 0;
    - a checksum, if the value is a text or of another kind (such as an empty list); otherwise 0.

    The last number of a row is a checksum of the values at all other paths.

    >>> OutputEncoder().encode([{"bit": 1, "who": None}]).tolist()
    ["{'bit': 1, 'who': None}"]
    """

    paths: tuple[str, ...] = ()
    stored_outputs: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def fit(cls, outputs: Sequence[Any], *, as_string: bool = False) -> OutputEncoder | None:
        """Returns an encoder for outputs like the examples; None if NumPy can hold them unencoded.

        outputs: examples of the randomizer's outputs.
        as_string: whether to encode each output as one string, and not by field.

        NumPy can hold these outputs unencoded:

        - numbers, if none or all of them are NaN;
        - texts of at most 16 letters, without other characters;
        - lists of one length, of such numbers or of such texts;
        - with ``as_string``, any texts and bytes.
        """
        lists = [answer for answer in outputs if isinstance(answer, (list, tuple))]
        if len(set(map(len, lists))) < 2 and not any(map(_is_compound, outputs)):
            return None
        if all(map(_is_all_nan, outputs)):
            return None
        if as_string:
            return None if all(isinstance(each, (str, bytes)) for each in outputs) else cls()
        paths = {path: None for answer in outputs for path, _ in _iter_leaves(answer, "", 0)}
        return cls(tuple(sorted(paths, key=_is_derived))[:_MAX_PATHS])

    def encode(self, outputs: Iterable[Any]) -> NDArray[Any]:
        """Encodes each of ``outputs`` as a row of numbers, or as a string if ``paths`` is empty.

        The result has the shape (n, 3 * len(paths) + 1), or (n,) for strings. Each path has three
        columns: kind, number and checksum of its value. The last column is a checksum of the values
        at all other paths.
        """
        if not self.paths:
            words = [self._keep(repr(canonicalize(one)), copy.deepcopy(one)) for one in outputs]
            return np.array(words, dtype=np.str_)
        place = {path: 3 * index for index, path in enumerate(self.paths)}
        rows = []
        for answer in outputs:
            row, rest = [0.0] * (3 * len(self.paths) + 1), ""
            for path, leaf in _iter_leaves(answer, "", 0):
                at = place.get(path)
                if at is not None:
                    row[at : at + 3] = self._encode_leaf(leaf)
                elif not _is_derived(path):
                    rest += f"{path}={leaf!r};"
            if rest:
                row[-1] = self._keep(_checksum(rest), rest[:_LONGEST])
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1)

    def decode(self, text: str) -> Any:
        """Returns the randomizer's output that ``encode`` turned into the string ``text``.

        Only the latest ``MAX_OUTPUTS`` outputs are kept; raises KeyError for any other string.
        """
        return copy.deepcopy(self.stored_outputs[text])

    @property
    def column_groups(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the columns of an encoded output, grouped by path (field of the output).

        The last group is the checksum of the values at all paths that are not listed in ``paths``.
        """
        last = 3 * len(self.paths)
        return (*((k, k + 1, k + 2) for k in range(0, last, 3)), (last,))

    def name_field(self, column: int) -> str:
        """Returns the name of the field that a column encodes, such as "output.user.bits[0]".

        ``column``: index of a column of encoded outputs.
        """
        path = column // 3
        return f"output{self.paths[path]}" if path < len(self.paths) else "output's other fields"

    def name_column(self, column: int) -> str:
        """Returns the name of the column with index ``column``, such as "kind of output.age".

        The first column of a field is named "kind of" the field, the second by the field alone, the
        third "checksum of" the field.
        """
        what = 2 if column == 3 * len(self.paths) else column % 3
        return f"{('kind of ', '', 'checksum of ')[what]}{self.name_field(column)}"

    def include_related_columns(self, columns: Collection[int]) -> tuple[int, ...]:
        """Returns ``columns`` together with the columns that encode related values of an output.

        Two values are related if one is a part of the other: a word or a letter of a text, or a
        value in a JSON text.
        """
        own_paths = {self.paths[column // 3] for column in columns if column < 3 * len(self.paths)}
        holders = {path.partition(_PIECE)[0] for path in own_paths}

        def is_related(path: str) -> bool:
            """Whether the value at ``path`` is encoded by, or related to, one of ``columns``."""
            holder, opened, _ = path.partition(_OPENED)
            return (
                path in own_paths | holders
                or path.partition(_PIECE)[0] in own_paths
                or (bool(opened) and any(each.startswith(holder) for each in holders))
            )

        out = [3 * k + j for k, path in enumerate(self.paths) if is_related(path) for j in range(3)]
        return tuple({*columns, *out})

    def describe(self, row: NDArray[np.float64], column: int) -> str:
        """Describes in words the value of the field that ``column`` encodes, in one output.

        ``row``: the encoded output.
        ``column``: index of a column.
        """
        start = column // 3 * 3
        if start == 3 * len(self.paths):
            return self.stored_outputs.get(float(row[start]), "others") if row[start] else "none"
        kind, number, checksum = row[start : start + 3].tolist()
        return {
            _NUMERIC: f"{number:.15g}",
            _MINUS_ZERO: "-0.0",
            _TRUTH: str(bool(number)),
            _NULL: "None",
        }.get(kind, self.stored_outputs.get(checksum, "a text") if kind else "absent")

    def _encode_leaf(self, leaf: Any) -> tuple[float, float, float]:
        """Returns the three numbers that encode a value: its kind, its number and its checksum."""
        if isinstance(leaf, np.generic):
            leaf = leaf.item()
        if leaf is None:
            return _NULL, 0.0, 0.0
        if isinstance(leaf, bool):
            return _TRUTH, float(leaf), 0.0
        if isinstance(leaf, (int, float)) and leaf == leaf:
            number = _clip(leaf)
            minus = number == 0 and math.copysign(1.0, number) < 0
            return _MINUS_ZERO if minus else _NUMERIC, number + 0.0, 0.0
        text = leaf.decode("latin-1") if isinstance(leaf, bytes) else leaf
        is_text = isinstance(text, str)
        checksum = self._keep(_checksum(text if is_text else repr(leaf)), repr(leaf)[:_LONGEST])
        if is_text and _NUMBER.fullmatch(text):
            return _TEXT, _clip(float(text)), checksum
        return _TEXT if is_text else _EMPTY, 0.0, checksum

    def _keep(self, index: Any, kept: Any) -> Any:
        """Stores ``kept`` in ``stored_outputs`` under the key ``index``, and returns ``index``.

        If there are more than ``MAX_OUTPUTS`` entries, the oldest one is dropped.
        """
        self.stored_outputs.pop(index, None)
        self.stored_outputs[index] = kept
        if len(self.stored_outputs) > MAX_OUTPUTS:
            del self.stored_outputs[next(iter(self.stored_outputs))]
        return index


def canonicalize(part: Any) -> Any:
    """Returns a copy of ``part``, a value within an output, whose ``repr`` identifies the value.

    The copies of two values have the same ``repr`` only if the values are equal. Arrays, sets,
    named tuples and dataclasses become tuples that include their type.
    """
    if isinstance(part, np.ndarray):
        return "an array", part.dtype.str, canonicalize(part.tolist())
    if isinstance(part, (set, frozenset)):
        return type(part).__qualname__, [canonicalize(element) for element in sort_elements(part)]
    if (record := read_record_fields(part)) is not None:
        return type(part).__qualname__, canonicalize(record)
    if isinstance(part, dict):
        return {key: canonicalize(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return (tuple if isinstance(part, tuple) else list)(map(canonicalize, part))
    return part.item() if isinstance(part, np.generic) else part


def read_record_fields(part: Any) -> dict[str, Any] | None:
    """Returns the field values of a named tuple or a dataclass by name; None for other objects.

    Attributes that were added to the object are included.
    """
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        names: Iterable[str] = part._fields
    elif is_dataclass(part) and not isinstance(part, type):
        names = [each.name for each in fields(part)]
    else:
        return None
    return {name: getattr(part, name) for name in names} | getattr(part, "__dict__", {})


def sort_elements(part: Collection[Any]) -> list[Any]:
    """Returns the elements of the set ``part``, in an order that depends on their values only."""
    return sorted(part, key=lambda element: repr(canonicalize(element)))


def are_unique_words(outputs: Sequence[Any]) -> bool:
    """Whether all of ``outputs`` differ, and each is bytes or one word that is not a number."""
    texts = [answer for answer in outputs if isinstance(answer, (str, bytes))]
    return len(set(texts)) == len(outputs) > 0 and all(
        isinstance(text, bytes) or (_ENCODED.fullmatch(text) and not _NUMBER.fullmatch(text))
        for text in texts
    )


def _is_all_nan(answer: Any) -> bool:
    if isinstance(answer, (list, tuple)):
        return bool(answer) and all(map(_is_all_nan, answer))
    return isinstance(answer, float) and math.isnan(answer)


def _is_derived(path: str) -> bool:
    """Checks whether a path leads to a piece of a text at another path, or to an order of keys."""
    return _PIECE in path or path.endswith(_ORDER)


def _is_compound(answer: Any) -> bool:
    if isinstance(answer, (bytes, bytearray)):
        return len(answer) > 1
    if isinstance(answer, str):
        plain = answer.isalpha() and len(answer) <= _ONE_THING
        return bool(answer) and not plain
    if isinstance(answer, float):
        return math.isnan(answer)
    if isinstance(answer, (set, frozenset)) or read_record_fields(answer) is not None:
        return True
    if not isinstance(answer, (dict, list, tuple, np.ndarray)):
        return answer is None
    try:
        array = np.asarray(answer)
    except Exception:  # ragged, or a foreign class that cannot become an array
        array = np.empty(0, dtype=object)
    if array.dtype.kind == "f":
        return bool(np.isnan(array).any())
    if array.dtype.kind not in "UO":
        return False
    leaves = [leaf for _, leaf in _iter_leaves(answer, "", 0)]
    if array.dtype.kind == "O":
        return all(isinstance(leaf, _PLAIN) for leaf in leaves)
    with_numbers = len({isinstance(leaf, (str, bytes)) for leaf in leaves}) == 2
    return with_numbers or any(map(_is_compound, np.asarray(answer, dtype=object).ravel().tolist()))


_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


def _iter_leaves(part: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yields pairs (path, value) for the values in ``part``, an output or a value within an output.

    JSON in text is parsed; other text is also split into words. The order of a dictionary's keys is
    a value too. ``path``, ``depth``: path and nesting depth of ``part`` within the output.
    """
    if isinstance(part, str):
        opened = _parse_json(part)
        if opened is not part:
            yield f"{path}{_OPENED}", part
            part = opened
    ordered = isinstance(part, dict)
    record = read_record_fields(part)
    if record is not None or isinstance(part, (set, frozenset)):
        yield f"{path}{_CLASS}", type(part).__qualname__
        part = record if record is not None else {_to_key(e): True for e in sort_elements(part)}
    if isinstance(part, np.ndarray):
        part = part.tolist()
    if isinstance(part, (dict, list, tuple)) and depth < _MAX_DEPTH:
        items = part.items() if isinstance(part, dict) else enumerate(part)
        if not part:
            yield path, part
        if ordered and len(part) > 1:
            yield f"{path}{_ORDER}", repr([*part])
        for key, child in items:
            plain = isinstance(key, str) and key.isidentifier()
            step = f".{key}" if plain else f"[{key!r}]"
            yield from _iter_leaves(child, path + step, depth + 1)
    else:
        yield path, part
        if isinstance(part, (str, bytes)):
            yield from _iter_pieces(part, path)


def _to_key(element: Any) -> Any:
    """Returns an element of a set as a key: itself, or its ``repr`` if it is not a plain value."""
    return element if isinstance(element, _PLAIN) else repr(canonicalize(element))


def _iter_pieces(text: str | bytes, path: str) -> Iterator[tuple[str, str]]:
    """Yields pairs (path, piece): the words of a text, or the letters of bytes and of single words.

    The path gives the piece's index, counted from the start or from the end. A text that is a
    decimal fraction is not split.
    """
    letters = text.decode("latin-1") if isinstance(text, bytes) else text
    pieces: Sequence[str] = [] if isinstance(text, bytes) else _WORD.findall(text)
    first, last = _WORDS, _LAST_WORDS
    if len(pieces) < 2:
        if len(letters) < 2 or (letters.isalpha() and len(letters) <= _ONE_THING):
            return
        pieces, first, last = letters, _LETTERS, _LAST_LETTERS
    if isinstance(text, str) and "." in text and _NUMBER.fullmatch(text):
        return
    for index, piece in enumerate(pieces[:first]):
        yield f"{path}{_PIECE}{index}", piece
    for index in range(1, min(last, len(pieces)) + 1):
        yield f"{path}{_PIECE}-{index}", pieces[-index]


def _parse_json(text: str) -> Any:
    """Returns the object or list that ``text`` holds as JSON; returns any other text unchanged."""
    if text[:1] not in "{[" or not text:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _clip(number: float) -> float:
    return float(min(max(number, -1e100), 1e100))


def _checksum(text: str) -> float:
    """Returns an integer below 2^52, equal for two different texts with probability about 2^-52."""
    data = text.encode("utf-8", "surrogatepass")
    return float(zlib.crc32(data) | (zlib.adler32(data[::-1]) & 0xFFFFF) << 32)
