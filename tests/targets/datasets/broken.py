"""A file of a data set with one thing wrong in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Dataset


def check_named(
    dataset: Dataset,
    file: Path,
    old: str,
    new: str,
    expected: Iterable[str],
    encoding: str = "utf-8",
) -> None:
    """With ``new`` for the first ``old``, a one-line error names the file and has these parts.

    If ``old`` is "*", ``new`` is the whole file.
    """
    text = file.read_text(encoding)
    assert old == "*" or old in text
    file.write_text(new if old == "*" else text.replace(old, new, 1), encoding, newline="")
    with pytest.raises(InputError) as caught:
        dataset.load(file.parent)
    message = str(caught.value)
    assert all(part in message for part in [file.name, *expected]), message
    assert "\n" not in message
    assert len(message) < 1000
