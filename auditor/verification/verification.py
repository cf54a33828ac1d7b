"""Result of a verification: bounds on a randomizer's epsilon, and the verdict on its claim."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Claim, Side, Witness
from fedrec_auditor.accountants.verdict import INCONCLUSIVE, Gate, Verdict, judge
from fedrec_auditor.auditor.exact.fit import Check, Status
from fedrec_auditor.auditor.worlds.measure import Power
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say import WORDS, capitalized
from fedrec_auditor.reports.writers.paragraph import FULL, paragraph

_LABEL = 12
_LONGEST = 500
# From this exponent on, a ratio is written as a power of e.
_WRITABLE = 40.0


def ratio(witness: Witness, delta: float, known: float) -> str:
    """Describes (P - delta) / Q of an event, over all copies: the ratio that e^epsilon limits.

    ``known`` is the logarithm of the ratio, for probabilities that underflow; infinite if unknown.
    """
    p, q = witness.probability_a - delta, witness.probability_b
    if p <= 0:
        return "none, P is at most delta" if delta > 0 else "both probabilities underflow"
    if (q == 0 or math.isinf(p)) and math.isfinite(known):
        return f"{power(known)}; the probabilities underflow double precision"
    if q == 0:
        return "infinite"
    exponent = math.log(p) - math.log(q)
    if delta > 0:
        return f"(P - delta) / Q = {power(exponent)}"
    if witness.copies > 1:
        return f"{power(exponent * witness.copies)} over {witness.copies} copies"
    return power(exponent)


def power(exponent: float) -> str:
    """e to the exponent, as a number if it is not too large."""
    return f"{math.exp(exponent):.6g}" if exponent < _WRITABLE else f"e^{exponent:.6g}"


def cut(text: str) -> str:
    """Cuts ``text`` after 500 characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def entry(label: str, text: str, width: int) -> str:
    """Formats a labelled paragraph of ``width`` columns with a hanging indent."""
    return paragraph(text, width, label=label, indent=2, hang=_LABEL - 2)


UNREADABLE = "nothing was tested: no two texts are equal, and no part of them distinguishes inputs"
"""The source of a bound on answers that are texts and never repeat, such as ciphertexts."""


def ldp_claim(epsilon: float, delta: float) -> Claim:
    """The claim that a randomizer is (epsilon, delta)-LDP; InputError for an invalid number."""
    return Claim(
        epsilon=epsilon,
        delta=delta,
        scope=ONE_REPORT,
        statement="One output is private for every pair of inputs.",
        source="the arguments of the verification",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The verdict on a claim about a randomizer, with the bounds and checks behind it.

    verdict: CONSISTENT only if all inputs and outputs were examined: a proof, as far as the stated
        probabilities are those of the code.
    epsilon, delta: the claim.
    epsilon_lower: the largest lower bound on epsilon; it may be infinite.
    exact: whether that bound is computed (confidence 1), or measured.
    confidence: confidence of the bound.
    samples: draws in all of a measurement; None for an exact bound.
    witness: the pair of inputs, the distinguishing event and its two probabilities.
    method: how the bound was computed, and whether the search was exhaustive.
    searched: the bound of the search or measurement, without checks.
    largest: the largest bound that the measurement could give. If it is not above the claim, the
        verdict is INCONCLUSIVE.
    needed: draws per input that could refute the claim then; None above 2^50, about 10^15.
    checks: checks for faults that a ratio of probabilities does not show. If a failed check shows a
        larger epsilon than ``searched``, verdict and ``epsilon_lower`` are based on the check.

    >>> from fedrec_auditor.auditor.verification import verify_ldp
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> found = verify_ldp(BitFlip.symmetric(1.0), epsilon=0.5, samples=10_000)
    >>> found.verdict, round(found.epsilon_lower, 6), found.exact
    (<Verdict.VIOLATED: 'VIOLATED'>, 1.0, True)
    >>> found.witness.input_a, found.witness.input_b, found.witness.output
    ('true bit 0', 'true bit 1', 'uploaded bit 0')
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
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(
        cls,
        searched: Bound,
        claim: Claim,
        *,
        needed: int | None = None,
        checks: tuple[Check, ...] = (),
        allow: Collection[str] = (),
    ) -> Verification:
        """Judges ``claim`` by a lower bound, which is an upper bound too if it is tight.

        A larger bound of a failed check replaces it, unless ``allow`` names the check. A proof
        about the stated distribution is then dropped, because the code does not follow that
        distribution.
        """
        bound, proof = _bounds(searched, checks, allow)
        judgement = judge(claim, scope=ONE_REPORT, accounted=proof, measured=bound)
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
        """A copy whose verdict disregards the bounds of the checks named in ``allow``."""
        claim = ldp_claim(self.epsilon, self.delta)
        return Verification.of(
            self.searched, claim, needed=self.needed, checks=self.checks, allow=allow
        )

    @property
    def faults(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status is Status.FAILED)

    def unwaived(self, allow: Collection[str]) -> tuple[Check, ...]:
        """The checks that failed and are not named in ``allow``, which may name "inconclusive" too.

        InputError for an unknown name. Another verdict can only be waived by waiving the check on
        which it is based; see ``waiving``.
        """
        known = [check.name for check in self.checks] + [INCONCLUSIVE]
        for name in allow:
            if name not in known:
                raise InputError(
                    f"Expected the name of a check to allow, one of {', '.join(known)}, got "
                    f"{name!r}. Mend the name."
                )
        return tuple(check for check in self.faults if check.name not in allow)

    def describe(self, *, allow: Collection[str] = (), command: str = "", width: int = FULL) -> str:
        """Describes verdict, bound, witness and checks in lines of ``width`` columns.

        allow: names of failed checks that are marked as waived; InputError for an unknown name.
        command: command line that repeats the verification, up to the number of draws.
        """
        standing = self.unwaived(allow)
        lines = [paragraph(_headline(self, failures=len(standing)), width, hang=2)]
        lines += [entry(label, text, width) for label, text in _evidence(self)]
        if self.verdict is Verdict.INCONCLUSIVE:
            lines.append(entry("sample", _too_small(self, command or "samples="), width))
        if self.checks:
            lines.append("checks for faults that a ratio does not show")
        for check in sorted(self.checks, key=lambda check: list(_MARKS).index(check.status)):
            waived = check.status is Status.FAILED and check not in standing
            mark = "waived" if waived else _MARKS[check.status]
            lines.append(entry(mark, f"{check.name}: {check.reason}", width))
        return "\n".join(lines)

    def finding(self, target: str, allow: Collection[str] = ()) -> Finding:
        """The finding about ``target``, a row of a record, without checks named in ``allow``."""
        bound, proof = _bounds(self.searched, self.checks, allow)
        claim = ldp_claim(self.epsilon, self.delta)
        return Finding.of(
            target, claim, ONE_REPORT, delta=self.delta, accounted=proof, measured=bound
        )

    def raise_if_violated(self, allow: Collection[str] = ()) -> Verification:
        """Raises AssertionError with the description if the claim is refuted or a check failed.

        An inconclusive verdict (too small a sample) raises too. ``allow`` names checks that may
        fail, or "inconclusive", as for ``assert_ldp``. Otherwise the verification is returned,
        judged without these checks: not refuted, which is not a proof.
        """
        __tracebackhide__ = True
        found = self.waiving(allow)
        if found.unwaived(allow) or Gate(allow=allow).code([found.verdict]):
            raise AssertionError(found.describe(allow=allow))
        return found

    def __str__(self) -> str:
        """The description that ``auditor verify`` prints."""
        return self.describe()

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A verification is neither true nor false: not refuted is not proved. "
            "Compare .verdict instead."
        )


def _bounds(
    searched: Bound, checks: tuple[Check, ...], allow: Collection[str]
) -> tuple[Bound, Bound | None]:
    """The largest lower bound, including failed checks that are not allowed; and an upper bound.

    The upper bound is None unless the lower bound is tight.
    """
    shown = [
        check.bound
        for check in checks
        if check.status is Status.FAILED and check.bound and check.name not in allow
    ]
    bound = max([searched, *shown], key=lambda each: each.epsilon)
    return bound, replace(bound, side=Side.UPPER, tight=False) if bound.tight else None


_CONCLUSIONS = {
    Verdict.VIOLATED: "is refuted",
    Verdict.CONSISTENT: "is not refuted, and proved: all inputs and outputs were examined",
    Verdict.UNSUBSTANTIATED: "is not refuted (which does not prove it)",
    Verdict.INCONCLUSIVE: "could not have been refuted by so small a sample",
}
_MARKS = {Status.FAILED: "FAILED", Status.PASSED: "passed", Status.NOT_RUN: "not run"}


def _headline(result: Verification, *, failures: int) -> str:
    claim = f"epsilon {result.epsilon:g} at delta {result.delta:g}"
    text = f"{claim} {_CONCLUSIONS[result.verdict]}"
    if result.method == UNREADABLE:
        text = f"{claim} was not tested: outputs never repeat, and their content is not read"
    joint = "and" if result.verdict is Verdict.VIOLATED else "but"
    failed = f", {joint} {failures} check{'s' * (failures > 1)} failed" if failures else ""
    return f"{capitalized(WORDS[result.verdict])}: {text}{failed}"


def _evidence(result: Verification) -> Iterator[tuple[str, str]]:
    epsilon = result.epsilon_lower
    size = "infinite" if math.isinf(epsilon) else f"at least {epsilon:.6g}"
    yield "bound", f"epsilon is {size}{_share(result)}"
    if result.exact:
        yield "how", f"exactly: {result.method}"
    else:
        draws = f"{result.samples:,} draws" if result.samples else "draws"
        yield "how", f"measured on {draws}, at confidence {result.confidence:.6g}: {result.method}"
    needed = Power.against(result.epsilon, result.searched)
    if result.verdict is Verdict.UNSUBSTANTIATED and needed is not None:
        yield "power", f"in about half of all cases, {needed}"
    witness = result.witness
    if witness is None:
        return
    yield "inputs", f"{cut(witness.input_a)}  against  {cut(witness.input_b)}"
    yield "event", cut(witness.output)
    yield "chances", f"{witness.probability_a:.6g}  against  {witness.probability_b:.6g}"
    sure = (
        ""
        if result.exact or math.isinf(result.epsilon_lower)
        else f" as measured, at least {power(result.epsilon_lower)} at this confidence"
    )
    known = result.epsilon_lower if result.exact else math.inf
    measured = ratio(witness, result.delta, known)
    yield "ratio", f"{measured}{sure}; e^epsilon is {power(result.epsilon)}"
    if witness.note:
        yield "note", witness.note


def _too_small(result: Verification, command: str) -> str:
    """The largest bound of the sample, and the draws that are needed to refute the claim."""
    most = (
        f"even with every guess right, the bound by these draws is {result.largest:.6g}, not above "
        f"the claim of {result.epsilon:g}"
    )
    if result.method == UNREADABLE:
        return "no number of draws helps: return the message before it is encoded, or its parts"
    if result.needed is None:
        return f"{most}; no sample of up to 10^15 draws can: state its probabilities (log_prob)"
    return f"{most}; draw at least {result.needed:,} per input: {command}{result.needed}"


def _share(result: Verification) -> str:
    """The bound as a share of the claim."""
    if result.epsilon == 0 or math.isinf(result.epsilon_lower):
        return ""
    share = result.epsilon_lower / result.epsilon
    if result.verdict is Verdict.VIOLATED:
        return f", {share:.4g} times the claim"
    return f", {share:.4f} of the claim"
