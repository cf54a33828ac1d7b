"""A paper: one folder with its systems, claims and printed numbers."""

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
from fedrec_auditor.targets.declarations import CLAIMS, PRINTED, SYSTEMS
from fedrec_auditor.targets.declarations.entry import Computed, Declared, Entry, Names, Words
from fedrec_auditor.targets.systems.base import (
    Claimant,
    Evaluation,
    Population,
    Reported,
    ScopedClaim,
)

Setting = bool | int | float | str


class PrintedTable(Declared):
    """A table, or a figure whose numbers are printed.

    ``place`` is its name in the paper, ``data`` the data set that it was printed for, ``columns``
    what each number of a row is. ``systems`` names those of a row where there is not one that is
    called like the row in lower case. With a ``protocol`` the columns are figures of utility, which
    a report shows beside its own: ``note`` says in which setting they were reached, ``beside`` more
    of a row. With an ``attribute`` they are F1 scores of attacks on it, "AIA 0.1" of the attacker
    AIA who knows a tenth of the users.

    >>> table = PrintedTable(place="Table 1", columns=["HR@2"], rows={"FMF-LDP": [0.2]})
    >>> table.of("FMF-LDP"), table.row("FMF-LDP")
    (('fmf-ldp',), {'HR@2': 0.2})
    """

    place: str
    data: str = ""
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    systems: Mapping[str, Names] = {}
    protocol: str = ""
    note: str = ""
    beside: Mapping[str, str] = {}
    attribute: str = ""

    @model_validator(mode="after")
    def _is_rectangular(self) -> PrintedTable:
        for name, row in self.rows.items():
            if len(row) != len(self.columns):
                counts = f"{len(row)} numbers for {len(self.columns)} columns"
                raise ValueError(f"{self.place}, row {name!r}: {counts}")
        return self

    def of(self, row: str) -> tuple[str, ...]:
        """Names of the systems that a row is of, first the one that is measured again."""
        return self.systems.get(row, (row.lower(),))

    def row(self, name: str) -> dict[str, float]:
        """The numbers of a row by column, an RMSE as MSE, too; none if there is no such row."""
        found = dict(zip(self.columns, self.rows.get(name, ()), strict=False))
        return {**found, "MSE": found["RMSE"] ** 2} if "RMSE" in found else found


class PrintedEpsilons(Declared):
    """Printed tables of epsilons, each entry held against what is true.

    ``entries`` names a function of ``numbers`` that gives them: each has its ``table``, how many
    ``clients`` of ``n_users`` take part in a round, the ``delta``, the epsilon that is ``printed``,
    the one that the authors' counting gives (``counted``), and between which ones it lies
    (``lower``, ``upper``). ``system`` is what they are of, as it is printed. ``note`` says below
    ``title`` how they were found.
    """

    entries: str
    system: str
    title: str
    note: str = ""


class TrainedRows(Declared):
    """Rows of a table that are measured again, by training their systems on our ``data``.

    ``rows`` are the rows of the tables at ``place``, ``system`` the one that is trained where it is
    not that of a row, with ``settings``; ``method`` is what a row is called in the result, where
    that is something else. ``said`` is why the figures differ. ``min_rating`` leaves out lower
    ratings, ``items`` draws so many items of at least 60 interactions.
    """

    place: str
    rows: Names
    system: str = ""
    method: str = ""
    data: Names = ("ml-100k",)
    settings: Mapping[str, Setting] = {}
    min_rating: float = 0.0
    items: int = 0
    said: str = ""


class AttackedRows(Declared):
    """Rows of tables of attacks that are measured again, all cells of a row on one training."""

    rows: Names
    data: Names
    settings: Mapping[str, Setting] = {}
    said: str = ""


class ComponentsFigure(Declared):
    """Where attacks on each component of a row's upload by itself are drawn, and which."""

    place: str = ""
    rows: Names = ()
    attributes: Names = ()
    columns: Names = ()


class Attacks(Declared):
    """Tables of attacks, measured again on the systems ``trained``.

    ``attackers`` gives our attack for each attacker in the tables' columns. Beside them stands the
    hit rate at ``cutoff`` of the training, which is ``drawn`` where no table has it.
    """

    attackers: Mapping[str, str]
    cutoff: int
    drawn: str = ""
    components: ComponentsFigure = ComponentsFigure()
    trained: tuple[AttackedRows, ...]


class Order(Declared):
    """A ranking that the paper states at ``place``: ``rows`` from the best to the worst.

    Where none are named, it is that of the table at ``place`` by ``metric``. ``data`` is the data
    set of ours on which they are compared.
    """

    place: str
    metric: str
    rows: tuple[str, ...] = ()
    data: str = "ml-100k"


class ComposedSystem(Declared):
    """A ``Federated`` system with ``settings`` of its own, given as in a plan.

    Of a part (learner, protection, route) a setting is its name, or a table of its name and its
    settings. ``type`` is the name of the class in Python, ``summary`` its line in a list, ``doc``
    what more there is to say. ``place`` is where the system and its promise stand in the paper,
    ``basis`` who states the epsilon of this promise, ``unprotected`` the name of the same system
    without protection, if there is one.
    """

    type: str
    summary: str
    doc: str = ""
    place: str
    basis: Basis = Basis.PRINTED
    unprotected: str = ""
    settings: Mapping[str, Setting | Mapping[str, Setting]] = {}


class Systems(Declared):
    """``systems.toml``: composed systems by name, and how their paper measures utility."""

    evaluation: Evaluation = Evaluation()
    system: Mapping[str, ComposedSystem] = {}


class ThreatModel(Declared):
    """Who is assumed to do what, in the paper's own words put into ours.

    It is decided once a paper, by what stands at ``place``, and holds for all of its statements.
    ``adversary`` says against whom privacy is promised and what they may do; ``trusted``, who is
    taken to keep to the protocol.
    """

    place: str
    adversary: str
    trusted: str


class Heading(Declared):
    """How a paper is cited, its threat model, and its symbols, each with what it stands for.

    Where released code is described, and not the paper, ``code`` is its repository and commit; its
    entries are judged by what they declare, for it is no system here.
    """

    title: str
    code: str = ""
    threat: ThreatModel
    symbols: Mapping[str, str]


class Claims(Declared):
    """``claims.toml``: what the paper says of privacy."""

    paper: Heading
    claim: tuple[Entry, ...]


class Printed(Declared):
    """``printed.toml``: the numbers that the paper prints, and how they are measured again.

    ``epsilons`` are calculated again. ``order`` are rankings that the text states, ``remark``
    sentences on all rows. ``absent`` are printed figures that are measured nowhere.
    """

    table: tuple[PrintedTable, ...] = ()
    trained: tuple[TrainedRows, ...] = ()
    attacks: Attacks | None = None
    epsilons: PrintedEpsilons | None = None
    order: tuple[Order, ...] = ()
    remark: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether anything of it is measured or calculated again."""
        return bool(self.trained or self.attacks or self.epsilons)


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's folder, which is the package ``package``: its declarations, read once.

    >>> paper = Paper.of("fedrec_auditor.targets.papers.dplcf")
    >>> paper.name, paper.heading.title
    ('dplcf', 'Gao, Huang, Lin, Jin, Li: DPLCF, SIGIR 2020')
    """

    package: str
    heading: Heading
    entries: tuple[Entry, ...]
    printed: Printed
    composed: Systems

    @staticmethod
    def of(package: str) -> Paper:
        """The paper of a package; InputError if a file of it cannot be read."""
        return _read(package)

    @property
    def name(self) -> str:
        """Name on the command line: that of the folder."""
        return self.package.rpartition(".")[2].replace("_", "-")

    def entry(self, name: str) -> Entry:
        """The entry of this number or name; InputError if there is none."""
        for entry in self.entries:
            if name in (entry.number, entry.name):
                return entry
        raise InputError(
            f"Expected the number or name of an entry of {self.name}, got {name!r}. Mend {CLAIMS}."
        )

    def table(self, place: str) -> PrintedTable:
        """The first table printed at this place; InputError if there is none."""
        for table in self.printed.table:
            if table.place == place:
                return table
        raise InputError(f"Expected a table of {self.name}, got {place!r}. Mend {PRINTED}.")

    def scope(self, entry: Entry) -> Scope | None:
        """The scope in which an entry is judged; None where it is about no epsilon."""
        repeated = self.entry(entry.repeats).scope if entry.repeats else None
        return entry.scope or repeated

    def scoped_claims(
        self, name: str, system: Claimant, population: Population
    ) -> tuple[ScopedClaim, ...]:
        """The claims of the system of this name, in the order of the file."""
        words = Words(system, population)
        return tuple(
            entry.asked(stating.claim(self.heading.title, words, entry.delta), words, stating)
            for entry in self.entries
            if entry.speaks_of(name, system) and (stating := self._stating(entry, name, system))
        )

    def scoped(self, entry: Entry, system: Claimant, population: Population) -> ScopedClaim:
        """Scoped claim of an entry on its first system; InputError if it makes none.

        In a scope that its claim does not cover it is another's claim, and stays on its basis.
        """
        scoped = self._scoped(entry, system, population)
        claim = scoped.claim
        speaks = entry.epsilon is not None or claim.scope.covers(scoped.scope)
        return replace(scoped, claim=replace(claim, basis=entry.basis)) if speaks else scoped

    def _scoped(self, entry: Entry, system: Claimant, population: Population) -> ScopedClaim:
        if entry.repeats and self._declares(self.entry(entry.repeats)):
            return self._scoped(self.entry(entry.repeats), system, population)
        words = Words(system, population)
        if stating := self._stating(entry, entry.system[0], system):
            claim = stating.claim(self.heading.title, words, entry.delta)
            return entry.asked(claim, words, stating)
        matching = [
            scoped
            for scoped in system.scoped_claims(population)
            if scoped.scope == entry.scope
            and (entry.delta is None or scoped.delta == words.number(entry.delta))
        ]
        if len(matching) != 1:
            raise InputError(
                f"Expected one claim of {system.name} in [{entry.scope}] at delta {entry.delta}, "
                f"got {len(matching)}. Give entry {entry.number} an epsilon, or the scope of one."
            )
        return matching[0]

    def statement(self, entry: Entry, system: Claimant, population: Population) -> str:
        """What an entry states of its first system, which ``system`` is, with its numbers."""
        words = Words(system, population)
        if entry.epsilon is None:
            return words.fill(entry.statement)
        return entry.claim(self.heading.title, words).statement

    def _declares(self, entry: Entry) -> bool:
        return entry.epsilon is not None or bool(entry.of)

    def _stating(self, entry: Entry, name: str, system: Claimant) -> Entry | None:
        """The entry whose epsilon this one asks about; None if it declares no claim."""
        if entry.epsilon is not None:
            return entry
        others = map(self.entry, entry.of)
        return next((other for other in others if other.speaks_of(name, system)), None)

    def computed(self, entry: Entry) -> tuple[Computed, ...]:
        """The numbers of an entry, computed, or as they are stated; none where it has none."""
        if not entry.computed:
            stated = (number for number in entry.numbers if isinstance(number, Computed))
            return tuple(each.model_copy(update={"basis": entry.basis}) for each in stated)
        pairs = tuple(self._numbers(entry.computed))
        if len(pairs) % max(1, len(entry.numbers)) or (pairs and not entry.numbers):
            raise InputError(
                f"Expected {len(pairs)} numbers of entry {entry.number}, or what says them by "
                f"turns, got {len(entry.numbers)}. Mend {CLAIMS}."
            )
        return tuple(said.of(pair, entry.basis) for said, pair in zip(cycle(entry.numbers), pairs))

    def epsilons(self) -> tuple[Any, ...]:
        """The entries of its printed tables of epsilons."""
        declared = self.printed.epsilons
        return () if declared is None else tuple(self._numbers(declared.entries))

    def _numbers(self, name: str) -> Iterable[Any]:
        """What the function of the paper's ``numbers`` of this name gives."""
        made: Iterable[Any] = getattr(importlib.import_module(f"{self.package}.numbers"), name)()
        return made

    def reported(self, system: str) -> tuple[Reported, ...]:
        """The printed figures of utility of the system of this name, each metric once.

        The first table that has a metric gives its value, the others are said beside it.
        """
        found: dict[tuple[str, str], Reported] = {}
        for table in self.printed.table:
            rows = [row for row in table.rows if system in table.of(row)]
            for metric, value in table.row(rows[0]).items() if table.protocol and rows else ():
                key, beside = (metric, table.protocol), table.beside.get(rows[0], "")
                note = "; ".join(filter(None, (table.note, table.data, beside)))
                if key in found:
                    note = f"{found[key].note}; {value:g} on {table.data}"
                    value = found[key].value
                found[key] = Reported(
                    metric=metric, protocol=table.protocol, value=value, note=note
                )
        return tuple(found.values())


@functools.cache
def paper_of(module: str) -> Paper | None:
    """The paper in whose folder a module is; None for a module of none."""
    package = module
    while package := package.rpartition(".")[0]:
        if _has(package, CLAIMS):
            return Paper.of(package)
    return None


@functools.cache
def _read(package: str) -> Paper:
    claims = _parsed(package, CLAIMS, Claims)
    printed = _parsed(package, PRINTED, Printed) if _has(package, PRINTED) else Printed()
    composed = _parsed(package, SYSTEMS, Systems) if _has(package, SYSTEMS) else Systems()
    return Paper(package, claims.paper, claims.claim, printed, composed)


def _has(package: str, name: str) -> bool:
    return (files(package) / name).is_file()


_Kind = TypeVar("_Kind", bound=Declared)


def _parsed(package: str, name: str, kind: type[_Kind]) -> _Kind:
    """A file of declarations; InputError names it, and what is wrong in it."""
    path = files(package) / name
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise InputError(f"Expected what a paper declares in {path}, got: {error}") from error
