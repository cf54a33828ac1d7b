"""Tests of a claim in a file or a call: its scope, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec_auditor import Claim, InputError
from fedrec_auditor.auditor.plan.stated_claim import read_claims


@pytest.mark.parametrize(
    ("values", "scope"),
    [
        ({}, "user / replace / server / training"),
        ({"vantage": "aggregate"}, "user / add-remove / aggregate / training"),
        ({"unit": "interaction"}, "interaction / add-remove / server / training"),
        ({"unit": "rating", "horizon": "round"}, "rating / replace / server / round"),
        ({"adjacency": "any pair"}, "user / any pair / server / training"),
    ],
)
def test_the_default_adjacency_depends_on_the_unit(values: dict[str, str], scope: str) -> None:
    scoped = Claim(epsilon=1, delta=1e-6, **values).scoped()
    assert str(scoped.scope) == str(scoped.claim.scope) == scope
    assert scoped.delta == 1e-6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon": -1}, "epsilon of the claim to be greater than or equal to 0, got -1"),
        ({"epsilon": "one"}, "epsilon of the claim to be a valid number"),
        ({}, "Expected epsilon in the claim, got none"),
        ({"epsilon": 1, "delta": 1}, "delta of the claim to be less than 1"),
        ({"epsilon": 1, "unit": "person"}, "got 'person'"),
        ({"epsilon": 1, "eps": 2}, "Expected one of epsilon, delta"),
    ],
)
def test_a_bad_claim_is_refused_in_one_line(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Claim(**values)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_file_has_one_claim_or_several(tmp_path: Path) -> None:
    file = tmp_path / "claim.toml"
    file.write_text('epsilon = 2.0\ndelta = 1e-5\nhorizon = "round"\n')
    (one,) = read_claims(file)
    assert (one.epsilon, one.horizon) == (2.0, "round")
    file.write_text('[[claim]]\nepsilon = 1\n[[claim]]\nepsilon = inf\nunit = "rating"\n')
    assert [each.epsilon for each in read_claims(file)] == [1.0, float("inf")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilon =", "Expected TOML"),
        ("", "got no claim"),
        ("epsilon = 1\n[[claim]]\nepsilon = 2", "got keys and tables"),
        ("claim = [1]", "Expected a table as a claim"),
        ("a." * 130_000 + "a = 1", "at most 256 dots in the file of claims"),
        ("epsilon = 1\nscope = 2", r"claim\.toml: Expected one of .*, got 'scope'"),
    ],
)
def test_a_bad_file_of_claims_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "claim.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_claims(file)
    with pytest.raises(InputError, match="Give such a file"):
        read_claims(tmp_path / "none.toml")
