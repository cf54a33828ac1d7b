"""A paper as data: one folder with TOML files that declare its systems, claims and printed
numbers.
"""

from __future__ import annotations

import functools
import importlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import cycle
from typing import Any, TypeVar

from pydantic import ValidationError, model_validator

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Basis, Scope
from fedrec_auditor.targets.declarations import CLAIMS_FILE, PRINTED_FILE, SYSTEMS_FILE
from fedrec_auditor.targets.declarations.entry import (
    ComputedNumber,
    FormulaValues,
    NameOrNames,
    PaperEntry,
    TomlTable,
)
from fedrec_auditor.targets.systems.base import (
    Claimant,
    Population,
    ReportedMetric,
    ScopedClaim,
    UtilityTest,
)

# Value of a system's setting in a TOML file.
SettingValue = bool | int | float | str


class PrintedTable(TomlTable):
    """Numbers printed in one table or diagram of a paper.

    place: name of the table in the paper, such as "Table 1"
    data: name of the table's data set
    columns: name of each column, such as "HR@2"
    rows: numbers of each row, by the row's name
    systems: this project's names of the systems in a row, by the row's name; by default the row's
        name in lower case
    protocol: evaluation protocol, if the columns are utility metrics; a report prints their numbers
        next to measured values
    note: conditions under which the paper measured utility
    beside: texts that are appended to ``note`` for single rows, by the row's name
    attribute: attacked user attribute, if the columns are F1 scores of attacks. A column "AIA 0.1"
        is for the attacker AIA, who knows the attribute of a tenth of the users

    >>> table = PrintedTable(place="Table 1", columns=["HR@2"], rows={"FMF-LDP": [0.2]})
    >>> table.get_system_names("FMF-LDP"), table.get_row("FMF-LDP")
    (('fmf-ldp',), {'HR@2': 0.2})
    """

    place: str
    data: str = ""
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    systems: Mapping[str, NameOrNames] = {}
    protocol: str = ""
    note: str = ""
    beside: Mapping[str, str] = {}
    attribute: str = ""

    @model_validator(mode="after")
    def _check_widths(self) -> PrintedTable:
        for name, row in self.rows.items():
            if len(row) != len(self.columns):
                at = f"{self.place}, row {name!r}"
                raise ValueError(f"{at}: expected {len(self.columns)} numbers, got {len(row)}")
        return self

    def get_system_names(self, row: str) -> tuple[str, ...]:
        """Returns this project's names of the systems to which the paper's row ``row`` applies.

        A row may apply to several systems. The first is the one that this project measures.
        """
        return self.systems.get(row, (row.lower(),))

    def get_row(self, name: str) -> dict[str, float]:
        """Returns the numbers of the row ``name`` by column; an empty dictionary without this row.

        If the table has a column RMSE, its square is added as MSE.
        """
        numbers = dict(zip(self.columns, self.rows.get(name, ()), strict=False))
        return {**numbers, "MSE": numbers["RMSE"] ** 2} if "RMSE" in numbers else numbers


class PrintedEpsilons(TomlTable):
    """Tables of epsilons in a paper, which are compared with bounds computed here.

    entries: name of the function, in the paper's module ``numbers``, that returns one object per
        epsilon in the tables
    system: name of the system in the output
    title: title of the comparison
    note: text below the title on how the bounds were computed
    """

    # An object of the function has these attributes: ``table`` (its number), ``clients`` (per
    # round), ``n_users``, ``delta``, ``printed`` (the paper's epsilon), ``counted`` (epsilon by the
    # authors' accounting), ``lower`` and ``upper`` (bounds of the true epsilon).
    entries: str
    system: str
    title: str
    note: str = ""


class RetrainedRows(TomlTable):
    """Rows of a paper's utility table that are measured again, by training their systems.

    place: name of the table, such as "Table 2"
    rows: names of the rows
    system: name of the trained system; by default the system of the row
    method: name of the recommendation method in the result; by default the row's name
    data: names of this program's data sets on which the system is trained
    settings: settings of the trained system, by name
    min_rating: ratings below this value are left out of the data
    items: number of items that are drawn from the items with at least 60 interactions; 0 means all
        items
    said: note in the result on why the measured and the printed numbers differ
    """

    place: str
    rows: NameOrNames
    system: str = ""
    method: str = ""
    data: NameOrNames = ("ml-100k",)
    settings: Mapping[str, SettingValue] = {}
    min_rating: float = 0.0
    items: int = 0
    said: str = ""


class AttackRows(TomlTable):
    """Rows of a paper's tables of attacks that are measured again.

    Each system is trained once per data set, for all attacks.

    rows: names of the rows
    data: names of this program's data sets on which the systems are trained
    settings: settings of the trained systems, by name
    said: note in the result on why the measured and the printed numbers differ
    """

    rows: NameOrNames
    data: NameOrNames
    settings: Mapping[str, SettingValue] = {}
    said: str = ""


class ComponentAttackFigure(TomlTable):
    """Diagram in a paper of attacks that use a single part of the uploads, such as the item table.

    place: name of the diagram in the paper, such as "Figure 5"
    rows: names of the attacked systems, as in the rows of the paper's tables
    attributes: user attributes that are attacked
    columns: name of each attacker and the share of users that it knows, such as "AIA 0.1"
    """

    place: str = ""
    rows: NameOrNames = ()
    attributes: NameOrNames = ()
    columns: NameOrNames = ()


class AttackTables(TomlTable):
    """A paper's tables of attacks that are measured again here.

    attackers: name of the attack in this program, by the attacker's name in the tables
    cutoff: length K of the lists for the hit rate HR@K, which is measured on the same trainings
    drawn: name of the diagram in which the paper draws this hit rate; "" if a table states it
    components: the paper's diagram of attacks that use a single part of the uploads
    trained: rows of the tables that are measured again, by training their systems
    """

    attackers: Mapping[str, str]
    cutoff: int
    drawn: str = ""
    components: ComponentAttackFigure = ComponentAttackFigure()
    trained: tuple[AttackRows, ...]


class ReportedRanking(TomlTable):
    """A ranking of systems that a paper states, to be compared with the ranking measured here.

    place: section or table of the paper that states the ranking
    metric: metric by which the systems are ranked
    rows: names of the ranked systems (rows of the paper's tables), from the best to the worst. If
        empty, the numbers in the table ``place`` give the ranking
    data: name of this program's data set on which the systems are compared here
    """

    place: str
    metric: str
    rows: tuple[str, ...] = ()
    data: str = "ml-100k"


class SystemDeclaration(TomlTable):
    """Declaration of a system without code of its own: a ``FederatedSystem`` with a paper's
    settings.

    type: name of the Python class that is created for the system
    summary: description in one line, for a list of systems
    doc: further description
    place: section of the paper on the system and its privacy promise
    basis: origin of the promised epsilon, such as printed by the authors
    unprotected: name of the system without protection; "" if there is none
    settings: settings of ``FederatedSystem``, by name. The learner, the protection and the route of
        uploads to the server are given by their names, or by tables of a name and settings
    """

    type: str
    summary: str
    doc: str = ""
    place: str
    basis: Basis = Basis.PRINTED
    unprotected: str = ""
    settings: Mapping[str, SettingValue | Mapping[str, SettingValue]] = {}


class SystemsFile(TomlTable):
    """Content of ``systems.toml``: a paper's systems that are composed of existing parts.

    evaluation: the paper's protocol for measuring utility
    system: the systems, by name, one per table ``[system.NAME]`` of the file
    """

    evaluation: UtilityTest = UtilityTest()
    system: Mapping[str, SystemDeclaration] = {}


class ThreatModel(TomlTable):
    """Threat model of all statements of a paper: its adversary and its trusted parties.

    place: place in the paper from which the threat model is taken
    adversary: the party against whom the paper promises privacy, and its abilities
    trusted: parties that are assumed to follow the protocol
    """

    place: str
    adversary: str
    trusted: str


class PaperHeading(TomlTable):
    """Heading of ``claims.toml``: the paper's citation, threat model and symbols.

    title: short citation of the paper
    code: repository and commit of the released code, if the statements are about it; "" if they are
        about the paper. The code is never run
    threat: the threat model
    symbols: meaning of each symbol in formulas, by symbol
    """

    title: str
    code: str = ""
    threat: ThreatModel
    symbols: Mapping[str, str]


class ClaimsFile(TomlTable):
    """Content of ``claims.toml``, the paper's statements about privacy.

    paper: the paper's citation, threat model and symbols
    claim: the statements, one per table ``[[claim]]`` of the file
    """

    paper: PaperHeading
    claim: tuple[PaperEntry, ...]


class PrintedNumbers(TomlTable):
    """Content of ``printed.toml``: a paper's printed numbers, some of which are measured again.

    table: the printed tables, one per table ``[[table]]`` of the file
    trained: rows of utility tables that are measured again, by training their systems
    attacks: tables of attacks that are measured again; None if there are none
    epsilons: tables of epsilons that are computed again; None if there are none
    order: the rankings of systems that the paper states
    remark: sentences about all measured rows
    absent: descriptions of the printed numbers that are not measured again, with the reasons
    """

    table: tuple[PrintedTable, ...] = ()
    trained: tuple[RetrainedRows, ...] = ()
    attacks: AttackTables | None = None
    epsilons: PrintedEpsilons | None = None
    order: tuple[ReportedRanking, ...] = ()
    remark: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def is_remeasured(self) -> bool:
        """Whether this project measures or computes some of the printed numbers again."""
        return bool(self.trained or self.attacks or self.epsilons)


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's systems, statements and numbers, read from the TOML files of a Python package.

    package: dotted name of the package
    heading: the paper's citation, threat model and symbols
    entries: the paper's statements, most of them about privacy (``claims.toml``)
    printed_numbers: the paper's printed tables and rankings (``printed.toml``)
    declared_systems: the paper's systems that are composed of existing parts (``systems.toml``)

    >>> paper = Paper.load("fedrec_auditor.targets.papers.dplcf")
    >>> paper.name, paper.heading.title
    ('dplcf', 'Gao, Huang, Lin, Jin, Li: DPLCF, SIGIR 2020')
    """

    package: str
    heading: PaperHeading
    entries: tuple[PaperEntry, ...]
    printed_numbers: PrintedNumbers
    declared_systems: SystemsFile

    @staticmethod
    def load(package: str) -> Paper:
        """Reads the TOML files of a paper in a Python package; InputError if a file is invalid."""
        return _read_paper(package)

    @property
    def name(self) -> str:
        """Name of the paper on the command line: the last part of the package's name."""
        return self.package.rpartition(".")[2].replace("_", "-")

    def get_entry(self, name: str) -> PaperEntry:
        """Returns the statement whose number (such as "22b") or name is ``name``.

        Raises InputError if there is none.
        """
        for entry in self.entries:
            if name in (entry.number, entry.name):
                return entry
        got = f"{name!r}. Correct {CLAIMS_FILE}."
        raise InputError(f"Expected a number or name of an entry of {self.name}, got {got}")

    def find_table(self, place: str) -> PrintedTable:
        """Returns the first printed table with the name ``place``; InputError if there is none."""
        for table in self.printed_numbers.table:
            if table.place == place:
                return table
        raise InputError(f"Expected a table of {self.name}, got {place!r}. Correct {PRINTED_FILE}.")

    def get_entry_scope(self, entry: PaperEntry) -> Scope | None:
        """Returns the scope (unit, adjacency, adversary's view, period) for judging a statement.

        A statement without a scope has the scope of the statement that it repeats. None if the
        statement is not about an epsilon.
        """
        repeated = self.get_entry(entry.repeats).scope if entry.repeats else None
        return entry.scope or repeated

    def get_claims(
        self, name: str, system: Claimant, population: Population
    ) -> tuple[ScopedClaim, ...]:
        """Returns the paper's claims on the epsilon of the system ``name``, in the order of
        ``claims.toml``.

        system: the system with its settings
        population: numbers of users and items, on which an epsilon may depend

        Each claim has the scope (unit, adjacency, adversary's view, period) and the delta at which
        an audit compares it.
        """
        words, title = FormulaValues(system, population), self.heading.title
        return tuple(
            entry.rescope_claim(stating.make_claim(title, words, entry.delta), words, stating)
            for entry in self.entries
            if entry.applies_to(name, system) and (stating := self._find_entry(entry, name, system))
        )

    def get_claim(self, entry: PaperEntry, system: Claimant, population: Population) -> ScopedClaim:
        """Returns the claim that ``entry`` makes about its first system, with the scope in which it
        is judged.

        The first of these sources that exists gives the claim:

        - the entry named by ``entry.repeats``, if it has an epsilon; the scope is then that entry's
        - ``entry`` itself, if it states an epsilon
        - the first entry in ``entry.of`` that is about the system
        - the claim of ``system`` in the scope and at the delta of ``entry``

        Raises InputError if there is no such claim of ``system``, or if there are several.
        """
        scoped = self._scope(entry, system, population)
        claim = scoped.claim
        # The basis (printed, computed or derived) is that of ``entry`` if ``entry`` states an
        # epsilon, or if the claim's own scope covers that of ``entry``; else the claim's own.
        speaks = entry.epsilon is not None or claim.scope.covers(scoped.scope)
        return replace(scoped, claim=replace(claim, basis=entry.basis)) if speaks else scoped

    def _scope(self, entry: PaperEntry, system: Claimant, population: Population) -> ScopedClaim:
        if entry.repeats and self._has_epsilon(self.get_entry(entry.repeats)):
            return self._scope(self.get_entry(entry.repeats), system, population)
        words = FormulaValues(system, population)
        if stating := self._find_entry(entry, entry.system[0], system):
            claim = stating.make_claim(self.heading.title, words, entry.delta)
            return entry.rescope_claim(claim, words, stating)
        delta = None if entry.delta is None else words.evaluate(entry.delta)
        claims = (each for each in system.get_claims(population) if each.scope == entry.scope)
        matching = [each for each in claims if delta is None or each.delta == delta]
        if len(matching) != 1:
            raise InputError(
                f"Expected one claim of {system.name} in the scope [{entry.scope}] of entry "
                f"{entry.number}, got {len(matching)}. Give the entry an epsilon in {CLAIMS_FILE}."
            )
        return matching[0]

    def fill_statement(self, entry: PaperEntry, system: Claimant, population: Population) -> str:
        """Returns the text of a statement, with each name in braces replaced by its value."""
        words = FormulaValues(system, population)
        if entry.epsilon is None:
            return words.fill_text(entry.statement)
        return entry.make_claim(self.heading.title, words).statement

    def _has_epsilon(self, entry: PaperEntry) -> bool:
        return entry.epsilon is not None or bool(entry.of)

    def _find_entry(self, entry: PaperEntry, name: str, system: Claimant) -> PaperEntry | None:
        """Returns the entry that states the epsilon which ``entry`` claims; None without one."""
        if entry.epsilon is not None:
            return entry
        others = map(self.get_entry, entry.of)
        return next((other for other in others if other.applies_to(name, system)), None)

    def compute_numbers(self, entry: PaperEntry) -> tuple[ComputedNumber, ...]:
        """Returns the numbers of a statement, each with the paper's value and the right value.

        Empty if the statement has no numbers. ``entry.numbers`` are repeated if there are more
        computed numbers. Raises InputError if the last repetition would be incomplete.
        """
        if not entry.computed:  # as for released code: the right values are in claims.toml
            stated = (number for number in entry.numbers if isinstance(number, ComputedNumber))
            return tuple(each.model_copy(update={"basis": entry.basis}) for each in stated)
        pairs = tuple(self._call_numbers(entry.computed))
        if len(pairs) % max(1, len(entry.numbers)) or (pairs and not entry.numbers):
            raise InputError(
                f"Expected {len(pairs)} descriptions of numbers in entry {entry.number}, or a "
                f"count that divides {len(pairs)}, got {len(entry.numbers)}. Correct {CLAIMS_FILE}."
            )
        described = zip(cycle(entry.numbers), pairs)
        return tuple(one.fill_in(pair, entry.basis) for one, pair in described)

    def compute_epsilon_rows(self) -> tuple[Any, ...]:
        """Returns the epsilons in the paper's printed tables, each with bounds of the true epsilon.

        ``PrintedEpsilons`` lists the attributes of an element. The result is empty if the paper has
        no such table.
        """
        declared = self.printed_numbers.epsilons
        return () if declared is None else tuple(self._call_numbers(declared.entries))

    def _call_numbers(self, name: str) -> Iterable[Any]:
        """Calls the function ``name`` in the paper's module ``numbers``, and returns its result."""
        made: Iterable[Any] = getattr(importlib.import_module(f"{self.package}.numbers"), name)()
        return made

    def get_reported_metrics(self, system: str) -> tuple[ReportedMetric, ...]:
        """Returns the paper's printed utility of ``system``: one value per metric and protocol.

        If several tables print a metric, its value is from the first table, and the ``note`` of the
        result states the values in the other tables.
        """
        figures: dict[tuple[str, str], ReportedMetric] = {}
        for table in self.printed_numbers.table:
            rows = [row for row in table.rows if system in table.get_system_names(row)]
            for metric, value in table.get_row(rows[0]).items() if table.protocol and rows else ():
                key, data = (metric, table.protocol), table.data and f"data: {table.data}"
                note = "; ".join(filter(None, (table.note, data, table.beside.get(rows[0], ""))))
                if key in figures:
                    also = f"The paper also prints {value:g}, for {table.data}"
                    note, value = f"{figures[key].note}. {also}", figures[key].value
                figures[key] = ReportedMetric(
                    metric=metric, protocol=table.protocol, value=value, note=note
                )
        return tuple(figures.values())


@functools.cache
def find_paper(module: str) -> Paper | None:
    """Returns the paper whose package contains the Python module ``module``; None without one."""
    package = module
    while package := package.rpartition(".")[0]:
        if _has_file(package, CLAIMS_FILE):
            return Paper.load(package)
    return None


@functools.cache
def _read_paper(package: str) -> Paper:
    claims = _parse_file(package, CLAIMS_FILE, ClaimsFile)
    printed = _parse_optional(package, PRINTED_FILE, PrintedNumbers)
    composed = _parse_optional(package, SYSTEMS_FILE, SystemsFile)
    return Paper(package, claims.paper, claims.claim, printed, composed)


def _has_file(package: str, name: str) -> bool:
    return (files(package) / name).is_file()


_Kind = TypeVar("_Kind", bound=TomlTable)


def _parse_file(package: str, name: str, kind: type[_Kind]) -> _Kind:
    """Returns the content of a TOML file; InputError with its path and the first error in it."""
    path = files(package) / name
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise InputError(f"Expected a valid {path}, got: {error}. Correct this file.") from error


def _parse_optional(package: str, name: str, kind: type[_Kind]) -> _Kind:
    return _parse_file(package, name, kind) if _has_file(package, name) else kind()
