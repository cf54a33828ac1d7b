"""A file with one thing wrong, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Dataset


def check_named(
    dataset: Dataset, file: Path, old: str, new: str, said: list[str], encoding: str = "utf-8"
) -> None:
    """With ``new`` in the place of ``old`` ("" is all of it), the error names file and fault."""
    text = file.read_text(encoding)
    assert old in text
    file.write_text(text.replace(old, new, 1) if old else new, encoding)
    with pytest.raises(InputError) as caught:
        dataset.load(file.parent)
    message = str(caught.value)
    assert all(part in message for part in (file.name, *said)), message
    assert "\n" not in message
    assert len(message) < 1000
