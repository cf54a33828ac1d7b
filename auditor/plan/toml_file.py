"""Files of TOML by others: read at a bounded cost, and refused in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.reports.store import read_regular

LARGEST = 2**18
"""Most bytes of a file: fifty times a plan that sets every setting of every target."""
MOST_DOTS = 256
"""Most dots of a statement: the time to parse a key grows with the square of them."""
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'{3}.*?\'{3}(?:\'{0,2})|"(?:\\.|[^"\\\n])*"'''
    r"""|'[^'\n]*'|\#[^\n]*|[][{}.\n]""",
    re.DOTALL,
)
"""What decides where a statement of TOML ends: strings, comments, brackets and ends of line."""


def read_toml(path: Path, noun: str) -> tuple[str, dict[str, Any]]:
    """The text of a file, and what it says; InputError names the ``noun`` that it is to be."""
    try:
        text = read_regular(path, LARGEST, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(
            f"Expected a readable {noun}, got {str(path)!r} ({why}). Check the path."
        ) from error
    for end, dots in statements(text):
        if dots > MOST_DOTS:
            raise InputError(
                f"Expected at most {MOST_DOTS} dots in a statement of a {noun}, got {dots} in that "
                f"which ends in line {end} of {path}. Shorten its keys."
            )
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected TOML, got: {error}. Mend that line.") from error


def statements(text: str) -> Iterator[tuple[int, int]]:
    """The last line of each statement of a TOML text, counted from 1, and how many dots it has."""
    line, depth, dots = 1, 0, 0
    for token in _TOKEN.findall(text):
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        dots += token == "."
        if token == "\n" and depth <= 0:
            yield line, dots
            dots = 0
        line += token.count("\n")
    yield line, dots
