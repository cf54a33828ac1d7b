"""The numbers that a paper prints, each once, and how they are measured again."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import model_validator

from fedrec_auditor.targets.declarations.entry import Declared, Names

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
