"""Words of a verification: labelled paragraphs, ratios and powers of e."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.statements.bound import Witness
from fedrec_auditor.reports.paragraph import paragraph

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
