"""Tests of plans: refusals with the line of the file, and default values."""

from __future__ import annotations

import os
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import (
    MAX_CONFIDENCE,
    Plan,
    amend_plan,
    get_option_name,
    get_plan_option,
    make_plan,
    make_target,
    read_plan,
)
from fedrec_auditor.auditor.plan.stated_claim import MAX_TOML_BYTES
from fedrec_auditor.auditor.run.runner import audit
from fedrec_auditor.reports.record.rows import walk_leaves
from fedrec_auditor.targets.systems.base import Population


def write_plan(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


FEDNCF = "targets = ['fedncf']\n[settings.fedncf]\n"


def test_a_plan_file_is_read(tmp_path: Path) -> None:
    plan = read_plan(
        write_plan(
            tmp_path, 'targets = ["dplcf-sp"]\nseed = 3\n\n[settings.dplcf-sp]\nepsilon = 0.5\n'
        )
    )
    assert plan.targets == ("dplcf-sp",)
    assert plan.settings == {"dplcf-sp": {"epsilon": 0.5}}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("seed = 1\nsede = 2\n", r"plan\.toml, line 2: Expected one of the keys .*'sede'"),
        ("seed = -1\n", r"line 1: seed=-1 is refused"),
        ("data = 'synthetic'\n\nconfidence = nan\n", r"line 3: confidence=nan"),
        ("confidence = 1.5\n", r"confidence=1.5"),
        ("confidence = 0.9999999999999999\n", r"line 1: .*is refused: .*1 - 1e-9.*rounding"),
        ("confidence = 0.4\n", r"line 1: confidence=0.4 is refused: .*more often than not"),
        ('seed = "one"\n', r"line 1: seed='one'"),
        ("seed = \n", r"Expected TOML in .*plan\.toml.*line 1"),
        ("[settings]\nrounds = 2\n", r"line 2: .*settings=\{\"TARGET\": \{'rounds': 2\}\}"),
        ("[settings.fcf]\nfactors = [1]\n", r"line 2: settings\.fcf\.factors=\[1\].*a number"),
        ("# dotted\n\nsettings.fcf.nope = 1\n", r"line 3: Expected a setting of fcf .*'nope'"),
        ("seed = 1\nsettings = {fcf = {factors = 'x'}}\n", r"line 2: .*whole number.*'x'"),
        ("[settings.dplcf-sp]\nepsilon = 1.0\n[settings.fcf]\nepsilon = 1.0\n", r"line 4: .*fcf"),
        ('[settings."fcf"]\nalpha = 1\n"factors" = 0\n', r"line 3: .*factors=0"),
        ("[settings]\n\nfcf.factors = true\n", r"line 3: .*got True"),
        ("[settings.fcf]\nfactors = nan\n", r"line 2: .*got nan"),
        ("[settings.fcf]\nfactors = 1" + "0" * 400 + ".0\n", r"line 2: .*got inf"),
        ("[settings.fcf]\nalpha = 1e16\n", r"line 2: Expected a number from -1e\+15 .*alpha"),
        ("[settings]\nfcff.factors = 1\n", r"line 2: .*Did you mean fcf"),
        ('targets = [\n  "fcf",\n  3,\n]\n', r"line 1: targets\.1=3"),
        ('seed = 1\n\ntargets = ["fcf", "fcf"]\n', r"line 3: .*'fcf' twice"),
        ('attacks = ["none-such"]\n', r"line 1: .*'none-such'"),
        ('seed = 1\nestimator = "none-such"\n', r"line 2: .*'none-such'"),
        ('targets = ["fcf"]\n[settings.dplcf-sp]\nepsilon = 1.0\n', r"line 2: .*audited targets"),
        ('data = """\nseed = -1\n"""\nseed = -1\n', r"line 4: seed=-1"),
        ("data = '''[{''' # \n'''\n# ] \n\nseed = -1 # x\n", r"Expected TOML"),
        ("data = '''[{' # \n'''\n# ] \n\nseed = -1 # x\n", r"line 5: seed=-1"),
        ('data = "[\\"" # "\ntargets = [ # [\n"fcf" ]\n\nseed = -1', r"line 5: seed=-1"),
        ('data = """"a\n\\""""""\nseed = -1\n', r"line 3: seed=-1"),
        ("seed = 0x1" + "0" * 5000 + "\n", r"seed=a number of more than 4,300 digits is refused"),
        ("a" * 5000 + " = 1\n", r"got 'a{70,80}\.\.\.'\. Remove"),
        ("data = 'synthetic'\r\nseed = -1\r\n", r"line 2: seed=-1"),
        ("seed = " + "[" * 5000 + "\n", r"Expected TOML in .*plan\.toml"),
        ("targets = 'fcf'\n", r"for example \['fcf'\]"),
        ("[settings.dplcf-sp]\nneighbours = 2.5\n", "whole number"),
        (FEDNCF + "route = 'tor'\n", "line 3: Expected a name from `auditor list routes`"),
        (FEDNCF + "protection = [1]\n", "a name is expected, or a table"),
        (FEDNCF + "protection = {epsilon = 3}\n", "Name one: adaptive-laplace, gaussian"),
        (FEDNCF + "rounds = 2\nlearner = {name = 'ncf', dimension = 0}\n", "line 4: Expected dim"),
        (FEDNCF + "protection.name = 'laplace'\nprotection.epsilon = 'x'\n", "got 'x'"),
        (FEDNCF + "protection = {name = 'laplace', sigma = 3}\n", r"every_epoch\), got 'sigma'"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_plan(write_plan(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"readable plan file.*\(No such file"):
        read_plan(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"readable plan file.*\(a directory"):
        read_plan(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xd0\x00")
    with pytest.raises(InputError, match=r"readable plan file.*\(not UTF-8"):
        read_plan(tmp_path / "binary.toml")


def test_endless_plan_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    (tmp_path / "large.toml").write_text("#" * (MAX_TOML_BYTES + 1))
    for name, said in (("fifo", "a FIFO"), ("zero", "a device"), ("large", "more than 262,144")):
        with pytest.raises(InputError, match=rf"readable plan file.*{name}.*\({said}"):
            read_plan(tmp_path / f"{name}.toml")


def test_empty_plans_and_byte_order_marks_are_accepted(tmp_path: Path) -> None:
    assert read_plan(write_plan(tmp_path, "")) == Plan()
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert read_plan(tmp_path / "bom.toml").seed == 3


def test_the_largest_confidence_can_be_divided_among_bounds() -> None:
    plan = make_plan({"confidence": MAX_CONFIDENCE, "targets": ("random", "fcf"), "attacks": ()})
    tail = 1 - (1 - (1 - plan.confidence) / 500)
    assert tail == pytest.approx(1e-9 / 500, rel=1e-4)


def test_resolved_names_every_target_and_attack() -> None:
    plan = Plan().resolve()
    assert {"fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap"} <= set(plan.targets)
    assert "interaction-membership" in plan.attacks


def test_the_command_line_overrides_the_file() -> None:
    plan = amend_plan(make_plan({"seed": 1, "quick": True}), {"seed": 2})
    assert (plan.seed, plan.quick) == (2, True)


def test_equal_plans_have_equal_digests() -> None:
    assert make_plan({"seed": 1}).digest() == make_plan({"seed": 1}).digest()
    assert make_plan({"seed": 1}).digest() != make_plan({"seed": 2}).digest()


def test_a_whole_number_may_be_a_float() -> None:
    target = make_target("fmf-ldp", make_plan({"settings": {"fmf-ldp": {"reports": 10.0}}}))
    assert isinstance(vars(target)["reports"], int)


@pytest.mark.parametrize("name", FAMILIES["targets"].list_loadable_names())
def test_tuned_settings_are_the_defaults_of_learns(name: str) -> None:
    plan = Plan(targets=(name,), settings={name: {"learns": True}})
    made, resolved = make_target(name, plan), plan.resolve()
    for place, value in walk_leaves(made.tuned_values):
        assert attrgetter(place)(made) == value, place
    assert resolved.settings[name] == {**made.tuned_values, "learns": True}
    assert make_target(name, resolved) == made
    printed = Plan(targets=(name,), settings={name: {"learns": False}})
    assert make_target(name, printed) == make_target(name, Plan())
    population = Population(n_users=60, n_items=80)
    for scoped in made.get_claims(population):
        assert made.get_event(scoped.scope, population) is not None


@pytest.mark.parametrize(
    ("name", "given", "places"),
    [
        ("fedmf", {"rounds": 5, "learner": {"init_scale": 0.2}}, {"learner.dimension": 16}),
        ("fedmf", {"rounds": 5}, {"rounds": 5, "server": "adam", "private_user": True}),
        ("fedrec", {"learner": "mf"}, {"learner.init_scale": 0.1, "learning_rate": 0.05}),
        ("fedmf", {"protection": {"name": "laplace", "epsilon": 3.0}}, {"protection.epsilon": 3.0}),
        ("f-gerai", {"learner": "mf"}, {"private_user": False, "server": "adam"}),
    ],
)
def test_given_settings_override_tuned_ones(
    name: str, given: dict[str, Any], places: dict[str, object]
) -> None:
    made = make_target(name, Plan(settings={name: {"learns": True, **given}}))
    assert {place: attrgetter(place)(made) for place in places} == places


@pytest.mark.parametrize("value", ["yes", 1, 0.0])
def test_learns_is_a_boolean(value: Any) -> None:
    with pytest.raises(InputError, match="true or false for learns of fcf"):
        make_target("fcf", Plan(settings={"fcf": {"learns": value}}))


def test_every_field_has_a_help_text_and_an_option() -> None:
    options = [get_option_name(name) for name in Plan.model_fields]
    assert (
        len({*options})
        == len(options)
        == len([n for n in Plan.model_fields if get_plan_option(n).help])
    )


def test_a_plan_accepts_values_of_the_command_line_and_of_python() -> None:
    options = {
        "targets": "fcf",
        "data": Path("here"),
        "columns": ["user=customer", "item=article"],
        "attacks": "linkage,user-membership",
        "games": "local,round",
        "population": "4x6",
        "settings": ["fcf.T=5"],
        "seed": None,
    }
    meant = {
        "targets": ("fcf",),
        "data": "here",
        "columns": {"user": "customer", "item": "article"},
        "attacks": ("linkage", "user-membership"),
        "games": ("local", "round"),
        "population": (4, 6),
        "settings": {"fcf": {"rounds": 5}},
    }
    assert amend_plan(None, options) == make_plan(meant)


def test_a_setting_overrides_that_of_a_file() -> None:
    before = make_plan({"settings": {"fcf": {"rounds": 5, "alpha": 2.0}, "gmf": {"batch": 8}}})
    plan = amend_plan(before, {"settings": ["fcf.rounds=7"]})
    assert plan.settings == {"fcf": {"rounds": 7, "alpha": 2.0}, "gmf": {"batch": 8}}


def test_a_wrong_keyword_is_refused_with_similar_ones() -> None:
    with pytest.raises(InputError, match="Did you mean seed"):
        audit("fcf", sede=1)
