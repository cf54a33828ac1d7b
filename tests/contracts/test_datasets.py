"""The data set contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.testing.datasets import DatasetCase, DatasetContract
from tests.contracts.datasets import CASES

ALL = tuple(case for cases in CASES.values() for case in cases)


@pytest.mark.parametrize("check", DatasetContract.laws, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{name} {position}")
        for name, cases in CASES.items()
        for position, case in enumerate(cases)
    ],
)
def test_data_set_keeps_the_contract(
    case: DatasetCase, check: Callable[[DatasetCase], None]
) -> None:
    check(replace(case, others=ALL))


@pytest.mark.parametrize("name", sorted({*CASES} - {"ml-100k", "synthetic", "table"}))
def test_the_cache_is_used_and_an_empty_one_says_where_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", str(tmp_path))
    case, place = CASES[name][-1], tmp_path / name
    with pytest.raises(InputError, match="Fetch ") as caught:
        case.dataset.load()
    assert str(tmp_path) in str(caught.value)
    assert f"Fetch {name}.zip" in str(caught.value) or not name.startswith("ml-")
    place.mkdir()
    case.write(place)
    assert case.dataset.load().digest() == case.dataset.load(place).digest()
