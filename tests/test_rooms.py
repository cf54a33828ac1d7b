"""Rooms keep to their ceilings of code lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.rooms import code_lines, exceeded, room_of

SOURCE = '''"""A module
of two lines."""

# A comment.
value = 1  # code


def function() -> None:
    """A docstring."""
    return None
'''


def test_blanks_comments_and_docstrings_are_no_code() -> None:
    assert code_lines(SOURCE) == 3


def test_a_file_belongs_to_its_innermost_room() -> None:
    rooms = {"auditor", "auditor/games"}
    assert room_of(Path("auditor/games/local.py"), rooms) == ("auditor/games", "source")
    assert room_of(Path("tests/auditor/run/test_x.py"), rooms) == ("auditor", "tests")
    with pytest.raises(LookupError, match="settings"):
        room_of(Path("targets/settings.py"), rooms)


def test_a_room_above_its_ceiling_is_named_with_both_figures() -> None:
    counts = Counter({("attacks", "source"): 1200, ("attacks", "tests"): 10})
    (sentence,) = exceeded(counts, {"attacks": {"source": 1199, "tests": 10}})
    assert "at most 1,199 code lines of source in attacks, got 1,200" in sentence
    assert len(exceeded(counts, {"attacks": {}})) == 2
