"""Command ``auditor claims``: judges papers' privacy claims by proofs and exact bounds.

Nothing is simulated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import LabelEnum, NumberLabel, Verdict
from fedrec_auditor.auditor.commands.ci_files import check_writable, render_ci_files, write_ci_files
from fedrec_auditor.auditor.commands.options import (
    JsonOption,
    JunitOption,
    SarifOption,
    make_enum_option,
)
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import amend_plan, make_target

if TYPE_CHECKING:
    from fedrec_auditor.reports.documents.catalogue import CatalogueRow
    from fedrec_auditor.reports.record.rows import CheckRow, Finding, Row

# Maximum number of users, and of items.
_MAX_SIZE = 10**12
_NUMBER = re.compile(r"\d+[a-z]?")
_FILE_OPTIONS = ("sarif", "junit")
# Options that each subject of the command allows, besides --json and --jobs.
_ALLOWED_OPTIONS: dict[str, tuple[str, ...]] = {
    "a target": ("set", "users", "items", *_FILE_OPTIONS),
    "a number": _FILE_OPTIONS,
    "--paper": ("only", *_FILE_OPTIONS),
    "--all": ("only", "markdown", *_FILE_OPTIONS),
    "--tables": (),
}


SubjectArgument = Annotated[
    str | None,
    Argument(
        metavar="[NUMBER | TARGET]",
        help="Number of an entry in the catalogue, such as 22, or target (`auditor list targets`).",
    ),
]
AllOption = Annotated[bool, Option("--all", help="Judge the whole catalogue.")]
PaperOption = Annotated[
    str | None, Option(help="Judge the entries of one paper (`auditor list papers`).")
]
TablesOption = Annotated[
    bool, Option("--tables", help="Judge the papers' tables of epsilons, entry by entry.")
]
SettingsOption = Annotated[
    list[str] | None,
    Option("--set", metavar="[TARGET.]NAME=VALUE", help="Setting of the target. Repeatable."),
]
UsersOption = Annotated[int | None, Option(help="Number of users. Default 943.")]
ItemsOption = Annotated[int | None, Option(help="Number of items. Default 1682.")]
OnlyOption = Annotated[
    list[Any] | None,  # typer before 0.29 would look for members of LabelEnum
    make_enum_option(
        "Show only entries with this verdict, such as false or wrong. Repeatable.",
        Verdict,
        NumberLabel,
    ),
]
MarkdownOption = Annotated[
    bool, Option("--markdown", help="Print the catalogue as Markdown (docs/claims.md).")
]
JobsOption = Annotated[int | None, Option(help="Number of processes. One is usually enough.")]


def command(
    subject: SubjectArgument = None,
    everything: AllOption = False,
    paper: PaperOption = None,
    tables: TablesOption = False,
    given: SettingsOption = None,
    users: UsersOption = None,
    items: ItemsOption = None,
    only: OnlyOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    jobs: JobsOption = None,
    sarif: SarifOption = None,
    junit: JunitOption = None,
) -> None:
    """Judge the papers' privacy claims by proofs and exact computation only.

    Judges one of these:

    - one entry of the catalogue (with its derivation), all entries of a paper, or all entries;
    - all claims of one target with any settings, by default for the size of MovieLens 100K;
    - the epsilons in tables of papers (--tables).

    No data are read and nothing is simulated.
    """
    numbered = subject is not None and bool(_NUMBER.fullmatch(subject))
    target = None if numbered or tables else subject
    named = {
        "a target": target is not None,
        "a number": numbered,
        "--paper": paper is not None,
        "--all": everything,
        "--tables": tables,
    }
    options: dict[str, Any] = {"set": given, "users": users, "items": items, "only": only}
    options |= {"markdown": markdown or None, "sarif": sarif, "junit": junit}
    _check_options(
        [name for name, is_named in named.items() if is_named],
        [name for name, value in options.items() if value not in (None, [])],
    )
    check_writable(sarif, junit)
    if markdown and (as_json or only):
        also = "--json" if as_json else "--only"
        raise InputError(f"Expected --markdown alone, got also {also}. Leave {also} out.")
    words = only or ()

    from fedrec_auditor.reports.record.store import to_json

    show = not as_json
    rows: Sequence[Row]
    if target is not None:
        rows = findings = _judge_target(target, given or [], users, items)
        write_ci_files(render_ci_files(findings, sarif, junit))
        if show:
            usual = not given and users is None and items is None
            _show_findings(target, findings, with_entries=usual)
    elif tables:
        rows = _judge_tables(subject, _count_workers(jobs), show=show)
    else:
        judged = _judge_entries(subject, paper, 1 if jobs is None else _count_workers(jobs))
        findings = tuple(row.finding for row in judged if row.finding is not None)
        write_ci_files(render_ci_files(findings, sarif, junit, checks=_list_checks(judged)))
        rows = [row for row in judged if row.matches_labels(words)]
        if markdown:
            _print_page(judged, _count_workers(jobs))
        elif show:
            _show_rows(judged, words, in_full=subject is not None)
    if as_json:
        print(json.dumps([to_json(row.model_dump(mode="python")) for row in rows], indent=2))


def _count_workers(jobs: int | None) -> int:
    """Returns the number of worker processes for the value of --jobs."""
    from fedrec_auditor.auditor.run.resources import make_resources

    return make_resources(jobs).jobs


def _judge_entries(number: str | None, paper: str | None, jobs: int) -> Sequence[CatalogueRow]:
    """Judges claims of the papers' catalogue: one by its number, those of a paper, or all."""
    from fedrec_auditor.auditor.judging import catalogue

    if paper is not None:
        FAMILIES["papers"].check_name(paper)
    chosen = catalogue.list_entries(paper) if number is None else catalogue.find_entries(number)
    return catalogue.judge_entries(chosen, jobs=jobs)


def _print_page(judged: Sequence[CatalogueRow], jobs: int) -> None:
    """Prints the catalogue of claims as the page docs/claims.md."""
    from fedrec_auditor.auditor.judging import catalogue
    from fedrec_auditor.reports.documents.catalogue import build_catalogue_document
    from fedrec_auditor.reports.writers.markdown import format_document

    document = build_catalogue_document(judged, catalogue.make_epsilon_tables(jobs=jobs))
    print(format_document(document), end="")


def _show_rows(rows: Sequence[CatalogueRow], words: Sequence[LabelEnum], *, in_full: bool) -> None:
    """Prints claims of the catalogue: each with its derivation, or a table of those with these
    verdicts.

    ``words`` are the verdicts to print; ``in_full`` selects derivations.
    """
    from rich.console import Console

    from fedrec_auditor.reports.documents.catalogue import build_entry_section
    from fedrec_auditor.reports.writers.terminal import print_catalogue, print_sections

    if in_full:
        print_sections(map(build_entry_section, rows), Console())
    else:
        print_catalogue(rows, Console(), words)


def _judge_tables(paper: str | None, jobs: int, *, show: bool) -> list[Row]:
    """Judges the papers' tables of epsilons; returns their rows, and prints tables if ``show``."""
    from rich.console import Console

    from fedrec_auditor.auditor.judging import catalogue
    from fedrec_auditor.reports.documents.catalogue import build_table_section
    from fedrec_auditor.reports.writers.terminal import print_sections

    printed = catalogue.make_epsilon_tables(paper, jobs=jobs)
    if show:
        print_sections(map(build_table_section, printed), Console())
    return [row for table in printed for row in table.rows]


def _show_findings(target: str, findings: Sequence[Finding], *, with_entries: bool) -> None:
    """Prints the verdicts on a target, and the catalogue's claims on it if ``with_entries``."""
    from rich.console import Console

    from fedrec_auditor.auditor.judging import catalogue
    from fedrec_auditor.reports.writers.terminal import print_catalogue, print_findings

    console = Console()
    print_findings(findings, console)
    entries = [entry for entry in catalogue.list_entries() if entry.system[0] == target]
    if entries and with_entries:
        print()
        print_catalogue(catalogue.judge_entries(entries), console)


def _check_options(judged: Sequence[str], given: Sequence[str]) -> None:
    """Raises InputError unless exactly one subject is given, and every given option fits the
    subject.

    ``judged`` names the given subjects (such as a target or --paper), ``given`` the options.
    """
    if len(judged) != 1:
        raise InputError(
            f"Expected exactly one of {', '.join(_ALLOWED_OPTIONS)}, got {len(judged)}. Write, for "
            "example, `auditor claims 22` or `auditor claims fmf-ldp`."
        )
    for name in given:
        able = [kind for kind, names in _ALLOWED_OPTIONS.items() if name in names]
        if judged[0] not in able:
            raise InputError(
                f"Expected {' or '.join(able)} with --{name}, got {judged[0]}. Omit --{name}."
            )


def _judge_target(
    name: str, given: list[str], users: int | None, items: int | None
) -> tuple[Finding, ...]:
    """Judges every claim of the target ``name`` in every scope, with the ``given`` settings.

    ``users`` and ``items`` are the numbers of the population; the default is MovieLens 100K.
    """
    if name in set(FAMILIES["papers"].list_names()) - set(FAMILIES["targets"].list_names()):
        raise InputError(f"Expected a target, got the paper {name}. Use --paper {name}.")
    FAMILIES["targets"].check_name(name)
    settings = amend_plan(None, {"targets": name, "settings": given})

    from fedrec_auditor.auditor.judging import accounting
    from fedrec_auditor.targets.systems.base import Population

    n_users, n_items = 943 if users is None else users, 1682 if items is None else items
    if min(n_users, n_items) < 2 or max(n_users, n_items) > _MAX_SIZE:
        raise InputError(
            f"Expected --users and --items from 2 to {_MAX_SIZE:,}, got {n_users} and {n_items}. "
            "Give numbers in this range."
        )
    system = make_target(name, settings)
    population = Population(n_users=n_users, n_items=n_items)
    try:
        return accounting.judge_claims(system, population)[1]
    except (ArithmeticError, MemoryError, RuntimeError) as error:
        raise InputError(
            f"Expected settings of {name} whose epsilon can be computed in floating point, got "
            f"{' '.join(given) or 'its defaults'}, for {n_users} users and {n_items} items "
            f"({type(error).__name__}: {error}). Give less extreme values."
        ) from error


def _list_checks(rows: Sequence[CatalogueRow]) -> list[CheckRow]:
    """Returns the numbers that catalogue entries state as checks for CI files.

    A check fails if the number is wrong.
    """
    from fedrec_auditor.reports.documents import catalogue
    from fedrec_auditor.reports.record.rows import CheckRow
    from fedrec_auditor.reports.say import format_number

    return [
        CheckRow(
            target=row.target,
            check=f"{row.number}: {figure.what}",
            failed=figure.word is NumberLabel.WRONG,
            reason=f"{catalogue.format_stated_number(figure, format_number)} "
            f"{catalogue.describe_origin(row)}, "
            f"{catalogue.format_computed_value(figure, format_number)} computed here.",
        )
        for row in rows
        for figure in row.figures
    ]
