"""Wording of all reports: functions that express numbers, scopes, bounds and verdicts in words.

A report never states a bound without its delta, confidence, scope, method and sample size. Upper
bounds are rounded up and lower bounds down. A claim is "not refuted", never praised.
"""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.statements import (
    Basis,
    Bound,
    Claim,
    Scope,
    compute_guess_probability,
    round_to_digits,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.documents.document import Quantity

if TYPE_CHECKING:
    from fedrec_auditor.reports.record.rows import Contents, Finding

# Texts of a report, by the value that they describe, such as the phrase of each vantage.
TextsByValue = dict[str, str]
_WORDS_FILE = Path(__file__).with_name("words.toml")
# Fixed texts of reports: tables by name, and in a table the texts by the value that they describe.
PHRASES: dict[str, Any] = tomllib.loads(_WORDS_FILE.read_text("utf-8"))
# Phrases of the four fields of a scope, by the value of the field.
UNIT_TEXTS: TextsByValue = PHRASES["unit"]
ADJACENCY_TEXTS: TextsByValue = PHRASES["adjacency"]
VANTAGE_TEXTS: TextsByValue = PHRASES["vantage"]
HORIZON_TEXTS: TextsByValue = PHRASES["horizon"]
# Heads of columns (such as "Server") and phrases ("against the server"), by vantage.
ADVERSARY_LABELS: TextsByValue = PHRASES["looker"]
ADVERSARY_PHRASES: TextsByValue = PHRASES["view"]
# Sign of each verdict, such as "✗".
VERDICT_SIGNS: TextsByValue = PHRASES["sign"]
# Origin of a claimed epsilon, and the word before that epsilon ("claimed" or "derived"), by basis.
BASIS_TEXTS: TextsByValue = PHRASES["basis"]
CLAIM_LABEL_BY_BASIS: TextsByValue = PHRASES["claimed"]
_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OBEYED = re.compile("[\x7f-\x9f\ud800-\udfff]")


def fill_text(table: str, name: str, **values: object) -> str:
    """Returns the text ``name`` in a ``table`` of words.toml; ``values`` fill its placeholders."""
    text: str = PHRASES[table][name]
    return text.format(**values)


def replace_unsafe_chars(text: str) -> str:
    """Replaces characters that XML or HTML forbids, or that control a terminal, by U+FFFD."""
    return _ILLEGAL.sub("�", text)


def escape_controls(text: str) -> str:
    r"""Writes control characters and surrogates in the text of a JSON or TOML file as \uXXXX."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def make_printable(text: str) -> str:
    """Returns ``text`` on one line, with U+FFFD in place of characters that are not printable."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def capitalize_first(text: str) -> str:
    """Returns ``text`` with a capital first letter and no other change."""
    return f"{text[:1].upper()}{text[1:]}"


def join_texts(*texts: str, by: str = ", ") -> str:
    """Joins the nonempty ``texts`` by the separator ``by``."""
    return by.join(filter(None, texts))


def format_number(value: float) -> str:
    """Formats a number with at most 6 significant digits and grouped thousands; infinity as ∞.

    All digits before the point are kept. Sizes from 10^9, and below 10^-4, get only 3 digits.
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 5 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_short(value: float) -> str:
    """Formats a number with 3 significant digits, or a whole number with all digits.

    A number below 1 that would be rounded to 1 gets 6 digits.
    """
    near = format_number(value) if _is_whole(value) else format_number(float(f"{value:.3g}"))
    return format_number(value) if near == "1" and value < 1.0 else near


def format_floor(value: float) -> str:
    """Formats a lower bound with 3 significant digits, rounded down.

    A whole number keeps all digits.
    """
    return format_number(value if _is_whole(value) else round_to_digits(value, math.floor))


def describe_lower_bound(value: float) -> str:
    """Formats the epsilon of a lower bound as "at least" and a number, or as "infinite"."""
    return "infinite" if value == math.inf else f"at least {format_floor(value)}"


def format_ceil(value: float) -> str:
    """Formats an upper bound with 3 significant digits, rounded up.

    A whole number keeps all digits.
    """
    return format_number(value if _is_whole(value) else round_to_digits(value, math.ceil))


def _is_whole(value: float) -> bool:
    return 0.0 < abs(value) < 1e9 and math.isclose(value, round(value), rel_tol=1e-9)


def format_upper_bound(proof: Bound, beside: Iterable[float], *, exactly: bool = False) -> str:
    """Formats the epsilon of an upper bound, rounded up, but not past an epsilon in ``beside``.

    proof: the upper bound.
    beside: epsilons that are printed next to it.
    exactly: whether the text has 6 significant digits instead of 3.
    """
    near = format_number if exactly else format_short
    limits = [near(each) for each in beside if proof.epsilon <= each * (1 + 1e-9) < math.inf]
    rounded_up = format_number(proof.rounded_epsilon) if exactly else format_ceil(proof.epsilon)
    texts = [rounded_up, *limits]
    return min(texts, key=lambda text: float(text.replace(",", "").replace("∞", "inf")))


def format_lower_bound(shown: Bound, beside: Iterable[float], *, exactly: bool = False) -> str:
    """Formats the epsilon of a lower bound, rounded down unless an epsilon in ``beside`` equals it.

    shown: the lower bound.
    beside: epsilons that are printed next to it. An equal one gets the same text.
    exactly: whether the text has 6 significant digits instead of 3.
    """
    if any(math.isclose(shown.epsilon, each, rel_tol=1e-9) for each in beside):
        return (format_number if exactly else format_short)(shown.epsilon)
    return format_number(shown.rounded_epsilon) if exactly else format_floor(shown.epsilon)


def format_proved_epsilon(finding: Finding, *, exactly: bool = False) -> str:
    """Formats the upper bound on epsilon of a judged claim, rounded up.

    Rounding up never passes the claimed epsilon. The text has 3 significant digits, or 6 if
    ``exactly``. ``finding`` must have an upper bound.
    """
    assert finding.accounted is not None
    beside = _list_epsilons(finding.claim, finding.measured)
    return format_upper_bound(finding.accounted, beside, exactly=exactly)


def format_shown_epsilon(finding: Finding, *, exactly: bool = False) -> str:
    """Formats the lower bound on epsilon of a judged claim, rounded down.

    If it equals the claimed epsilon or the upper bound, it is rounded to the nearest number. The
    text has 3 significant digits, or 6 if ``exactly``. ``finding`` must have a lower bound.
    """
    assert finding.measured is not None
    beside = _list_epsilons(finding.claim, finding.accounted)
    return format_lower_bound(finding.measured, beside, exactly=exactly)


def _list_epsilons(*bounds: Bound | Claim | None) -> list[float]:
    return [bound.epsilon for bound in bounds if bound is not None]


def to_percent(share: float) -> str:
    """Formats a share (0 to 1) in percent; only the exact values 0 and 1 become 0% and 100%."""
    if share == 1.0:
        return "100%"
    if share > 0.999999:
        return "more than 99.9999%"
    if share == 0.0:
        return "0%"
    digits = 1 if share <= 0.999 else math.ceil(-math.log10(1.0 - share)) - 1
    if 0.0 < share < 1e-3:
        digits = 1 - math.floor(math.log10(100 * share))
    text = f"{100 * share:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')}%"


def describe_guess_rate(prefix: str, guess: float) -> str:
    """Describes how often a guess is right, such as "up to 73.1% of the time".

    prefix: words before the number, such as "up to".
    guess: probability that the guess is right. Above 99.9999%, the text begins with "more than
        99.9999%", without ``prefix``.
    """
    rate = "more than 99.9999%" if guess > 0.999999 else f"{prefix} {to_percent(guess)}"
    return f"{rate} of the time"


def describe_scope(scope: Scope) -> str:
    """Describes a scope as a phrase: protected unit, time span and adversary's view."""
    unit, horizon = UNIT_TEXTS[scope.unit], HORIZON_TEXTS[scope.horizon]
    return f"{unit}, {horizon}, {ADVERSARY_PHRASES[scope.vantage]}"


def describe_full_scope(scope: Scope) -> str:
    """Describes a scope as a phrase: unit, time span, adversary's view and neighbouring inputs."""
    return f"{describe_scope(scope)}; neighbouring inputs {ADJACENCY_TEXTS[scope.adjacency]}"


def label_vacuous_claim(finding: Finding) -> str:
    """Returns the words "promises little" if the judged claim is vacuous, and otherwise "".

    A vacuous claim allows right guesses 99.9% of the time. The text is "" also if nothing is
    claimed in the judged scope.
    """
    promised = finding.verdict not in (Verdict.NO_CLAIM, Verdict.INCOMPARABLE)
    return "promises little" if finding.vacuous and promised else ""


def label_verdict(finding: Finding | None) -> str:
    """Returns the sign and the label of the verdict on a claim; "not judged" without a finding.

    The words "promises little" mark a vacuous claim, which allows right guesses 99.9% of the time.
    """
    if finding is None:
        return "not judged"
    flag = label_vacuous_claim(finding)
    return f"{VERDICT_SIGNS[finding.verdict]} {finding.verdict.label}{flag and f', {flag}'}"


def format_count(count: int, what: str) -> str:
    """Formats a count with the noun ``what``, which gets a plural s unless the count is 1.

    >>> format_count(1, "figure"), format_count(1200, "figure")
    ('1 figure', '1,200 figures')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Formats a number of seconds in seconds, minutes or hours, in at most two units.

    >>> [format_duration(seconds) for seconds in (0.4, 59.6, 265.9, 7300)]
    ['under 1 s', '1 min', '4 min 26 s', '2 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s" if whole else "under 1 s"
    names = ("min", "s") if whole < 3600 else ("h", "min")
    large, small = divmod(whole if whole < 3600 else round(whole / 60), 60)
    return f"{large:,} {names[0]}" + (f" {small} {names[1]}" if small else "")


def describe_game(finding: Finding) -> str:
    """Describes the game in which a claim was judged, and the delta if it is not the claim's.

    A game is an experiment that draws outputs for two inputs. Without a game, the text has the
    delta alone, or is "".
    """
    other = "" if finding.delta == finding.claim.delta else f"at {format_delta(finding.delta)}"
    return join_texts(finding.game and f"measured in a simulation ({finding.game})", other, by="; ")


def describe_judged_scope(finding: Finding) -> str:
    """Describes how a claim was judged: scope, delta and, if any, game (experiment)."""
    scope, game = describe_scope(finding.scope), finding.game and f"in the {finding.game}"
    return join_texts(scope, game, format_delta(finding.delta) if finding.delta else "")


def describe_basis(claim: Claim) -> str:
    """Describes the origin of a claimed epsilon; "" if the paper prints it."""
    if claim.basis is Basis.COMPUTED and claim.delta:
        return f"{BASIS_TEXTS[claim.basis]} at {format_delta(claim.delta)}"
    return BASIS_TEXTS[claim.basis]


def format_delta(delta: float) -> str:
    """Formats a delta, such as "delta 1e-05"."""
    return f"delta {format_number(delta)}"


def describe_evidence(measured: Bound) -> str:
    """Describes the confidence and the number of samples of a lower bound."""
    if measured.confidence == 1.0 and measured.samples is None:
        return "calculated"
    samples = "no samples" if measured.samples is None else f"{measured.samples:,} samples"
    return f"{to_percent(measured.confidence)} confidence, {samples}"


def describe_confidence(shown: Bound) -> str:
    """Describes the confidence of a lower bound; "calculated" if it holds with certainty."""
    return "calculated" if (sure := shown.confidence) == 1.0 else f"{to_percent(sure)} confidence"


def describe_assumptions(bound: Bound | None) -> str:
    """Returns the assumptions of a bound as a clause with "if"; "" if there are none."""
    assumed = () if bound is None else bound.assumptions
    return f"if {' and '.join(assumed)}" if assumed else ""


def describe_sampling(record: Contents) -> str:
    """Describes numbers of samples and confidence of an audit's sampled lower bounds."""
    quoted = (finding.measured for finding in record.findings)
    bounds = (*quoted, *(row.bound for row in record.measurements))
    sampled = [b for b in bounds if b is not None and b.samples is not None and b.confidence < 1.0]
    if not sampled:
        return "All lower bounds are calculated, without samples."
    fewest, most = (f"{f(b.samples or 0 for b in sampled):,}" for f in (min, max))
    sizes = fewest if fewest == most else f"{fewest} to {most}"
    sure = to_percent(min(b.confidence for b in sampled))
    return fill_text("note", "sampled", sizes=sizes, sure=sure)


def describe_claimed_guess(claim: Claim) -> str:
    """Returns a sentence on how often an adversary may guess one bit right if the claim holds."""
    if math.isinf(claim.epsilon):
        return "No epsilon is promised, so no guarantee limits what an adversary learns."
    guess = compute_guess_probability(claim.epsilon, claim.delta)
    what = "derived epsilon" if claim.basis is Basis.DERIVED else "claim"
    epsilon, right = format_number(claim.epsilon), describe_guess_rate("up to", guess)
    at = format_delta(claim.delta)
    return fill_text("note", "allowed", what=what, epsilon=epsilon, delta=at, right=right)


def describe_shown_guess(measured: Bound) -> str:
    """Returns a sentence on how often an adversary guesses right from the most revealing output.

    The success rate follows from the lower bound ``measured``.
    """
    exact = measured.confidence == 1.0 and measured.samples is None
    how = "By calculation" if exact else f"By measurement ({describe_evidence(measured)})"
    right = describe_guess_rate("at least", compute_guess_probability(measured.epsilon))
    if math.isinf(measured.epsilon):
        right = "every time"
    who = "an adversary guesses from the most revealing output which of two inputs produced it"
    return f"{how}, {who}, and is right {right}."


def describe_guesses_by_bounds(finding: Finding) -> str:
    """Returns sentences on how often an adversary guesses right, by the bounds of a judged claim.

    A lower bound gives one sentence. A finite upper bound gives another, but only for a claim with
    an infinite epsilon.
    """
    texts, proof = [], finding.accounted
    if proof is not None and math.isinf(finding.claim.epsilon) and math.isfinite(proof.epsilon):
        right = describe_guess_rate("up to", compute_guess_probability(proof.epsilon, proof.delta))
        right = join_texts(right, describe_assumptions(proof))
        texts.append(f"By proof, an adversary can guess a bit correctly {right}.")
    if finding.lower_bound is not None:
        texts.append(describe_shown_guess(finding.lower_bound))
    return " ".join(texts)


def describe_guesses(finding: Finding) -> str:
    """Returns sentences on how often an adversary guesses a bit right, by claim and lower bound.

    The first states the largest rate that the claim allows, the second the rate that follows from
    the lower bound, if there is one.
    """
    shown = "" if finding.lower_bound is None else describe_shown_guess(finding.lower_bound)
    return f"{describe_claimed_guess(finding.claim)} {shown}".strip()


def format_4_digits(value: float) -> str:
    """Formats a number with 4 significant digits; from 10,000 to a billion as a whole number."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e4:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    return f"{value:,.4g}"


def format_floor_4_digits(value: float) -> str:
    """Formats a lower bound with 4 significant digits, rounded down."""
    return format_4_digits(round_to_digits(value, math.floor, _count_digits(value)))


def format_ceil_4_digits(value: float) -> str:
    """Formats an upper bound with 4 significant digits, rounded up."""
    return format_4_digits(round_to_digits(value, math.ceil, _count_digits(value)))


def _count_digits(value: float) -> int:
    return len(f"{value:.0f}") if 1e4 <= abs(value) < 1e9 else 4


def format_limits(lower: float | None, upper: float | None) -> str:
    """Formats the range of an epsilon: a value, an interval, one limit, "not bounded" or "unknown".

    lower: lower bound; None without a lower bound.
    upper: upper bound; None without an upper bound.
    """
    if upper is None or math.isinf(upper):
        if lower is None:
            return "not bounded" if upper is not None else "unknown"
        return format_4_digits(lower) if math.isinf(lower) else f"≥ {format_floor_4_digits(lower)}"
    if lower is None:
        return f"≤ {format_ceil_4_digits(upper)}"
    if format_4_digits(lower) == format_4_digits(upper) or math.isclose(lower, upper, rel_tol=1e-6):
        return format_4_digits(upper)
    return f"{format_floor_4_digits(lower)} to {format_ceil_4_digits(upper)}"


def format_range(finding: Finding) -> str:
    """Formats the range of epsilon between the lower and the upper bound of a judged claim."""
    ends = (None if x is None else x.epsilon for x in (finding.lower_bound, finding.accounted))
    return format_limits(*ends)


def format_settings(settings: Mapping[str, object]) -> str:
    """Formats the settings of a system as ``--set`` options of ``auditor claims``."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            for key, given in value.items():
                flat[name if key == "name" else f"{name}.{key}"] = given
        else:
            flat[name] = value
    words = [f"--set {shlex.quote(f'{name}={_to_text(value)}')}" for name, value in flat.items()]
    return " ".join(words)


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def make_claim_quantity(claim: Claim) -> Quantity:
    """Makes the quantity "claimed epsilon", qualified by delta, scope and origin.

    The origin is left out if the paper prints the epsilon.
    """
    about = f"for {describe_full_scope(claim.scope)}"
    if math.isinf(claim.epsilon):
        return Quantity("no epsilon is claimed", (about,))
    support = (format_delta(claim.delta), about, describe_basis(claim))
    return Quantity(f"epsilon ≤ {format_number(claim.epsilon)}", tuple(filter(None, support)))


def make_proved_quantity(finding: Finding) -> Quantity:
    """Makes the quantity "upper bound" of a judged claim.

    The quantity is qualified by delta, method and assumptions, and by its scope if that differs
    from the judged scope. The value is "none" without an upper bound.
    """
    proof = finding.accounted
    if proof is None:
        return Quantity("none")
    endless = math.isinf(proof.epsilon)
    value = "no finite epsilon is proved"
    value = value if endless else f"epsilon ≤ {format_proved_epsilon(finding, exactly=True)}"
    return Quantity(value, _list_support(proof, finding.scope, ""))


def make_shown_quantity(finding: Finding) -> Quantity:
    """Makes the quantity "lower bound" of a judged claim.

    The quantity is qualified by delta, confidence, method and assumptions, and by its scope if that
    differs from the judged scope. The value is "none" without a lower bound.
    """
    beside = _list_epsilons(finding.claim, finding.accounted)
    return make_lower_bound_quantity(finding.measured, finding.scope, beside)


def make_lower_bound_quantity(
    bound: Bound | None, scope: Scope | None = None, beside: Sequence[float] = ()
) -> Quantity:
    """Makes a quantity of a lower bound, qualified by delta, confidence, method and assumptions.

    bound: the lower bound; if None, the value is "none".
    scope: scope that the reader already knows; another scope of the bound is stated.
    beside: epsilons that are printed next to the bound; an equal one is rounded equally.
    """
    if bound is None:
        return Quantity("none")
    text = format_lower_bound(bound, beside, exactly=True)
    value = f"epsilon {'is infinite' if math.isinf(bound.epsilon) else f'≥ {text}'}"
    return Quantity(value, _list_support(bound, scope, describe_evidence(bound)))


def _list_support(bound: Bound, scope: Scope | None, sure: str) -> tuple[str, ...]:
    own = "" if bound.scope == scope else f"holds for {describe_full_scope(bound.scope)}"
    texts = (format_delta(bound.delta), sure, f"method: {bound.source}", own)
    return tuple(filter(None, (*texts, describe_assumptions(bound))))


def describe_witness(measured: Bound) -> Iterator[tuple[str, str]]:
    """Yields pairs (name, text) that describe the distinguishing event of a lower bound.

    This is a set of outputs that is much more likely under one input than under another.
    """
    witness = measured.witness
    if witness is None:
        return
    yield "inputs", f"Input A is “{witness.input_a}”, and input B is “{witness.input_b}”."
    guess = "BA"[measured.samples is not None or witness.probability_a >= witness.probability_b]
    yield "output", f"Given the output “{witness.output}”, the adversary guesses input {guess}."
    a, b = (format_probability(measured, p) for p in (witness.probability_a, witness.probability_b))
    label = label_event_probability(measured).lower()
    yield label, f"The {label} of this output is {a} under input A and {b} under input B."
    yield "ratio of the larger to the smaller", describe_probability_ratio(measured)
    if witness.copies > 1:
        yield "parts", f"The output has {witness.copies:,} independent parts of this kind."
    if witness.note:
        yield "note", witness.note


def format_probability(measured: Bound, value: float) -> str:
    """Formats a probability, or a density, of the distinguishing event of a lower bound.

    A calculated 0 or infinity may be a floating-point underflow or overflow. The text is then "less
    than 1e-323" or "more than 1e308".
    """
    if measured.samples is not None or math.isinf(measured.epsilon) or 0.0 < value < math.inf:
        return format_number(value)
    return "less than 1e-323" if value == 0.0 else "more than 1e308"


def label_event_probability(measured: Bound) -> str:
    """Labels the probabilities of a bound's distinguishing event, such as "Probability".

    The label is "Measured share" for estimates from draws. For calculated values, it is "Density"
    if one of them is above 1, and otherwise "Probability".
    """
    witness = measured.witness
    if measured.samples is not None or witness is None:
        return "Measured share"
    return "Density" if max(witness.probability_a, witness.probability_b) > 1 else "Probability"


def describe_probability_ratio(measured: Bound) -> str:
    """Returns a sentence on the ratio of a distinguishing event's probabilities under two inputs.

    The ratio is the larger over the smaller probability. The text is "" if the bound ``measured``
    has no distinguishing event.
    """
    witness = measured.witness
    if witness is None:
        return ""
    small, large = sorted((witness.probability_a, witness.probability_b))
    endless = math.isinf(measured.epsilon)
    if measured.samples is not None:
        if small > 0.0:
            ratio, log = format_number(large / small), format_number(math.log(large / small))
            return f"The ratio in the samples is {ratio}; its natural logarithm is {log}."
        inputs = "neither input" if large == 0.0 else "one of the two inputs never"
        return f"The samples do not bound the ratio: {inputs} gave this output."
    if large == 0.0 and (endless or measured.epsilon == 0.0):
        return "The ratio is 0 to 0: neither input can give this output."
    if small == 0.0 and endless:
        return "The ratio is infinite: one of the two inputs can never give this output."
    together = f" of all {witness.copies:,} independent parts" if witness.copies > 1 else ""
    if small == 0.0 or math.isinf(large):
        text = "The ratio is finite, but a probability is outside the range of a double"
        if measured.delta > 0.0 or endless:
            return f"{text}."
        return f"{text}; the log-ratio{together} is {format_number(measured.epsilon)}."
    log_ratio = format_number(math.log(large) - math.log(small))
    text = f"The ratio is {format_number(large / small)}; its natural logarithm (log-ratio) is"
    if witness.copies == 1:
        return f"{text} {log_ratio}."
    total = witness.copies * (math.log(large) - math.log(small))
    return f"{text} {log_ratio}; the log-ratio{together} is {format_number(total)}."
