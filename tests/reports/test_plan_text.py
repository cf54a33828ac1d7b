"""A plan as TOML reads as the plan it was."""

from __future__ import annotations

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.auditor.plan.plan import Plan, make_plan
from fedrec_auditor.reports.html import plan_text
from tests.texts import LETTERS

NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
LEAVES = NUMBERS | st.text(LETTERS)
ANY = st.recursive(
    LEAVES, lambda part: st.lists(part) | st.dictionaries(st.text(LETTERS), part), max_leaves=6
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(LETTERS), ANY))
def test_toml_reads_it_back(plan: dict[str, object]) -> None:
    assert tomllib.loads(plan_text(plan)) == plan


def test_the_plan_of_a_record_makes_the_same_plan() -> None:
    plan = Plan(
        targets=("fcf", "fmf-ldp"), settings={"fcf": {"rounds": 5}}, quick=True, seed=7
    ).resolved()
    text = plan_text(plan.model_dump(mode="json"))
    assert make_plan(tomllib.loads(text)) == plan
