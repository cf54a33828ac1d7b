"""Rules of settings: what they take, and that the error names the value and the default."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.settings import (
    RANGES,
    Rule,
    check_choice,
    check_settings,
    numbers,
    usual,
)


@dataclass(frozen=True)
class Settings:
    value: object = 0.5
    kind: str = "one"


TAKEN: dict[Rule, tuple[object, ...]] = {
    settings.whole: (1, 7),
    settings.whole_or_none: (0, 7),
    settings.positive: (1, 1e-100, 1e100),
    settings.budget: (1, 1e-9, 1e100),
    settings.scale: (5, 1e6),
    settings.not_negative: (0, 1e300),
    settings.share: (1, 1.0, 1e-9),
    settings.proper_share: (0.5, 1e-9),
    settings.share_or_none: (0, 0.0, 0.999),
    settings.fraction: (0, 1, 0.5),
    settings.boolean: (True, False),
}
REFUSED: dict[Rule, tuple[object, ...]] = {
    settings.whole: (0, 1.0, -1),
    settings.whole_or_none: (-1, 0.0),
    settings.positive: (0, -1, 5e-324, 1e300, math.inf),
    settings.budget: (0, -1, 9.9e-10, 1e300, math.inf),
    settings.scale: (0, 1.01e6, math.inf),
    settings.not_negative: (-1e-9, math.inf),
    settings.share: (0, 1.01),
    settings.proper_share: (0, 1),
    settings.share_or_none: (-0.1, 1),
    settings.fraction: (-0.1, 1.01),
    settings.boolean: (0, 1, 1.0),
}


@pytest.mark.parametrize("rule", RANGES, ids=lambda rule: rule.__name__)
def test_a_rule_takes_what_it_says_and_nothing_else(rule: Rule) -> None:
    for value in TAKEN[rule]:
        check_settings(Settings(value), value=rule)
    never: tuple[object, ...] = (math.nan, "1", None, [1.0])
    if rule is not settings.boolean:
        never = (*never, True)
    for value in (*REFUSED[rule], *never):
        with pytest.raises(InputError, match=r"^Expected value ") as caught:
            check_settings(Settings(value), value=rule)
        assert f"got value={value!r}. The default is 0.5." in str(caught.value)


def test_a_choice_is_one_of_those_named() -> None:
    check_choice(Settings(), "kind", ("one", "two"))
    with pytest.raises(InputError, match="Expected kind among two, three, got kind='one'"):
        check_choice(Settings(), "kind", ("two", "three"))


def test_fields_obey_the_rule_of_their_default() -> None:
    @dataclass(frozen=True)
    class Several:
        count: int = 3
        rate: float = 0.5
        flag: bool = True
        kind: str = "one"
        epsilon: float = 1.0

    rules = usual(Several())
    assert [rules[name] for name in ("count", "rate", "flag", "epsilon")] == [
        settings.whole,
        settings.positive,
        settings.boolean,
        settings.budget,
    ]
    assert numbers(Several(flag=False)) == {"count": 3.0, "rate": 0.5, "flag": 0.0, "epsilon": 1.0}
