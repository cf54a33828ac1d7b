"""Which variants a sweep has."""

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.sweep.grid import Axis, variants

PLAN = Plan(targets=("fmf-ldp", "dplcf-sp"), data="synthetic")


def grid(*texts: str, plan: Plan = PLAN):
    return variants(plan, [Axis.of(text, plan.targets) for text in texts])


def test_an_axis_is_of_every_target_that_has_the_setting():
    made = grid("epsilon=1,2", "reports=1,3")
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


def test_a_twin_is_there_once_and_has_the_settings_that_both_have():
    made = grid("fmf-ldp.rounds=2,3", "fmf-ldp.epsilon=1,2", plan=Plan(targets=("fmf-ldp",)))
    twins = [(made[each.twin].target, made[each.twin].settings) for each in made if each.twin]
    assert twins == [("fcf", {"rounds": rounds}) for rounds in (2, 2, 3, 3)]
    assert len(made) == 6


def test_a_composition_has_itself_without_protection_as_a_twin():
    plan = Plan(targets=("fednews",))
    made = grid("protection.epsilon=20,40", "route=direct,shuffler", plan=plan)
    assert [each.twin for each in made] == [4, 5, 4, 5, None, None]
    assert [made[twin].settings["protection"] for twin in (4, 5)] == [{"name": "unprotected"}] * 2


def test_a_twin_learns_where_the_system_does():
    made = grid("learns=true,false", plan=Plan(targets=("fedmf-ldp", "fmf-ldp")))
    assert [each.settings["learns"] for each in made] == [True, False] * 4
    learns, printed = made[made[0].twin], made[made[1].twin]
    assert (learns.spelled_out["server"], learns.target) == ("adam", "fedmf")
    assert printed.spelled_out == {"learns": False}


@pytest.mark.parametrize("name", FAMILIES["targets"].able())
def test_more_noise_is_a_setting_of_every_system_that_declares_it(name):
    made = make_target(name, Plan())
    if made.privacy is None:
        with pytest.raises(InputError, match="privacy"):
            grid("privacy=2", plan=Plan(targets=(name,)))
        return
    for factor in (0.25, 4.0):
        (variant, *_) = grid(f"privacy={factor}", plan=Plan(targets=(name,)))
        turned = make_target(name, Plan(targets=(name,), settings={name: variant.settings}))
        before = made.privacy.turned(made, factor)
        assert turned.privacy.turned(turned, 1.0) == pytest.approx(before)
        directions = [turned.privacy.noise, turned.privacy.budgets]
        assert all(before), directions


@pytest.mark.parametrize("name", FAMILIES["targets"].able())
def test_every_system_that_buys_privacy_stands_beside_one_that_does_not(name):
    if make_target(name, Plan()).privacy is None:
        return
    (variant, *others) = grid("privacy=1", plan=Plan(targets=(name,)))
    (twin,) = others
    assert variant.twin == 1
    bare = make_target(
        twin.target, Plan(targets=(twin.target,), settings={twin.target: twin.settings})
    )
    if bare.privacy is not None:
        (place,) = bare.privacy.noise + bare.privacy.budgets
        assert getattr(bare, place) in (0.0, bare.privacy.off)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["epsilon"], r"\[TARGET\.\]NAME=VALUE,VALUE, got 'epsilon'"),
        (["epsilon=1,,2"], "got 'epsilon=1,,2'"),
        (["epsilon=1,1.0"], "each setting of fmf-ldp once"),
        (["epsilon=1", "epsilon=4"], "epsilon of fmf-ldp once"),
        (["eps=1", "epsilon=4"], "epsilon of fmf-ldp once"),
        (["epsilon=1,2", "fmf-ldp.epsilon=3"], "epsilon of fmf-ldp once"),
        (["epsilon=1,1"], "each value of epsilon once, got 1 twice"),
        (["epsilom=1"], "got 'epsilom'.*epsilon"),
        (["privacy=0"], "privacy above 0, how many times the noise, got '0'"),
        (["epsilon=-1"], "epsilon"),
    ],
)
def test_a_wrong_axis_is_refused(texts, said):
    with pytest.raises(InputError, match=said):
        grid(*texts)


def test_too_many_trainings_are_refused_twins_and_seeds_counted():
    many = ",".join(map(str, range(1, 201)))
    with pytest.raises(InputError, match="at most 10,000 trainings"):
        grid(f"rounds={many}", f"reports={many}")
    one, axes = Plan(targets=("fmf-ldp",)), [Axis("rounds", tuple(many.split(",")))]
    assert len(variants(one, axes, 25)) == 400
    with pytest.raises(InputError, match="got 10,400"):
        variants(one, axes, 26)
