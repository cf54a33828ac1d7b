"""A verification in words, the same on the command line and in a failing test."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterator

from fedrec_auditor.accountants.statements.bound import Witness
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification.verification import Status, Verification
from fedrec_auditor.reports.words import printable

_WIDTH = 100
_LABEL = 12
_TIGHT = 0.99
_LONGEST = 500
# Beyond this exponent a ratio is written as a power of e: doubles end soon after.
_WRITABLE = 40.0


def describe(found: Verification, *, allow: Collection[str] = (), command: str = "") -> str:
    """Verdict, bound, witness and checks, in lines of 100 columns where words permit.

    A failed check named in ``allow`` is marked as waived; InputError for an unknown name.
    ``command`` asks again with other draws: it ends where their number is to be written.
    """
    standing = found.unwaived(allow)
    lines = [_headline(found, failures=len(standing))]
    for label, text in _evidence(found):
        lines += entry(label, text)
    if found.verdict is Verdict.INCONCLUSIVE:
        lines += entry("sample", _too_small(found, command or "samples="))
    if found.checks:
        lines.append("checks of what a ratio does not show")
    for check in sorted(found.checks, key=lambda check: list(_MARKS).index(check.status)):
        waived = check.status is Status.FAILED and check not in standing
        mark = "waived" if waived else _MARKS[check.status]
        lines += entry(mark, f"{check.name}: {check.reason}")
    return "\n".join(lines)


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
    joint = "and" if found.verdict is Verdict.VIOLATED else "but"
    failed = f", {joint} {failures} check{'s' * (failures > 1)} failed" if failures else ""
    return f"{found.verdict}: {text}{failed}"


def _evidence(found: Verification) -> Iterator[tuple[str, str]]:
    least = found.epsilon_lower
    size = "infinite" if math.isinf(least) else f"at least {least:.6g}"
    yield "bound", f"epsilon is {size}{_share(found)}"
    if found.exact:
        yield "how", f"exactly: {found.method}"
    else:
        draws = f"{found.samples:,} draws" if found.samples else "draws"
        yield "how", f"measured on {draws}, at confidence {found.confidence:.6g}: {found.method}"
    witness = found.witness
    if witness is None:
        return
    yield "inputs", f"{_cut(witness.input_a)}  against  {_cut(witness.input_b)}"
    yield "event", _cut(witness.output)
    yield "chances", f"{witness.probability_a:.6g}  against  {witness.probability_b:.6g}"
    sure = (
        ""
        if found.exact or math.isinf(found.epsilon_lower)
        else f" as seen, at least {_power(found.epsilon_lower)} at this confidence"
    )
    known = found.epsilon_lower if found.exact else math.inf
    ratio = _ratio(witness, found.delta, known)
    yield "ratio", f"{ratio}{sure}; e^epsilon is {_power(found.epsilon)}"
    if witness.note:
        yield "note", witness.note


def _too_small(found: Verification, command: str) -> str:
    """What the sample can show, and how many draws are needed to refute the claim."""
    most = (
        f"with every guess right, these draws show epsilon {found.largest:.6g} at most, not above "
        f"the claim of {found.epsilon:g}"
    )
    if found.needed is None:
        return f"{most}; no sample of up to 10^15 draws can: state its probabilities (log_prob)"
    return f"{most}; draw at least {found.needed:,} per input: {command}{found.needed}"


def _share(found: Verification) -> str:
    """How much of the claim the bound is: 1 means that no smaller epsilon could be claimed."""
    if found.epsilon == 0 or math.isinf(found.epsilon_lower):
        return ""
    share = found.epsilon_lower / found.epsilon
    if found.verdict is Verdict.VIOLATED:
        return f", {share:.4g} times the claim"
    return f" ({'tight: ' if share >= _TIGHT else ''}{share:.4f} of epsilon)"


def _ratio(witness: Witness, delta: float, known: float) -> str:
    """The ratio that the claim bounds by e^epsilon: of P - delta to Q, over all copies.

    ``known`` is its logarithm where doubles may not hold P and Q, infinite if nothing is known.
    """
    p, q = witness.probability_a - delta, witness.probability_b
    if p <= 0:
        return "none above delta" if delta > 0 else "of two numbers below the smallest double"
    if (q == 0 or math.isinf(p)) and delta == 0 and math.isfinite(known):
        return f"{_power(known)}, of numbers that no double holds"
    if q == 0:
        return "infinite"
    exponent = math.log(p) - math.log(q)
    if delta > 0:
        return f"(P - delta) / Q = {_power(exponent)}"
    if witness.copies > 1:
        return f"{_power(exponent * witness.copies)} over {witness.copies} copies"
    return _power(exponent)


def _power(exponent: float) -> str:
    return f"{math.exp(exponent):.6g}" if exponent < _WRITABLE else f"e^{exponent:.6g}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def entry(label: str, text: str) -> list[str]:
    """One labelled paragraph with a hanging indent."""
    return textwrap.wrap(
        printable(text),
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL - 2}}",
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
