"""Answers that are no arrays of numbers, dictionaries, lists, text, read as named fields."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
_PIECE, _ORDER, _OPENED = " piece ", " (order of keys)", " (text)"
# Texts that are remembered, so that a witness can be told in words.
_REMEMBERED, _LONGEST = 4096, 200
# What stands at a path; 0 where there is nothing.
_NULL, _TRUTH, _NUMERIC, _TEXT, _EMPTY, _MINUS_ZERO = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0


@dataclass(frozen=True, slots=True)
class Fields:
    """The paths of a few answers, such as .age or [2]; read from any number of others.

    Each path gives three numbers: what stands there (nothing, null, a truth value, a number, -0.0,
    text, an empty list), its number (that of a number in text too, else 0) and a checksum of its
    text (else 0). Words of a text, or letters of a text of one word and of bytes, are further
    paths, counted from either end; so is the order of keys. A last number is a checksum of what
    stands at other paths. ``texts`` are some of those behind the checksums.
    """

    paths: tuple[str, ...]
    texts: dict[float, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, answers: Sequence[Any]) -> Fields | None:
        """The fields of these; None for numbers and for plain words.

        Words that end in a NUL are read as well: an array of numpy drops it. So are numbers of
        which some, and not all, are NaN.
        """
        lists = [answer for answer in answers if isinstance(answer, (list, tuple))]
        if len(set(map(len, lists))) < 2 and not any(map(_structured, answers)):
            return None
        if all(map(_nothing_but_nan, answers)):
            return None
        found = {path: None for answer in answers for path, _ in _leaves(answer, "", 0)}
        return cls(tuple(sorted(found, key=_derived))[:_MOST])

    def read(self, answers: Iterable[Any]) -> NDArray[np.float64]:
        """One row of numbers for each answer, (n, 3 paths + 1)."""
        place = {path: 3 * index for index, path in enumerate(self.paths)}
        rows = []
        for answer in answers:
            row, rest = [0.0] * (3 * len(self.paths) + 1), ""
            for path, leaf in _leaves(answer, "", 0):
                at = place.get(path)
                if at is None:
                    rest += "" if _derived(path) else f"{path}={leaf!r};"
                    continue
                row[at : at + 3], text = _numbers(leaf)
                if text:
                    self._remember(row[at + 2], repr(text))
            if rest:
                row[-1] = _checksum(rest)
                self._remember(row[-1], rest)
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1)

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
        if column == 3 * len(self.paths):
            return f"checksum of {self.name(column)}"
        return f"{('kind of ', '', 'checksum of ')[column % 3]}{self.name(column)}"

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
        kind, number, checksum = (*row[start : start + 3].tolist(), 0.0, 0.0)[:3]
        if start == 3 * len(self.paths):
            return self.texts.get(kind, "others") if kind else "none"
        if kind == _NUMERIC:
            return f"{number:.15g}"
        if kind == _MINUS_ZERO:
            return "-0.0"
        if kind == _TRUTH:
            return str(bool(number))
        if kind in (_TEXT, _EMPTY):
            return self.texts.get(checksum, "a text")
        return "None" if kind == _NULL else "absent"

    def _remember(self, checksum: float, text: str) -> None:
        if len(self.texts) < _REMEMBERED:
            self.texts.setdefault(checksum, text[:_LONGEST])


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
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "biuS":
        return False
    if isinstance(answer, (list, tuple, np.ndarray)):
        try:
            kind = np.asarray(answer).dtype.kind
        except Exception:  # ragged, or a foreign class that is no array
            return all(isinstance(leaf, _PLAIN) for _, leaf in _leaves(answer, "", 0))
        if kind == "f":
            return bool(np.isnan(np.asarray(answer)).any())
        if kind == "U":
            if len({isinstance(leaf, (str, bytes)) for _, leaf in _leaves(answer, "", 0)}) == 2:
                return True
            return any(map(_structured, np.asarray(answer, dtype=object).ravel().tolist()))
        return kind == "O" and all(isinstance(leaf, _PLAIN) for _, leaf in _leaves(answer, "", 0))
    if isinstance(answer, dict):
        return all(isinstance(leaf, _PLAIN) for _, leaf in _leaves(answer, "", 0))
    return answer is None


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
    if isinstance(part, np.ndarray):
        part = part.tolist()
    if isinstance(part, (dict, list, tuple)) and depth < _DEEPEST:
        items = part.items() if isinstance(part, dict) else enumerate(part)
        if not part:
            yield path, part
        if isinstance(part, dict) and len(part) > 1:
            yield f"{path}{_ORDER}", repr([*part])
        for key, child in items:
            plain = isinstance(key, str) and key.isidentifier()
            step = f".{key}" if plain else f"[{key!r}]"
            yield from _leaves(child, path + step, depth + 1)
    else:
        yield path, part
        if isinstance(part, (str, bytes)):
            yield from _pieces(part, path)


def _pieces(text: str | bytes, path: str) -> Iterator[tuple[str, str]]:
    """Words of a text from either end; letters where it is one word, and of bytes.

    A fraction is read as a number, and has none.
    """
    if isinstance(text, bytes):
        words, letters = [], text.decode("latin-1")
    else:
        words, letters = _WORD.findall(text), text
        if "." in text and _NUMBER.fullmatch(text):
            return
    if len(words) > 1:
        for index, word in enumerate(words[:_WORDS]):
            yield f"{path}{_PIECE}{index}", word
        for index in range(1, min(_LAST_WORDS, len(words)) + 1):
            yield f"{path}{_PIECE}-{index}", words[-index]
    elif len(letters) > 1 and not (letters.isalpha() and len(letters) <= _ONE_THING):
        for index, letter in enumerate(letters[:_LETTERS]):
            yield f"{path}{_PIECE}{index}", letter
        for index in range(1, min(_LAST_LETTERS, len(letters)) + 1):
            yield f"{path}{_PIECE}-{index}", letters[-index]


def _parsed(text: str) -> Any:
    """The object or list that JSON text holds; the text itself if it holds none."""
    if text[:1] not in "{[" or not text:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _numbers(leaf: Any) -> tuple[tuple[float, float, float], Any]:
    """Kind, number and checksum of what stands at a path, and what the checksum is of, if any."""
    if isinstance(leaf, np.generic):
        leaf = leaf.item()
    if leaf is None:
        return (_NULL, 0.0, 0.0), None
    if isinstance(leaf, bool):
        return (_TRUTH, float(leaf), 0.0), None
    if leaf == 0 and isinstance(leaf, float) and math.copysign(1.0, leaf) < 0:
        return (_MINUS_ZERO, 0.0, 0.0), None
    if isinstance(leaf, (int, float)) and leaf == leaf:
        return (_NUMERIC, _clipped(leaf), 0.0), None
    text = leaf.decode("latin-1") if isinstance(leaf, bytes) else leaf
    if isinstance(text, str):
        number = _clipped(float(text)) if _NUMBER.fullmatch(text) else 0.0
        return (_TEXT, number, _checksum(text)), leaf
    return (_EMPTY, 0.0, _checksum(repr(leaf))), leaf


def _clipped(number: float) -> float:
    return float(min(max(number, -1e100), 1e100))


def _checksum(text: str) -> float:
    """A whole number below 2^52: another text has another one, but for one pair in 2^52."""
    data = text.encode("utf-8", "surrogatepass")
    return float(zlib.crc32(data) | (zlib.adler32(data[::-1]) & 0xFFFFF) << 32)
