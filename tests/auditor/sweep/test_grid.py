"""Tests of the variants of a sweep."""

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.sweep.grid import Axis, make_variants, parse_noise_factor
from fedrec_auditor.auditor.sweep.sweep import _describe_twin

PLAN = Plan(targets=("fmf-ldp", "dplcf-sp"), data="synthetic")


def make_grid(*texts: str, plan: Plan = PLAN):
    return make_variants(plan, [Axis.parse(text, plan.targets) for text in texts])


def test_an_axis_applies_to_every_target_with_the_setting():
    made = make_grid("epsilon=1,2", "reports=1,3")
    settings = [(each.target, each.settings) for each in made]
    assert settings == [
        ("fmf-ldp", {"epsilon": 1, "reports": 1}),
        ("fmf-ldp", {"epsilon": 1, "reports": 3}),
        ("fmf-ldp", {"epsilon": 2, "reports": 1}),
        ("fmf-ldp", {"epsilon": 2, "reports": 3}),
        ("dplcf-sp", {"epsilon": 1}),
        ("dplcf-sp", {"epsilon": 2}),
        ("fcf", {}),
        ("lcf-ub", {}),
    ]


def test_a_noiseless_variant_is_unique_and_has_common_settings():
    made = make_grid("fmf-ldp.rounds=2,3", "fmf-ldp.epsilon=1,2", plan=Plan(targets=("fmf-ldp",)))
    bare = [made[each.noiseless_index] for each in made if each.noiseless_index]
    twins = [(each.target, each.settings) for each in bare]
    assert twins == [("fcf", {"rounds": rounds}) for rounds in (2, 2, 3, 3)]
    assert len(made) == 6


def test_the_noiseless_variant_of_a_composition_is_unprotected():
    plan = Plan(targets=("f-dpmf",))
    made = make_grid("protection.epsilon=20,40", "route=direct,shuffler", plan=plan)
    assert [each.noiseless_index for each in made] == [4, 5, 4, 5, None, None]
    assert [made[twin].settings["protection"] for twin in (4, 5)] == [{"name": "unprotected"}] * 2


def test_a_noiseless_variant_learns_as_its_system():
    made = make_grid("learns=true,false", plan=Plan(targets=("fedmf-ldp", "fmf-ldp")))
    assert [each.settings["learns"] for each in made] == [True, False] * 4
    learns, printed = made[made[0].noiseless_index], made[made[1].noiseless_index]
    assert (learns.all_settings["server"], learns.target) == ("adam", "fedmf")
    assert printed.all_settings == {"learns": False}


@pytest.mark.parametrize("name", FAMILIES["targets"].list_loadable_names())
def test_every_system_with_a_noise_setting_scales_its_noise(name):
    made = make_target(name, Plan())
    if made.noise_setting is None:
        with pytest.raises(InputError, match="privacy"):
            make_grid("privacy=2", plan=Plan(targets=(name,)))
        return
    for factor in (0.25, 4.0):
        (variant, *_) = make_grid(f"privacy={factor}", plan=Plan(targets=(name,)))
        turned = make_target(name, Plan(targets=(name,), settings={name: variant.settings}))
        before = made.noise_setting.scale_noise(made, factor)
        assert turned.noise_setting.scale_noise(turned, 1.0) == pytest.approx(before)
        assert all(before), [turned.noise_setting.noise_names, turned.noise_setting.budget_names]


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("name", FAMILIES["targets"].list_loadable_names())
def test_every_system_with_noise_has_a_noiseless_variant(name, learns):
    settings = {name: {"learns": True}} if learns else {}
    plan = Plan(targets=(name,), settings=settings)
    if make_target(name, plan).noise_setting is None:
        return
    made = make_grid("privacy=1", plan=plan)
    assert made[0].noiseless_index == 1
    own = learns and getattr(make_target(name, plan), "protection", None)
    asks_other_steps = bool(own and own.tuned_values) and made[1].target != name
    assert bool(_describe_twin(made[0], made, plan)) == asks_other_steps
    bare = make_target(made[1].target, made[1].make_plan(plan, 0))
    if bare.noise_setting is not None:
        (place,) = bare.noise_setting.noise_names + bare.noise_setting.budget_names
        assert getattr(bare, place) == bare.noise_setting.noiseless_value


@pytest.mark.parametrize("factor", ["0", "-0.0", "0.0", "-1", "inf", "nan", "twice"])
def test_noise_factors_are_above_0(factor: str) -> None:
    """Zero noise is not a multiple of the noise: the noiseless variant has it."""
    with pytest.raises(InputError, match="privacy above 0"):
        parse_noise_factor(factor)
