"""Answers that are no arrays of numbers but dictionaries, lists, text: read by field, or whole."""

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
_DEEPEST, _MOST = 8, 64
# Words of a text that stand by themselves; and pieces of it that are read, from either end.
_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_WORDS, _LAST_WORDS, _LETTERS, _LAST_LETTERS = 16, 2, 24, 4
# A word of more letters may encode several things.
_ONE_THING = 16
# What hexadecimal digits, base64 and the like are made of.
_ENCODED = re.compile(r"[\w+/=-]+")
_PIECE, _ORDER, _OPENED, _CLASS = " piece ", " (order of keys)", " (text)", " (class)"
# What stands at a path; 0 where there is nothing.
_NULL, _TRUTH, _NUMERIC, _TEXT, _EMPTY, _MINUS_ZERO = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0
KEPT, _LONGEST = 1 << 18, 200
"""The different answers, or parts of them, that are kept: the last ones that were seen."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The paths of a few answers, such as .age or [2]; read from any number of others.

    Each path gives three numbers: what stands there (nothing, null, a truth value, a number, -0.0,
    text, an empty list), its number (that of a number in text too, else 0) and a checksum of its
    text (else 0). Words of a text, or letters of a text of one word and of bytes, are further
    paths, counted from either end; so is the order of keys. Elements of a set are paths at which
    True stands; of a set, a named tuple and a dataclass the name of the class is one. A last number
    is a checksum of what stands at other paths.

    Without paths an answer is read as a whole: one word, in Python's own spelling. Equal words are
    equal answers, and ``answer`` gives back what was spelt so.

    What checksums and words stand for is kept, ``KEPT`` of them at most; of a witness the first 200
    letters. Of others it is said that they are "a text", and their ``answer`` is a KeyError.

    >>> Fields().read([{"bit": 1, "who": None}]).tolist()
    ["{'bit': 1, 'who': None}"]
    """

    paths: tuple[str, ...] = ()
    kept: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, answers: Sequence[Any], *, whole: bool = False) -> Fields | None:
        """The fields of these, or for them as a ``whole``; None for numbers and for plain words.

        Words that end in a NUL are read as well: an array of numpy drops it. So are numbers of
        which some, and not all, are NaN. Text as a whole is no other than it was.
        """
        lists = [answer for answer in answers if isinstance(answer, (list, tuple))]
        if len(set(map(len, lists))) < 2 and not any(map(_structured, answers)):
            return None
        if all(map(_nothing_but_nan, answers)):
            return None
        if whole:
            return None if all(isinstance(each, (str, bytes)) for each in answers) else cls()
        found = {path: None for answer in answers for path, _ in _leaves(answer, "", 0)}
        return cls(tuple(sorted(found, key=_derived))[:_MOST])

    def read(self, answers: Iterable[Any]) -> NDArray[Any]:
        """One row of numbers for each answer, (n, 3 paths + 1), or one word, (n,)."""
        if not self.paths:
            words = [self._keep(repr(plain(answer)), copy.deepcopy(answer)) for answer in answers]
            return np.array(words, dtype=np.str_)
        place = {path: 3 * index for index, path in enumerate(self.paths)}
        rows = []
        for answer in answers:
            row, rest = [0.0] * (3 * len(self.paths) + 1), ""
            for path, leaf in _leaves(answer, "", 0):
                at = place.get(path)
                if at is not None:
                    row[at : at + 3] = self._numbers(leaf)
                elif not _derived(path):
                    rest += f"{path}={leaf!r};"
            if rest:
                row[-1] = self._keep(_checksum(rest), rest[:_LONGEST])
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1)

    def answer(self, word: str) -> Any:
        """The answer that was read as this word."""
        return copy.deepcopy(self.kept[word])

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The places in a row that belong to each path, and to the rest."""
        last = 3 * len(self.paths)
        return (*((k, k + 1, k + 2) for k in range(0, last, 3)), (last,))

    def name(self, column: int) -> str:
        """The field of a column, as Python would write it: output.user.bits[0]."""
        path = column // 3
        return f"output{self.paths[path]}" if path < len(self.paths) else "output's other fields"

    def column_name(self, column: int) -> str:
        """What a column holds."""
        what = 2 if column == 3 * len(self.paths) else column % 3
        return f"{('kind of ', '', 'checksum of ')[what]}{self.name(column)}"

    def made_of(self, columns: Collection[int]) -> tuple[int, ...]:
        """These columns and those of all that holds, or is a part of, what they show."""
        shown = {self.paths[column // 3] for column in columns if column < 3 * len(self.paths)}
        held = {path.partition(_PIECE)[0] for path in shown}

        def made(path: str) -> bool:
            holder, opened, _ = path.partition(_OPENED)
            return (
                path in shown | held
                or path.partition(_PIECE)[0] in shown
                or (bool(opened) and any(each.startswith(holder) for each in held))
            )

        of_paths = [3 * k + j for k, path in enumerate(self.paths) if made(path) for j in range(3)]
        return tuple({*columns, *of_paths})

    def value(self, row: NDArray[np.float64], column: int) -> str:
        """What the field of a column was in a row, in words."""
        start = column // 3 * 3
        if start == 3 * len(self.paths):
            return self.kept.get(float(row[start]), "others") if row[start] else "none"
        kind, number, checksum = row[start : start + 3].tolist()
        return {
            _NUMERIC: f"{number:.15g}",
            _MINUS_ZERO: "-0.0",
            _TRUTH: str(bool(number)),
            _NULL: "None",
        }.get(kind, self.kept.get(checksum, "a text") if kind else "absent")

    def _numbers(self, leaf: Any) -> tuple[float, float, float]:
        """Kind, number and checksum of what stands at a path."""
        if isinstance(leaf, np.generic):
            leaf = leaf.item()
        if leaf is None:
            return _NULL, 0.0, 0.0
        if isinstance(leaf, bool):
            return _TRUTH, float(leaf), 0.0
        if isinstance(leaf, (int, float)) and leaf == leaf:
            number = _clipped(leaf)
            minus = number == 0 and math.copysign(1.0, number) < 0
            return _MINUS_ZERO if minus else _NUMERIC, number + 0.0, 0.0
        text = leaf.decode("latin-1") if isinstance(leaf, bytes) else leaf
        told = isinstance(text, str)
        checksum = self._keep(_checksum(text if told else repr(leaf)), repr(leaf)[:_LONGEST])
        if told and _NUMBER.fullmatch(text):
            return _TEXT, _clipped(float(text)), checksum
        return _TEXT if told else _EMPTY, 0.0, checksum

    def _keep(self, index: Any, kept: Any) -> Any:
        """``index``, under which this is kept from now on."""
        self.kept.pop(index, None)
        self.kept[index] = kept
        if len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]
        return index


def plain(part: Any) -> Any:
    """A part so that equal ones are spelt alike, and no others; arrays with their type."""
    if isinstance(part, np.ndarray):
        return "an array", part.dtype.str, plain(part.tolist())
    if isinstance(part, (set, frozenset)):
        return type(part).__qualname__, [plain(element) for element in elements(part)]
    if (record := record_of(part)) is not None:
        return type(part).__qualname__, plain(record)
    if isinstance(part, dict):
        return {key: plain(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return (tuple if isinstance(part, tuple) else list)(map(plain, part))
    return part.item() if isinstance(part, np.generic) else part


def record_of(part: Any) -> dict[str, Any] | None:
    """The fields of a named tuple or of a dataclass with their values; None for other parts.

    What else was written into it is a field too.
    """
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        names: Iterable[str] = part._fields
    elif is_dataclass(part) and not isinstance(part, type):
        names = [each.name for each in fields(part)]
    else:
        return None
    return {name: getattr(part, name) for name in names} | getattr(part, "__dict__", {})


def elements(part: Collection[Any]) -> list[Any]:
    """The elements of a set, in an order that depends on their values alone."""
    return sorted(part, key=lambda element: repr(plain(element)))


def opaque(answers: Sequence[Any]) -> bool:
    """Whether these are all different, and texts of one word that is no number, or bytes."""
    texts = [answer for answer in answers if isinstance(answer, (str, bytes))]
    return len(set(texts)) == len(answers) > 0 and all(
        isinstance(text, bytes) or (_ENCODED.fullmatch(text) and not _NUMBER.fullmatch(text))
        for text in texts
    )


def _nothing_but_nan(answer: Any) -> bool:
    if isinstance(answer, (list, tuple)):
        return bool(answer) and all(map(_nothing_but_nan, answer))
    return isinstance(answer, float) and math.isnan(answer)


def _derived(path: str) -> bool:
    """Whether it is a path to a part, or a property, of what stands at another one."""
    return _PIECE in path or path.endswith(_ORDER)


def _structured(answer: Any) -> bool:
    if isinstance(answer, (bytes, bytearray)):
        return len(answer) > 1
    if isinstance(answer, str):
        plain = answer.isalpha() and len(answer) <= _ONE_THING
        return bool(answer) and not plain
    if isinstance(answer, float):
        return math.isnan(answer)
    if isinstance(answer, (set, frozenset)) or record_of(answer) is not None:
        return True
    if not isinstance(answer, (dict, list, tuple, np.ndarray)):
        return answer is None
    try:
        array = np.asarray(answer)
    except Exception:  # ragged, or a foreign class that is no array
        array = np.empty(0, dtype=object)
    if array.dtype.kind == "f":
        return bool(np.isnan(array).any())
    if array.dtype.kind not in "UO":
        return False
    leaves = [leaf for _, leaf in _leaves(answer, "", 0)]
    if array.dtype.kind == "O":
        return all(isinstance(leaf, _PLAIN) for leaf in leaves)
    beside_numbers = len({isinstance(leaf, (str, bytes)) for leaf in leaves}) == 2
    return beside_numbers or any(
        map(_structured, np.asarray(answer, dtype=object).ravel().tolist())
    )


_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


def _leaves(part: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """What an answer is made of, with its path; JSON in text is opened, other text is taken apart.

    The order of a dictionary's keys is told as well.
    """
    if isinstance(part, str):
        opened = _parsed(part)
        if opened is not part:
            yield f"{path}{_OPENED}", part
            part = opened
    ordered = isinstance(part, dict)
    record = record_of(part)
    if record is not None or isinstance(part, (set, frozenset)):
        yield f"{path}{_CLASS}", type(part).__qualname__
        part = record if record is not None else {_spelt(e): True for e in elements(part)}
    if isinstance(part, np.ndarray):
        part = part.tolist()
    if isinstance(part, (dict, list, tuple)) and depth < _DEEPEST:
        items = part.items() if isinstance(part, dict) else enumerate(part)
        if not part:
            yield path, part
        if ordered and len(part) > 1:
            yield f"{path}{_ORDER}", repr([*part])
        for key, child in items:
            plain = isinstance(key, str) and key.isidentifier()
            step = f".{key}" if plain else f"[{key!r}]"
            yield from _leaves(child, path + step, depth + 1)
    else:
        yield path, part
        if isinstance(part, (str, bytes)):
            yield from _pieces(part, path)


def _spelt(element: Any) -> Any:
    """An element of a set as a key: itself, or text where its own spelling has no fixed order."""
    return element if isinstance(element, _PLAIN) else repr(plain(element))


def _pieces(text: str | bytes, path: str) -> Iterator[tuple[str, str]]:
    """Words of a text from either end; letters where it is one word, and of bytes.

    A fraction is read as a number, and has none.
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


def _parsed(text: str) -> Any:
    """The object or list that JSON text holds; the text itself if it holds none."""
    if text[:1] not in "{[" or not text:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _clipped(number: float) -> float:
    return float(min(max(number, -1e100), 1e100))


def _checksum(text: str) -> float:
    """A whole number below 2^52: another text has another one, but for one pair in 2^52."""
    data = text.encode("utf-8", "surrogatepass")
    return float(zlib.crc32(data) | (zlib.adler32(data[::-1]) & 0xFFFFF) << 32)
