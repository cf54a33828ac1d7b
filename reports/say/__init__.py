"""The wording of all reports: numbers, scopes, bounds and verdicts in words.

A report never states a bound without its delta, confidence, scope, method and sample size. Upper
bounds are rounded up and lower bounds down; an assumption is printed with the number that rests on
it. The wording is "not refuted", never praise.
"""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.statements import (
    Basis,
    Bound,
    Claim,
    Scope,
    guess_probability,
    rounded,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.documents.document import Quantity
from fedrec_auditor.reports.record.rows import Contents, Finding

Table = dict[str, str]
# The fixed texts of reports, by table and by the value that they describe.
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
UNITS: Table = TABLES["unit"]
ADJACENCIES: Table = TABLES["adjacency"]
VANTAGES: Table = TABLES["vantage"]
HORIZONS: Table = TABLES["horizon"]
LOOKERS: Table = TABLES["looker"]
VIEWS: Table = TABLES["view"]
WORDS: Table = TABLES["word"]
SIGNS: Table = TABLES["sign"]
BASIS_WORDS: Table = TABLES["basis"]
CLAIM_LABELS: Table = TABLES["claimed"]
_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OBEYED = re.compile("[\x7f-\x9f\ud800-\udfff]")


def fill_text(table: str, name: str, **values: object) -> str:
    """Returns the text ``name`` of a ``table`` in words.toml, filled with ``values``."""
    text: str = TABLES[table][name]
    return text.format(**values)


def legal(text: str) -> str:
    """``text`` in which U+FFFD replaces characters that XML or HTML forbids or terminals obey."""
    return _ILLEGAL.sub("�", text)


def escape(text: str) -> str:
    r"""JSON or TOML ``text`` in which control characters and surrogates are written as \uXXXX."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def make_printable(text: str) -> str:
    """``text`` on one line, in which U+FFFD replaces characters that are not printable."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def capitalized(text: str) -> str:
    """``text`` with a capital first letter and no other change."""
    return f"{text[:1].upper()}{text[1:]}"


def join_texts(*texts: str, by: str = ", ") -> str:
    """The nonempty ``texts``, joined by ``by``."""
    return by.join(filter(None, texts))


def number_text(value: float) -> str:
    """``value`` with at most 6 significant digits and grouped thousands; infinity as ∞."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 5 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def short_number(value: float) -> str:
    """``value`` with 3 significant digits, or all digits of a whole number.

    A value below 1 is never rounded up to 1.
    """
    near = number_text(value) if _is_whole(value) else number_text(float(f"{value:.3g}"))
    return number_text(value) if near == "1" and value < 1.0 else near


def round_down(value: float) -> str:
    """A lower bound with 3 significant digits, rounded down; a whole number keeps all digits."""
    return number_text(value if _is_whole(value) else rounded(value, math.floor))


def lower_bound_words(value: float) -> str:
    """The epsilon of a lower bound as "at least" and a number, or as "infinite"."""
    return "infinite" if value == math.inf else f"at least {round_down(value)}"


def round_up(value: float) -> str:
    """An upper bound with 3 significant digits, rounded up; a whole number keeps all digits."""
    return number_text(value if _is_whole(value) else rounded(value, math.ceil))


def _is_whole(value: float) -> bool:
    return 0.0 < abs(value) < 1e9 and math.isclose(value, round(value), rel_tol=1e-9)


def upper_bound_words(proof: Bound, beside: Iterable[float], *, exactly: bool = False) -> str:
    """The epsilon of an upper bound, rounded up to 3 significant digits, or to 6 if ``exactly``.

    ``beside`` are claimed and shown epsilons that are printed with it. The rounded number does not
    exceed those of them that the bound does not exceed, so that a proved claim never looks
    exceeded.
    """
    near = number_text if exactly else short_number
    limits = [near(each) for each in beside if proof.epsilon <= each * (1 + 1e-9) < math.inf]
    rounded_up = number_text(proof.rounded) if exactly else round_up(proof.epsilon)
    texts = [rounded_up, *limits]
    return min(texts, key=lambda text: float(text.replace(",", "").replace("∞", "inf")))


def lower_words(shown: Bound, beside: Iterable[float], *, exactly: bool = False) -> str:
    """The epsilon of a lower bound, rounded down; equal numbers ``beside`` it are printed alike."""
    if any(math.isclose(shown.epsilon, each, rel_tol=1e-9) for each in beside):
        return (number_text if exactly else short_number)(shown.epsilon)
    return number_text(shown.rounded) if exactly else round_down(shown.epsilon)


def proved_text(finding: Finding, *, exactly: bool = False) -> str:
    """The epsilon of a finding's upper bound, rounded to agree with its claim and lower bound."""
    assert finding.accounted is not None
    beside = _epsilons(finding.claim, finding.measured)
    return upper_bound_words(finding.accounted, beside, exactly=exactly)


def lower_bound_text(finding: Finding, *, exactly: bool = False) -> str:
    """The epsilon of a finding's lower bound, rounded to agree with its claim and upper bound."""
    assert finding.measured is not None
    beside = _epsilons(finding.claim, finding.accounted)
    return lower_words(finding.measured, beside, exactly=exactly)


def _epsilons(*bounds: Bound | Claim | None) -> list[float]:
    return [bound.epsilon for bound in bounds if bound is not None]


def percent(share: float) -> str:
    """``share`` in percent; only exact values are printed as 0% and 100%."""
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


def rate_words(limit: str, guess: float) -> str:
    """The frequency of a right guess, such as "up to 73.1% of the time"; ``limit`` is "up to".

    A ``guess`` that rounds to 100% is printed as more than 99.9999%.
    """
    rate = "more than 99.9999%" if guess > 0.999999 else f"{limit} {percent(guess)}"
    return f"{rate} of the time"


def brief_scope_words(scope: Scope) -> str:
    """The unit, the horizon and the vantage of a scope as a phrase."""
    return f"{UNITS[scope.unit]}, {HORIZONS[scope.horizon]}, {VIEWS[scope.vantage]}"


def pair_scope_words(scope: Scope) -> str:
    """The unit, the horizon, the vantage and the neighbouring inputs of a scope as a phrase."""
    return f"{brief_scope_words(scope)}; neighbouring inputs: {ADJACENCIES[scope.adjacency]}"


def vacuous_words(finding: Finding) -> str:
    """The words "promises little" if the finding's claim is vacuous; else empty."""
    promised = finding.verdict not in (Verdict.NO_CLAIM, Verdict.INCOMPARABLE)
    return "promises little" if finding.vacuous and promised else ""


def verdict_words(finding: Finding | None) -> str:
    """The sign and the label of a verdict, with "promises little" if the claim is vacuous.

    Without a finding, the text is "not judged".
    """
    if finding is None:
        return "not judged"
    flag = vacuous_words(finding)
    return f"{SIGNS[finding.verdict]} {WORDS[finding.verdict]}{flag and f', {flag}'}"


def count_phrase(count: int, what: str) -> str:
    """A count with its noun, which gets a plural s unless the count is 1.

    >>> count_phrase(1, "figure"), count_phrase(1200, "figure")
    ('1 figure', '1,200 figures')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours, in at most two units.

    >>> [duration(seconds) for seconds in (0.4, 59.6, 265.9, 7300)]
    ['under 1 s', '1 min', '4 min 26 s', '2 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s" if whole else "under 1 s"
    names = ("min", "s") if whole < 3600 else ("h", "min")
    large, small = divmod(whole if whole < 3600 else round(whole / 60), 60)
    return f"{large:,} {names[0]}" + (f" {small} {names[1]}" if small else "")


def game_delta_words(finding: Finding) -> str:
    """The game of a finding, and the judged delta if it differs from the claim's; may be empty."""
    other = "" if finding.delta == finding.claim.delta else f"at {delta_words(finding.delta)}"
    return join_texts(finding.game, other, by="; ")


def finding_scope_words(finding: Finding) -> str:
    """The scope, the game and the delta of a finding as a phrase."""
    delta = delta_words(finding.delta) if finding.delta else ""
    return join_texts(brief_scope_words(finding.scope), finding.game, delta)


def basis_words(claim: Claim) -> str:
    """The origin of a claimed epsilon in words; empty if the paper prints it."""
    if claim.basis is Basis.COMPUTED and claim.delta:
        return f"{BASIS_WORDS[claim.basis]} at {delta_words(claim.delta)}"
    return BASIS_WORDS[claim.basis]


def delta_words(delta: float) -> str:
    """A delta as text, such as "delta 1e-05"."""
    return f"delta {number_text(delta)}"


def evidence_words(measured: Bound) -> str:
    """The confidence and the number of samples of a lower bound."""
    if measured.confidence == 1.0 and measured.samples is None:
        return "calculated, no samples"
    samples = "no samples" if measured.samples is None else f"{measured.samples:,} samples"
    return f"{percent(measured.confidence)} confidence, {samples}"


def sure_words(shown: Bound) -> str:
    """The confidence of a lower bound, or "calculated" if it holds with certainty."""
    return "calculated" if shown.confidence == 1.0 else f"{percent(shown.confidence)} confidence"


def assumption_words(bound: Bound | None) -> str:
    """The assumptions of a bound as a clause with "if"; empty without assumptions."""
    assumed = () if bound is None else bound.assumptions
    return f"if {' and '.join(assumed)}" if assumed else ""


def sampling_words(record: Contents) -> str:
    """Sentences on the numbers of samples and the confidence of all sampled lower bounds."""
    quoted = (finding.measured for finding in record.findings)
    bounds = (*quoted, *(row.bound for row in record.measurements))
    sampled = [b for b in bounds if b is not None and b.samples is not None and b.confidence < 1.0]
    if not sampled:
        return "All lower bounds are calculated, without samples."
    fewest, most = (f"{f(b.samples or 0 for b in sampled):,}" for f in (min, max))
    sizes = fewest if fewest == most else f"{fewest} to {most}"
    sure = percent(min(b.confidence for b in sampled))
    return (
        f"The sampled lower bounds rest on {sizes} samples. Each holds at {sure} confidence or "
        "more: the plan's error budget is divided by the number of bounds (Bonferroni's "
        "correction), so that all of them hold together at the plan's confidence."
    )


def claimed_guess_words(claim: Claim) -> str:
    """A sentence on the success rate that a claim allows an adversary who guesses one fair bit."""
    if math.isinf(claim.epsilon):
        return "Nobody promises an epsilon: an adversary may guess one bit right every time."
    guess = guess_probability(claim.epsilon, claim.delta)
    what = "derived epsilon" if claim.basis is Basis.DERIVED else "claim"
    return (
        f"If the {what} holds (epsilon {number_text(claim.epsilon)}, {delta_words(claim.delta)}), "
        f"an adversary guesses one bit right {rate_words('up to', guess)}, and a coin 50% of "
        "the time."
    )


def shown_guess_words(measured: Bound) -> str:
    """A sentence on the success rate of a guess at the most revealing output, by a lower bound."""
    exact = measured.confidence == 1.0 and measured.samples is None
    how = "Calculated exactly" if exact else f"Measured ({evidence_words(measured)})"
    right = rate_words("at least", guess_probability(measured.epsilon))
    if math.isinf(measured.epsilon):
        right = "every time"
    return f"{how}: an adversary who sees the most revealing message guesses right {right}."


def bounds_guess_words(finding: Finding) -> str:
    """Sentences on the success rates of a guess, by the upper and by the lower bound.

    The upper bound is used only if no epsilon is claimed.
    """
    texts, proof = [], finding.accounted
    if proof is not None and math.isinf(finding.claim.epsilon) and math.isfinite(proof.epsilon):
        right = rate_words("up to", guess_probability(proof.epsilon, proof.delta))
        assumed = assumption_words(proof)
        texts.append(f"It is proved that an adversary guesses right {join_texts(right, assumed)}.")
    if finding.lower_bound is not None:
        texts.append(shown_guess_words(finding.lower_bound))
    return " ".join(texts)


def guess_words(finding: Finding) -> str:
    """Sentences on the success rates of a guess at one bit, by the claim and by the lower bound."""
    shown = "" if finding.lower_bound is None else shown_guess_words(finding.lower_bound)
    return f"{claimed_guess_words(finding.claim)} {shown}".strip()


def short(value: float) -> str:
    """``value`` with 4 significant digits; values from 10,000 to a billion as whole numbers."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e4:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    return f"{value:,.4g}"


def format_4_lower(value: float) -> str:
    """A lower bound in the format of ``short``, rounded down."""
    return short(rounded(value, math.floor, _digits(value)))


def format_4_upper(value: float) -> str:
    """An upper bound in the format of ``short``, rounded up."""
    return short(rounded(value, math.ceil, _digits(value)))


def _digits(value: float) -> int:
    return len(f"{value:.0f}") if 1e4 <= abs(value) < 1e9 else 4


def range_text(lower: float | None, upper: float | None) -> str:
    """The range of an epsilon: one value, an interval, one limit, "not bounded" or "unknown"."""
    if upper is None or math.isinf(upper):
        if lower is None:
            return "not bounded" if upper is not None else "unknown"
        return short(lower) if math.isinf(lower) else f"≥ {format_4_lower(lower)}"
    if lower is None:
        return f"≤ {format_4_upper(upper)}"
    if short(lower) == short(upper) or math.isclose(lower, upper, rel_tol=1e-6):
        return short(upper)
    return f"{format_4_lower(lower)} to {format_4_upper(upper)}"


def range_words(finding: Finding) -> str:
    """The range of epsilon between a finding's lower and upper bound."""
    upper = None if finding.accounted is None else finding.accounted.epsilon
    return range_text(None if finding.lower_bound is None else finding.lower_bound.epsilon, upper)


def settings_words(settings: Mapping[str, object]) -> str:
    """``settings`` as ``--set`` options of ``auditor claims``."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            for key, given in value.items():
                flat[name if key == "name" else f"{name}.{key}"] = given
        else:
            flat[name] = value
    words = [f"--set {shlex.quote(f'{name}={_plain(value)}')}" for name, value in flat.items()]
    return " ".join(words)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def claim_fact(claim: Claim) -> Quantity:
    """The claimed epsilon with its delta, scope, and its origin unless the paper prints it."""
    scope = claim.scope
    about = (f"for {pair_scope_words(scope)}", basis_words(claim))
    if math.isinf(claim.epsilon):
        return Quantity("no epsilon", about[:1])
    support = (delta_words(claim.delta), *about)
    return Quantity(f"epsilon ≤ {number_text(claim.epsilon)}", tuple(filter(None, support)))


def upper_bound_fact(finding: Finding) -> Quantity:
    """The upper bound of a finding with its qualifications; "none" without an upper bound."""
    proof = finding.accounted
    if proof is None:
        return Quantity("none")
    endless = math.isinf(proof.epsilon)
    value = "no finite epsilon" if endless else f"epsilon ≤ {proved_text(finding, exactly=True)}"
    return Quantity(value, _support(proof, finding.scope, ""))


def lower_bound_fact(finding: Finding) -> Quantity:
    """The lower bound of a finding with its qualifications; "none" without a lower bound."""
    return bound_fact(finding.measured, finding.scope, _epsilons(finding.claim, finding.accounted))


def bound_fact(
    bound: Bound | None, scope: Scope | None = None, beside: Sequence[float] = ()
) -> Quantity:
    """A lower bound with its qualifications, and with its scope if that differs from ``scope``.

    ``beside`` are epsilons that are printed with it; an equal epsilon is printed alike.
    """
    if bound is None:
        return Quantity("none")
    endless = math.isinf(bound.epsilon)
    value = "infinite" if endless else f"epsilon ≥ {lower_words(bound, beside, exactly=True)}"
    return Quantity(value, _support(bound, scope, evidence_words(bound)))


def _support(bound: Bound, scope: Scope | None, sure: str) -> tuple[str, ...]:
    own = "" if bound.scope == scope else f"scope: {bound.scope}"
    parts = (delta_words(bound.delta), sure, bound.source, own, assumption_words(bound))
    return tuple(filter(None, parts))


def witness_words(measured: Bound) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each part of a lower bound's distinguishing event."""
    witness = measured.witness
    if witness is None:
        return
    yield "input a", witness.input_a
    yield "input b", witness.input_b
    yield "output", witness.output
    pair = (probability_words(measured, p) for p in (witness.probability_a, witness.probability_b))
    yield f"{event_kind_words(measured).lower()} of the output under a, b", ", ".join(pair)
    yield "ratio", ratio_words(measured)
    if witness.copies > 1:
        yield "independent copies", f"{witness.copies:,}"
    if witness.note:
        yield "note", witness.note


def probability_words(measured: Bound, value: float) -> str:
    """A probability of a distinguishing event as text.

    A calculated 0 or infinity of a finite epsilon is printed as out of range, because it may be an
    underflow or overflow.
    """
    if measured.samples is not None or math.isinf(measured.epsilon) or 0.0 < value < math.inf:
        return number_text(value)
    return "less than 1e-323" if value == 0.0 else "more than 1e308"


def event_kind_words(measured: Bound) -> str:
    """The kind of an event's two probabilities: measured shares, densities or probabilities."""
    witness = measured.witness
    if measured.samples is not None or witness is None:
        return "Measured share"
    return "Density" if max(witness.probability_a, witness.probability_b) > 1 else "Probability"


def ratio_words(measured: Bound) -> str:
    """The ratio of a distinguishing event's probabilities, the larger divided by the smaller."""
    witness = measured.witness
    if witness is None:
        return ""
    small, large = sorted((witness.probability_a, witness.probability_b))
    endless = math.isinf(measured.epsilon)
    if measured.samples is not None:
        if small > 0.0:
            ratio = large / small
            return (
                f"{number_text(ratio)} in the samples (log-ratio = {number_text(math.log(ratio))})"
            )
        inputs = "either input" if large == 0.0 else "one of the two inputs"
        return f"not bounded by the samples: {inputs} gave this output in no draw"
    if large == 0.0 and (endless or measured.epsilon == 0.0):
        return "0 to 0: neither input can give this output"
    if small == 0.0 and endless:
        return "infinite: one of the two inputs can never give this output"
    if small == 0.0 or math.isinf(large):
        text = "finite, but a probability is outside the range of double-precision numbers"
        if measured.delta > 0.0 or endless:
            return text
        together = f"for {witness.copies:,} independent copies: " if witness.copies > 1 else ""
        return f"{text}; {together}log-ratio = {number_text(measured.epsilon)}"
    log_ratio = number_text(math.log(large) - math.log(small))
    text = f"{number_text(large / small)} (log-ratio = {log_ratio})"
    if witness.copies == 1:
        return text
    total = witness.copies * (math.log(large) - math.log(small))
    return f"{text}; for {witness.copies:,} independent copies: log-ratio = {number_text(total)}"
