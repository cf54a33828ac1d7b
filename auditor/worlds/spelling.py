"""Answers that are no arrays of numbers, spelt as words from which they can be made again."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.fields import Fields

# Words that are remembered: the same draws are asked about again and again.
_parsed = functools.lru_cache(maxsize=1 << 14)(ast.literal_eval)
_ARRAY, _NUMBER = "an array", "a number"


class Spelling:
    """Python's own spelling of dictionaries, lists, null, text and numbers, and back.

    One answer has one word, and equal words are equal answers. Arrays are spelt with their type.

    >>> Spelling().read([{"bit": 1, "who": None}]).tolist()
    ["{'bit': 1, 'who': None}"]
    >>> Spelling().answer("{'bit': 1, 'who': None}")
    {'bit': 1, 'who': None}
    """

    @classmethod
    def of(cls, answers: Sequence[Any]) -> Spelling | None:
        """For answers of which some are no arrays and no words; None if there are none."""
        told = all(isinstance(answer, (str, bytes)) for answer in answers)
        return None if told or Fields.of(answers) is None else cls()

    def read(self, answers: Iterable[Any]) -> NDArray[np.str_]:
        """One word for each answer, (n,)."""
        return np.array([repr(_plain(answer)) for answer in answers], dtype=np.str_)

    def answer(self, word: str) -> Any:
        """What was spelt so."""
        return _restored(_parsed(word))


def _plain(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return (_ARRAY, part.dtype.str, _plain(part.tolist()))
    if isinstance(part, np.generic):
        part = part.item()
    if isinstance(part, float) and not math.isfinite(part):
        return (_NUMBER, repr(part))
    if isinstance(part, dict):
        return {key: _plain(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return (tuple if isinstance(part, tuple) else list)(map(_plain, part))
    return part


def _restored(part: Any) -> Any:
    if isinstance(part, tuple) and len(part) == 3 and part[0] == _ARRAY:
        return np.array(_restored(part[2]), dtype=part[1])
    if isinstance(part, tuple) and len(part) == 2 and part[0] == _NUMBER:
        return float(part[1])
    if isinstance(part, dict):
        return {key: _restored(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return type(part)(map(_restored, part))
    return part
