"""``auditor account``: claims against proofs, and what noise of one's own spends; no simulation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.auditor.commands.ci_files import check_files, rendered, write_files
from fedrec_auditor.auditor.commands.options import AsJson
from fedrec_auditor.auditor.machine.output import tell

if TYPE_CHECKING:
    from fedrec_auditor.reports.rows import Finding, Row
    from fedrec_auditor.targets.systems.base import Population, Target

_MOST = 10**12
"""Most users, or items, of a population."""
_NUMBER = re.compile(r"\d+[a-z]?")
_NOISE = "noise of your own"
_CHOICES = ("target", "entry", "everything", "tables", "as_json")
_TAKES = {
    "a target": ("set", "users", "items", "jobs", "sarif", "junit"),
    "an entry": ("jobs", "sarif", "junit"),
    "--all": ("only", "markdown", "jobs", "sarif", "junit"),
    "--tables": ("jobs",),
}
"""What may be judged, and the options that go with it beside --json; all others with noise."""


def _option(text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar)


def _own(text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=_NOISE.capitalize())


def command(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A target (see `auditor list targets`), or a number of the catalogue, such as 22.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[bool, _option("The whole catalogue of claims.", "--all")] = False,
    entry: Annotated[
        str | None, _option("One entry of the catalogue in full, such as 22 or 2b.")
    ] = None,
    given: Annotated[
        list[str] | None,
        _option("A setting of the target; repeatable.", "--set", metavar="NAME=VALUE"),
    ] = None,
    users: Annotated[
        int | None,
        _option(
            "Users that take part; 943 if left out. With --sampling fixed those that a round "
            "draws from."
        ),
    ] = None,
    items: Annotated[int | None, _option("Items to choose from; 1,682 if left out.")] = None,
    tables: Annotated[
        bool, _option("The papers' tables of epsilons, entry by entry.", "--tables")
    ] = False,
    as_json: AsJson = False,
    only: Annotated[
        list[str] | None,
        _option(
            "With --all: entries with this verdict, such as violated or wrong; repeatable.",
            metavar="WORD",
        ),
    ] = None,
    markdown: Annotated[
        bool, _option("Print the catalogue as the page docs/claims.md.", "--markdown")
    ] = False,
    jobs: Annotated[int | None, _option("Worker processes for --all; one is quick enough.")] = None,
    sarif: Annotated[Path | None, _option("Write what was found for code scanning, too.")] = None,
    junit: Annotated[Path | None, _option("Write a test report, too.")] = None,
    gaussian: Annotated[
        str | None, _own("Gaussian noise on sums: deviation over clipping norm.", "z=NUMBER")
    ] = None,
    laplace: Annotated[
        str | None, _own("Laplace noise on sums: scale over L1 clipping norm.", "b=NUMBER")
    ] = None,
    randomized_response: Annotated[
        str | None,
        _own(
            "Local reports on k categories; or p=NUMBER, the chance of the true one.",
            "epsilon=NUMBER,k=2",
        ),
    ] = None,
    event: Annotated[
        Path | None,
        _own("An event of dp-accounting as JSON: its type and its fields.", "EVENT.json"),
    ] = None,
    rate: Annotated[float | None, _own("Share that a round draws; all if left out.")] = None,
    rounds: Annotated[int | None, _own("Rounds, or reports of one user; 1 if left out.")] = None,
    delta: Annotated[float | None, _own("Of every epsilon; 0 if left out.")] = None,
    sampling: Annotated[
        str | None,
        _own(
            "Each by itself, as if left out, or --rate times --users of --users.",
            "poisson|fixed",
        ),
    ] = None,
    unit: Annotated[
        str | None, _own("What is clipped, and so hidden: user, as if left out, or interaction.")
    ] = None,
    interactions_per_user: Annotated[
        int | None, _own("With --unit interaction: users of so many, too.")
    ] = None,
    adjacency: Annotated[
        str | None,
        _own(
            "The one that is meant: told first, and kept by --target-epsilon.",
            "add-remove|replace",
        ),
    ] = None,
    shuffle: Annotated[int | None, _own("Users whose local reports are shuffled.")] = None,
    target_epsilon: Annotated[
        float | None,
        _own(
            "Finds what is left out so that all rounds keep it: the noise (`--gaussian z`), "
            "--rounds, or --rate."
        ),
    ] = None,
) -> None:
    """Judge claims by what can be proved and exactly computed alone.

    Of one target in every scope, with any settings (sizes are those of MovieLens 100K unless
    given); of one entry of the catalogue, with its derivation; or of the whole catalogue. Or say
    what noise of your own spends, per round and in total. No data are read and nothing is
    simulated.
    """
    asked = {
        "set" if name == "given" else name: value
        for name, value in locals().items()
        if name not in _CHOICES and not (value is None or value is False or value == [])
    }
    if entry is None and target is not None and _NUMBER.fullmatch(target):
        target, entry = None, target
    judged = _judged(target, entry, everything, tables, asked)
    check_files(sarif, junit)
    if jobs is not None and jobs < 1:
        raise InputError(f"Expected jobs of at least 1, got jobs={jobs}. Leave it out.")
    if markdown and (as_json or only):
        raise InputError("Expected --markdown without --json and --only. Drop the others.")
    if judged == _NOISE:
        _spend(asked, as_json)
    elif judged == "--tables":
        _tables(target, as_json, jobs)
    elif target is None:
        _catalogue(entry, as_json, markdown, jobs, (sarif, junit), words(only or ()))
    else:
        _account(target, given or [], users, items, as_json, (sarif, junit))


def _judged(
    target: str | None, entry: str | None, everything: bool, tables: bool, asked: Iterable[str]
) -> str:
    """What is to be judged; InputError unless that is one thing, with what it takes."""
    named = {"a target": target is not None, "an entry": entry is not None, "--all": everything}
    judged = [name for name, is_named in named.items() if is_named]
    if tables:
        from fedrec_auditor.auditor.judging.catalogue import tabled

        if judged and target not in (systems := tabled()):
            raise InputError(
                f"Expected --tables alone or with {' or '.join(systems)}. Drop what else is asked."
            )
        judged = ["--tables"]
    takers = {name: [taker for taker, names in _TAKES.items() if name in names] for name in asked}
    if not judged and not all(takers.values()):
        judged = [_NOISE]
    if len(judged) != 1:
        raise InputError(
            f"Expected one of a target, a number of the catalogue and --all, got {len(judged)} of "
            "them. For example `auditor account fmf-ldp`, `auditor account 22`."
        )
    for name, others in takers.items():
        able = others + [_NOISE] * (name == "users" or not others)
        if judged[0] not in able:
            raise InputError(
                f"Expected --{name.replace('_', '-')} with {' or '.join(able)}, got {judged[0]}. "
                "Drop one of them."
            )
    return judged[0]


def words(given: Sequence[str]) -> list[Word]:
    """The words of judgement, in any case; InputError for another."""
    known: dict[str, Word] = {word.lower(): word for word in (*Verdict, *Arithmetic)}
    found = []
    for text in given:
        word = known.get(" ".join(re.split(r"[\s_-]+", text.strip().lower())))
        if word is None:
            choices = ", ".join(each.replace(" ", "-") for each in known)
            raise InputError(f"Expected --only among {choices}, got {text!r}. Choose one.")
        found.append(word)
    return found


def _spend(stated: dict[str, Any], as_json: bool) -> None:
    """What noise of one's own spends."""
    from fedrec_auditor.auditor.spending.spend import account
    from fedrec_auditor.reports.paragraph import columns

    _tell_left_out()
    if "event" in stated:
        try:
            stated["event"] = stated["event"].read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected a readable event in {stated['event']}, got: {error}. Give a JSON file."
            ) from error
    found = account(**stated)
    print(json.dumps(found.as_data(), indent=2) if as_json else found.describe(columns()))


def _account(
    name: str,
    given: list[str],
    users: int | None,
    items: int | None,
    as_json: bool,
    files: tuple[Path | None, Path | None],
) -> None:
    """A target's scoped claims, then its entries in the catalogue if its settings are its own."""
    from rich.console import Console

    from fedrec_auditor.auditor.judging import catalogue
    from fedrec_auditor.auditor.plan.overrides import overridden
    from fedrec_auditor.reports import catalogue_terminal, findings_terminal
    from fedrec_auditor.targets.systems.base import Population

    n_users, n_items = 943 if users is None else users, 1682 if items is None else items
    if min(n_users, n_items) < 2 or max(n_users, n_items) > _MOST:
        raise InputError(
            f"Expected 2 to {_MOST:,} users and items, got {n_users} and {n_items}. Give others."
        )
    system = overridden(name, given)
    population = Population(n_users=n_users, n_items=n_items)
    try:
        findings = _findings(system, population)
    except (ArithmeticError, MemoryError, RuntimeError) as error:
        raise InputError(
            f"Expected settings of {name} whose epsilon can be computed in doubles and in memory, "
            f"got {' '.join(given) or 'its own'} with {n_users} users and {n_items} items "
            f"({type(error).__name__}: {error}). Give less extreme ones."
        ) from error
    write_files(rendered(findings, *files))
    if as_json:
        print(_json(findings))
        return
    console = Console()
    findings_terminal.render_findings(findings, console)
    mine = [entry for entry in catalogue.entries() if entry.system[0] == name]
    if mine and not given and users is None and items is None:
        print()
        catalogue_terminal.render_catalogue(catalogue.judge(mine), console)


def _findings(system: Target, population: Population) -> tuple[Finding, ...]:
    """Every scoped claim of a target, evaluated."""
    from fedrec_auditor.auditor.judging import accounting

    _tell_left_out()
    exact = accounting.exact_bounds(system, population)
    accountants = accounting.all_accountants()
    return tuple(
        accounting.evaluate(system, scoped, population, exact=exact, accountants=accountants)
        for scoped in system.scoped_claims(population)
    )


def _tell_left_out() -> None:
    """The accountants of others that cannot be loaded."""
    from fedrec_auditor.auditor.plan.families import FAMILIES

    for line in FAMILIES["accountants"].left_out():
        tell(line)


def _catalogue(
    number: str | None,
    as_json: bool,
    markdown: bool,
    jobs: int | None,
    files: tuple[Path | None, Path | None],
    only: Sequence[Word],
) -> None:
    """The catalogue, or some of its entries in full; ``only`` says which of it are shown."""
    from rich.console import Console

    from fedrec_auditor.auditor.judging import catalogue
    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports import catalogue_markdown, catalogue_terminal
    from fedrec_auditor.reports.catalogue_words import right_words, stated_words
    from fedrec_auditor.reports.rows import CheckRow
    from fedrec_auditor.reports.words import number as said

    workers = make_resources(1 if jobs is None else jobs).jobs
    chosen = catalogue.entries() if number is None else catalogue.find(number)
    rows = catalogue.judge(chosen, jobs=workers)
    findings = [row.finding for row in rows if row.finding is not None]
    numbers = [
        CheckRow(
            target=row.target,
            check=f"{row.number}: {figure.what}",
            failed=figure.word is Arithmetic.WRONG,
            reason=f"{stated_words(figure, said)} by its statement, {right_words(figure, said)} "
            "computed here.",
        )
        for row in rows
        for figure in row.figures
    ]
    write_files(rendered(findings, *files, checks=numbers))
    if as_json:
        print(_json([row for row in rows if row.is_any_of(only)]))
    elif markdown:
        tables = catalogue.tables(jobs=make_resources(jobs).jobs)
        print(catalogue_markdown.render(rows, tables), end="")
    elif number is None:
        catalogue_terminal.render_catalogue(rows, Console(), only)
    else:
        for row in rows:
            catalogue_terminal.render_entry(row, Console())


def _tables(system: str | None, as_json: bool, jobs: int | None) -> None:
    """The printed tables of epsilons, of all systems or one."""
    from rich.console import Console

    from fedrec_auditor.auditor.judging import catalogue
    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports import catalogue_terminal

    tables = catalogue.tables(system, jobs=make_resources(jobs).jobs)
    if as_json:
        print(_json([row for table in tables for row in table.rows]))
    else:
        catalogue_terminal.render_tables(tables, Console())


def _json(rows: Sequence[Row]) -> str:
    """The rows as JSON, infinities as strings."""
    from fedrec_auditor.reports.store import plain

    return json.dumps([plain(row.model_dump(mode="python")) for row in rows], indent=2)
