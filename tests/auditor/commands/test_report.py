"""Tests of `auditor report`: the reports of a run, and one of its systems in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import cli, refusal
from tests.reports.conftest import sample


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample().save(tmp_path_factory.mktemp("run"))


def test_a_run_is_given_by_its_folder_or_its_record(run: Path) -> None:
    said = cli("report", run, "dplcf-ap")
    assert said == cli("report", run / "report.json", "dplcf-ap")
    code, text, _ = said
    assert code == 0
    assert text.startswith("dplcf-ap: Critical\nThe claim is false")
    assert text.rstrip().endswith(f"{run / 'report.html'}#dplcf-ap")
    assert 'id="dplcf-ap"' in (run / "report.html").read_text()


def test_the_summary_names_the_command_for_details(run: Path) -> None:
    code, text, _ = cli("report", run)
    assert (code, text.startswith("PRIVACY AUDIT")) == (0, True)
    (pointer,) = (line for line in text.splitlines() if line.startswith("Details: auditor "))
    code, text, _ = cli(*pointer.removeprefix("Details: auditor ").split())
    assert (code, text.split(":")[0]) == (0, pointer.split()[-1])


def test_an_unknown_system_is_refused_with_the_known_names(run: Path) -> None:
    assert "got 'DPLCF'. Did you mean dplcf-ap or dplcf-sp?" in refusal("report", run, "DPLCF")
    assert "It has: " in refusal("report", run, "xyz")
    assert cli("report", run / "nowhere")[0] == 2


@pytest.mark.parametrize(
    "option", [("--fail-on", "leak"), ("--leak-margin", ".5"), ("--tables", "t")]
)
def test_details_of_a_system_write_no_files_and_refuse_render_options(
    option: tuple[str, str], tmp_path: Path
) -> None:
    out = sample().save(tmp_path / "run")
    (out / "junit.xml").write_text("of another gate")
    assert "or leave out 'fcf'" in refusal("report", out, "fcf", *option)
    assert cli("report", out, "fcf")[0] == 0
    assert "or leave out --by-attack" in refusal("report", out, "--by-attack", *option)
    code, text, _ = cli("report", out, "--by-attack")
    assert (code, "membership" in text, "92%" in text) == (0, True, True)
    assert (out / "junit.xml").read_text() == "of another gate"


def test_report_prints_the_summary_and_exports(tmp_path: Path) -> None:
    out = sample().save(tmp_path / "run")
    code, text, _ = cli("report", out)
    summary, _, rendered = text.partition("Rendered")
    assert rendered.startswith(f" {out / 'report.html'}, report.md")
    (out / "report.md").write_text("of another gate")
    code, text, err = cli(
        "report", out, "--figures", tmp_path / "figures", "--tables", out / "tables"
    )
    assert code == 0
    assert text.startswith(summary)
    assert (out / "report.md").read_text() == "of another gate"
    assert "Rendered" not in text
    assert f"as CSV in {out / 'tables'}." in text
    assert len(list((out / "tables").iterdir())) == 6
    drawn = {path.suffix for path in (tmp_path / "figures").iterdir()}
    assert (drawn, err) == ({".svg"}, "")
    (tmp_path / "file").touch()
    assert "can be written" in refusal("report", out, "--tables", tmp_path / "file")
