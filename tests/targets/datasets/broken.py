"""A data set's file with one fault."""

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
    """Asserts that ``new`` in place of the first ``old`` gives a one-line error with these parts.

    If ``old`` is "*", ``new`` is the whole file. The error names the file.
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
