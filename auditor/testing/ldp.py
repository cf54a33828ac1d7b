"""Defines ``assert_ldp``, which tests a mechanism's claimed epsilon in a test suite."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fedrec_auditor.accountants.verdict import Gate
from fedrec_auditor.auditor.verification.verification import Verification
from fedrec_auditor.auditor.verification.verify import verify_ldp
from fedrec_auditor.auditor.worlds.sampler import Sampler


def assert_ldp(
    mechanism: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    inputs: Any = None,
    samples: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    trace: bool = True,
    allow: Collection[str] = (),
) -> Verification:
    """Raises AssertionError if ``mechanism`` is shown not to be (epsilon, delta)-LDP.

    AssertionError is also raised if a check finds another fault, or if the sample is too small to
    refute the claim (INCONCLUSIVE). A test that passes is not a proof.

    - ``allow``: names of checks that may fail, such as ("floating point",). With "not-tested", a
      sample that is too small does not fail the test.
    - All other arguments: see ``fedrec_auditor.verify_ldp``.

    Returns the ``Verification``, with its bounds and checks. Raises InputError for arguments that
    ``verify_ldp`` refuses, and for an unknown check.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> assert_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=10_000).verdict
    <Verdict.CONSISTENT: 'CONSISTENT'>
    """
    # The AssertionError states the pair of inputs, the event, its two probabilities, their ratio
    # compared with e^epsilon, and the results of all checks.
    __tracebackhide__ = True
    if isinstance(allow, str):
        allow = (allow,)
    verification = verify_ldp(
        mechanism,
        epsilon=epsilon,
        delta=delta,
        inputs=inputs,
        samples=samples,
        seconds=seconds,
        confidence=confidence,
        seed=seed,
        trace=trace,
    ).waiving(allow)
    if verification.faults or Gate(allow=allow).exit_code([verification.verdict]):
        raise AssertionError(f"{Sampler.wrap(mechanism).name}\n{verification.describe()}")
    return verification
