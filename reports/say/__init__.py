"""The words of every report: numbers, scopes, bounds and verdicts as a reader should hear them.

One rule above all: a bound is never said without its delta, its confidence, its scope, its method
and its sample size. What is proved is rounded up, what is shown is rounded down; an assumption
travels with the number. A verdict is "not refuted", never a praise.
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
from fedrec_auditor.reports.documents.document import Said
from fedrec_auditor.reports.record.rows import Contents, Finding

Table = dict[str, str]
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
"""The fixed words of reports, by the value that they stand for."""
UNITS: Table = TABLES["unit"]
ADJACENCIES: Table = TABLES["adjacency"]
VANTAGES: Table = TABLES["vantage"]
HORIZONS: Table = TABLES["horizon"]
LOOKERS: Table = TABLES["looker"]
VIEWS: Table = TABLES["view"]
WORDS: Table = TABLES["word"]
SIGNS: Table = TABLES["sign"]
BASES: Table = TABLES["basis"]
CLAIMED: Table = TABLES["claimed"]
_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OBEYED = re.compile("[\x7f-\x9f\ud800-\udfff]")


def fill_phrase(table: str, name: str, **values: object) -> str:
    """A fixed text of ``words.toml``, with the ``values`` that it has places for."""
    text: str = TABLES[table][name]
    return text.format(**values)


def legal(text: str) -> str:
    """``text`` with all that XML 1.0 and HTML forbid, or a terminal obeys, replaced by U+FFFD."""
    return _ILLEGAL.sub("�", text)


def escaped(text: str) -> str:
    """JSON or TOML with what a terminal obeys or UTF-8 lacks in its strings as \\uXXXX."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str) -> str:
    """``text`` on one line, without anything a terminal would obey instead of print."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def capitalized(text: str) -> str:
    """``text`` with a capital first, all else as it is."""
    return f"{text[:1].upper()}{text[1:]}"


def listed(*texts: str, by: str = ", ") -> str:
    """The texts that are not empty, one behind the other."""
    return by.join(filter(None, texts))


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
    """A figure in 3 significant digits, a whole one in full; it is never rounded up to 1."""
    near = number(value) if _is_whole(value) else number(float(f"{value:.3g}"))
    return number(value) if near == "1" and value < 1.0 else near


def at_least(value: float) -> str:
    """A lower bound in 3 significant digits or whole, rounded down; below 1e-4 it may say 0."""
    return number(value if _is_whole(value) else rounded(value, math.floor))


def shown_epsilon(value: float) -> str:
    """An epsilon that is shown: at least so much, or infinite."""
    return "infinite" if value == math.inf else f"at least {at_least(value)}"


def at_most(value: float) -> str:
    """An upper bound in 3 significant digits or whole, rounded up."""
    return number(value if _is_whole(value) else rounded(value, math.ceil))


def _is_whole(value: float) -> bool:
    return 0.0 < abs(value) < 1e9 and math.isclose(value, round(value), rel_tol=1e-9)


def proved_words(proof: Bound, beside: Iterable[float], *, exactly: bool = False) -> str:
    """An epsilon that is proved, rounded up; one of ``beside`` that is equal is printed alike.

    ``beside`` are the epsilons that are printed with it: what is claimed, what is shown. Of a claim
    that it keeps the digits are not exceeded. In 3 digits, or ``exactly`` in 6.
    """
    near = number if exactly else brief
    kept = [claim for claim in beside if proof.epsilon <= claim * (1 + 1e-9) < math.inf]
    said = number(proof.told) if exactly else at_most(proof.epsilon)
    stated = [near(claim) for claim in kept]
    return min([said, *stated], key=lambda text: float(text.replace(",", "").replace("∞", "inf")))


def shown_words(shown: Bound, beside: Iterable[float], *, exactly: bool = False) -> str:
    """An epsilon that is shown, rounded down; one of ``beside`` that is equal is printed alike."""
    if any(math.isclose(shown.epsilon, each, rel_tol=1e-9) for each in beside):
        return (number if exactly else brief)(shown.epsilon)
    return number(shown.told) if exactly else at_least(shown.epsilon)


def proved_of(finding: Finding, *, exactly: bool = False) -> str:
    """The epsilon that is proved in a finding, beside what is claimed and shown there."""
    assert finding.accounted is not None
    beside = _epsilons(finding.claim, finding.measured)
    return proved_words(finding.accounted, beside, exactly=exactly)


def shown_of(finding: Finding, *, exactly: bool = False) -> str:
    """The epsilon that is shown in a finding, beside what is claimed and proved there."""
    assert finding.measured is not None
    beside = _epsilons(finding.claim, finding.accounted)
    return shown_words(finding.measured, beside, exactly=exactly)


def _epsilons(*bounds: Bound | Claim | None) -> list[float]:
    return [bound.epsilon for bound in bounds if bound is not None]


def percent(share: float) -> str:
    """A share in percent that is never rounded to a certainty it is not."""
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


def often(limit: str, guess: float) -> str:
    """How often a guess is right under a finite epsilon: in floats it may be 1, in truth not."""
    rate = "more than 99.9999%" if guess > 0.999999 else f"{limit} {percent(guess)}"
    return f"{rate} of the time"


def brief_scope_words(scope: Scope) -> str:
    """A scope as a shorter phrase, for sentences; the adjacency is left to the tables."""
    return f"{UNITS[scope.unit]}, {HORIZONS[scope.horizon]}, {VIEWS[scope.vantage]}"


def pair_scope_words(scope: Scope) -> str:
    """The shorter phrase, and which inputs are held against each other."""
    return f"{brief_scope_words(scope)}; {ADJACENCIES[scope.adjacency]}"


def flag_words(finding: Finding) -> str:
    """A flag beside the verdict if next to nothing is promised; "" of no promise."""
    promised = finding.verdict not in (Verdict.NO_CLAIM, Verdict.INCOMPARABLE)
    return "promises little" if finding.vacuous and promised else ""


def verdict_words(finding: Finding | None) -> str:
    """The verdict with its sign and its flag; "not judged" without a finding."""
    if finding is None:
        return "not judged"
    flag = flag_words(finding)
    return f"{SIGNS[finding.verdict]} {WORDS[finding.verdict]}{flag and f', {flag}'}"


def counted(count: int, what: str) -> str:
    """So many of something that has an s where they are several.

    >>> counted(1, "figure"), counted(1200, "figure")
    ('1 figure', '1,200 figures')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """How long something took: seconds, minutes or hours, in at most two of them.

    >>> [duration(seconds) for seconds in (0.4, 59.6, 265.9, 7300)]
    ['under 1 s', '1 min', '4 min 26 s', '2 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s" if whole else "under 1 s"
    names = ("min", "s") if whole < 3600 else ("h", "min")
    large, small = divmod(whole if whole < 3600 else round(whole / 60), 60)
    return f"{large:,} {names[0]}" + (f" {small} {names[1]}" if small else "")


def asked_words(finding: Finding) -> str:
    """The game, and the delta in question where it is not the claim's own; nothing otherwise."""
    other = "" if finding.delta == finding.claim.delta else f"asked at {delta_words(finding.delta)}"
    return listed(finding.game, other, by="; ")


def question_words(finding: Finding) -> str:
    """The question of a finding in few words: the scope, the game, the delta."""
    delta = delta_words(finding.delta) if finding.delta else ""
    return listed(brief_scope_words(finding.scope), finding.game, delta)


def basis_words(claim: Claim) -> str:
    """The author of an epsilon; empty where the paper prints it."""
    if claim.basis is Basis.COMPUTED and claim.delta:
        return f"their formula at {delta_words(claim.delta)}, computed here"
    return BASES[claim.basis]


def delta_words(delta: float) -> str:
    """A delta, zero included."""
    return f"delta {number(delta)}"


def support_words(measured: Bound) -> str:
    """Confidence and sample size of a lower bound."""
    if measured.confidence == 1.0 and measured.samples is None:
        return "exact, no samples"
    samples = "no samples" if measured.samples is None else f"{measured.samples:,} samples"
    return f"{percent(measured.confidence)} confidence, {samples}"


def sure_words(shown: Bound) -> str:
    """How sure a lower bound is: calculated, or its confidence."""
    return "calculated" if shown.confidence == 1.0 else f"{percent(shown.confidence)} confidence"


def assumption_words(bound: Bound | None) -> str:
    """The assumptions of a bound: "if ..."; empty where it assumes nothing."""
    assumed = () if bound is None else bound.assumptions
    return f"if {'; '.join(assumed)}" if assumed else ""


def sampling_words(record: Contents) -> str:
    """How many samples lower bounds rest on, and how the audit's confidence is split."""
    quoted = (finding.measured for finding in record.findings)
    bounds = (*quoted, *(row.bound for row in record.measurements))
    sampled = [b for b in bounds if b is not None and b.samples is not None and b.confidence < 1.0]
    if not sampled:
        return "All lower bounds are calculated: none rests on samples."
    fewest, most = (f"{f(b.samples or 0 for b in sampled):,}" for f in (min, max))
    sizes = fewest if fewest == most else f"{fewest} to {most}"
    sure = percent(min(b.confidence for b in sampled))
    return (
        f"Sampled lower bounds rest on {sizes} samples. Each holds at {sure} confidence or more: "
        "the error that the plan allows is divided by their number (Bonferroni), so that all of "
        "them hold together at the plan's confidence."
    )


def claimed_guess_words(claim: Claim) -> str:
    """A claim as the success rate that it allows an adversary who guesses one fair bit."""
    if math.isinf(claim.epsilon):
        return "No epsilon is promised: one bit may be guessed right every time."
    guess = guess_probability(claim.epsilon, claim.delta)
    what = "derived figure" if claim.basis is Basis.DERIVED else "claim"
    return (
        f"If the {what} holds (epsilon {number(claim.epsilon)}, {delta_words(claim.delta)}), one "
        f"bit is guessed right {often('up to', guess)}; by a coin, 50%."
    )


def shown_guess_words(measured: Bound) -> str:
    """A lower bound as how often the guess is right on the outputs that tell the most."""
    exact = measured.confidence == 1.0 and measured.samples is None
    how = "Computed exactly" if exact else f"Measured ({support_words(measured)})"
    right = often("at least", guess_probability(measured.epsilon))
    if math.isinf(measured.epsilon):
        right = "every time"
    return f"{how}: by the most revealing message the guess is right {right}."


def found_guess_words(finding: Finding) -> str:
    """How often a guess is right by the proof, where nothing is claimed, and as shown."""
    said, proof = [], finding.accounted
    if proof is not None and math.isinf(finding.claim.epsilon) and math.isfinite(proof.epsilon):
        right = often("up to", guess_probability(proof.epsilon, proof.delta))
        assumed = assumption_words(proof)
        said.append(f"Proved: the guess is right {right}{f', {assumed}' if assumed else ''}.")
    if finding.shown is not None:
        said.append(shown_guess_words(finding.shown))
    return " ".join(said)


def guess_words(finding: Finding) -> str:
    """The claim and the lower bound, as how often a guess at one bit is right."""
    shown = "" if finding.shown is None else shown_guess_words(finding.shown)
    return f"{claimed_guess_words(finding.claim)} {shown}".strip()


def short(value: float) -> str:
    """Four significant digits; whole numbers in full up to a billion."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e4:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    return f"{value:,.4g}"


def short_least(value: float) -> str:
    """A lower bound as ``short``, rounded down."""
    return short(rounded(value, math.floor, _digits(value)))


def short_most(value: float) -> str:
    """An upper bound as ``short``, rounded up."""
    return short(rounded(value, math.ceil, _digits(value)))


def _digits(value: float) -> int:
    return len(f"{value:.0f}") if 1e4 <= abs(value) < 1e9 else 4


def between(lower: float | None, upper: float | None) -> str:
    """An epsilon as it is known: its value, an interval, one end, or nothing."""
    if upper is None or math.isinf(upper):
        if lower is None:
            return "not bounded" if upper is not None else "unknown"
        return short(lower) if math.isinf(lower) else f"≥ {short_least(lower)}"
    if lower is None:
        return f"≤ {short_most(upper)}"
    if short(lower) == short(upper) or math.isclose(lower, upper, rel_tol=1e-6):
        return short(upper)
    return f"{short_least(lower)} to {short_most(upper)}"


def found_words(finding: Finding) -> str:
    """The proved and the shown epsilon of a finding."""
    upper = None if finding.accounted is None else finding.accounted.epsilon
    return between(None if finding.shown is None else finding.shown.epsilon, upper)


def settings_words(settings: Mapping[str, object]) -> str:
    """Settings as `auditor claims` takes them."""
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


def claimed(claim: Claim) -> Said:
    """Claimed epsilon, its scope, and whose figure it is if the paper does not print it."""
    scope = claim.scope
    about = (f"for {brief_scope_words(scope)}", ADJACENCIES[scope.adjacency], basis_words(claim))
    if math.isinf(claim.epsilon):
        return Said("no epsilon", about[:2])
    support = (delta_words(claim.delta), *about)
    return Said(f"≤ {number(claim.epsilon)}", tuple(filter(None, support)))


def proved(finding: Finding) -> Said:
    """The proof in the scope of a finding; "nothing" if no finite epsilon is proved."""
    proof = finding.accounted
    if proof is None:
        return Said("nothing")
    endless = math.isinf(proof.epsilon)
    value = "no finite epsilon" if endless else f"≤ {proved_of(finding, exactly=True)}"
    return Said(value, _support(proof, finding.scope, ""))


def measured(finding: Finding) -> Said:
    """Lower bound in the scope of a finding."""
    return shown(finding.measured, finding.scope, _epsilons(finding.claim, finding.accounted))


def shown(bound: Bound | None, scope: Scope | None = None, beside: Sequence[float] = ()) -> Said:
    """Lower bound; its own scope is said where it is not the ``scope`` in question.

    One of ``beside``, epsilons that are printed with it, is printed alike where it is equal.
    """
    if bound is None:
        return Said("nothing")
    endless = math.isinf(bound.epsilon)
    value = "infinite" if endless else f"≥ {shown_words(bound, beside, exactly=True)}"
    return Said(value, _support(bound, scope, support_words(bound)))


def _support(bound: Bound, scope: Scope | None, sure: str) -> tuple[str, ...]:
    own = "" if bound.scope == scope else f"scope: {bound.scope}"
    parts = (delta_words(bound.delta), sure, bound.source, own, assumption_words(bound))
    return tuple(filter(None, parts))


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
    """The kind of a witness's two numbers: measured, else a density where one is above 1."""
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
            ratio = large / small
            return f"{number(ratio)} as measured (log-ratio {number(math.log(ratio))})"
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
