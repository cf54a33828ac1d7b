"""Attack results that beat guessing without the uploads, and the severity of a system.

The advantage of an attack is (lower limit - baseline) / (1 - baseline), with the lower confidence
limit of its result. By default, a result with an advantage of at least .05 counts as a leak. A
smaller one is marked ``is_small``.

The severity of a system follows from its rows in the record, by a rule with a version number
(docs/reading-a-report.md).
"""

# The results of one system are tested together by Holm's procedure (1979): the probability that any
# of them seems to beat guessing by chance is at most (1 - confidence) / 2, whatever else the audit
# contains. The reported lower limits hold for all results of the system together, by Bonferroni's
# correction.
#
# The record has the interval of each result, but not its sample. Limits at other confidences, and
# thus the test, are therefore computed for a share of as many subjects as would give this interval
# (the exact limits of Clopper and Pearson 1934, with the effective sample size of Korn and Graubard
# 1998).

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants import verdict
from fedrec_auditor.accountants.statements import Bound, compute_guess_probability
from fedrec_auditor.accountants.verdict import DEFAULT_LEAK_MARGIN, VACUOUS_GUESS_PROB, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding, SkippedRow
from fedrec_auditor.reports.record.sections import Section, group_by_system
from fedrec_auditor.reports.say.metrics import describe_trainings

# Smallest and largest effective sample size.
_SIZES = (1e-9, 1e9)


@dataclass(frozen=True, slots=True)
class Leak:
    """An attack result (value of a metric) that is better than a guess without the uploads.

    row: row of the record with the result.
    baseline: value of the metric that a guess without the uploads reaches.
    gain_lower_limit: lower confidence limit of the result minus the baseline, corrected for
        multiple testing: the limits of all results of the system hold together at the row's
        confidence.
    n_results: number of results of the system that have a baseline.
    is_small: whether the result does not count as a leak, because its advantage over the baseline
        is too small (by default below .05).
    """

    row: AttackRow
    baseline: float
    gain_lower_limit: float
    n_results: int
    is_small: bool = False

    @property
    def advantage(self) -> float:
        """Advantage of the attack: ``gain_lower_limit`` / (1 - ``baseline``), at most 1.

        This is a lower limit of the share of the gap between guessing and certainty that the attack
        closes.
        """
        room = 1.0 - self.baseline
        return min(self.gain_lower_limit / room, 1.0) if room > 0.0 else 1.0

    @property
    def clause(self) -> str:
        """Clause that describes the attack result and its baseline, without the system's name."""
        row = self.row
        return (
            f"attack “{row.attack}” ({row.vantage}) reaches “{row.metric}” = "
            f"{say.format_short(row.value)}, at least {say.format_floor(self.gain_lower_limit)} "
            f"above a guess without the uploads ({say.format_short(self.baseline)}), at "
            f"{say.to_percent(row.confidence)} confidence ({describe_trainings([row])}, corrected "
            f"for {self.n_results:,} results of the system)"
        )


def list_rows_with_baseline(record: Contents | Section) -> tuple[AttackRow, ...]:
    """Lists the attack rows that have a baseline, and whose metric is in [-1, 1] (1 is best)."""
    return tuple(
        row
        for row in record.attacks
        if row.baseline is not None
        and all(-1.0 <= x <= 1.0 + 1e-9 for x in (row.value, row.ci_low, row.ci_high, row.baseline))
    )


def rank_leaks(record: Contents, margin: float = DEFAULT_LEAK_MARGIN) -> tuple[Leak, ...]:
    """Returns all attack results that beat guessing, however little, the largest advantage first.

    A result whose advantage is below ``margin`` is marked ``is_small``.
    """
    tried = list_rows_with_baseline(record)
    beating = [
        leak
        for target in dict.fromkeys(row.target for row in tried)
        for leak in _iter_leaks([row for row in tried if row.target == target], margin)
    ]
    return tuple(sorted(beating, key=lambda leak: -leak.advantage))


def find_advantages_by_attack(record: Contents) -> dict[str, dict[str, float | None]]:
    """Returns the largest advantage over guessing by attack and system, as nested dictionaries.

    The advantage is 0 if no result of the attack beats guessing, and None if no result has a
    baseline.
    """
    rows: tuple[AttackRow | SkippedRow, ...] = (*record.attacks, *record.skipped)
    systems, games = dict.fromkeys(row.target for row in rows), record.plan.get("games", ())
    attacks = dict.fromkeys(row.attack for row in rows if row.attack not in games)
    table = {attack: dict[str, float | None].fromkeys(systems) for attack in attacks}
    for row in list_rows_with_baseline(record):
        table[row.attack][row.target] = 0.0
    for leak in reversed(rank_leaks(record)):
        table[leak.row.attack][leak.row.target] = leak.advantage
    return table


def find_leaks(record: Contents, margin: float = DEFAULT_LEAK_MARGIN) -> tuple[Leak, ...]:
    """Returns the attack results with an advantage of at least ``margin``, the largest first.

    The advantage is a lower limit of the share of the gap between guessing and certainty that the
    attack closes.
    """
    return tuple(leak for leak in rank_leaks(record, margin) if not leak.is_small)


def _iter_leaks(rows: Sequence[AttackRow], margin: float) -> Iterator[Leak]:
    """Yields the attack results among the ``rows`` of one system that beat guessing."""
    beating, much = _reject_by_holm(rows, 0.0), _reject_by_holm(rows, margin)
    for row in rows:
        if id(row) in beating:
            baseline, little = row.baseline or 0.0, id(row) not in much
            tested = 0.0 if little else margin * (1.0 - baseline)
            figure = _Figure.from_gain(row)
            low = max(figure.widen_low(len(rows)) - figure.guessed, tested)
            yield Leak(row, baseline, low, len(rows), little)


def _reject_by_holm(rows: Sequence[AttackRow], margin: float) -> set[int]:
    """Returns the ``id`` of each row that is shown to exceed ``margin``, by Holm's procedure."""
    rejected: set[int] = set()
    tested = sorted(((_p_value(row, margin), row) for row in rows), key=lambda pair: pair[0])
    for remaining, (p_value, row) in zip(range(len(rows), 0, -1), tested, strict=True):
        if p_value > (1.0 - row.confidence) / 2 / remaining:
            break
        rejected.add(id(row))
    return rejected


def _p_value(row: AttackRow, margin: float) -> float:
    """Returns the p-value of a row if the true advantage over guessing is ``margin``.

    This is the probability of a value at least as good as the row's.
    """
    figure = _Figure.from_gain(row)
    return figure.p_value(figure.guessed + margin * (1.0 - (row.baseline or 0.0)))


def widen_ci_low(row: AttackRow, n_rows: int) -> float:
    """Returns the lower confidence limit of an attack's metric, corrected for ``n_rows`` tests.

    The limit is lowered so that ``n_rows`` such limits hold together at the row's confidence.
    """
    return _Figure.from_row(row).widen_low(n_rows)


def widen_ci_high(row: AttackRow, n_rows: int) -> float:
    """Returns the upper confidence limit of an attack's metric, corrected for ``n_rows`` tests.

    The limit is raised so that ``n_rows`` such limits hold together at the row's confidence.
    """
    return _Figure.from_row(row).widen_high(n_rows)


@dataclass(frozen=True, slots=True)
class _Figure:
    """Value of a metric in [``minimum``, 1] with its confidence limits.

    value, low, high: the value and its limits.
    guessed: value that a guess without the uploads reaches.
    minimum: smallest possible value.
    failing: probability with which each limit fails.
    """

    value: float
    low: float
    high: float
    guessed: float
    minimum: float
    failing: float

    @classmethod
    def from_row(cls, row: AttackRow) -> _Figure:
        """Returns the metric of an attack row, with its limits and its baseline."""
        guessed = row.baseline or 0.0
        minimum = -1.0 if min(row.value, row.ci_low, guessed) < 0.0 else 0.0
        return cls(row.value, row.ci_low, row.ci_high, guessed, minimum, (1.0 - row.confidence) / 2)

    @classmethod
    def from_gain(cls, row: AttackRow) -> _Figure:
        """Returns the row's gain over its baseline if that is stored, else the row's metric."""
        if row.gain is None:
            return cls.from_row(row)
        gain, failing = row.gain, (1.0 - row.confidence) / 2
        return cls(gain.value, gain.ci_low, gain.ci_high, 0.0, -1.0, failing)

    def p_value(self, bar: float) -> float:
        """Returns the probability of a value at least as large if the true value is ``bar``.

        The value is treated as a binomial share.
        """
        value, low, bar = map(self._to_share, (self.value, self.low, bar))
        if value <= bar:
            return 1.0
        size = _effective_size(value, low, self.failing)
        if math.isinf(size):
            return 0.0
        from scipy.special import betainc

        return float(betainc(value * size, (1.0 - value) * size + 1.0, max(bar, 0.0)))

    def widen_low(self, n_rows: int) -> float:
        value, low = self._to_share(self.value), self._to_share(self.low)
        return self._to_figure(_widen_limit(value, low, self.failing, n_rows))

    def widen_high(self, n_rows: int) -> float:
        value, high = self._to_share(self.value), self._to_share(self.high)
        return self._to_figure(1.0 - _widen_limit(1.0 - value, 1.0 - high, self.failing, n_rows))

    def _to_share(self, figure: float) -> float:
        return min((figure - self.minimum) / (1.0 - self.minimum), 1.0)

    def _to_figure(self, share: float) -> float:
        return self.minimum + share * (1.0 - self.minimum)


def _widen_limit(value: float, low: float, failing: float, n_rows: int) -> float:
    """Returns the lower limit of a share at error ``failing / n_rows`` from that at ``failing``."""
    if n_rows <= 1 or low >= value or failing <= 0.0:
        return min(low, value)
    return min(low, _exact_limit(value, _effective_size(value, low, failing), failing / n_rows))


def _exact_limit(value: float, size: float, failing: float) -> float:
    """Returns the exact lower limit of a share ``value`` of ``size`` subjects."""
    # ``failing`` is the probability with which the limit fails.
    from scipy.special import betaincinv

    return float(betaincinv(value * size, (1.0 - value) * size + 1.0, failing))


@functools.lru_cache(maxsize=4096)
def _effective_size(value: float, low: float, failing: float) -> float:
    """Returns the number of subjects for which a share ``value`` has the lower limit ``low``."""
    # ``failing`` is the probability with which the limit fails.
    if low >= value or failing <= 0.0:
        return math.inf
    smaller, larger = map(math.log, _SIZES)
    for _ in range(60):
        middle = 0.5 * (smaller + larger)
        if _exact_limit(value, math.exp(middle), failing) < low:
            smaller = middle
        else:
            larger = middle
    return math.exp(smaller)


def describe_max_gain(rows: Sequence[AttackRow], n_tests: int | None = None) -> str:
    """Returns a clause on the largest gain over guessing that the confidence intervals allow.

    rows: attack results. The gain of a row is the upper limit of its interval minus its baseline.
    n_tests: number of tests for which the limits are corrected (multiple testing); by default the
        number of rows.
    """
    count = len(rows) if n_tests is None else n_tests
    figures = map(_Figure.from_gain, rows)
    gain = max((each.widen_high(count) - each.guessed for each in figures), default=0.0)
    verb = f"allow results up to {say.format_ceil(gain)} above guessing"
    verb = verb if gain > 0.0 else "exclude that these attacks beat guessing"
    return f"the confidence intervals {verb}; other attacks may do better"


def describe_leaks(record: Contents, margin: float) -> str:
    """Returns sentences on the worst leak and the number of leaks.

    A leak is an attack result whose advantage over guessing is at least ``margin``. If there is no
    leak, the sentences say so and name the attacks that ran.
    """
    tried, above = list_rows_with_baseline(record), rank_leaks(record, margin)
    leaking = [leak for leak in above if not leak.is_small]
    by = f"{say.to_percent(margin)} or more of the gap between guessing and certainty"
    less = len(above) - len(leaking)
    little = f" {say.format_count(less, 'result')} beat guessing by less." if less else ""
    if not leaking:
        names = ", ".join(dict.fromkeys(row.attack for row in tried)) or "none"
        lost = [
            f" Attacks that could not run on {each.target}: {', '.join(each.attacks_not_run)}."
            for each in group_by_system(record)
            if each.attacks_not_run
        ]
        return (
            f"No leak is shown: none of {len(tried):,} comparable results of attacks closes {by}."
            f"{little} Attacks that ran: {names}.{''.join(lost)}"
        )
    worst = leaking[0]
    return (
        f"The worst leak is in {worst.row.target}: {worst.clause}. In total, {len(leaking):,} of "
        f"{len(tried):,} results close {by}.{little}"
    )


# Version of the rule by which severities are assigned; it grows if the rule changes.
SEVERITY_RULE_VERSION = 4
# Minimum advantages of an attack with which a leak has severity critical, or high.
MIN_ADVANTAGE_FOR_CRITICAL, MIN_ADVANTAGE_FOR_HIGH = 0.5, 0.2
# Minimum success rate of guesses at one bit, by the lower bound of epsilon, with which a leak has
# severity medium.
MIN_GUESS_RATE_FOR_MEDIUM = 0.9
DISTINGUISHER = "distinguisher"
"""Family of attacks that guess which of two worst-case inputs was sent.

Such an attack alone makes a leak at most medium: the lower bound of epsilon states its success."""


class Severity(StrEnum):
    """Severity of a system, of its claim, or of its leak; members are ordered, the worst first.

    The advantage of an attack is the share of the gap between guessing and certainty that it
    closes.

    CRITICAL: the audit contradicts itself; an advantage is at least 0.5; or a claim is refuted
        while the leak is HIGH.
    HIGH: a claim is refuted; an advantage is at least 0.2; or the lower bound of epsilon is at
        least 6.91.
    MEDIUM: a leak has a smaller advantage; a lower bound of epsilon is at least 2.2; a claim is
        vacuous, unproved or not tested; or neither a claim nor a proof gives an epsilon below 6.91.
    NOT_ASSESSED: the examined parts are harmless, but some parts were not assessed.
    LOW: everything was assessed, and nothing of the above applies.
    """

    CRITICAL = "Critical"
    HIGH = "High"
    MEDIUM = "Medium"
    NOT_ASSESSED = "Not assessed"
    LOW = "Low"

    @property
    def rank(self) -> int:
        """Position in the order of severities; 0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class SeverityAssessment:
    """Severity by the examined parts of a system, with the parts that were not assessed.

    known_severity: severity that follows from the examined parts.
    unassessed_parts: parts that were not assessed, and why; empty if everything was assessed.
    """

    known_severity: Severity
    unassessed_parts: str = ""

    @property
    def unassessed_text(self) -> str:
        """Text on the parts of the system that were not assessed; empty if the severity is critical
        already.
        """
        return "" if self.known_severity is Severity.CRITICAL else self.unassessed_parts

    @property
    def severity(self) -> Severity:
        """The ``known_severity``, but NOT_ASSESSED instead of LOW if parts of the system were not
        assessed.
        """
        unknown = self.unassessed_text and self.known_severity is Severity.LOW
        return Severity.NOT_ASSESSED if unknown else self.known_severity

    @property
    def severity_text(self) -> str:
        """Text of ``severity``, followed by "or worse" if parts of the system that were not
        assessed may be worse.
        """
        worse = self.unassessed_text and self.severity is self.known_severity
        return f"{self.severity}{' or worse' if worse else ''}"

    def is_at_least(self, threshold: Severity) -> bool | None:
        """Whether the severity is ``threshold`` or worse; None if that is unknown.

        The answer is unknown if the examined parts are less severe, but some parts were not
        assessed.
        """
        if self.known_severity.rank <= threshold.rank:
            return True
        return None if self.unassessed_text else False


def assess_severity(section: Section, leaks: Sequence[Leak]) -> SeverityAssessment:
    """Assesses the severity of a system: the worse of the severities of its claim and its leak.

    A refuted claim with a leak of severity high is critical. ``leaks`` are the system's attack
    results whose advantage over guessing is at least ``Gate.leak_margin``.
    """
    finding = section.headline_finding
    claim, leak = assess_claim(finding), assess_leak(section, leaks)
    gaps = [leak.unassessed_text]
    if finding is not None and claim is None:
        gaps.insert(0, "claim (not judged in the scope that it states)")
    level = min(leak.known_severity, claim or leak.known_severity, key=lambda each: each.rank)
    if section.violated and leak.known_severity.rank <= Severity.HIGH.rank:
        level = Severity.CRITICAL
    return SeverityAssessment(level, say.join_texts(*gaps, by="; "))


def assess_claim(finding: Finding | None) -> Severity | None:
    """Assesses the severity that follows from the verdict on a claim.

    ``finding``: the judged claim, or the judgement of a system without a claim.

    None without a finding, or if the claim is about another scope (verdict INCOMPARABLE).
    """
    if finding is None or finding.verdict is Verdict.INCOMPARABLE:
        return None
    if finding.verdict is Verdict.UNSOUND:
        return Severity.CRITICAL
    if finding.verdict is Verdict.VIOLATED:
        return Severity.HIGH
    if finding.verdict is Verdict.NO_CLAIM:
        proof = finding.accounted
        return Severity.MEDIUM if proof is None or verdict.is_vacuous(proof) else Severity.LOW
    open_ = finding.verdict in (Verdict.UNSUBSTANTIATED, Verdict.INCONCLUSIVE)
    return Severity.MEDIUM if open_ or finding.vacuous else Severity.LOW


def assess_leak(section: Section, leaks: Sequence[Leak]) -> SeverityAssessment:
    """Assesses the severity of a system's leak: the knowledge that attacks gain from its messages.

    The leak counts as not assessed in two cases, which ``unassessed_parts`` states:

    - More than half of the messages are empty or unusable.
    - At least as many attacks could not run as were compared with guessing. Attacks that guess
      which of two worst-case inputs was sent do not count as compared.
    """
    shown = [bound.epsilon for bound in list_lower_bounds(section)]
    won = find_max_advantage(leaks)
    guessed = compute_guess_probability(max(shown, default=0.0))
    if won >= MIN_ADVANTAGE_FOR_CRITICAL:
        level = Severity.CRITICAL
    elif won >= MIN_ADVANTAGE_FOR_HIGH or guessed >= VACUOUS_GUESS_PROB:
        level = Severity.HIGH
    else:
        level = Severity.MEDIUM if leaks or guessed >= MIN_GUESS_RATE_FOR_MEDIUM else Severity.LOW
    why = _explain_gap(section)
    return SeverityAssessment(level, f"leak ({why})" if why else "")


def _explain_gap(section: Section) -> str:
    """Returns the reason why the attacks that ran cannot exclude a leak; "" if they suffice."""
    counts, unplayed = section.message_counts, len(section.attacks_not_run)
    if counts is not None and 2 * counts.n_unusable > counts.sent:
        return f"{counts.n_unusable:,} of {counts.sent:,} messages reveal nothing"
    rows = list_rows_with_baseline(section)
    if len({r.attack for r in rows if r.family != DISTINGUISHER}) > unplayed:
        return ""
    run = dict.fromkeys(row.attack for row in section.attacks)
    if unplayed:
        return f"{unplayed} of {unplayed + len(run)} attacks could not run here"
    return f"only {', '.join(run)} ran" if run else "no attack ran"


def find_max_advantage(leaks: Sequence[Leak]) -> float:
    """Returns the largest advantage over guessing among ``leaks``; 0 if there is none.

    Attacks that guess which of two worst-case inputs was sent are left out.
    """
    return max((x.advantage for x in leaks if x.row.family != DISTINGUISHER), default=0.0)


def list_lower_bounds(section: Section) -> tuple[Bound, ...]:
    """Returns the lower bounds of epsilon of one system that hold without assumptions."""
    quoted = [finding.lower_bound for finding in section.findings]
    others = [other.bound for other in section.other_bounds if not other.bound.assumptions]
    return tuple(bound for bound in (*quoted, *others) if bound is not None)
