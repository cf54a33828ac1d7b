"""Prints audit records, findings, the catalogue, sweeps and comparisons to a terminal or a log."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec_auditor.accountants import verdict
from fedrec_auditor.accountants.verdict import INCOMPLETE, Gate, LabelEnum, NumberLabel, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import catalogue, document, overview
from fedrec_auditor.reports.documents.drawing import AxisScale, make_axis
from fedrec_auditor.reports.documents.overview import EPSILON_SIGNS, EpsilonRow
from fedrec_auditor.reports.documents.report import build_claim_sections, build_system_document
from fedrec_auditor.reports.record import frontier
from fedrec_auditor.reports.record.comparison import Comparison, Trend
from fedrec_auditor.reports.record.leaks import Severity, find_advantages_by_attack
from fedrec_auditor.reports.record.rows import Contents, Finding
from fedrec_auditor.reports.record.sections import group_by_system, make_severity_key
from fedrec_auditor.reports.record.waivers import describe_waivers
from fedrec_auditor.reports.say.summary import Summary, describe_verdict_counts, summarize_systems
from fedrec_auditor.reports.writers.paragraph import (
    get_console_width,
    print_line,
    print_paragraph,
    print_paragraphs,
    print_text,
    wrap_paragraph,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fedrec_auditor.reports.record.record import GateOutcome

# Style in which a terminal prints each verdict; other verdicts have none.
_STYLES: dict[LabelEnum, str] = {
    Verdict.VIOLATED: "bold red",
    Verdict.UNSOUND: "bold magenta",
    Verdict.UNSUBSTANTIATED: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.INCOMPARABLE: "cyan",
    Verdict.NO_CLAIM: "cyan",
    NumberLabel.WRONG: "bold red",
    NumberLabel.UNSTATED: "cyan",
    NumberLabel.LOOSE: "yellow",
}
# Number of columns by which the blocks of a section are indented below its title.
BLOCK_INDENT = 2
# Minimum width of a fact's name in columns.
_LABEL_WIDTH = 16


def print_blocks(part: document.DocSection, console: Console, indent: int = 0) -> None:
    """Prints the blocks of a section one after another.

    A subsection that is only for the HTML page is printed as its title. A row of a table is printed
    as an item with the heads of its columns.
    """
    for place, block in enumerate(part.blocks):
        if isinstance(block, document.Paragraph):
            print_paragraph(console, block.text, indent=indent)
        elif isinstance(block, document.BulletList):
            print_paragraphs(console, block.texts, "-", indent=indent)
        elif isinstance(block, document.Facts):
            for name, said in block.rows:
                label = f"{f'{say.make_printable(name)}:':<{_LABEL_WIDTH}}"
                hang = min(_LABEL_WIDTH + 1, get_console_width(console) // 4)
                print_paragraph(console, str(said), label, indent=indent, hang=hang)
        elif isinstance(block, document.TableBlock):
            for first, *rest in block.rows:
                named = zip(block.column_heads[1:], rest, strict=True)
                cells = "; ".join(f"{head}: {cell}" for head, cell in named if cell)
                print_paragraph(console, f"{first}: {cells}", "-", indent=indent)
        elif isinstance(block, document.DocSection):
            if place and not block.is_html_only:
                console.print()
            print_section(block, console, indent)


def print_section(part: document.DocSection, console: Console, indent: int = 0) -> None:
    """Prints the title of a section, then its blocks.

    If the section is only for the HTML page, just the title is printed.
    """
    if part.is_html_only:
        print_paragraph(console, f"{part.heading}: see report.html.", indent=indent)
        return
    style = "bold" if part.colour_verdict is None else _STYLES.get(part.colour_verdict, "bold")
    print_paragraph(console, part.heading, indent=indent, style=style)
    print_blocks(part, console, indent + BLOCK_INDENT)


def print_sections(parts: Iterable[document.DocSection], console: Console) -> None:
    """Prints sections, with a blank line after each."""
    for part in parts:
        print_section(part, console)
        console.print()


def build_finding_sections(findings: Sequence[Finding]) -> Iterator[document.DocSection]:
    """Yields one section per system with its findings (judgements of claims), claim by claim."""
    for target in dict.fromkeys(finding.target for finding in findings):
        judged = [(finding, "") for finding in findings if finding.target == target]
        yield document.DocSection(target, tuple(build_claim_sections(judged, plain=True)))


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """Prints findings (judgements of claims) by system and claim, the most severe verdict first."""
    for part in build_finding_sections(sorted(findings, key=make_severity_key)):
        print_section(part, console)


def format_findings(findings: Sequence[Finding], width: int) -> str:
    """Returns the text of findings (judged claims) in this order, wrapped at ``width`` columns."""
    from rich.console import Console

    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        for part in build_finding_sections(findings):
            print_section(part, console)
    return captured.get().rstrip("\n")


# Names of the facts of an entry that the list of entries shows.
_BRIEF_FACTS = ("Claim", "Reading", "Claimed", "Derived", "Correct number")


def print_catalogue(
    rows: Sequence[catalogue.CatalogueRow], console: Console, only: Collection[LabelEnum] = ()
) -> None:
    """Prints the catalogue's entries paper by paper, in the order of their numbers, then counts.

    A terminal shows a few lines per entry, a log one line. With ``only``, entries without one of
    these labels are only counted.
    """
    selected = [row for row in rows if row.matches_labels(only)]
    if not console.is_terminal:
        for row in selected:
            label = say.CLAIM_LABEL_BY_BASIS[row.claim_basis]
            claimed = f"{row.statement} {label} {catalogue.format_claimed_formula(row)}"
            holds = f"correct {catalogue.format_provable(row)}; {catalogue.describe_labels(row)}"
            print_line(console, f"{row.number} {row.target}: {claimed}; {holds}")
    else:
        for title, group in groupby(selected, key=lambda row: row.paper.title):
            print_paragraph(console, title, style="bold")
            print_blocks(document.DocSection(title, tuple(map(_shorten_entry, group))), console, 2)
            console.print()
    texts = [catalogue.describe_label_counts(selected)] if selected else []
    if only:
        options = " --only ".join(word.option_value for word in only)
        hidden = catalogue.describe_label_counts([row for row in rows if row not in selected])
        texts.append(f"Hidden by --only {options}: {hidden or 'none.'}")
    if selected and console.is_terminal:
        texts.append(f"`auditor claims {selected[0].number}` prints an entry in full.")
    (print_paragraph if console.is_terminal else print_line)(console, " ".join(texts))


def _shorten_entry(row: catalogue.CatalogueRow) -> document.DocSection:
    whole = catalogue.build_entry_section(row)
    (facts,) = (block for block in whole.blocks if isinstance(block, document.Facts))
    rows = tuple(fact for fact in facts.rows if fact[0] in _BRIEF_FACTS)
    return document.DocSection(
        whole.title, (document.Facts(rows),), colour_verdict=whole.colour_verdict
    )


def print_sweep_tables(swept: frontier.SweepContents, console: Console) -> None:
    """Prints one table per system of a sweep, then the systems whose utility was not measured,
    and the errors.
    """
    from rich.table import Table
    from rich.text import Text

    for system in frontier.make_frontiers(swept):
        table = Table(title=Text(say.make_printable(system.target)), title_justify="left")
        wider = ("proved", "shown") if system.whole_user_scope else ()
        of_user = (f"user: {kind}" for kind in wider)
        head = ("Setting", system.axis_label, "Gain", *frontier.EPSILON_KINDS, *of_user)
        rows: list[tuple[str, ...]] = [head]
        for point in system.points:
            epsilons = [point.describe_epsilon(kind) for kind in frontier.EPSILON_KINDS]
            epsilons += [point.describe_epsilon(kind, for_whole_user=True) for kind in wider]
            rows.append((point.name, *map(_format_figure, (point.utility, point.gain)), *epsilons))
        heads, *texts = ([Text(say.make_printable(cell)) for cell in row] for row in rows)
        for text in heads:
            table.add_column(text, overflow="fold")
        for cells in texts:
            table.add_row(*cells)
        console.print(table)
        baselines = system.baseline_utilities
        notes = (
            f"Test of {system.axis_label}: {system.utility_protocol}",
            *(f"result of {x.name}: {frontier.format_baseline_utility(x)}" for x in baselines),
            f"gain: “{system.attack}” minus a guess" if system.attack else "no attack ran",
            f"scope of epsilon: {system.epsilon_scope}" if system.epsilon_scope else "",
        )
        console.print(Text(say.make_printable(say.join_texts(*notes, by="; ") + ".")))
    errors = (f"error: {error}" for error in swept.errors)
    for line in filter(None, (frontier.describe_missing_utility(swept), *errors)):
        console.print(Text(say.make_printable(line)))


def _format_figure(row: frontier.AllTrainingsRow | None) -> str:
    if row is None:
        return "-"
    value = say.format_short(row.value)
    if row.ci_low is None or row.ci_high is None:
        return f"{value} (from {row.trainings} trainings; other trainings failed)"
    return f"{value} [{say.format_short(row.ci_low)}, {say.format_short(row.ci_high)}]"


# Terminal style of each severity.
SEVERITY_STYLES = {
    Severity.CRITICAL: "bold red",
    Severity.HIGH: "red",
    Severity.MEDIUM: "yellow",
    Severity.NOT_ASSESSED: "yellow",
}
_TRENDS = {
    Trend.WORSE: ("Worse", "bold red"),
    Trend.BETTER: ("Better", "bold"),
    Trend.NEUTRAL: ("Changed, neither worse nor better", "bold"),
}
_INDENT = 4
# Number of columns of an attack's bar from guessing to certainty.
_BAR = 11
# Maximum width to which names of systems are padded.
_MAX_NAME = 20


def print_audit(record: Contents, console: Console) -> None:
    """Prints the summary of each system, the worst first, then notes and errors of the audit.

    Between them, a chart shows the bounds of all systems on one axis of epsilon.
    """
    print_line(console, format_title(record), style="bold")
    summaries = summarize_systems(record)
    _print_summaries(summaries, console)
    _print_overview(summaries, console)
    print_paragraph(console, describe_verdict_counts(record))
    unplayed = {section.target: len(section.attacks_not_run) for section in group_by_system(record)}
    if counts := ", ".join(f"{count} on {name}" for name, count in unplayed.items() if count):
        print_paragraph(console, f"Number of attacks that could not run: {counts}.")
    print_paragraphs(console, record.notes, "note:", "yellow")
    print_paragraphs(console, record.errors, "error:", "bold red")


def print_advantages(record: Contents, console: Console) -> None:
    """Prints a table of attacks and systems with the advantage of each attack over guessing.

    The advantage is a lower limit of the share of the gap between guessing and certainty that the
    attack closes.
    """
    from rich.table import Table
    from rich.text import Text

    table, rows = Table(box=None, padding=(0, 1, 0, 0)), find_advantages_by_attack(record)
    table.add_column("attack", no_wrap=True)
    for name in next(iter(rows.values()), ()):
        table.add_column(Text(say.make_printable(name)), overflow="fold", min_width=4)
    for attack, by_system in rows.items():
        table.add_row(Text(say.make_printable(attack)), *map(_format_share, by_system.values()))
    console.print(table)
    print_paragraph(
        console,
        "Share of the gap from guessing to certainty that the attack is shown to close: a lower "
        "limit, corrected for multiple testing in the system; 0% if no result is shown to beat "
        "guessing; - if the attack did not run, or has no result with a baseline.",
    )


def _format_share(share: float | None) -> str:
    if share is None:
        return "-"
    return "<1%" if 0.0 < share < 0.01 else f"{math.floor(100 * share)}%"


def print_system(record: Contents, glance: Summary, console: Console) -> None:
    """Prints the document of one system: verdict and advice, then claims, attacks and utility."""
    title = f"{glance.section.target}: {glance.assessment.severity_text}"
    print_line(console, title, style=SEVERITY_STYLES.get(glance.severity, "bold"))
    print_blocks(build_system_document(record, glance), console)


def print_outcome(
    record: Contents, outcome: GateOutcome, gate: Gate, file_lines: Iterable[str], directory: Path
) -> None:
    """Prints an audit, the outcome of its gate, and lines on the files and the worst system.

    outcome: outcome of the gate.
    gate: the rule for failing CI.
    file_lines: lines that name the written files.
    directory: directory of the run, for the command that shows the worst system in full.
    """
    from rich.console import Console

    console = Console()
    print_audit(record, console)
    print_gate(outcome, gate, console)
    print_paragraphs(console, describe_waivers(record, gate), "waiver:", "yellow")
    for line in file_lines:
        console.out(line, highlight=False)
    print_details_command(record, directory, console)


def print_gate(outcome: GateOutcome, gate: Gate, console: Console) -> None:
    """Prints the reasons for the exit code of a gate (the rule for failing CI).

    The reasons are leaks, systems that fail or were not assessed, and the comparison with an
    earlier audit (the baseline), if there is one.
    """
    if outcome.leak_text:
        print_paragraph(console, outcome.leak_text)
    failing = (each.severity_line for each in outcome.failing_systems)
    print_paragraphs(console, failing, "fails:", "bold red")
    unknown = verdict.Exemption.NOT_ASSESSED
    so = f". Exit code {INCOMPLETE}; --allow {unknown}" if outcome.exit_code == INCOMPLETE else ""
    so = ". Allowed" if gate.allows(unknown) else so
    unassessed = (line + so for line in outcome.unassessed_lines)
    print_paragraphs(console, unassessed, "not assessed:", "yellow")
    if (compared := outcome.comparison) is not None:
        print_paragraphs(console, compared.regressions, "worse:", "bold red")
        notes = (*compared.differences, *compared.incomparable)
        print_paragraphs(console, notes, "note:", "yellow")
        if not compared.regressions:
            print_line(console, f"Comparison with the baseline: {compared.conclusion}")


def print_comparison(compared: Comparison, console: Console) -> None:
    """Prints how two audits differ in plan, data and versions, then the changes of the results."""
    if compared.differences:
        print_line(console, "The audits differ, which may cause the changes below:", "yellow")
        print_paragraphs(console, compared.differences, "-", indent=2)
    else:
        print_line(console, "Both audits have the same plan, data and versions.")
    for trend, (head, style) in _TRENDS.items():
        lines = compared.list_changes(trend)
        if lines:
            console.print()
            print_line(console, f"{head} ({len(lines):,})", style)
        print_paragraphs(console, lines, "-", indent=2)
    console.print()
    print_paragraphs(console, compared.incomparable, "note:", "yellow")
    print_paragraphs(console, compared.unassessed, "not assessed:", "yellow")
    print_paragraph(console, compared.change_rules_text)
    print_line(console, compared.conclusion, "bold")


def print_details_command(record: Contents, directory: Path, console: Console) -> None:
    """Prints the command that shows the worst system in full; nothing if there are no systems."""
    worst = next(iter(summarize_systems(record)), None)
    if worst is not None:
        names = shlex.join((str(directory), worst.section.target))
        print_line(console, f"Details: auditor report {names}")


def format_title(record: Contents) -> str:
    """Formats the title of an audit: data, number of systems, quick or full, and duration."""
    data, timing = record.provenance.data, record.provenance.timing
    parts = (
        "PRIVACY AUDIT",
        "" if data is None else say.make_printable(data.name),
        say.format_count(len(group_by_system(record)), "system"),
        "quick" if record.plan.get("quick") is True else "full",
        say.format_duration(timing["wall"]) if "wall" in timing else "",
    )
    return "  ".join(filter(None, parts))


def _print_summaries(summaries: Sequence[Summary], console: Console) -> None:
    """Prints the summaries of systems: one head line each, with further lines below it."""
    from rich.cells import cell_len
    from rich.text import Text

    names = [say.make_printable(glance.section.target) for glance in summaries]
    width = get_console_width(console)
    room = min(max(map(cell_len, names), default=0), _MAX_NAME)
    levels = max((len(glance.assessment.severity_text) for glance in summaries), default=0)
    for glance, name in zip(summaries, names, strict=True):
        level = glance.assessment.severity_text
        start = f"{level:<{levels}}  {name}{' ' * (room - cell_len(name))} "
        text = Text(wrap_paragraph(glance.headline, width, label=start, hang=_INDENT))
        text.stylize(SEVERITY_STYLES.get(glance.severity, ""), 0, len(level))
        text.stylize("bold", levels + 2, levels + 2 + len(name))
        print_text(console, text)
        got, todo = say.capitalize_first(glance.attack_result), f"To do: {glance.advice}"
        texts = (glance.scope_phrase, got, glance.utility_shortfall, todo)
        print_paragraphs(console, filter(None, texts), "", indent=_INDENT)


def _print_overview(summaries: Sequence[Summary], console: Console) -> None:
    """Prints one axis of epsilon with a row of characters per system, and a bar per best attack."""
    from rich.cells import cell_len, set_cell_size

    rows = [overview.make_overview_row(glance) for glance in summaries]
    names = [say.make_printable(row.name) for row in rows]
    width, ends = get_console_width(console), overview.find_axis_exponents(rows)
    room = min(max(map(cell_len, ("epsilon", *names))), width // 3)
    length, scale = width - room - _BAR - 5, ""
    place = make_axis(*ends, 0.0, length - 1.0, log=True)
    for power in range(ends[0], ends[1] + 1):
        at, label = round(place(10.0**power)), f"{10.0**power:g}"
        if (not scale or at > len(scale)) and at + len(label) <= length:
            scale = f"{scale:<{at}}{label}"
    print_text(console, f"{'epsilon':<{room}} {scale:<{length}}│∞ best attack", "bold")
    for name, row in zip(names, rows, strict=True):
        track, bar = _draw_track(row, place, length), "█" * int(_BAR * row.attack_advantage)
        print_text(console, f"{set_cell_size(name, room)} {track} {bar}".rstrip())
        scope = row.finding and f"epsilon for {say.describe_judged_scope(row.finding)}"
        epsilons = say.join_texts(scope or "", row.epsilons_text, by=": ")
        print_paragraph(console, f"{epsilons}; best attack: {row.attack_text}", indent=_INDENT)
    print_paragraph(console, say.fill_text("caption", "track"))


def _draw_track(row: EpsilonRow, place: AxisScale, length: int) -> str:
    """Returns a row's marks on an axis of ``length`` columns, with a last column for infinity.

    Every mark has its own column, and marks have the order of their epsilons; equal epsilons have
    the order lower bound, claim, upper bound.
    """
    signed = zip(row.epsilon_marks, EPSILON_SIGNS, strict=True)
    known = [(mark.epsilon, sign) for mark, sign in signed if mark is not None]
    known.sort(key=lambda pair: float(f"{pair[0]:.8g}"))
    last = length - sum(epsilon < math.inf for epsilon, _ in known)
    columns: dict[str, int] = {}
    for number, (epsilon, sign) in enumerate(known):
        after = max(columns.values(), default=-1) + 1
        free = min(max(round(place(epsilon)), after), last + number)
        columns[sign] = length + 1 if math.isinf(epsilon) else free
    low, high = columns.get(EPSILON_SIGNS[0], 0), columns.get(EPSILON_SIGNS[2], length + 1)
    cells = ["━" if row.finding and low <= i <= high else "·" for i in range(length + 2)]
    for sign, column in columns.items():
        cells[column] = sign
    cells[length] = "│"
    return "".join(cells)
