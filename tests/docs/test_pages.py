"""Words, tables and figures of pages equal those of the code."""

from __future__ import annotations

import math
import os
import re
import runpy
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import fedrec_auditor
from fedrec_auditor import InputError
from fedrec_auditor.accountants import crosscheck, verdict
from fedrec_auditor.accountants.events.documents import EVENT_CLASSES, read_event
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, compute_guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS_PROB, FailOn, NumberLabel, Verdict
from fedrec_auditor.auditor import testing
from fedrec_auditor.auditor.commands.command_line import make_app
from fedrec_auditor.auditor.games import attribute, canary, canary_game, crowd_game, game, linkage
from fedrec_auditor.auditor.games.local import DESIGNED_RUNS
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.objects import load_system
from fedrec_auditor.auditor.plan.plan import (
    DEFAULT_TARGETS,
    Plan,
    amend_plan,
    make_target,
    read_plan,
)
from fedrec_auditor.auditor.plan.planned_data import load_planned_data
from fedrec_auditor.auditor.run import tasks
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.spending.spend import account
from fedrec_auditor.auditor.sweep.sweep import run_sweep
from fedrec_auditor.auditor.verification import verify_ldp
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.record import Sweep
from fedrec_auditor.reports.say import format_ceil, format_floor
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.federated.learners import NcfLearner
from fedrec_auditor.targets.federated.protections import LaplaceProtection
from fedrec_auditor.targets.federated.routes import Shuffler
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedNcf
from fedrec_auditor.targets.recorded.recording import Manifest
from tests.accountants.published import PRINTED
from tests.contracts.worlds import WORLDS, estimates
from tests.docs.blocks import ROOT, blocks, text_of
from tests.specimens.clients import PLANTED


def test_the_page_explains_every_check() -> None:
    found = verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=500)
    table = text_of("verifying-mechanisms").partition("| check |")[2].partition("\n\n")[0]
    explained = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert sorted(explained) == sorted(check.name for check in found.checks)


def test_every_public_name_has_a_row() -> None:
    named = [
        name
        for first in re.findall(r"^\| (`.*?) \|", text_of("python"), re.MULTILINE)
        for name in re.findall(r"`(\w+)`", first)
    ]
    assert sorted(named) == sorted([*fedrec_auditor.__all__, *testing.__all__])


RECORDINGS = text_of("recorded-uploads")


def test_every_key_and_kind_is_explained() -> None:
    table = RECORDINGS[
        RECORDINGS.index("### manifest.json") : RECORDINGS.index("### Messages in safetensors")
    ]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(
        Manifest.model_fields
    )
    assert all(f'"{kind}"' in table for kind in Payload)


def test_every_command_is_shown() -> None:
    lines = [line for block in blocks("docs/command-line.md") for line in block.text.splitlines()]
    shown = {line.split()[1] for line in lines if line.startswith("auditor ")}
    assert shown == {command.name for command in make_app().registered_commands}


def test_make_has_the_rules_of_the_page() -> None:
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"`make ([a-z-]+)`", text_of("command-line"))
    assert named
    assert set(named) <= rules


WIDE = {"COLUMNS": "200", "TERM": "dumb"}


RULES = " ".join(text_of("verdicts").split())


def test_the_page_defines_every_verdict() -> None:
    for word in (*Verdict, *NumberLabel):
        first, rest = word.definition[0].lower(), word.definition[1:]
        assert f"**{word.label}** ({word}): {first}{rest}" in RULES


@pytest.mark.parametrize("command", ["run", "claims", "account", "verify", "attack"])
def test_the_help_defines_every_verdict(command: str) -> None:
    done = CliRunner().invoke(make_app(), [command, "--help"], env=WIDE)
    said = " ".join(re.sub(r"[│|]", " ", done.stdout).split())
    for word in (*Verdict, *(NumberLabel if command == "claims" else ())):
        assert f"{word.label} ({word}): {word.definition}" in said


GATE = text_of("ci-gate")


def test_the_page_on_ci_quotes_the_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (quoted,) = re.findall(r"`(Expected to import [^`]*)`", " ".join(GATE.split()))
    (tmp_path / "mymodule.py").write_text("import lightfm", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=re.escape(quoted)):
        load_system("mymodule:system")


def test_the_page_on_sweeps_quotes_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (quoted,) = re.findall(r"`(Expected no sweep [^`]*)`", " ".join(text_of("sweeps").split()))
    stored = Plan(attacks=["linkage"]).model_dump(mode="json")
    monkeypatch.setattr(Sweep, "load", lambda _: SimpleNamespace(plan=stored))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(quoted)):
        run_sweep(Plan(targets=("dplcf-sp",)), [], 1, make_resources(1, "cpu"), out=Path("sweep"))


HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")


def test_every_level_and_every_file_is_explained() -> None:
    assert set(re.findall(r"^\| `([a-z][a-z-]+)`", GATE, re.MULTILINE)) == set(FailOn)
    listed = re.findall(r"^\| ([a-z]+\.[a-z]+) \|", GATE, re.MULTILINE)
    assert set(listed) <= set(store.RUN_FILE_NAMES)
    assert len(listed) == 5


def test_the_page_quotes_the_code() -> None:
    assert f"`--leak-margin` ({verdict.DEFAULT_LEAK_MARGIN})" in GATE
    normal = stats.norm.isf(0.025 / 54) / stats.norm.isf(0.025)
    assert f"factor of {normal:.2f} for 54 results at 95% confidence" in " ".join(GATE.split())


def test_hooks_run_the_commands_they_name() -> None:
    entries = re.findall(r"^  entry: (.*)$", HOOKS, re.MULTILINE)
    assert len(entries) == 2
    for line in entries:
        _, command, *words = shlex.split(line)
        told = CliRunner().invoke(make_app(), [command, "--help"], env=WIDE).stdout
        assert all(word in told for word in words)
    assert set(re.findall(r"- id: (\S+)", GATE)) == set(re.findall(r"- id: (\S+)", HOOKS))


SYSTEMS = text_of("auditing-systems")


def test_the_table_names_every_system() -> None:
    rows = [line for line in SYSTEMS.splitlines() if line.startswith("| ")]
    named = set(re.findall(r"`([a-z-]+)`", "\n".join(rows)))
    ends = {end for end in named if end.startswith("-")}
    bases = ("fedmf", "fedncf", "fedlightgcn")
    assert named - ends | {base + end for base in bases for end in ends} == set(
        FAMILIES["targets"].list_names()
    )


def test_the_plan_composes_the_systems_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(re.search(r"```toml\n(.*?)```", SYSTEMS, re.S)[1], "utf-8")
    assert make_target("fedncf", read_plan(path)) == FedNcf(
        rounds=20,
        learner=NcfLearner(dimension=32),
        protection=LaplaceProtection(epsilon=5.0),
        route=Shuffler(),
    )


def test_default_targets_are_of_five_papers() -> None:
    papers = {
        FAMILIES["targets"].load_class(name)().paper for name in FAMILIES["targets"].list_names()
    }
    core = {FAMILIES["targets"].load_class(name)().paper for name in DEFAULT_TARGETS}
    assert len(core) == 5
    assert core < papers  # FedGNN is audited only by name


PUBLISHED = {
    "MovieLens 20M, 25M": "userId,movieId,rating,timestamp\n2,6,4.5,8\n1,5,0.5,9\n",
    "MovieLens 10M": "2::6::4.5::8\n1::5::0.5::9\n",
    "LibimSeTi": "2,6,4.5\n1,5,0.5\n",
    "Frappe": "user\titem\tcnt\tdaytime\tcity\n2\t6\t4.5\tnight\t0\n1\t5\t0.5\tnight\t7\n",
    "AppUsage": "2 19700101000008 4F1 6 3500\n1 19700101000009 99 5 10\n",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_read_by_the_options_of_the_page(name: str, tmp_path: Path) -> None:
    ((file, options),) = re.findall(rf"\| {name} \| `--data (\S+)(.*?)` \|", SYSTEMS)
    (tmp_path / file).write_text(PUBLISHED[name])
    columns = dict(text.split("=") for text in re.findall(r"--column (\S+)", options))
    columns |= {"header": "no"} if "--no-header" in options else {}
    plan = amend_plan(None, {"data": str(tmp_path / file), "columns": columns or None})
    found = load_planned_data(plan)
    assert (found.users.tolist(), found.items.tolist()) == ([1, 2], [5, 6])
    ratings = [1, 1] if name == "AppUsage" else [0.5, 4.5]
    assert found.ratings.data.tolist() == ratings
    times = None if found.timestamps is None else found.timestamps.tolist()
    assert times == (None if name in ("LibimSeTi", "Frappe") else [9, 8])


MEANING = text_of("what-epsilon-means")


GUESSES = re.findall(r"^\| ([\d.]+) \| ([\d.]+)% \| ([\d.]+)% \|$", MEANING, re.M)


@pytest.mark.parametrize("row", GUESSES, ids=lambda row: row[0])
def test_the_table_of_guesses(row: tuple[str, str, str]) -> None:
    epsilon = float(row[0])
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert compute_guess_probability(epsilon) == pytest.approx(right, rel=1e-12)
    places = len(row[1].partition(".")[2])
    assert f"{100 * right:.{places}f}" == row[1]
    odds = math.exp(epsilon) * 0.01 / 0.99
    assert f"{100 * odds / (1 + odds):.2f}" == row[2]


def test_the_table_has_the_epsilons_of_the_text() -> None:
    assert [float(row[0]) for row in GUESSES] == [0, 0.1, 1, 4, 10]


def test_the_page_states_the_vacuous_threshold() -> None:
    (said,) = re.findall(r"From epsilon ([\d.]+) on", MEANING)
    assert f"{math.log(VACUOUS_GUESS_PROB / (1 - VACUOUS_GUESS_PROB)):.2f}" == said


def test_every_unit_vantage_and_horizon_is_named() -> None:
    rows = dict(re.findall(r"^\| (unit|vantage|horizon) \| (.*) \|$", MEANING, re.MULTILINE))
    for name, kind in (("unit", Unit), ("vantage", Vantage), ("horizon", Horizon)):
        assert all(each.value in rows[name] for each in kind)


OWN = text_of("your-own-system")


def test_the_example_has_ten_lines() -> None:
    block, *_ = re.findall(r"^```python\n(.*?)^```$", OWN, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10


@pytest.mark.calibration
def test_the_example_in_torch_finds_its_bug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Synthetic(n_users=40, n_items=20, profile=6).load()
    monkeypatch.setattr(Synthetic, "load", lambda *_: few)
    monkeypatch.setattr(
        os, "cpu_count", lambda: 1
    )  # workers take longer to start than the example takes
    runpy.run_path(str(ROOT / "examples" / "own_torch.py"), run_name="__main__")
    assert "VIOLATED" in capsys.readouterr().out


def test_the_bugs_of_the_page_are_those_planted() -> None:
    assert re.findall(r"^(\d+) mistakes, planted", OWN, re.MULTILINE) == [str(len(PLANTED))]


GUARANTEES = text_of("guarantees")


LIMITS = {
    row[0]: (row[1], row[2])
    for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", GUARANTEES, re.MULTILINE)
}


def read_limits(start: str) -> tuple[list[int], list[int]]:
    """Limits in a row of the table, for full and for quick audits."""
    ((full, quick),) = [cells for name, cells in LIMITS.items() if name.startswith(start)]
    in_full, in_quick = (
        [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", c)] for c in (full, quick)
    )
    return in_full, in_quick


def test_limits_of_full_and_quick_audits() -> None:
    percent = [round(100 * share) for share in attribute.KNOWN_SHARES]
    few = [round(100 * share) for share in attribute.QUICK_KNOWN_SHARES]
    assert read_limits("rounds of a training that") == ([], [tasks.MAX_QUICK_ROUNDS])
    long = make_target("dp-privrec", Plan())
    full, short = (crowd_game.limit_rounds(long, quick).sizes.rounds for quick in (False, True))
    assert read_limits("rounds of a `training`") == ([full], [short])
    assert read_limits("rounds of a `one-run`") == ([], [full])
    assert read_limits("messages of a designed pair")[0] == [DESIGNED_RUNS]
    runs = [canary_game.UPLOAD_RUNS, canary_game.TRAINING_RUNS]
    assert read_limits("runs of") == (runs, [n // canary_game.QUICK_RUNS_DIVISOR for n in runs])
    assert read_limits("trainings on halves") == (
        [game.N_HALVES],
        [game.QUICK_N_HALVES, game.QUICK_MAX_HALVES_SECONDS],
    )
    assert read_limits("users that an attack") == ([game.MAX_USERS], [game.QUICK_MAX_USERS])
    assert read_limits("users that are linked") == ([linkage.MAX_USERS], [linkage.QUICK_MAX_USERS])
    assert read_limits("canaries") == ([canary.N_CANARIES], [canary.QUICK_N_CANARIES])
    assert read_limits("attribute inference: shares") == (
        [*percent, attribute.N_DRAWS],
        [*few, attribute.QUICK_N_DRAWS],
    )
    assert f"more than {attribute.MAX_QUICK_COLUMNS:,} columns" in GUARANTEES


def test_tolerances_of_comparisons() -> None:
    assert "one part in 10⁹" in " ".join(GUARANTEES.split())
    assert verdict._SLACK == 1e-9
    assert "one in 10⁶" in " ".join(GUARANTEES.split())
    assert crosscheck._SLACK == 1e-6


def test_the_population_of_games_is_that_of_a_plan() -> None:
    users, items = Plan().population
    edges = " ".join(GUARANTEES.split())
    assert f"{users} users and {items} items" in edges
    assert f"`training` games {crowd_game.MAX_GAME_ROUNDS} rounds" in edges


def test_the_largest_bounds_by_number_of_draws() -> None:
    made = FAMILIES["estimators"].load_class("joint-binomial")()
    for n, bound in ((1_000, "5.8"), (1_000_000, "13.3")):
        assert f"{bound} for {n:,}" in " ".join(GUARANTEES.split()).replace(" draws", "")
        assert f"{made.find_max_bound(n, delta=0.0, confidence=0.95):.1f}" == bound


ESTIMATORS = text_of("estimators")


# Number of bounds above the true epsilon in 1,000 runs on randomized response at epsilon 1.
MISSES = dict(re.findall(r"^\| `([a-z-]+)` \| \d+ \| \**([\d,]+)\**", ESTIMATORS, re.MULTILINE))


def test_every_estimator_has_its_rows() -> None:
    names = set(FAMILIES["estimators"].list_names())
    first = ESTIMATORS.partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", first, re.MULTILINE)) == set(MISSES) == names


def test_the_misses_of_a_quick_estimator() -> None:
    """An estimator that takes about a second; `make calibrate` checks all."""
    made, world = FAMILIES["estimators"].load_class("all-thresholds")(), WORLDS["response 1"]
    found = estimates(made, world, n=1000, delta=0.0, confidences=(0.95,), runs=1000)
    missed = np.count_nonzero(found > world.truth(0.0) + 1e-12)
    assert missed == int(MISSES["all-thresholds"])


ACCOUNTANTS = text_of("accountants")


PRICE = re.compile(r"^\| (q=[^|]+) \| ([\d.]+) \| [^|]+ \| ([\d.]+) to ([\d.]+) \|$", re.M)


def test_the_event_of_the_page_is_accounted() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", ACCOUNTANTS, re.MULTILINE | re.DOTALL)
    assert read_event(text)
    assert account(event=text, delta=1e-6).total.accounted.epsilon > 1.7


def test_the_table_lists_all_readable_events() -> None:
    assert set(re.findall(r"`(\w+DpEvent)`", ACCOUNTANTS)) == set(EVENT_CLASSES)


def parse_number(text: str) -> float:
    over, _, under = text.rpartition("=")[2].replace(",", "").partition("/")
    return float(over) / float(under or 1)


@pytest.mark.parametrize("row", PRICE.findall(ACCOUNTANTS), ids=lambda row: row[0])
def test_the_figures_of_accountants(row: tuple[str, str, str, str]) -> None:
    """The other libraries' epsilons are at least ours, and not much larger."""
    rate, noise, rounds, delta = settings = tuple(parse_number(part) for part in row[0].split(", "))
    printed = [p for p in PRINTED if (p.rate, p.noise, p.steps, p.delta) == settings]
    found = account(gaussian=noise, rate=rate, rounds=int(rounds), delta=delta).total
    low, high = float(row[2]), float(row[3])
    shown, proved = found.measured.epsilon, found.accounted.epsilon
    assert low <= shown <= proved <= high < low + 6e-4
    assert any(p.epsilon == pytest.approx(float(row[1]), abs=5e-4) for p in printed)
    for other in printed:
        assert proved <= other.epsilon + 5e-8
        assert other.error is None or other.epsilon <= shown + other.error


def test_figures_in_prose_are_those_of_the_accountants() -> None:
    pages = map(text_of, ("accountants", "wording-a-claim", "what-epsilon-means"))
    text, noise = " ".join(" ".join(pages).split()), {"gaussian": 1.1, "rate": 0.01, "rounds": 1000}
    least, _, replaced, _ = (x.accounted.epsilon for x in account(**noise, delta=1e-6).findings)
    fixed = account(**noise, delta=1e-6, sampling="fixed", users=4800).total
    ends = f"{format_floor(fixed.measured.epsilon)} and {format_ceil(fixed.accounted.epsilon)}"
    assert f"between {ends} for fixed-size sampling, and {replaced:.3f} for Poisson" in text
    assert f"at most **{format_ceil(least)}** at delta **1e-6**" in text
    assert f"epsilon is {format_ceil(replaced)} if a user's data are *replaced*" in text
    right = math.ceil(100 * compute_guess_probability(least, 1e-6))
    assert f"right at most {right}% of the time" in text
    for delta in ("1e-3", "1e-5", "1e-7"):
        bound = account(gaussian=1.0, delta=float(delta)).total.accounted
        assert f"{format_ceil(bound.epsilon)} at delta {delta}" in text


def test_the_tables_have_rows() -> None:
    assert len(PRICE.findall(ACCOUNTANTS)) == len({(p.rate, p.noise, p.steps) for p in PRINTED})
