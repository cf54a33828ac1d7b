"""Tests of assert_ldp, which fails with the information needed to understand and repeat it."""

from __future__ import annotations

import dataclasses
import inspect
import re

import numpy as np
import pytest

from fedrec_auditor.auditor.testing import assert_ldp, ldp
from fedrec_auditor.auditor.verification import CheckResult, Verification, verify_ldp
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip


def response(x: int, rng: np.random.Generator, size: int) -> np.ndarray:
    return np.where(rng.random(size) < 0.8, x, 1 - x)


def test_a_claim_that_is_not_refuted_is_returned() -> None:
    found = assert_ldp(response, epsilon=1.5, samples=20_000, trace=False)
    assert isinstance(found, Verification)
    assert found.verdict == "UNSUBSTANTIATED"
    assert assert_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=1000).exact


def test_a_violation_names_the_pair_and_the_event() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_ldp(response, epsilon=1.0, samples=20_000, seed=7)
    message = str(caught.value)
    assert message.startswith("response\nFalse: epsilon 1 at delta 0")
    for label in ("bound", "how", "inputs", "event", "chances", "ratio"):
        assert re.search(rf"^  {label} +\S", message, re.MULTILINE)


def test_a_mechanism_is_named_by_its_parameters() -> None:
    with pytest.raises(AssertionError, match=r"BitFlip\(p=1\.0(.|\n)*epsilon is infinite"):
        assert_ldp(BitFlip.asymmetric(1.0), epsilon=1.0, samples=1000)


def test_failed_checks_fail_unless_they_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = dataclasses.replace(
        CheckResult.make_failed("Seen. Round the output."), name="floating point"
    )
    checks = failed, dataclasses.replace(CheckResult.make_passed("Equal."), name="support")
    monkeypatch.setattr(
        ldp, "verify_ldp", lambda *a, **k: dataclasses.replace(verify_ldp(*a, **k), checks=checks)
    )
    with pytest.raises(AssertionError, match=r"FAILED +floating point: Seen\. Round the output"):
        assert_ldp(response, epsilon=1.5, samples=20_000)
    for allow in (("floating point",), "floating point", ["support", "floating point"]):
        found = assert_ldp(response, epsilon=1.5, samples=20_000, allow=allow)
        assert [check.status for check in found.checks] == ["waived", "passed"]


def test_an_inconclusive_sample_fails_unless_allowed() -> None:
    def clear(x: int, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.where(rng.random(size) < 1e-6, 1 - x, x)

    with pytest.raises(AssertionError, match="Not tested") as caught:
        assert_ldp(clear, epsilon=10.0, samples=8_000, trace=False)
    assert "draw at least 37,948 per input" in str(caught.value).replace("\n            ", " ")
    allowed = assert_ldp(clear, epsilon=10.0, samples=8_000, trace=False, allow="inconclusive")
    assert (allowed.verdict, allowed.needed) == ("INCONCLUSIVE", 37_948)


def test_parameters_are_those_of_verify_ldp() -> None:
    """The parameter ``progress`` is left out, because nobody watches a test."""
    own, expected = (
        {name: each.default for name, each in inspect.signature(call).parameters.items()}
        for call in (assert_ldp, verify_ldp)
    )
    del expected["progress"]
    assert own == {**expected, "allow": ()}
