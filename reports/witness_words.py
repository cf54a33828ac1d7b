"""The words of a witness: the pair of inputs and the output that show a lower bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.reports.words import number


def witness_words(measured: Bound) -> Iterator[tuple[str, str]]:
    """The parts of a bound's witness by name, in the order in which they are read; none without."""
    witness = measured.witness
    if witness is None:
        return
    yield "input a", witness.input_a
    yield "input b", witness.input_b
    yield "output", witness.output
    pair = (probability_words(measured, p) for p in (witness.probability_a, witness.probability_b))
    yield f"{outcome_words(measured).lower()} given a, b", ", ".join(pair)
    yield "ratio", ratio_words(measured)
    if witness.copies > 1:
        yield "independent copies", f"{witness.copies:,}"
    if witness.note:
        yield "note", witness.note


def probability_words(measured: Bound, value: float) -> str:
    """A number of a witness; calculated, 0 and infinity may stand for what no double holds."""
    if measured.samples is not None or math.isinf(measured.epsilon) or 0.0 < value < math.inf:
        return number(value)
    return "less than 1e-323" if value == 0.0 else "more than 1e308"


def outcome_words(measured: Bound) -> str:
    """What a witness's two numbers are: measured, else a density where one is above 1."""
    witness = measured.witness
    if measured.samples is not None or witness is None:
        return "Measured share"
    return "Density" if max(witness.probability_a, witness.probability_b) > 1 else "Probability"


def ratio_words(measured: Bound) -> str:
    """The ratio of a witness's two probabilities, the larger over the smaller."""
    witness = measured.witness
    if witness is None:
        return ""
    small, large = sorted((witness.probability_a, witness.probability_b))
    endless = math.isinf(measured.epsilon)
    if measured.samples is not None:
        if small > 0.0:
            return (
                f"{number(large / small)} as measured (log-ratio {number(math.log(large / small))})"
            )
        seen = "no draw of either input" if large == 0.0 else "no draw of one of the two inputs"
        return f"not bounded by what was seen: {seen} gave it"
    if large == 0.0 and (endless or measured.epsilon == 0.0):
        return "0 to 0: this output never occurs"
    if small == 0.0 and endless:
        return "infinite: one of the two inputs can never give this output"
    if small == 0.0 or math.isinf(large):
        text = "finite, but of numbers that no double holds"
        if measured.delta > 0.0 or endless:
            return text
        together = f"{witness.copies:,} independent copies at once: " if witness.copies > 1 else ""
        return f"{text}; {together}log-ratio {number(measured.epsilon)}"
    text = f"{number(large / small)} (log-ratio {number(math.log(large) - math.log(small))})"
    if witness.copies == 1:
        return text
    total = witness.copies * (math.log(large) - math.log(small))
    return f"{text}; {witness.copies:,} independent copies at once: log-ratio {number(total)}"
