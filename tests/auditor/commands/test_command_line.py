"""Tests of the auditor command: its output, its files and its exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.audited_target import AuditedTarget
from fedrec_auditor.auditor.run.checkpoints import TASKS_FOLDER
from fedrec_auditor.auditor.run.tasks import TaskResult
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.record import Record
from tests.command import cli
from tests.points import later

PLAN = """\
targets = ["dplcf-ap", "dplcf-sp", "fcf", "fedmf", "fmf-ldp"]
attacks = ["attribute-knn", "interaction-membership", "interaction-reconstruction"]
data = "synthetic"
min_user = 70
quick = true
runs = 100
population = [4, 10]
[settings.fedmf]
rounds = 2
route = "shuffler"
learner = {name = "mf", dimension = 2}
protection = {name = "laplace", epsilon = 2.0}
"""
COMMAND = [sys.executable, "-m", "fedrec_auditor"]
PROGRESS = re.compile(r"\[(\d+)/(\d+)\] [a-z-]+ [a-z-]+; .+ so far")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a quick audit of a plan on synthetic data, with two workers."""
    out = tmp_path_factory.mktemp("run")
    (out / "plan.toml").write_text(PLAN)
    code, stdout, stderr = cli("run", "--plan", out / "plan.toml", "--jobs", 2, "--out", out)
    for name, text in (("code", str(code)), ("stdout", stdout), ("stderr", stderr)):
        (out / name).write_text(text)
    return out


def test_a_run_writes_reports_and_exits_with_1_for_a_false_claim(run_folder: Path) -> None:
    assert (run_folder / "code").read_text() == "1"
    for name in ("report.json", "report.html", "report.md", "junit.xml"):
        assert (run_folder / name).stat().st_size > 500
    assert not (run_folder / ".tasks").exists()
    record = Record.read(run_folder)
    verdicts = {
        (finding.target, finding.scope.unit.value, finding.scope.horizon.value): finding.verdict
        for finding in record.findings
        if finding.scope.vantage == "server"
    }
    assert verdicts == {
        ("dplcf-ap", "interaction", "training"): Verdict.VIOLATED,
        ("dplcf-ap", "user", "training"): Verdict.INCOMPARABLE,
        ("dplcf-sp", "interaction", "training"): Verdict.CONSISTENT,
        ("dplcf-sp", "user", "training"): Verdict.INCOMPARABLE,
        ("fcf", "user", "training"): Verdict.NO_CLAIM,
        ("fedmf", "coordinate", "round"): Verdict.CONSISTENT,
        ("fedmf", "user", "round"): Verdict.INCOMPARABLE,
        ("fedmf", "user", "training"): Verdict.INCOMPARABLE,
        ("fedmf", "attribute", "round"): Verdict.INCOMPARABLE,
        ("fmf-ldp", "report", "report"): Verdict.CONSISTENT,
        ("fmf-ldp", "user", "round"): Verdict.CONSISTENT,
        ("fmf-ldp", "user", "training"): Verdict.VIOLATED,  # the claim of Algorithm 2 as a whole
    }


def test_the_record_shows_the_counterexample_of_asymmetric_flipping(run_folder: Path) -> None:
    raw = json.loads((run_folder / "report.json").read_text())
    violated = next(f for f in raw["findings"] if f["verdict"] == "VIOLATED")
    assert violated["measured"]["epsilon"] == "inf"
    witness = violated["measured"]["witness"]
    assert witness["output"] == "the uploaded bit is 0"
    assert min(witness["probability_a"], witness["probability_b"]) == 0.0


def test_the_record_has_the_epsilon_of_a_training_and_of_a_user(run_folder: Path) -> None:
    record = Record.read(run_folder)
    items = record.provenance.data.n_items
    training = next(
        f
        for f in record.findings
        if f.target == "fmf-ldp" and f.scope.horizon == "training" and f.scope.vantage == "server"
    )
    assert training.accounted.epsilon == pytest.approx(2.5 * 100 * 20)
    assert training.measured.epsilon == pytest.approx(2.5 * 100 * 20)
    user = next(f for f in record.findings if f.target == "dplcf-sp" and f.scope.unit == "user")
    assert user.accounted.epsilon == pytest.approx(items * 1.0)


def test_a_plan_sets_the_protection_and_the_route_of_uploads(run_folder: Path) -> None:
    """FedMF sends plain models; the plan adds noise of epsilon 2 per entry, and a shuffler."""
    found = [f for f in Record.read(run_folder).findings if f.target == "fedmf"]
    assert {"server", "shuffled"} == {finding.scope.vantage for finding in found}
    for row in (found[0].claim, found[0].accounted, found[0].measured):
        assert row.epsilon == pytest.approx(2.0)


def test_every_attack_has_an_interval_and_a_baseline(run_folder: Path) -> None:
    record = Record.read(run_folder)
    families = {(row.target, row.family) for row in record.attacks}
    assert ("fcf", "reconstruction") in families
    for target in ("fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap"):
        assert {(target, "attribute inference"), (target, "membership inference")} <= families
    for row in record.attacks:
        assert row.ci_low <= row.value <= row.ci_high
        assert row.baselines
        assert row.baseline == max(row.baselines.values())
        assert row.n > 0
    exact = next(r for r in record.attacks if (r.target, r.metric) == ("fcf", "interaction F1"))
    assert exact.value > 0.99


def test_progress_is_plain_lines(run_folder: Path) -> None:
    lines = (run_folder / "stderr").read_text().splitlines()
    said = [found for line in lines if (found := PROGRESS.fullmatch(line))]
    # A line repeats the number if no task ends for a long time.
    assert list(dict.fromkeys(int(f[1]) for f in said)) == list(range(1, int(said[0][2]) + 1))
    assert "\x1b" not in (run_folder / "stderr").read_text()
    assert "\x1b" not in (run_folder / "stdout").read_text()


def test_the_same_plan_gives_the_same_bytes_with_one_job_and_after_a_break(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job stops after five tasks, loses two results, and resumes to an equal record."""
    from fedrec_auditor.auditor.plan.plan import read_plan
    from fedrec_auditor.auditor.run import runner
    from fedrec_auditor.auditor.run.resources import make_resources

    plan = read_plan(run_folder / "plan.toml")
    ran: list[str] = []
    real = AuditedTarget.run_step

    def counted(self: AuditedTarget, step: str) -> TaskResult:
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append(step)
        return real(self, step)

    monkeypatch.setattr(AuditedTarget, "run_step", counted)
    with pytest.raises(KeyboardInterrupt):
        runner.run_plan(plan, make_resources(1), out=tmp_path)
    assert not (tmp_path / "report.json").exists()
    lost, damaged, *_ = sorted((tmp_path / TASKS_FOLDER).iterdir())
    lost.unlink()
    os.mkfifo(lost)
    flipped = bytearray(damaged.read_bytes())
    flipped[-40] ^= 1
    damaged.write_bytes(flipped)
    monkeypatch.setattr(AuditedTarget, "run_step", real)
    seen: list[int] = []
    record = runner.run_plan(
        plan, make_resources(1), out=tmp_path, observe=lambda s: seen.append(s.done)
    )
    assert seen[-1] > 5
    assert not (tmp_path / TASKS_FOLDER).exists()

    def stripped(result: Record) -> bytes:
        provenance = result.provenance.model_copy(update={"timing": {}, "machine": {}})
        return store.encode_record(result.model_copy(update={"provenance": provenance}))

    assert stripped(record).splitlines() == stripped(Record.read(run_folder)).splitlines()


def test_an_interrupt_is_one_line_and_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AuditedTarget, "run_step", interrupted)
    words = ("run", "fcf", "--data", "synthetic", "--jobs", "1", "--out", tmp_path)
    code, _, err = cli(*words)
    assert code == 3
    assert err.strip().count("\n") == 0
    assert "to resume" in err
    assert not (tmp_path / "report.json").exists()


def test_a_fault_in_one_task_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AuditedTarget.run_step

    def faulty(self: AuditedTarget, step: str) -> TaskResult:
        if step == "utility":
            raise ZeroDivisionError("a bug")
        return real(self, step)

    monkeypatch.setattr(AuditedTarget, "run_step", faulty)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'targets = ["dplcf-sp"]\nattacks = ["interaction-reconstruction"]\ndata = "synthetic"\n'
    )
    code, _, _ = cli("run", "--plan", plan, "--quick", "--jobs", "1", "--out", tmp_path / "out")
    assert code == 3
    record = Record.read(tmp_path / "out")
    assert record.errors == ("dplcf-sp utility: ZeroDivisionError: a bug",)
    assert record.findings
    assert record.attacks


def test_a_target_that_refuses_its_data_is_named_and_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single such target is bad input; with other targets, their findings are kept."""
    real = AuditedTarget.run_step

    def refusing(self: AuditedTarget, step: str) -> TaskResult:
        if self.name == "fcf":
            raise InputError("Expected a training that stays finite, got none.")
        return real(self, step)

    monkeypatch.setattr(AuditedTarget, "run_step", refusing)
    words = ("--data", "synthetic", "--quick", "--jobs", "1", "--out", tmp_path)
    code, _, err = cli("run", "fcf", *words)
    assert (code, err.count("stays finite")) == (2, 1)
    assert cli("run", "fcf", "random", *words)[0] == 3
    record = Record.read(tmp_path)
    assert record.errors == ("fcf: Expected a training that stays finite, got none.",)
    assert {finding.target for finding in record.findings} == {"random"}


def test_report_renders_the_same_files_again(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes((run_folder / "report.json").read_bytes())
    code, out, _ = cli("report", tmp_path)
    assert code == 0
    assert "report.html" in out
    for name in ("report.json", "report.html", "report.md", "junit.xml"):
        assert (tmp_path / name).read_bytes() == (run_folder / name).read_bytes()


def test_listings_in_text_and_json() -> None:
    code, out, _ = cli("list", "targets")
    assert code == 0
    assert "dplcf-ap" in out
    code, out, _ = cli("list", "--json")
    listed = json.loads(out)
    assert {"fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap"} <= set(listed["targets"])
    assert set(listed) == {*FAMILIES, "reproductions"}


def test_a_target_is_listed_with_its_settings_and_their_values() -> None:
    code, said, _ = cli("list", "fmf-ldp")
    assert code == 0
    assert said.startswith("fmf-ldp: FMF-LDP: federated matrix factorization with randomized")
    assert "\nPaper  Minto" in said
    line = next(line for line in said.splitlines() if line.startswith("  reports "))
    meaning = "number k of reports that each user sends per round"
    assert line.startswith(f"  reports         100; a whole number of at least 1; {meaning}")
    settings = json.loads(cli("list", "fedrec-apm", "--json")[1])
    assert settings["share"].items() >= {"default": 0.0, "may be": "in [0, 1]"}.items()
    assert "share of users per round" in settings["share"]["is"]
    assert settings["learner"]["may be"] == "one of `auditor list learners`"
    assert cli("list", "fmf-lpd")[2].endswith("Did you mean fmf-ldp or fedmf-ldp or fmf-vfl?\n")


def test_the_systems_of_a_paper_are_listed() -> None:
    listed = json.loads(cli("list", "--paper", "privrec", "--json")[1])
    assert listed.keys() == {"targets"}
    assert "dp-privrec" in listed["targets"]
    assert "fcf" not in listed["targets"]
    assert "Did you mean dplcf?" in cli("list", "targets", "--paper", "dplfc")[2]


@pytest.mark.parametrize("name", FAMILIES["targets"].list_names())
def test_every_target_can_be_listed(name: str) -> None:
    code, said, _ = cli("list", name)
    assert code == 0
    assert "\nSettings\n" in said


def test_doctor() -> None:
    code, out, _ = cli("doctor", "--json")
    assert code == 0
    facts = json.loads(out)
    assert {"python", "cores", "memory", "torch device", "data cache"} <= set(facts)
    assert "not installed" not in (facts["numba"], facts["torch"])
    assert {f"cached {name}" for name in ("ml-100k", "ml-1m")} <= set(facts)


def test_version_option() -> None:
    said = f"fedrec-auditor {version('fedrec-auditor')}\n"
    assert cli("--version") == cli("-V") == (0, said, "")


def test_a_shell_completes_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"_AUDITOR_COMPLETE": "complete_bash", "COMP_WORDS": "auditor re", "COMP_CWORD": "1"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    code, out, _ = cli()
    assert (code, out.split()) == (0, ["record", "report", "reproduce"])


def test_a_command_that_calls_exit_is_not_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """An imported module may call sys.exit(0), which must not look like a passed audit."""

    def ended(*words: object, **options: object) -> None:
        raise SystemExit(0)

    place = "fedrec_auditor.auditor.commands.command_line.make_app"
    monkeypatch.setattr(place, lambda first: ended)
    assert cli("run", "fcf")[0] == 141


def test_help_lists_every_command() -> None:
    code, out, _ = cli("--help")
    assert code == 0
    for command in ("run", "list", "claims", "account", "verify", "record", "attack", "report"):
        assert f" {command} " in out


LIST = [*COMMAND, "list", "targets"]


def test_output_is_ascii_for_a_terminal_without_unicode() -> None:
    done = subprocess.run(
        [*COMMAND, "claims", "dplcf-sp"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert b"<= 1 (delta 0" in done.stdout
    assert b"<= 1,682" in done.stdout
    assert b"?" not in done.stdout


def test_a_closed_pipe_is_not_reported_as_a_finding() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(LIST, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(LIST, stdout=full, stderr=subprocess.PIPE, check=False)
        assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
        assert b"No space" in done.stderr
        assert subprocess.run([*LIST, "x"], stderr=full, check=False).returncode == 2


LOST_OUTPUTS = [
    later("exec 1>&-", ""),
    ("exec 0<&- 1>&- 2>&-", ""),
    later("exec 1>/dev/full", "No space left on device. Read "),
    later("exec 2>/dev/full", ""),
    later("exec 1> >(:) 2>&1; wait $!; sleep 0.1", ""),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(("redirect", "message"), LOST_OUTPUTS)
def test_an_audit_with_lost_output_is_still_saved_and_sets_its_exit_code(
    tmp_path: Path, redirect: str, message: str
) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text('targets = ["dplcf-ap"]\nattacks = []\ngames = []\ndata = "synthetic"\n')
    words = [*COMMAND, "run", "--jobs", "1", "--plan", str(plan), "--out", str(out)]
    done = subprocess.run(
        ["bash", "-c", f'{redirect}; exec "$@"', "bash", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (out / "report.json").exists()
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert message in done.stderr
    assert sorted(path.name for path in out.iterdir()) == sorted(store.RUN_FILE_NAMES)


@pytest.mark.parametrize(
    ("redirect", "lines"), [("1>/dev/full", 1), later("1>&-", 0), later("1> >(:)", 0)]
)
def test_the_exit_code_has_the_verdict_if_output_is_lost(redirect: str, lines: int) -> None:
    words = [*COMMAND, "verify", "bit-flip", "--epsilon", "0.5", "--samples", "1000"]
    words += ["--set", "p=0.7", "--set", "q=0.3"]
    script = f'exec {redirect}; sleep 0.1; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, lines), done.stderr
