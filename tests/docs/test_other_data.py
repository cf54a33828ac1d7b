"""Data sets of the papers are read as tables, by the options that the page on systems gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedrec_auditor.auditor.plan.plan import amend
from fedrec_auditor.auditor.plan.planned_data import load_planned
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "auditing-systems.md").read_text(encoding="utf-8")
FILES = {
    "MovieLens 20M, 25M": "userId,movieId,rating,timestamp\n2,6,4.5,8\n1,5,0.5,9\n",
    "MovieLens 10M": "2::6::4.5::8\n1::5::0.5::9\n",
    "LibimSeTi": "2,6,4.5\n1,5,0.5\n",
    "Frappe": "user\titem\tcnt\tdaytime\tcity\n2\t6\t4.5\tnight\t0\n1\t5\t0.5\tnight\t7\n",
    "AppUsage": "2 19700101000008 4F1 6 3500\n1 19700101000009 99 5 10\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_published_file_is_read_by_the_options_of_the_page(name: str, tmp_path: Path) -> None:
    (said,) = re.findall(rf"\| {name} \| `--data (\S+)(.*?)` \|", PAGE)
    file, options = said
    (tmp_path / file).write_text(FILES[name])
    columns = dict(text.split("=") for text in re.findall(r"--column (\S+)", options))
    columns |= {"header": "no"} if "--no-header" in options else {}
    plan = amend(None, {"data": str(tmp_path / file), "columns": columns or None})
    found = load_planned(plan)
    assert (found.users.tolist(), found.items.tolist()) == ([1, 2], [5, 6])
    ratings = [1, 1] if name == "AppUsage" else [0.5, 4.5]
    assert found.ratings.data.tolist() == ratings
    times = None if found.timestamps is None else found.timestamps.tolist()
    assert times == (None if name in ("LibimSeTi", "Frappe") else [9, 8])
