"""Tests of settings on the command line, which have the types of the target's fields."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.members import make_mechanism, parse_settings
from fedrec_auditor.auditor.plan.plan import Plan, amend_plan, make_target


def make_with(name: str, given: list[str]) -> Any:
    return make_target(name, amend_plan(None, {"settings": [f"{name}.{text}" for text in given]}))


@pytest.mark.parametrize(
    ("name", "given", "field", "value"),
    [
        ("lfl-sgdmf", ["sigma=5"], "noise_multiplier", 5),
        ("lfl-sgdmf", ["z=5.5"], "noise_multiplier", 5.5),
        ("lfl-sgdmf", ["T=1e2"], "rounds", 100),
        ("lfl-sgdmf", ["delta=1e-5"], "delta", 1e-5),
        ("lfl-sgdmf", ["as_published=false"], "as_published", False),
        ("fmf-ldp", ["k=250", "eps=1"], "reports", 250),
        ("dp-privrec", ["M=5"], "clients", 5),
        ("gmf", ["flip=none"], "flip", "none"),
        ("dplcf-ap", ["p=0.9"], "keep", 0.9),
    ],
)
def test_values_reach_their_field(name: str, given: list[str], field: str, value: Any) -> None:
    found = getattr(make_with(name, given), field)
    assert found == value
    assert type(found) is type(value)


def test_components_have_their_own_settings() -> None:
    target: Any = make_with("fedncf", ["protection=laplace", "protection.epsilon=3"])
    assert target.protection.epsilon == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["sgma=5"], "Did you mean sigma"),
        (["rounds"], "NAME=VALUE"),
        (["=5"], "NAME=VALUE"),
        (["rounds="], "NAME=VALUE"),
        (["T=3", "rounds=4"], "twice"),
        (["T=0"], "rounds=0"),
        (["T=2.5"], "whole number"),
        (["T=1e400"], "rounds"),
        (["T=" + "9" * 30], "to 1e+15"),
        (["sigma=-1"], "noise_multiplier=-1"),
        (["sigma=nan"], "noise_multiplier=nan"),
        (["sigma=inf"], "noise_multiplier=inf"),
        (["sigma=five"], "a number"),
        (["delta=1"], "delta=1"),
        (["delta=2.0"], "delta=2.0"),
        (["omega=1.5"], "omega=1.5"),
        (["as_published=maybe"], "true or false"),
        (["as_published.x=1"], "got 'as_published.x'"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_with("lfl-sgdmf", given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("laplace", ["scale=abc", "low=0", "high=1"], "a number for scale of laplace, got 'abc'"),
        ("bit-flip", ["p=true", "q=0.2"], "a number for p of bit-flip, got True"),
        (
            "vector-gaussian",
            ["dimension=2.5", "sigma=1", "clip=1"],
            "a whole number for dimension of vector-gaussian",
        ),
        ("product", [], "whose settings are numbers"),
    ],
)
def test_mechanisms_refuse_settings_of_a_wrong_type(
    name: str, given: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make_mechanism(name, given)


def test_settings_of_several_targets_are_separated() -> None:
    given = ["fcf.rounds=3", "f-gerai.share=0.5", "f-gerai-nl.share=0.25", "mine:a.system.x=1"]
    assert parse_settings(given) == {
        "fcf": {"rounds": 3},
        "f-gerai": {"share": 0.5},
        "f-gerai-nl": {"share": 0.25},
        "mine:a.system": {"x": 1},
    }


@pytest.mark.parametrize("text", ["rounds=3", "fcf.rounds=3"])
@pytest.mark.parametrize("plan", [None, Plan(targets=("fcf",))])
def test_the_only_target_need_not_be_named(text: str, plan: Plan | None) -> None:
    given = {"settings": [text]} | ({"targets": "fcf"} if plan is None else {})
    assert amend_plan(plan, given).settings == {"fcf": {"rounds": 3}}
    with pytest.raises(InputError, match="got settings for 'fmf-ldp'"):
        amend_plan(plan, given | {"settings": ["fmf-ldp.rounds=3"]}).resolve()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fcff.rounds=3", "Did you mean fcf"),
        ("fcf.roundz=3", "Did you mean rounds"),
        ("fcf.rounds", "TARGET.NAME=VALUE"),
        ("fcf=3", "TARGET.NAME=VALUE"),
    ],
)
def test_a_wrong_setting_name_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_settings([text])


def test_settings_of_a_component_keep_its_other_values() -> None:
    before, made = (make_with("fixrec-min", s).protection for s in ([], ["protection.clip=0.25"]))
    assert made == dataclasses.replace(before, clip=0.25)
