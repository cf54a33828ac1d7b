"""The register lists every claim once, and finds a claim by filter, word and link."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from benchmarks.register import FILTERS, NO_VALUE, Entry, collect, format_page, main, read_unclaimed
from benchmarks.wild.finding import MECHANISMS
from benchmarks.wild.rows import read_rows
from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.reports.documents.catalogue import CatalogueRow
from tests.reports.writers.test_browser import BROWSER, MEASURE, check_access, dump, run_in_frames

FIND = """
const select = document.getElementById("by-verdict"), search = document.getElementById("search");
const rows = [...document.querySelectorAll("tbody tr")];
const shown = () => rows.filter(r => !r.hidden).map(r => r.id), found = {all: shown().length};
select.value = "false"; select.dispatchEvent(new Event("input", {bubbles: true}));
found.refuted = shown();
search.value = "PYTORCH_RECSYS dplcf-ap"; search.dispatchEvent(new Event("input", {bubbles: true}));
found.searched = shown(); found.status = document.getElementById("shown").textContent;
location.hash = document.querySelector("tbody tr:not([hidden]) a").getAttribute("href");
found.linked = document.querySelector(":target").id;
document.body.textContent = JSON.stringify(found);
"""


@pytest.fixture(scope="module")
def claims(judged: tuple[CatalogueRow, ...]) -> list[Entry]:
    return collect(judged)


def test_every_claim_is_listed_once(claims: list[Entry], judged: tuple[CatalogueRow, ...]) -> None:
    count = len(judged) + len(read_rows()) + len(read_unclaimed())
    assert len({claim.key for claim in claims}) == len(claims) == count
    assert all(getattr(claim, name) for claim in claims for name in FILTERS)
    assert all(claim.command for claim in claims if claim.claimed != "no epsilon")
    assert {claim.mechanism for claim in claims} == {*MECHANISMS, NO_VALUE}


def test_help_writes_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["register", "--help"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert not list(tmp_path.iterdir())


def test_claims_that_no_paper_states_are_labelled_derived(claims: list[Entry]) -> None:
    derived = [claim for claim in claims if claim.basis == Basis.DERIVED]
    assert derived
    assert not {claim.verdict for claim in derived} & {"false", "wrong"}
    readings = {claim.key for claim in derived if not claim.claimed.startswith("derived: ")}
    assert all(
        claim.verdict == "outside the claim's scope" for claim in derived if claim.key in readings
    )


def test_a_reader_finds_a_claim(claims: list[Entry], tmp_path: Path) -> None:
    if BROWSER is None:
        pytest.skip("needs Chromium, which is not installed here")
    script = f"<script>addEventListener('load', () => {{{FIND}}})</script></body>"
    (tmp_path / "register.html").write_text(format_page(claims).replace("</body>", script))
    found = dump(tmp_path / "register.html")
    assert found["all"] == len(claims)
    assert found["refuted"] == [c.key for c in claims if c.verdict == "false"]
    assert found["searched"] == ["pytorch_recsys-asymmetric"]
    assert found["status"] == f"1 of {len(claims)} claims"
    assert found["linked"] == "pytorch_recsys-asymmetric"


def test_it_fits_a_phone_and_a_desk(claims: list[Entry], tmp_path: Path) -> None:
    if BROWSER is None:
        pytest.skip("needs Chromium, which is not installed here")
    seen: dict[str, Any] = run_in_frames(format_page(claims), MEASURE, (390, 1280), tmp_path)
    for found in seen.values():
        assert (found["over"], found["wide"], found["twice"], found["asked"]) == (0, [], 0, 0)


def test_axe_finds_nothing_serious(claims: list[Entry], tmp_path: Path) -> None:
    spec = importlib.util.find_spec("axe_core_python")
    if BROWSER is None or spec is None or spec.origin is None:
        pytest.skip("needs Chromium and axe-core-python, which are not both installed here")
    check_access(format_page(claims[::20]), Path(spec.origin).parent, tmp_path)
