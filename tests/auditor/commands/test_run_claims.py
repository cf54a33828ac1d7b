"""`auditor run --only claims`: demonstrations without data, resumable, the same with any jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.plan.plan import make_plan
from fedrec_auditor.auditor.run.runner import audit
from fedrec_auditor.auditor.run.tasks import Audit
from fedrec_auditor.reports.record import Record
from tests.command import cli, refusal

NAMES = ["dplcf-ap-zeros", "dplcf-sufficient", "lcf-ap-zeros"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three demonstrations by two workers."""
    out = tmp_path_factory.mktemp("claims")
    words = ("run", "dplcf-ap", "lcf-ap", "--only", "claims", "--quick", "--jobs", 2, "--out", out)
    for name, said in zip(("code", "stdout", "stderr"), cli(*words), strict=True):
        (out / name).write_text(str(said))
    return out


def test_violations_are_shown_and_exit_with_the_finding(done: Path) -> None:
    assert (done / "code").read_text() == "1", (done / "stderr").read_text()
    record = Record.read(done)
    assert [row.name for row in record.demonstrations] == NAMES
    assert all(row.shown for row in record.demonstrations)
    assert {finding.verdict for finding in record.findings} == {Verdict.VIOLATED}
    assert record.provenance.data is None
    assert not record.attacks
    assert not record.utility


def test_every_report_has_them(done: Path) -> None:
    out = (done / "stdout").read_text()
    assert "Demonstrations: 3 of 3 violations shown on the target itself." in out
    html, markdown = (done / "report.html").read_text(), (done / "report.md").read_text()
    assert '<h2 id="demonstrations">Demonstrations</h2>' in html
    assert "\n## Demonstrations\n" in markdown
    for text in (out, html, markdown):
        for name in NAMES:
            assert name in text


def test_an_edited_outcome_is_refused(done: Path, tmp_path: Path) -> None:
    text = (done / "report.json").read_text()
    (tmp_path / "report.json").write_text(text.replace('"shown": true', '"shown": false', 1))
    assert "Expected shown=True in demonstration dplcf-ap-zeros" in refusal("report", tmp_path)


def test_a_level_decides_the_exit_code(tmp_path: Path) -> None:
    words = ("run", "lcf-ap", "--only", "claims", "--quick", "--jobs", "1", "--out", tmp_path)
    assert cli(*words, "--fail-on", "never")[0] == 0
    (row,) = Record.read(tmp_path).demonstrations
    assert row.shown
    assert "a tenth of its 1,000,000 runs" in row.note
    assert cli(*words)[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "synthetic"), "Expected no --data with --only claims"),
        (("--column", "user=u", "--min-user", "3"), "Expected no --column, --min-user"),
        (("fcf",), "Expected a target with a demonstration"),
        (("fcff",), "Did you mean"),
        (("--jobs", "0"), "jobs"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refusal("run", *words, "--only", "claims", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_settings_are_refused_where_each_demonstration_brings_its_own(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('targets = ["lcf-ap"]\nonly = "claims"\n[settings.lcf-ap]\nepsilon = 2.0\n')
    assert "Expected no settings where only claims are demonstrated" in refusal(
        "run", "--plan", plan, "--out", tmp_path / "out"
    )


def test_a_target_among_others_without_a_demonstration_is_left_out() -> None:
    plan = make_plan({"targets": ("fcf", "lcf-ap"), "only": "claims"}).resolved()
    assert plan.targets == ("lcf-ap",)
    every = make_plan({"only": "claims"}).resolved()
    assert {"dplcf-ap", "lcf-ap", "fmf-ldp"} <= set(every.targets)
    tasks = Audit.of(every).tasks()
    assert len(tasks) == len(set(tasks))


def test_python_runs_them_too_and_one_worker_finds_the_same(done: Path) -> None:
    record = audit(["dplcf-ap", "lcf-ap"], only="claims", quick=True, jobs=1)
    assert record.plan["only"] == "claims"
    assert record.findings == Record.read(done).findings
    assert record.demonstrations == Record.read(done).demonstrations
