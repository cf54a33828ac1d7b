"""Tests of sweeps: a killed, extended or parallel sweep has the same result."""

import json

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.run import runner
from fedrec_auditor.auditor.run.runner import audit
from fedrec_auditor.auditor.sweep.grid import make_training_rows
from fedrec_auditor.auditor.sweep.sweep import sweep
from fedrec_auditor.reports.record.record import SWEEP_FILES, Sweep
from tests.command import cli

GIVEN = {
    "data": "synthetic",
    "quick": True,
    "attacks": ("interaction-reconstruction",),
    "games": ("local",),
}
SETTINGS = ["epsilon=1,4"]


pytestmark = pytest.mark.usefixtures("few_users")


def run(out, settings=SETTINGS, seeds=2, targets=("dplcf-sp",), jobs=1):
    return sweep(targets, settings, seeds=seeds, out=out, jobs=jobs, **GIVEN)


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory, few_users):
    out = tmp_path_factory.mktemp("sweep")
    return run(out), out


@pytest.fixture(scope="module")
def record(few_users):
    """Record of the audit of one variant and seed."""
    return audit("dplcf-sp", settings={"dplcf-sp": {"epsilon": 4}}, seed=1, jobs=1, **GIVEN)


def test_a_variant_is_an_audit_of_the_same_plan(finished_sweep, record):
    swept, _ = finished_sweep
    cell = [row for row in swept.rows if (row.variant, row.seed) == (1, 1)]
    figures = {(row.kind, row.metric, row.view): row.value for row in cell}
    for row in record.utility:
        assert figures["utility", row.metric, row.protocol] == row.value
    for row in record.attacks:
        assert figures["attack", f"{row.attack}: {row.metric}", row.vantage] == row.value


def test_a_killed_sweep_resumes_to_the_same_bytes(finished_sweep, tmp_path, monkeypatch):
    _, out = finished_sweep
    keep, left = runner._TaskRunner.keep, iter(range(5))

    def dying(*given):
        keep(*given)
        if next(left, None) is None:
            raise KeyboardInterrupt

    for _ in range(2):
        left = iter(range(5))
        monkeypatch.setattr(runner._TaskRunner, "keep", dying)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    monkeypatch.setattr(runner._TaskRunner, "keep", keep)
    run(tmp_path)
    for name in SWEEP_FILES:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes()


def test_a_larger_grid_runs_only_new_variants(finished_sweep, monkeypatch):
    _, out = finished_sweep
    ran = []
    job = runner._run_job

    def counted(number, desk, *given):
        ran.append((desk.audit.plan.seed, dict(desk.audit.plan.settings)))
        return job(number, desk, *given)

    monkeypatch.setattr(runner, "_run_job", counted)
    run(out)
    assert ran == []
    run(out, ["epsilon=1,2,4"], seeds=2)
    assert {str(settings) for _, settings in ran} == {"{'dplcf-sp': {'epsilon': 2}}"}


def test_results_do_not_depend_on_the_number_of_workers(finished_sweep, tmp_path):
    swept, _ = finished_sweep
    run(tmp_path, jobs=2)
    assert Sweep.load(tmp_path).encoded() == swept.encoded()


def get_key(row):
    return row.variant, row.seed, row.metric, row.view


def test_utility_is_compared_with_the_noiseless_variant(finished_sweep):
    swept, _ = finished_sweep
    assert [each.twin for each in swept.variants] == [2, 2, None]
    utility = [row for row in swept.rows if row.kind == "utility"]
    values = {(r.variant, r.seed, r.metric, r.view): r.value for r in utility}
    for row in swept.rows:
        if row.kind == "ahead":
            own = next(r for r in utility if get_key(r) == get_key(row))
            assert row.value == pytest.approx(own.value - own.baseline)
    assert swept.relative
    for row in swept.relative:
        ratios = [
            values[row.variant, seed, row.metric, row.view] / values[2, seed, row.metric, row.view]
            for seed in swept.seeds
        ]
        assert row.value == pytest.approx(sum(ratios) / len(ratios))


def test_a_failed_training_is_reported_and_others_are_kept(tmp_path):
    swept = run(tmp_path, ["learning_rate=0.01,1e12", "rounds=3"], targets=("fedmf",), seeds=1)
    assert len({error.rpartition("training")[2] for error in swept.errors}) == 1
    assert "training 0 with learning_rate=1000000000000" in swept.errors[0]
    assert {row.variant for row in swept.rows if row.kind == "utility"} >= {0}


def test_other_plans_and_audits_are_not_replaced(finished_sweep, tmp_path):
    _, out = finished_sweep
    with pytest.raises(InputError, match="other quick"):
        sweep("dplcf-sp", SETTINGS, out=out, **{**GIVEN, "quick": False})
    audit("dplcf-sp", out=tmp_path, jobs=1, **{**GIVEN, "games": ()})
    with pytest.raises(InputError, match="got the report of an audit"):
        run(tmp_path)


def test_an_audit_or_a_smaller_grid_does_not_replace_a_sweep(finished_sweep):
    _, out = finished_sweep
    with pytest.raises(InputError, match="got a sweep"):
        audit("dplcf-sp", out=out, jobs=1, **{**GIVEN, "games": ()})
    with pytest.raises(InputError, match="a grid that includes the sweep"):
        run(out, ["epsilon=8"])


def test_claimed_rows_have_the_scope_of_the_claim(finished_sweep):
    """The user-level row of dplcf-sp once had the interaction-level epsilon as its claim."""
    swept, _ = finished_sweep
    units = {(row.kind, row.view.partition(" / ")[0]) for row in swept.rows}
    assert {unit for kind, unit in units if kind == "claimed"} == {"interaction"}
    assert ("proved", "user") in units


def test_a_scope_with_two_bounds_has_one_row_per_training(finished_sweep, record):
    swept, _ = finished_sweep
    for row in swept.overall:
        assert row.trainings == 2
    lower = max(f.lower_bound.epsilon for f in record.findings if f.scope.unit == "interaction")
    rows = [r for r in swept.rows if (r.variant, r.seed, r.kind) == (1, 1, "shown")]
    assert max(r.value for r in rows if r.view.startswith("interaction")) == lower


def test_bounds_of_shorter_games_are_not_those_of_the_data():
    record = audit("lfl-ldp", jobs=1, **GIVEN)
    of_data = {finding.accounted.epsilon for finding in record.findings if not finding.game}
    of_game = {finding.accounted.epsilon for finding in record.findings if finding.game}
    assert not of_data & of_game
    rows = list(make_training_rows(0, 0, record))
    assert of_data == {r.value for r in rows if r.kind == "proved" and "game" not in r.view}
    assert not [row for row in rows if row.kind == "claimed"]  # the paper prints none


def test_a_broken_file_is_refused(finished_sweep, tmp_path):
    (tmp_path / "sweep.json").write_text(json.dumps({"schema_version": 9}))
    with pytest.raises(InputError, match="Expected a sweep's record in"):
        run(tmp_path)


@pytest.mark.parametrize("seeds", [0, -1, 1001, "3", 2.5])
def test_a_wrong_number_of_trainings_is_refused(seeds):
    with pytest.raises(InputError, match="Expected 1 to 1,000 seeds, got seeds="):
        sweep("dplcf-sp", seeds=seeds, **GIVEN)


def test_the_table_has_a_row_per_value_and_settings_as_columns(finished_sweep):
    swept, _ = finished_sweep
    table = swept._make_table()
    assert table.num_rows == len(swept.rows)
    assert set(table.column("epsilon").to_pylist()) >= {"1", "4", ""}


def test_the_page_shows_every_point_and_is_self_contained(finished_sweep):
    _, out = finished_sweep
    page = (out / "sweep.html").read_text()
    assert "epsilon=1" in page
    assert page.count("<circle") >= 4
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_command_has_default_targets():
    code, _, message = cli("sweep", "--data", "nowhere")
    assert code == 2
    assert "got 'nowhere', which is not there" in message


def test_omissions_are_logged_once(tmp_path, caplog):
    sweep("dplcf-sp", SETTINGS, seeds=1, jobs=1, out=tmp_path, **GIVEN)
    assert [m for m in caplog.messages if "attacks were requested" in m] == caplog.messages[:1]


def test_a_single_setting_may_be_a_string():
    swept = sweep("dplcf-sp", "epsilon=1,2", seeds=1, jobs=1, **{**GIVEN, "games": ()})
    assert [each.swept for each in swept.variants] == [{"epsilon": "1"}, {"epsilon": "2"}, {}]
    with pytest.raises(InputError, match="FIELD"):
        sweep((), "FIELD=1", seeds=1, jobs=1, **GIVEN)


def test_every_bound_states_its_basis(finished_sweep):
    swept, out = finished_sweep
    measured = [row for row in swept.overall if row.kind == "shown"]
    assert measured
    assert all("calculated" in row.basis or "confidence" in row.basis for row in measured)
    assert all(row.basis for row in swept.overall if row.kind in ("claimed", "proved"))
    assert measured[0].basis.partition(",")[0] in (out / "sweep.html").read_text()
