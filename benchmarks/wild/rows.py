"""The stored results on public packages: claim, exact epsilon and measurement of mechanisms."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.wild.finding import Finding
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.errors import AuditError
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.exact.fit import CheckStatus
from fedrec_auditor.auditor.spending.spend import account
from fedrec_auditor.auditor.tracing.trace import PROOF_CHECK_NAME
from fedrec_auditor.auditor.verification import Verification
from fedrec_auditor.reports.record import store
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian

INFINITE = "infinite"
MAX_EVENT_LENGTH = 100
"""Maximum length of a written event, in characters."""
RESULTS = Path(__file__).parents[1] / "found_in_the_wild.json"


@dataclass(frozen=True)
class Row:
    """The claim of a mechanism, its exact epsilon, and its measurement, as texts.

    measured: lower bound of epsilon, or the proved epsilon.
    draws: number of draws per input, "exact" or "proved".
    failed: names of the failed checks.
    event: a set of outputs, with its probabilities under two inputs.
    """

    package: str
    name: str
    setting: str
    claimed: str
    exact: str
    measured: str = ""
    verdict: str = ""
    draws: str = ""
    failed: str = ""
    event: str = ""


def format_epsilon(epsilon: float) -> str:
    """Epsilon with four digits, or "infinite"."""
    return INFINITE if math.isinf(epsilon) else f"{epsilon:.4g}"


def make_claim_row(finding: Finding) -> Row:
    """The result row of a mechanism, with only the fields that need no measurement."""
    claimed = format_epsilon(finding.epsilon)
    return Row(
        package=Package.from_module(finding.module).label,
        name=finding.name,
        setting=finding.setting,
        claimed=f"{claimed} at delta {finding.delta:g}" if finding.delta else claimed,
        exact=format_epsilon(finding.exact),
    )


def measure_finding(finding: Finding) -> Row:
    """Measures a mechanism by an accountant or by samples, and returns its result row."""
    if finding.account is None:
        row = make_row(finding, finding.verify(trace=True))
        if isinstance(finding.call, Gaussian):
            _check_noise(finding, finding.call)
            return apply_proof(finding, finding.call, row)
        return row
    found = account(**finding.account, claimed_epsilon=finding.call).total
    if not math.isclose(found.claim.epsilon, finding.epsilon, rel_tol=1e-6):
        raise AuditError(f"Expected {finding.epsilon} of {finding.address}, got {found.claim}.")
    assert found.measured is not None
    return replace(
        make_claim_row(finding),
        measured=format_epsilon(found.measured.epsilon),
        verdict=str(found.verdict),
        draws="exact",
        failed="not run",
    )


def apply_proof(finding: Finding, law: Gaussian, row: Row) -> Row:
    """A copy of ``row`` with verdict CONSISTENT if an accountant proves the claim for this noise.

    Other verdicts than UNSUBSTANTIATED stay.
    """
    z = law.sigma / (law.high - law.low)
    claim = {"delta": finding.delta, "claimed_epsilon": finding.epsilon}
    kept = account(gaussian=z, **claim).total.verdict is Verdict.CONSISTENT
    if row.verdict != Verdict.UNSUBSTANTIATED or not kept:
        return row
    return replace(row, verdict=str(Verdict.CONSISTENT), draws="proved")


def _check_noise(finding: Finding, law: Gaussian) -> None:
    """Raises AuditError if the package's measured noise has another standard deviation."""
    deviation = getattr(importlib.import_module(finding.module), finding.key, None)
    if deviation is not None and not math.isclose(found := deviation(), law.sigma, rel_tol=0.02):
        raise AuditError(f"Expected noise of {law.sigma} of {finding.address}, got {found}.")


def make_row(finding: Finding, result: Verification) -> Row:
    """The result row of a mechanism, from the result of ``verify_ldp``."""
    failed = ", ".join(check.name for check in result.faults) or "none"
    if finding.inputs is None:  # our sampler, with the package's noise
        failed = "not run"
    followed = any(
        check.name == PROOF_CHECK_NAME and check.status is CheckStatus.PASSED
        for check in result.checks
    )
    proof = followed and result.exact and result.searched.tight
    event = ""
    if finding.is_refuted and (shown := result.witness) is not None:
        share = "probability" if result.exact else "share of the draws"
        fits = len(shown.output) <= MAX_EVENT_LENGTH
        event = (
            f"{shown.output if fits else 'a set of outputs too long to write here'}: {share} "
            f"{shown.probability_a:.4g} for input {shown.input_a}, {shown.probability_b:.4g} for "
            f"input {shown.input_b}"
        )
    return replace(
        make_claim_row(finding),
        measured=format_epsilon(result.epsilon_lower),
        verdict=str(result.verdict),
        draws="proved" if proof else "exact" if result.exact else f"{result.samples:,}",
        failed=failed,
        event=event,
    )


def read_rows(path: Path = RESULTS) -> dict[str, Row]:
    """The stored results of mechanisms, by "module:key"."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {place: Row(**row) for place, row in rows.items()}


def write_rows(rows: Mapping[str, Row], path: Path = RESULTS) -> None:
    """Writes the results of mechanisms to ``path`` as JSON."""
    text = json.dumps({place: asdict(row) for place, row in rows.items()}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    store.write_atomically(path, f"{text}\n".encode())
