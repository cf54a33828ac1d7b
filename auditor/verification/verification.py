"""Result of a verification: bounds on a randomizer's epsilon, and the verdict on its claim."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Claim, Side, Witness
from fedrec_auditor.accountants.verdict import Exemption, Gate, Verdict, judge_claim
from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.worlds.measure import RefutationDraws
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say import capitalize_first
from fedrec_auditor.reports.writers.paragraph import NON_TERMINAL_WIDTH, wrap_entry, wrap_paragraph

_MAX_LENGTH = 500
# Smallest exponent from which a ratio is written as a power of e.
_MIN_EXPONENT = 40.0


def format_ratio(witness: Witness, delta: float, log_ratio: float) -> str:
    """Describes the ratio of an event's probabilities under two inputs as text, such as "e^45".

    ``witness``: the event, with its probabilities P and Q under the two inputs for one copy, and
        the number of copies (independent repetitions).
    ``delta``: delta of the claim. If it is positive, the ratio is (P - delta) / Q.
    ``log_ratio``: logarithm of the ratio, for probabilities that underflow; infinite if unknown.
    """
    p, q = witness.probability_a - delta, witness.probability_b
    if p <= 0:
        return "none, P is at most delta" if delta > 0 else "both probabilities underflow"
    if (q == 0 or math.isinf(p)) and math.isfinite(log_ratio):
        return f"{format_exp(log_ratio)}; the probabilities underflow double precision"
    if q == 0:
        return "infinite"
    exponent = math.log(p) - math.log(q)
    if delta > 0:
        return f"(P - delta) / Q = {format_exp(exponent)}"
    if witness.copies > 1:
        return f"{format_exp(exponent * witness.copies)} over {witness.copies} copies"
    return format_exp(exponent)


def format_exp(exponent: float) -> str:
    """Returns e to the power ``exponent`` as text: a number, or "e^..." from exponent 40."""
    return f"{math.exp(exponent):.6g}" if exponent < _MIN_EXPONENT else f"e^{exponent:.6g}"


def shorten_text(text: str) -> str:
    """Shortens ``text`` to its first 500 characters."""
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]} ..."


# Source of a bound on outputs that are texts and never repeat, such as ciphertexts.
UNTESTED_TEXT = (
    "nothing was tested: no two texts are equal, and no part of them distinguishes inputs"
)


def make_claim(epsilon: float, delta: float) -> Claim:
    """Returns the claim that a randomizer satisfies (epsilon, delta)-local differential privacy.

    Raises InputError for an invalid number.
    """
    return Claim(
        epsilon=epsilon,
        delta=delta,
        scope=REPORT_SCOPE,
        statement="One output is private for every pair of inputs.",
        source="the arguments of the verification",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Verdict on a claim about a randomizer, with the bounds and checks on which it is based.

    ``verdict``: the verdict on the claim. CONSISTENT means that all inputs and outputs were
        examined, which proves the claim if the code follows the stated probabilities.
    ``epsilon``: the claimed epsilon; for the measured epsilon, see ``epsilon_lower``.
    ``delta``: the delta of the claim and of ``epsilon_lower``.
    ``epsilon_lower``: largest lower bound on epsilon, including those of failed checks; possibly
        infinite.
    ``exact``: whether ``epsilon_lower`` is computed (confidence 1) and not measured.
    ``confidence``: confidence of ``epsilon_lower``.
    ``samples``: total number of draws of a measurement; None for an exact bound.
    ``witness``: the pair of inputs, the distinguishing event and its two probabilities; None if
        there are none.
    ``method``: method by which the bound was computed, and whether its search was exhaustive.
    ``searched``: lower bound on epsilon by search or measurement, without the checks.
    ``largest``: largest lower bound that this number of draws could give. If it does not exceed the
        claim, the verdict is INCONCLUSIVE.
    ``needed``: number of draws per input that could refute the claim, if ``largest`` does not
        exceed it; otherwise, or above 2^50, None.
    ``checks``: checks for faults that a ratio of probabilities does not reveal.

    >>> from fedrec_auditor.auditor.verification import verify_ldp
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> found = verify_ldp(BitFlip.symmetric(1.0), epsilon=0.5, samples=10_000)
    >>> found.verdict, round(found.epsilon_lower, 6), found.exact
    (<Verdict.VIOLATED: 'VIOLATED'>, 1.0, True)
    >>> found.witness.input_a, found.witness.input_b, found.witness.output
    ('a bit whose true value is 0', 'a bit whose true value is 1', 'the uploaded bit is 0')
    """

    verdict: Verdict
    epsilon: float
    delta: float
    epsilon_lower: float
    exact: bool
    confidence: float
    samples: int | None
    witness: Witness | None
    method: str
    searched: Bound
    largest: float = math.inf
    needed: int | None = None
    checks: tuple[CheckResult, ...] = ()

    @classmethod
    def of(
        cls,
        searched: Bound,
        claim: Claim,
        *,
        needed: int | None = None,
        checks: tuple[CheckResult, ...] = (),
    ) -> Verification:
        """Judges a claim by a lower bound on epsilon, and by checks for faults.

        ``searched``: lower bound by search or measurement. If it is marked as tight, it is also an
            upper bound.
        ``claim``: the claim about the randomizer.
        ``needed``: number of draws per input that could refute the claim, if ``searched`` could
            not.
        ``checks``: results of the checks.

        The verdict is based on the largest lower bound among ``searched`` and the failed checks.
        """
        # If a failed check gives a larger bound than ``searched``, no upper bound is used: the code
        # then does not follow the distribution for which ``searched`` was computed.
        bound, proof = _combine_bounds(searched, checks)
        judgement = judge_claim(claim, scope=REPORT_SCOPE, accounted=proof, measured=bound)
        return cls(
            verdict=judgement.verdict,
            epsilon=claim.epsilon,
            delta=claim.delta,
            epsilon_lower=bound.epsilon,
            exact=bound.samples is None,
            confidence=bound.confidence,
            samples=bound.samples,
            witness=bound.witness,
            method=bound.source,
            searched=searched,
            largest=bound.largest,
            needed=needed,
            checks=checks,
        )

    def waiving(self, allow: Collection[str]) -> Verification:
        """Returns a copy in which the failed checks named in ``allow`` are waived.

        The verdict and the bound of the copy do not use waived checks. "not-tested" is accepted
        without effect, so that ``allow`` may be that of a ``Gate``. Raises InputError for any other
        name that is not a check.
        """
        known = [check.name for check in self.checks] + [Exemption.INCONCLUSIVE]
        for name in allow:
            if name not in known and not Exemption.INCONCLUSIVE.matches_name(name):
                raise InputError(
                    f"Expected the name of a check to allow, one of {', '.join(known)}, got "
                    f"{name!r}. Correct the name."
                )
        checks = tuple(
            replace(check, status=CheckStatus.WAIVED)
            if check.status is CheckStatus.FAILED and check.name in allow
            else check
            for check in self.checks
        )
        claim = make_claim(self.epsilon, self.delta)
        return Verification.of(self.searched, claim, needed=self.needed, checks=checks)

    @property
    def faults(self) -> tuple[CheckResult, ...]:
        """Checks that failed."""
        return tuple(check for check in self.checks if check.status is CheckStatus.FAILED)

    def describe(self, *, command: str = "", width: int = NON_TERMINAL_WIDTH) -> str:
        """Describes verdict, bound, distinguishing event and checks, in lines of ``width`` columns.

        ``command``: beginning of a command line that repeats the verification. If the sample was
            too small, the description proposes this command with a larger number of draws.
        """
        lines = [wrap_paragraph(_format_headline(self, failures=len(self.faults)), width, hang=2)]
        lines += [wrap_entry(label, text, width) for label, text in _describe_evidence(self)]
        if self.verdict is Verdict.INCONCLUSIVE:
            lines.append(wrap_entry("sample", _explain_sample(self, command or "samples="), width))
        if self.checks:
            lines.append("checks for faults that a ratio does not show")
        for check in sorted(self.checks, key=lambda check: _STATUS_ORDER.index(check.status)):
            text = f"{check.name}: {check.reason}"
            mark = "FAILED" if check.status is CheckStatus.FAILED else check.status
            lines.append(wrap_entry(mark, text, width))
        return "\n".join(lines)

    def finding(self, target: str) -> Finding:
        """Returns the verdict on ``target``'s claim as a finding, one row of an audit's record."""
        bound, proof = _combine_bounds(self.searched, self.checks)
        claim = make_claim(self.epsilon, self.delta)
        return Finding.from_bounds(
            target, claim, REPORT_SCOPE, delta=self.delta, accounted=proof, measured=bound
        )

    def raise_if_violated(self, allow: Collection[str] = ()) -> Verification:
        """Raises AssertionError with a description if the claim is refuted, not tested, or if a
        check failed.

        A claim is not tested (INCONCLUSIVE) if the sample is too small to refute it. ``allow``
        names checks that may fail; "not-tested" in it accepts a claim that is not tested.

        If nothing is raised, the verification is returned, judged without the named checks. The
        claim is then not refuted, which does not prove it.
        """
        __tracebackhide__ = True
        found = self.waiving(allow)
        if found.faults or Gate(allow=allow).exit_code([found.verdict]):
            raise AssertionError(found.describe())
        return found

    def __str__(self) -> str:
        """Returns the description that ``auditor verify`` prints."""
        return self.describe()

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "Expected a comparison of .verdict, got a verification as a truth value. A claim that "
            "is not refuted is not thereby proved. Compare .verdict."
        )


def _combine_bounds(searched: Bound, checks: tuple[CheckResult, ...]) -> tuple[Bound, Bound | None]:
    """Returns the largest lower bound on epsilon, failed checks included, and an upper bound or
    None.

    The upper bound is None unless the lower bound is tight.
    """
    shown = [check.bound for check in checks if check.status is CheckStatus.FAILED and check.bound]
    bound = max([searched, *shown], key=lambda each: each.epsilon)
    return bound, replace(bound, side=Side.UPPER, tight=False) if bound.tight else None


_CONCLUSIONS = {
    Verdict.VIOLATED: "is refuted",
    Verdict.CONSISTENT: "is not refuted, and proved: all inputs and outputs were examined",
    Verdict.UNSUBSTANTIATED: "is not refuted (which does not prove it)",
    Verdict.INCONCLUSIVE: "could not have been refuted by so small a sample",
}
_STATUS_ORDER = (CheckStatus.FAILED, CheckStatus.WAIVED, CheckStatus.PASSED, CheckStatus.NOT_RUN)


def _format_headline(result: Verification, *, failures: int) -> str:
    claim = f"epsilon {result.epsilon:g} at delta {result.delta:g}"
    text = f"{claim} {_CONCLUSIONS[result.verdict]}"
    if result.method == UNTESTED_TEXT:
        text = f"{claim} was not tested: outputs never repeat, and their content is not read"
    joint = "and" if result.verdict is Verdict.VIOLATED else "but"
    failed = f", {joint} {failures} check{'s' * (failures > 1)} failed" if failures else ""
    return f"{capitalize_first(result.verdict.label)}: {text}{failed}"


def _describe_evidence(result: Verification) -> Iterator[tuple[str, str]]:
    epsilon = result.epsilon_lower
    size = "infinite" if math.isinf(epsilon) else f"at least {epsilon:.6g}"
    yield "bound", f"epsilon is {size}{_format_share(result)}"
    if result.exact:
        yield "how", f"exactly: {result.method}"
    else:
        draws = f"{result.samples:,} draws" if result.samples else "draws"
        yield "how", f"measured on {draws}, at confidence {result.confidence:.6g}: {result.method}"
    needed = RefutationDraws.from_bound(result.epsilon, result.searched)
    if result.verdict is Verdict.UNSUBSTANTIATED and needed is not None:
        yield "power", f"in about half of all cases, {needed}"
    witness = result.witness
    if witness is None:
        return
    yield "inputs", f"{shorten_text(witness.input_a)}  against  {shorten_text(witness.input_b)}"
    yield "event", shorten_text(witness.output)
    yield "chances", f"{witness.probability_a:.6g}  against  {witness.probability_b:.6g}"
    sure = (
        ""
        if result.exact or math.isinf(result.epsilon_lower)
        else f" as measured, at least {format_exp(result.epsilon_lower)} at this confidence"
    )
    known = result.epsilon_lower if result.exact else math.inf
    measured = format_ratio(witness, result.delta, known)
    yield "ratio", f"{measured}{sure}; e^epsilon is {format_exp(result.epsilon)}"
    if witness.note:
        yield "note", witness.note


def _explain_sample(result: Verification, command: str) -> str:
    """Text on the largest bound of a small sample, and on the draws that could refute the claim."""
    most = (
        f"even with every guess right, the bound by these draws is {result.largest:.6g}, not above "
        f"the claim of {result.epsilon:g}"
    )
    if result.method == UNTESTED_TEXT:
        return "no number of draws helps: return the message before it is encoded, or its parts"
    if result.needed is None:
        return f"{most}; no sample of up to 10^15 draws can: state its probabilities (log_prob)"
    return f"{most}; draw at least {result.needed:,} per input: {command}{result.needed}"


def _format_share(result: Verification) -> str:
    """Text on the ratio of the lower bound to the claim; empty if the ratio is infinite."""
    if result.epsilon == 0 or math.isinf(result.epsilon_lower):
        return ""
    share = result.epsilon_lower / result.epsilon
    if result.verdict is Verdict.VIOLATED:
        return f", {share:.4g} times the claim"
    return f", {share:.4f} of the claim"
