"""Plans: what is refused, with the line of the file, and what is filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from accountants.errors import InputError
from auditor.plan import Plan, amend, make_plan, make_resources, read_plan


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_file_is_read(tmp_path: Path) -> None:
    plan = read_plan(
        written(
            tmp_path,
            'targets = ["dplcf-sp"]\nseed = 3\n\n[settings.dplcf-sp]\nepsilon = 0.5\n',
        )
    )
    assert plan.targets == ("dplcf-sp",)
    assert plan.settings == {"dplcf-sp": {"epsilon": 0.5}}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("seed = 1\nsede = 2\n", r"plan\.toml, line 2: expected one of the keys .*'sede'"),
        ("seed = -1\n", r"line 1: seed=-1 is refused"),
        ("data = 'synthetic'\n\nconfidence = nan\n", r"line 3: confidence=nan"),
        ("confidence = 1.5\n", r"confidence=1.5"),
        ('seed = "one"\n', r"line 1: seed='one'"),
        ("seed = \n", r"plan\.toml: expected TOML.*line 1"),
        ("[settings.fcf]\nfactors = [1]\n", r"line 2: settings\.fcf\.factors"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_plan(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="readable plan file"):
        read_plan(tmp_path / "none.toml")


def test_resolved_names_every_target_and_attack() -> None:
    plan = Plan().resolved()
    assert {"fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap"} <= set(plan.targets)
    assert plan.attacks
    assert "likelihood-ratio" in plan.attacks


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"targets": ("fcff",)}, "Did you mean fcf"),
        ({"targets": ("fcf", "fcf")}, "twice"),
        ({"targets": ("fcf",), "settings": {"dplcf-sp": {"epsilon": 1.0}}}, "audited targets only"),
        ({"attacks": ("nothing-like-it",)}, "nothing-like-it"),
        ({"estimator": "clopper-person"}, "Did you mean clopper-pearson"),
    ],
)
def test_unknown_names_are_refused(values: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make_plan(values).resolved()


def test_the_command_line_goes_over_the_file() -> None:
    plan = amend(make_plan({"seed": 1, "quick": True}), {"seed": 2})
    assert (plan.seed, plan.quick) == (2, True)


def test_equal_plans_have_equal_digests() -> None:
    assert make_plan({"seed": 1}).digest() == make_plan({"seed": 1}).digest()
    assert make_plan({"seed": 1}).digest() != make_plan({"seed": 2}).digest()


def test_no_jobs_are_refused() -> None:
    with pytest.raises(InputError, match="jobs=0"):
        make_resources(0)
