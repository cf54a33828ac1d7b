"""Summary of an audit: one entry per system, the worst first, and counts over all systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Bound, Horizon, Unit, Vantage
from fedrec_auditor.accountants.verdict import (
    DEFAULT_LEAK_MARGIN,
    FailOn,
    Gate,
    Verdict,
    is_vacuous,
    refutes,
)
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import (
    DISTINGUISHER,
    MIN_ADVANTAGE_FOR_CRITICAL,
    MIN_ADVANTAGE_FOR_HIGH,
    Leak,
    Severity,
    SeverityAssessment,
    assess_leak,
    assess_severity,
    describe_max_gain,
    find_max_advantage,
    list_lower_bounds,
    list_rows_with_baseline,
    rank_leaks,
)
from fedrec_auditor.reports.record.rows import Contents, Finding
from fedrec_auditor.reports.record.sections import Section, assign_html_ids, group_by_system
from fedrec_auditor.reports.say import metrics
from fedrec_auditor.reports.say.next_step import advise

_FIRST = (Verdict.UNSOUND, Verdict.VIOLATED)
# Families of attacks, the most harmful to a person first; unknown families precede the last.
_FAMILIES = (
    "reconstruction",
    "attribute inference",
    "membership inference",
    "user-level membership inference",
    "linkage",
    DISTINGUISHER,
)


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of one system: verdict, result of the attacks, and advice.

    section: all rows of the audit's record on the system.
    html_id: address (HTML id) of the system's section in the report.
    n_results: number of the system's attack results (values of metrics) that have a baseline, a
        guess without the uploads; all comparisons are corrected for this number.
    leaks: results whose advantage over the baseline is at least ``Gate.leak_margin``, the most
        harmful first.
    small_leaks: results that beat the baseline with a smaller advantage.
    max_gain_text: clause on the largest gain (result minus baseline) that the confidence
        intervals allow.
    """

    section: Section
    html_id: str
    n_results: int
    leaks: tuple[Leak, ...]
    small_leaks: tuple[Leak, ...]
    max_gain_text: str

    @property
    def assessment(self) -> SeverityAssessment:
        """Severity of the system, with the parts that were not assessed."""
        return assess_severity(self.section, self.leaks)

    @property
    def severity(self) -> Severity:
        """Severity of the system by the assessed parts; the true severity may be worse."""
        return self.assessment.severity

    @property
    def leak_assessment(self) -> SeverityAssessment:
        """Severity of the leak (what attacks learn from messages), with the parts not assessed."""
        return assess_leak(self.section, self.leaks)

    @property
    def unassessed_line(self) -> str:
        """Line with the parts of the system that were not assessed, with the reason."""
        gap = self.assessment.unassessed_text or self.leak_assessment.unassessed_text
        return f"{self.section.target}: {gap}"

    @property
    def gap_and_attack_line(self) -> str:
        """Line of the form "Not assessed: SYSTEM: MISSING PARTS; RESULT OF THE ATTACKS"."""
        return f"Not assessed: {self.unassessed_line}; {self.attack_result}"

    @property
    def verdict(self) -> str:
        """Label of the verdict on the claim, such as "false".

        The label is "none" without a claim, and "not judged" if no claim was judged.
        """
        finding = self.section.headline_finding
        if finding is None:
            return "not judged"
        if finding.verdict is Verdict.NO_CLAIM:
            return "none"
        flag = say.label_vacuous_claim(finding) if finding.verdict is Verdict.CONSISTENT else ""
        return say.join_texts(finding.verdict.label, flag)

    @property
    def claim_phrase(self) -> str:
        """A phrase with the claimed epsilon, and its bounds with confidence and assumptions.

        Empty if no claim is made, or if none was judged.
        """
        finding = self.section.headline_finding
        if finding is None or finding.verdict is Verdict.NO_CLAIM:
            return ""
        proof, refuted = finding.accounted, finding.verdict is Verdict.VIOLATED
        how = f"proved {say.describe_assumptions(proof)}".strip()
        lower, proved = "", "" if refuted else "no proved upper bound"
        if proof is not None and math.isfinite(proof.epsilon):
            proved = f"at most {say.format_proved_epsilon(finding)} ({how})"
        bound, claim, basis = finding.lower_bound, finding.claim.epsilon, finding.claim.basis
        if bound is not None:
            text, sure = say.format_shown_epsilon(finding), say.describe_confidence(bound)
            times = bound.epsilon / claim if refuted and claim else math.inf
            more = f"{say.format_floor(times)} times the claim; " if math.isfinite(times) else ""
            lower = f"{_format_limit(bound, text)} ({more}{sure})"
            if proved == f"at most {text} ({how})":
                lower, proved = f"{text} ({more}{sure} and {how})", ""
        claimed = f"{say.CLAIM_LABEL_BY_BASIS[basis]} epsilon: at most {say.format_short(claim)}"
        bounds = say.join_texts(lower, proved, by=" and ")
        return say.join_texts(claimed, bounds and f"epsilon by this audit: {bounds}", by="; ")

    @property
    def scope_phrase(self) -> str:
        """A phrase with the scope in which the claim was judged; empty without a claim."""
        finding = self.section.headline_finding
        if finding is None or not self.claim_phrase:
            return ""
        return f"for {say.describe_judged_scope(finding)}"

    @property
    def verdict_sentences(self) -> str:
        """Sentences on the verdict, with the claimed epsilon, its bounds, and their scope."""
        finding = self.section.headline_finding
        if finding is None:
            return "No claim was judged."
        claim = say.capitalize_first(say.join_texts(self.claim_phrase, self.scope_phrase))
        verdict = say.PHRASES["sentence"][finding.verdict]
        little = say.PHRASES["note"]["vacuous"] if finding.vacuous else ""
        texts = (verdict, claim, little, say.capitalize_first(self.largest_bound_text))
        return f"{say.join_texts(*texts, by='. ')}."

    @property
    def headline(self) -> str:
        """Verdict on the claim, with its bounds or the largest lower bound, in few words."""
        bounds = self.claim_phrase or self.largest_bound_text
        return say.join_texts(f"claim: {self.verdict}", bounds, by="; ")

    @property
    def attack_result(self) -> str:
        """Clause on the result of the attacks, with a warning if most messages are unusable."""
        return say.join_texts(self._main_result, self._other_results, self.message_warning, by="; ")

    @property
    def attack_details(self) -> str:
        """Text with ``attack_result``, and with the most harmful result and its interval."""
        texts = (self.attack_result, say.capitalize_first(self.best_attack_text))
        return say.capitalize_first(say.join_texts(*texts, by=". "))

    @property
    def message_warning(self) -> str:
        """Warning if most messages of the training are empty or unusable; otherwise empty."""
        counts = self.section.message_counts
        if counts is None or 2 * counts.n_unusable <= counts.sent:
            return ""
        is_harmed = self.section.utility and not metrics.beats_guessing(self.section.utility)
        harmed = "the training broke down: " if is_harmed else ""
        return f"{harmed}{counts.n_unusable:,} of {counts.sent:,} messages are empty or unusable"

    @property
    def utility_shortfall(self) -> str:
        """Text on the simple method that the system's utility does not beat.

        This is guessing or, if the utility beats guessing, the baseline. The text is empty if the
        utility beats both.
        """
        return say.capitalize_first(metrics.describe_utility_shortfall(self.section))

    @property
    def _main_result(self) -> str:
        if self.leaks:
            return metrics.describe_result(self.leaks[0].row)
        if not self.n_results:
            none = "no attack has a result that can be compared with guessing"
            return none if self.section.attacks else "no attack ran"
        lost, tried = len(self.section.attacks_not_run), say.format_count(self.n_results, "result")
        basis = say.join_texts(
            f"{len(self.small_leaks)} of {tried} beat guessing" if self.small_leaks else tried,
            f"{say.format_count(lost, 'attack')} could not run" if lost else "",
            self.max_gain_text,
            by="; ",
        )
        tested = "the system was hardly tested; " if self.leak_assessment.unassessed_text else ""
        if not self.small_leaks:
            return f"{tested}no attack is shown to beat guessing ({basis})"
        won = metrics.describe_result(self.small_leaks[0].row)
        return f"{tested}attacks learn little more than a guess: {won} ({basis})"

    @property
    def _other_results(self) -> str:
        """Clause on further quantities that attacks infer better than guessing; may be empty."""
        others = [*dict.fromkeys(metrics.describe_secret(leak.row) for leak in self.leaks)][1:]
        return f"attacks also infer {_join_words(others)} better than guessing" if others else ""

    @property
    def best_attack_text(self) -> str:
        """Text on the most harmful result that beats guessing: attack, metric and interval.

        The text is empty if no result beats guessing.
        """
        for leak in (*self.leaks, *self.small_leaks):
            row, gain = leak.row, leak.row.gain
            above = (
                "" if gain is None else f", {metrics.describe_interval(gain)} above the best guess"
            )
            sure = say.to_percent(row.confidence)
            at = f"{sure} confidence, {metrics.describe_trainings([row]).removeprefix('in ')}"
            metric = f"attack “{row.attack}”: “{row.metric}” is"
            return f"{metric} {metrics.describe_interval(row)}{above} ({at})"
        return ""

    @property
    def largest_bound_text(self) -> str:
        """Clause on the largest lower bound of epsilon, over all scopes.

        The clause is empty if ``claim_phrase`` states this bound or an equally large one already.
        """
        return _describe_bound(self._unquoted_bound)

    @property
    def advice(self) -> str:
        """Advice on the system in sentences: first the problems, then the remedies."""
        high = [x.row for x in self.leaks if x.advantage >= MIN_ADVANTAGE_FOR_HIGH]
        much = [row for row in high if row.family != DISTINGUISHER]
        alarms, objects = [], _join_words([*dict.fromkeys(map(metrics.describe_secret, much))])
        if find_max_advantage(self.leaks) >= MIN_ADVANTAGE_FOR_CRITICAL:
            alarms.append(f"Do not deploy the system as it is: attacks reveal {objects}.")
        elif much:
            alarms.append(f"Do not rely on epsilon alone: attacks partly reveal {objects}.")
        if self.message_warning:
            why = self.message_warning
            alarms.append(f"Train the system again before you quote a result ({why}).")
        gap = self.leak_assessment.unassessed_text
        return advise(self.section, leaks=bool(self.leaks), alarms=alarms, gap=gap)

    @property
    def log_line(self) -> str:
        """Severity, claim, attack results, utility and advice of the system on one line."""
        phrase = say.join_texts(self.claim_phrase, self.scope_phrase)
        claim = say.join_texts(f"claim: {self.verdict}", phrase, by="; ")
        results, todo = f"{claim}. {self.attack_details}.", f"To do: {self.advice}"
        text = say.join_texts(results, self.utility_shortfall, todo, by=" ")
        return f"{self.section.target}: {self.assessment.severity_text}; {text}"

    @property
    def severity_line(self) -> str:
        """Line with the system's severity, the verdict on its claim, the result of the attacks and
        the largest lower bound of epsilon.
        """
        leak = f"leak: {self.leak_assessment.severity_text.lower()}"
        severity = f"{self.assessment.severity_text}; claim: {self.verdict}; {leak}"
        shown = _describe_bound(_max_lower_bound(self.section))
        texts = say.join_texts(severity, self.attack_result, shown, by="; ")
        return f"{self.section.target}: {texts}"

    @property
    def _unquoted_bound(self) -> Bound | None:
        """Largest lower bound in any scope; None if the headline finding has one as large."""
        finding = self.section.headline_finding
        quoted = finding.lower_bound if finding is not None and self.claim_phrase else None
        bound = _max_lower_bound(self.section)
        return None if bound and quoted and bound.epsilon <= quoted.epsilon else bound


def summarize_systems(record: Contents, margin: float = DEFAULT_LEAK_MARGIN) -> tuple[Summary, ...]:
    """Returns one summary per system, the most severe system first.

    Equally severe systems are ordered: first contradictions (verdict UNSOUND), then refuted
    claims, then the size of the largest leak. ``margin`` is the minimum advantage over guessing of
    a leak.
    """
    tried, beating = list_rows_with_baseline(record), rank_leaks(record, margin)
    places = assign_html_ids(record)
    summaries = []
    for section in group_by_system(record):
        rows = [row for row in tried if row.target == section.target]
        above = sorted((x for x in beating if x.row.target == section.target), key=_make_harm_key)
        leaks = tuple(leak for leak in above if not leak.is_small)
        little = tuple(leak for leak in above if leak.is_small)
        page = places[section.target].section_id
        summaries.append(Summary(section, page, len(rows), leaks, little, describe_max_gain(rows)))
    return tuple(sorted(summaries, key=_make_order_key))


def select_by_gate(record: Contents, gate: Gate) -> tuple[tuple[Summary, ...], tuple[Summary, ...]]:
    """Returns the systems whose leak or severity fails ``gate``, and those that it cannot judge.

    A gate is the rule for failing CI. A system that would pass cannot be judged if parts of it were
    not assessed. Both results are empty for a gate on verdicts.
    """
    worst = Severity.MEDIUM
    if gate.fail_on in (FailOn.CRITICAL, FailOn.HIGH, FailOn.MEDIUM):
        worst = Severity[gate.fail_on.name]
    elif gate.fail_on is not FailOn.LEAK:
        return (), ()
    outcomes: dict[bool | None, list[Summary]] = {True: [], None: [], False: []}
    for glance in summarize_systems(record, gate.leak_margin):
        assessment = glance.leak_assessment if gate.fail_on is FailOn.LEAK else glance.assessment
        outcomes[assessment.is_at_least(worst)].append(glance)
    return tuple(outcomes[True]), tuple(outcomes[None])


def describe_verdict_counts(record: Contents) -> str:
    """Returns a sentence with the numbers of systems by the worst verdict on their claims."""
    findings = [each.headline_finding for each in group_by_system(record)]
    counts = Counter(finding and finding.verdict for finding in findings)
    texts = [f"{counts[each]} “{each.label}”" for each in Verdict if counts[each]]
    texts += [f"{counts[None]} “not judged”"] if counts[None] else []
    return f"Verdicts on the systems' claims: {', '.join(texts) or 'none'}."


def describe_user_hiding(record: Contents) -> str:
    """Returns a sentence with the number of systems that provably hide a user from the server.

    For such a system, an epsilon below 6.9 is proved for all data of the user over the whole
    training. A guess at one bit of the data is then right less than 99.9% of the time.
    """
    parts = group_by_system(record)
    count = sum(any(map(_hides_user, section.findings)) for section in parts)
    systems = say.format_count(len(parts), "system")
    some = f"{count or 'None'} of {systems} {'has' if count < 2 else 'have'}"
    return f"{some} a proof that training hides all data of a user from the server (epsilon < 6.9)."


def _hides_user(finding: Finding) -> bool:
    """Whether a proof without assumptions keeps guesses at a user's bit below 99.9% right."""
    # The proof must be for a whole user over the training, against the server.
    scope, proof = finding.scope, finding.accounted
    asked = (scope.unit, scope.vantage, scope.horizon)
    if asked != (Unit.USER, Vantage.SERVER, Horizon.TRAINING) or finding.game:
        return False
    if proof is None or proof.assumptions:
        return False
    refuted = finding.lower_bound is not None and refutes(finding.lower_bound, proof)
    return not refuted and not is_vacuous(proof)


def _make_order_key(glance: Summary) -> tuple[int, int, float, float]:
    finding = glance.section.headline_finding
    tier = _FIRST.index(finding.verdict) if finding and finding.verdict in _FIRST else len(_FIRST)
    bound = _max_lower_bound(glance.section)
    shown = 0.0 if bound is None else bound.epsilon
    return glance.severity.rank, tier, -find_max_advantage(glance.leaks), -shown


def _max_lower_bound(section: Section) -> Bound | None:
    """Returns the largest lower bound of a system's epsilon in any scope; None without one."""
    return max(list_lower_bounds(section), key=lambda bound: bound.epsilon, default=None)


def _make_harm_key(leak: Leak) -> tuple[bool, int, int, float]:
    """Returns the sort key of a leak: the most harmful first, and distinguishers last."""
    # Advantages are compared by their step (critical, high), then families of attacks by their
    # harm, then advantages exactly. A distinguisher guesses which of two worst-case inputs was
    # sent.
    family = leak.row.family
    place = _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES) - 1
    step = sum(leak.advantage >= x for x in (MIN_ADVANTAGE_FOR_CRITICAL, MIN_ADVANTAGE_FOR_HIGH))
    return family == DISTINGUISHER, -step, place, -leak.advantage


def _format_limit(shown: Bound, words: str) -> str:
    return "infinite" if math.isinf(shown.epsilon) else f"at least {words}"


def _join_words(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _format_scope(bound: Bound) -> str:
    return f"for {say.UNIT_TEXTS[bound.scope.unit]}, {say.ADVERSARY_PHRASES[bound.scope.vantage]}"


def _describe_bound(bound: Bound | None) -> str:
    if bound is None:
        return ""
    shown = f"{say.describe_lower_bound(bound.epsilon)} ({say.describe_confidence(bound)})"
    return f"epsilon is {shown} {_format_scope(bound)}"
