"""Result of a verification: what is known of a randomizer's ratio, and the verdict on its claim."""

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
# Beyond this exponent a ratio is written as a power of e: doubles end soon after.
_WRITABLE = 40.0


def ratio(witness: Witness, delta: float, known: float) -> str:
    """The ratio that the claim bounds by e^epsilon: of P - delta to Q, over all copies.

    ``known`` is its logarithm where doubles may not hold P and Q, infinite if nothing is known.
    """
    p, q = witness.probability_a - delta, witness.probability_b
    if p <= 0:
        return "none above delta" if delta > 0 else "of two numbers below the smallest double"
    if (q == 0 or math.isinf(p)) and math.isfinite(known):
        return f"{power(known)}, of numbers that no double holds"
    if q == 0:
        return "infinite"
    exponent = math.log(p) - math.log(q)
    if delta > 0:
        return f"(P - delta) / Q = {power(exponent)}"
    if witness.copies > 1:
        return f"{power(exponent * witness.copies)} over {witness.copies} copies"
    return power(exponent)


def power(exponent: float) -> str:
    """e to the exponent, as a number where doubles hold it."""
    return f"{math.exp(exponent):.6g}" if exponent < _WRITABLE else f"e^{exponent:.6g}"


def cut(text: str) -> str:
    """``text``, or the first 500 characters of it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def entry(label: str, text: str, width: int) -> str:
    """One labelled paragraph of ``width`` columns with a hanging indent."""
    return paragraph(text, width, label=label, indent=2, hang=_LABEL - 2)


UNREADABLE = "nothing was tested: no two texts are equal, and no part of them tells inputs apart"
"""The source of a bound on answers that are texts and never repeat, as ciphertexts do."""


def ldp_claim(epsilon: float, delta: float) -> Claim:
    """The claim that a randomizer is (epsilon, delta)-LDP; InputError for a number that is none."""
    return Claim(
        epsilon=epsilon,
        delta=delta,
        scope=ONE_REPORT,
        statement="One output is private for every pair of inputs.",
        source="what was asked",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A claim about a randomizer, judged by what was found.

    ``verdict`` is CONSISTENT only where all inputs and outputs were looked through: that is a
    proof, as far as the probabilities are the code's. ``epsilon_lower`` is the largest lower bound
    found, infinite allowed; ``exact`` says whether it is a calculation (confidence 1) or a
    measurement from ``samples`` draws in all, which could have shown ``largest`` at most: where
    that is not above the claim, the verdict is INCONCLUSIVE, and ``needed`` are the draws per input
    that could refute it, None if more than 10^12. ``witness`` is the pair of inputs, the event and
    its two probabilities. ``method`` says how the bound was found, and whether the search was
    exhaustive. ``checks`` look for faults that no ratio of probabilities shows; where one that
    failed shows a larger epsilon than the search or the measurement (whose bound is ``searched``),
    verdict and ``epsilon_lower`` are by that.

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
        """Judge ``claim`` by a lower bound, which is an upper one too where it is tight.

        A larger one that a failed check shows takes its place, unless ``allow`` names the check.
        What is proved of a distribution then says nothing of the code, which does not follow it.
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
        """The same findings, judged without what the checks named in ``allow`` show."""
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

        InputError for an unknown name. No other verdict can be waived, save by waiving the check
        that shows it: see ``waiving``.
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
        """Verdict, bound, witness and checks, in lines of ``width`` columns where words permit.

        A failed check named in ``allow`` is marked as waived; InputError for an unknown name.
        ``command`` asks again with other draws: it ends where their number is to be written.
        """
        standing = self.unwaived(allow)
        lines = [paragraph(_headline(self, failures=len(standing)), width, hang=2)]
        lines += [entry(label, text, width) for label, text in _evidence(self)]
        if self.verdict is Verdict.INCONCLUSIVE:
            lines.append(entry("sample", _too_small(self, command or "samples="), width))
        if self.checks:
            lines.append("checks of what a ratio does not show")
        for check in sorted(self.checks, key=lambda check: list(_MARKS).index(check.status)):
            waived = check.status is Status.FAILED and check not in standing
            mark = "waived" if waived else _MARKS[check.status]
            lines.append(entry(mark, f"{check.name}: {check.reason}", width))
        return "\n".join(lines)

    def finding(self, target: str, allow: Collection[str] = ()) -> Finding:
        """What is found of ``target`` as a row of a record, without checks that ``allow`` names."""
        bound, proof = _bounds(self.searched, self.checks, allow)
        claim = ldp_claim(self.epsilon, self.delta)
        return Finding.of(
            target, claim, ONE_REPORT, delta=self.delta, accounted=proof, measured=bound
        )

    def raise_if_violated(self, allow: Collection[str] = ()) -> Verification:
        """AssertionError, with all that was found, if the claim is refuted or a check failed.

        So it is if so small a sample could not have refuted it. ``allow`` names checks that may
        fail, or "inconclusive", as for ``assert_ldp``. Else the verification is given back as it is
        judged without them: not refuted, which is no proof.
        """
        __tracebackhide__ = True
        found = self.waiving(allow)
        if found.unwaived(allow) or Gate(allow=allow).code([found.verdict]):
            raise AssertionError(found.describe(allow=allow))
        return found

    def __str__(self) -> str:
        """What ``auditor verify`` prints."""
        return self.describe()

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A verification is neither true nor false: not refuted is not proved. "
            "Compare .verdict instead."
        )


def _bounds(
    searched: Bound, checks: tuple[Check, ...], allow: Collection[str]
) -> tuple[Bound, Bound | None]:
    """The largest lower bound, also of a failed check that is not allowed; a proof if it is one."""
    shown = [
        check.bound
        for check in checks
        if check.status is Status.FAILED and check.bound and check.name not in allow
    ]
    bound = max([searched, *shown], key=lambda each: each.epsilon)
    return bound, replace(bound, side=Side.UPPER, tight=False) if bound.tight else None


_CONCLUSIONS = {
    Verdict.VIOLATED: "is refuted",
    Verdict.CONSISTENT: "is not refuted, and proved: all inputs and outputs were tried",
    Verdict.UNSUBSTANTIATED: "is not refuted (which does not prove it)",
    Verdict.INCONCLUSIVE: "could not have been refuted by so small a sample",
}
_MARKS = {Status.FAILED: "FAILED", Status.PASSED: "passed", Status.NOT_RUN: "not run"}


def _headline(found: Verification, *, failures: int) -> str:
    claim = f"epsilon {found.epsilon:g} at delta {found.delta:g}"
    text = f"{claim} {_CONCLUSIONS[found.verdict]}"
    if found.method == UNREADABLE:
        text = f"{claim} was not tested: outputs never repeat, and what they hold is not read"
    joint = "and" if found.verdict is Verdict.VIOLATED else "but"
    failed = f", {joint} {failures} check{'s' * (failures > 1)} failed" if failures else ""
    return f"{capitalized(WORDS[found.verdict])}: {text}{failed}"


def _evidence(found: Verification) -> Iterator[tuple[str, str]]:
    least = found.epsilon_lower
    size = "infinite" if math.isinf(least) else f"at least {least:.6g}"
    yield "bound", f"epsilon is {size}{_share(found)}"
    if found.exact:
        yield "how", f"exactly: {found.method}"
    else:
        draws = f"{found.samples:,} draws" if found.samples else "draws"
        yield "how", f"measured on {draws}, at confidence {found.confidence:.6g}: {found.method}"
    needed = Power.against(found.epsilon, found.searched)
    if found.verdict is Verdict.UNSUBSTANTIATED and needed is not None:
        yield "power", f"as often as not, {needed}"
    witness = found.witness
    if witness is None:
        return
    yield "inputs", f"{cut(witness.input_a)}  against  {cut(witness.input_b)}"
    yield "event", cut(witness.output)
    yield "chances", f"{witness.probability_a:.6g}  against  {witness.probability_b:.6g}"
    sure = (
        ""
        if found.exact or math.isinf(found.epsilon_lower)
        else f" as seen, at least {power(found.epsilon_lower)} at this confidence"
    )
    known = found.epsilon_lower if found.exact else math.inf
    seen = ratio(witness, found.delta, known)
    yield "ratio", f"{seen}{sure}; e^epsilon is {power(found.epsilon)}"
    if witness.note:
        yield "note", witness.note


def _too_small(found: Verification, command: str) -> str:
    """What the sample can show, and how many draws are needed to refute the claim."""
    most = (
        f"with every guess right, these draws show epsilon {found.largest:.6g} at most, not above "
        f"the claim of {found.epsilon:g}"
    )
    if found.method == UNREADABLE:
        return "no number of draws helps: return what is sent before it is encoded, or its parts"
    if found.needed is None:
        return f"{most}; no sample of up to 10^15 draws can: state its probabilities (log_prob)"
    return f"{most}; draw at least {found.needed:,} per input: {command}{found.needed}"


def _share(found: Verification) -> str:
    """How much of the claim the bound is."""
    if found.epsilon == 0 or math.isinf(found.epsilon_lower):
        return ""
    share = found.epsilon_lower / found.epsilon
    if found.verdict is Verdict.VIOLATED:
        return f", {share:.4g} times the claim"
    return f", {share:.4f} of the claim"
