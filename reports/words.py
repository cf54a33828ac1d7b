"""The words of every report: numbers, scopes, bounds and verdicts as a reader should hear them.

One rule above all: a bound is never said without its delta, its confidence, its scope, its method
and its sample size. A verdict is "not refuted", never a praise.
"""

from __future__ import annotations

import math
import re

from fedrec_auditor.accountants.statements.bound import guess_probability
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record import (
    AccountedRow,
    ClaimRow,
    Finding,
    MeasuredRow,
    ScopeRow,
    WitnessRow,
)

UNITS = {
    Unit.BIT: "one bit of one upload",
    Unit.INTERACTION: "whether a user met one item",
    Unit.RATING: "one rating",
    Unit.COORDINATE: "whatever one entry of an upload encodes",
    Unit.REPORT: "whatever one report encodes",
    Unit.ATTRIBUTE: "one attribute of a user, such as gender",
    Unit.USER: "everything about one user",
}
ADJACENCIES = {
    Adjacency.REPLACE: "one value against another of its kind",
    Adjacency.ADD_REMOVE: "present against absent",
    Adjacency.ANY_PAIR: "any value against any other",
}
VANTAGES = {
    Vantage.SERVER: "seen by the server, which knows whose upload is whose",
    Vantage.SHUFFLED: "seen behind a shuffler, which unlinks the reports",
    Vantage.AGGREGATE: "seen as a sum behind secure aggregation",
    Vantage.PEERS: "seen by other clients, in the models sent to them",
    Vantage.RELEASE: "seen in the published model only",
}
HORIZONS = {
    Horizon.REPORT: "in a single report",
    Horizon.ROUND: "over one round",
    Horizon.TRAINING: "over the whole training",
}
VERDICTS = {
    Verdict.VIOLATED: (
        "A lower bound exceeds the claim in a scope that the claim covers: the claim is refuted."
    ),
    Verdict.UNSUBSTANTIATED: "Not refuted, but no accountant can prove it either.",
    Verdict.CONSISTENT: (
        "Not refuted, and an accountant proves it in this scope (or no epsilon is claimed). "
        "An audit can only fail to refute."
    ),
    Verdict.INCOMPARABLE: (
        "The claim does not speak of this scope, so it is neither refuted nor upheld here."
    ),
    Verdict.UNSOUND: (
        "A lower bound exceeds our own proved upper bound: target, accountant or estimator is "
        "wrong, and no number of this audit can be trusted until it is known which."
    ),
}
SIGNS = {
    Verdict.VIOLATED: "✗",
    Verdict.UNSUBSTANTIATED: "?",
    Verdict.CONSISTENT: "≤",
    Verdict.INCOMPARABLE: "≠",
    Verdict.UNSOUND: "‼",
}
_XML_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def legal(text: str) -> str:
    """``text`` with every character that XML 1.0 and HTML forbid replaced by U+FFFD."""
    return _XML_ILLEGAL.sub("�", text)


def printable(text: str) -> str:
    """``text`` on one line, without anything a terminal would obey instead of print."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def number(value: float) -> str:
    """At most 6 significant digits; thousands are grouped; infinity is its sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 5 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def brief(value: float) -> str:
    """An attack's or a utility's figure: 3 significant digits, but never rounded up to 1."""
    rounded = number(float(f"{value:.3g}"))
    return number(value) if rounded == "1" and value < 1.0 else rounded


def percent(share: float) -> str:
    """A share in percent that is never rounded up to a certainty it is not."""
    if share == 1.0:
        return "100%"
    if share > 0.999999:
        return "more than 99.9999%"
    if share == 0.0:
        return "0%"
    digits = 1 if share <= 0.999 else math.ceil(-math.log10(1.0 - share)) - 1
    text = f"{100 * share:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')}%"


def often(limit: str, guess: float) -> str:
    """How often a guess is right under a finite epsilon: in floats it may be 1, in truth not."""
    rate = "more than 99.9999%" if guess > 0.999999 else f"{limit} {percent(guess)}"
    return f"{rate} of the time"


def scope_words(scope: ScopeRow) -> str:
    """A scope as a phrase."""
    return (
        f"{UNITS[scope.unit]}, {ADJACENCIES[scope.adjacency]}, "
        f"{VANTAGES[scope.vantage]}, {HORIZONS[scope.horizon]}"
    )


def brief_scope_words(scope: ScopeRow) -> str:
    """A scope as a shorter phrase, for sentences; the adjacency is left to the tables."""
    vantage = {Vantage.SERVER: "against the server", Vantage.SHUFFLED: "behind a shuffler"}
    seen = vantage.get(scope.vantage, VANTAGES[scope.vantage])
    return f"{UNITS[scope.unit]}, {HORIZONS[scope.horizon]}, {seen}"


def flag_words(finding: Finding) -> str:
    """What must be said beside the verdict: that nothing is promised, or next to nothing."""
    if math.isinf(finding.claim.epsilon):
        return "no epsilon"
    return "vacuous" if finding.vacuous else ""


def asked_words(finding: Finding) -> str:
    """The delta in question where it is not the claim's own; nothing otherwise."""
    return "" if finding.delta == finding.claim.delta else f"asked at {delta_words(finding.delta)}"


def delta_words(delta: float) -> str:
    """A delta, zero included."""
    return f"delta {number(delta)}"


def support_words(measured: MeasuredRow) -> str:
    """Confidence and sample size of a lower bound."""
    if measured.confidence == 1.0 and measured.samples is None:
        return "exact, no samples"
    samples = "no samples" if measured.samples is None else f"{measured.samples:,} samples"
    return f"{percent(measured.confidence)} confidence, {samples}"


def proved_words(accounted: AccountedRow) -> str:
    """A proved upper bound with all that makes it a statement."""
    return (
        f"at most {number(accounted.epsilon)} ({delta_words(accounted.delta)}, a proof: "
        f"{accounted.source}; scope: {accounted.scope.scope()})"
    )


def measured_words(measured: MeasuredRow) -> str:
    """A lower bound with all that makes it a statement."""
    return (
        f"at least {number(measured.epsilon)} ({delta_words(measured.delta)}, "
        f"{support_words(measured)}, {measured.method}; scope: {measured.scope.scope()})"
    )


def claimed_guess_words(claim: ClaimRow) -> str:
    """What a claim allows, as the success rate of an adversary who guesses one fair bit."""
    if math.isinf(claim.epsilon):
        return "No epsilon is promised: an adversary guessing one bit may be right every time."
    guess = guess_probability(claim.epsilon, claim.delta)
    return (
        f"If the claim holds (epsilon {number(claim.epsilon)}, {delta_words(claim.delta)}), an "
        f"adversary guessing one bit would be right {often('up to', guess)}; "
        "a coin is right 50%."
    )


def shown_guess_words(measured: MeasuredRow) -> str:
    """What a lower bound shows: how often the guess is right on the outputs that tell the most."""
    if math.isinf(measured.epsilon):
        return "Shown: on the output that tells the most, the adversary's guess is always right."
    guess = guess_probability(measured.epsilon)
    return (
        f"Shown ({support_words(measured)}): on the outputs that tell the most, an adversary "
        f"guessing one bit between two equally likely inputs is right "
        f"{often('at least', guess)}."
    )


def chance_words(measured: MeasuredRow, value: float) -> str:
    """A probability or density of a witness; 0 and infinity may stand for what no double holds."""
    if math.isinf(measured.epsilon) or 0.0 < value < math.inf:
        return number(value)
    return "less than 1e-323" if value == 0.0 else "more than 1e308"


def outcome_words(witness: WitnessRow) -> str:
    """What a witness's two numbers are: above 1 there are only densities."""
    return "Density" if max(witness.probability_a, witness.probability_b) > 1 else "Probability"


def ratio_words(measured: MeasuredRow) -> str:
    """The ratio of a witness's two probabilities, the larger over the smaller."""
    witness = measured.witness
    if witness is None:
        return ""
    small, large = sorted((witness.probability_a, witness.probability_b))
    endless = math.isinf(measured.epsilon)
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
