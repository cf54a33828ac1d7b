"""Tests of the text of a verification: its numbers are those of the verification."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Side, Witness
from fedrec_auditor.auditor.verification import CheckResult, CheckStatus, Verification, verify_ldp
from fedrec_auditor.auditor.verification.verification import format_ratio, make_claim
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip

CHECKS = (
    CheckResult(name="determinism", status=CheckStatus.PASSED, reason="Different seeds differ."),
    CheckResult(name="floating point", status=CheckStatus.FAILED, reason="Seen. Round the output."),
    CheckResult(name="clipping", status=CheckStatus.NOT_RUN, reason="The inputs are strings."),
)


def _make(epsilon: float, lower: float, **more: Any) -> Verification:
    checks = more.pop("checks", ())
    claimed_delta = more.get("delta", 0.0)
    bound = Bound(epsilon=lower, side=Side.LOWER, scope=REPORT_SCOPE, source="a method", **more)
    return Verification.of(bound, make_claim(epsilon, claimed_delta), checks=checks)


def _read_entry(text: str, label: str) -> str:
    """Text under ``label``, with its lines joined."""
    found = re.search(rf"^  {label} +(.*(?:\n {{12}}.*)*)", text, re.MULTILINE)
    return re.sub(r"\n +", " ", found[1])


def test_a_proved_claim_states_the_tightness_of_its_bound() -> None:
    text = str(verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=1000))
    assert text.startswith("Proved: epsilon 1 at delta 0 is not refuted")
    assert "1.0000 of the claim" in _read_entry(text, "bound")
    assert _read_entry(text, "how").startswith("exactly")
    loose = _read_entry(str(verify_ldp(BitFlip.symmetric(1.0), epsilon=2.0, samples=1000)), "bound")
    assert "0.5000 of the claim" in loose
    assert "tight" not in loose


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_ratio_equals_the_bound(delta: float) -> None:
    flip = BitFlip(0.8, 0.3)
    found = verify_ldp(flip, epsilon=0.5, delta=delta, samples=1000)
    text = _read_entry(str(found), "ratio")
    ratio = float(re.split(r"= ?|;", text)[1 if delta else 0])
    assert math.log(ratio) == pytest.approx(found.epsilon_lower, abs=1e-5)
    assert text.endswith(f"e^epsilon is {math.exp(0.5):.6g}")


def test_copies_multiply_the_ratio() -> None:
    witness = Witness(
        input_a="0", input_b="1", output="o", probability_a=0.5, probability_b=0.25, copies=5
    )
    text = str(_make(1.0, 5 * math.log(2), witness=witness))
    assert _read_entry(text, "ratio").startswith("32 over 5 copies; ")


def test_an_output_too_rare_for_a_double_is_not_called_impossible() -> None:
    witness = Witness(
        input_a="0", input_b="1", output="o", probability_a=math.inf, probability_b=0.0
    )
    text = _read_entry(str(_make(2000.0, 1500.0, witness=witness)), "ratio")
    assert text.startswith("e^1500; the probabilities underflow")


def test_an_underflow_at_a_delta_is_not_called_infinite() -> None:
    witness = Witness(input_a="0", input_b="1", output="o", probability_a=0.5, probability_b=0.0)
    assert format_ratio(witness, 1e-5, 1086.0).startswith("e^1086; the probabilities underflow")
    assert format_ratio(witness, 1e-5, math.inf) == "infinite"


def test_huge_and_infinite_ratios_are_readable() -> None:
    witness = Witness(
        input_a="0", input_b="1", output="o", probability_a=0.5, probability_b=1e-300, copies=9
    )
    text = str(_make(2000.0, 9 * math.log(0.5e300), witness=witness))
    assert "e^6" in _read_entry(text, "ratio")
    assert "e^2000" in _read_entry(text, "ratio")
    text = str(verify_ldp(BitFlip.asymmetric(1.0), epsilon=1.0, samples=1000))
    assert _read_entry(text, "bound") == "epsilon is infinite"
    assert _read_entry(text, "ratio").startswith("infinite")


def test_a_measurement_states_confidence_draws_and_bound() -> None:
    def response(x: int, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.where(rng.random(size) < 0.7, x, 1 - x)

    found = verify_ldp(response, epsilon=0.1, samples=20_000, trace=False)
    text = str(found)
    assert text.startswith("False: epsilon 0.1 at delta 0 is refuted")
    assert f"{found.samples:,} draws, at confidence 0.95" in _read_entry(text, "how")
    sure = f" as measured, at least {math.exp(found.epsilon_lower):.6g} at this confidence; "
    assert sure in _read_entry(text, "ratio")
    assert "times the claim" in _read_entry(text, "bound")


def test_checks_are_listed_with_reasons_failures_first() -> None:
    text = str(_make(1.0, 0.5, checks=CHECKS))
    assert text.splitlines()[0].endswith("but 1 check failed")
    marks = [
        line.split()[0] for line in text.splitlines() if re.match("  (FAILED|passed|not)", line)
    ]
    assert marks == ["FAILED", "passed", "not"]
    assert _read_entry(text, "FAILED") == "floating point: Seen. Round the output."
    both = str(_make(1.0, 2.0, checks=CHECKS)).splitlines()[0]
    assert both == "False: epsilon 1 at delta 0 is refuted, and 1 check failed"


def test_a_waived_check_is_marked_and_not_a_failure() -> None:
    found = _make(1.0, 0.5, checks=CHECKS)
    waived = found.waiving(["floating point", "clipping"])
    text = waived.describe()
    assert "failed" not in text.splitlines()[0]
    assert _read_entry(text, "waived").startswith("floating point")
    assert (waived.faults, found.waiving(())) == ((), found)
    with pytest.raises(InputError, match="point, clipping, not-tested, got 'float'"):
        found.waiving(["float"])


def test_outputs_cannot_control_or_flood_a_terminal() -> None:
    witness = Witness(
        input_a="\x1b[2J", input_b="b\nc", output="o" * 9999, probability_a=0.5, probability_b=0.1
    )
    text = str(_make(1.0, 0.5, witness=witness))
    assert "\x1b" not in text
    assert _read_entry(text, "inputs").split()[-2:] == ["b", "c"]
    assert len(text) < 2000


def test_a_violation_raises_the_whole_text() -> None:
    refuted, faulty = _make(1.0, 2.0), _make(1.0, 0.5, checks=CHECKS)
    for found in (refuted, faulty):
        with pytest.raises(AssertionError) as caught:
            found.raise_if_violated()
        assert str(caught.value) == str(found)
    allowed = faulty.raise_if_violated(allow=("floating point",))
    assert allowed == faulty.waiving(["floating point"]) != faulty
    with pytest.raises(AssertionError, match="is refuted"):
        _make(1.0, 2.0, checks=CHECKS).raise_if_violated(allow=("floating point",))
