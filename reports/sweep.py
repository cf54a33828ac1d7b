"""A sweep: its rows, and what users do with it: a table, files, the page with its figure."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.reports import frontier, say, store
from fedrec_auditor.reports.figures import Drawing
from fedrec_auditor.reports.files import standalone
from fedrec_auditor.reports.html import fill_template
from fedrec_auditor.reports.rows import Row

if TYPE_CHECKING:
    import pandas
    import pyarrow


Kind = Literal["utility", "ahead", "attack", "gain", "claimed", "proved", "shown"]
SWEEP = "sweep.json"
"""The file of a sweep in its directory."""
AT_DELTA = " at delta "
"""Stands between a scope, with its game if it is not the data's, and its delta in a view."""
BEYOND = "beyond the protocol"
"""How the view of an attack ends that somebody makes who breaks the protocol."""
NOT_PLAYED = " was not played. "
"""Stands between an attack and why, in a note."""
KINDS: dict[str, str] = {
    "utility": "how well it recommends",
    "ahead": "how far it is from popularity, or two means, user by user",
    "attack": "what an attack reaches",
    "gain": "how far an attack is above guessing",
    "claimed": "epsilon claimed",
    "proved": "epsilon proved at most",
    "shown": "epsilon shown at least",
}


class VariantRow(Row):
    """A system with settings: ``settings`` by place where they differ from the paper's.

    ``swept`` are the values of the axes. ``twin`` is the place, among the variants, of the same
    system without noise, None where there is none.
    """

    target: str
    settings: dict[str, Any]
    swept: dict[str, str]
    twin: int | None = None


class FigureRow(Row):
    """One figure of a variant, by its place among the variants.

    ``view`` is the vantage of an attack, the scope and delta of an epsilon, the protocol of
    utility. ``baseline`` is what guessing reaches, of utility popularity or two means, where
    ``random`` is a random list or the mean of all ratings. Of an epsilon without interval both ends
    are None, and ``basis`` says its method, confidence, samples and assumptions.
    """

    variant: int
    kind: Kind
    metric: str
    view: str
    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    baseline: float | None = None
    random: float | None = None
    basis: str = ""


class SweepRow(FigureRow):
    """One figure of one training."""

    seed: int


class OverTrainingsRow(FigureRow):
    """A figure over all trainings of a variant, at the confidence of the plan by itself.

    ``next_low`` and ``next_high`` are where one more training is expected, None of one training.
    """

    next_low: float | None = None
    next_high: float | None = None
    trainings: int = Field(ge=1)


class AnswerRow(Row):
    """The least noise (of utility the most), times the paper's, that keeps a condition, if any."""

    target: str
    condition: str
    words: str
    factor: float | None = None
    trainings: int = 0
    settings: dict[str, Any] = Field(default_factory=dict)


class SweepContents(Row):
    """A whole sweep; ``plan`` is that of all trainings but for targets, settings and seed.

    ``axes`` are the values by name, ``seeds`` those of the trainings. ``errors`` say which
    trainings failed, ``notes`` what was left out, ``answers`` what was searched for. ``relative``
    has utility over the twin's.
    """

    schema_version: Literal[1] = 1
    plan: dict[str, Any]
    axes: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    data: dict[str, Any]
    versions: dict[str, str]
    method: str
    variants: tuple[VariantRow, ...]
    rows: tuple[SweepRow, ...]
    overall: tuple[OverTrainingsRow, ...]
    relative: tuple[OverTrainingsRow, ...]
    answers: tuple[AnswerRow, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


RECORD = SWEEP
FILES = ("sweep.html", "sweep.csv", "sweep.parquet", "frontier.svg", RECORD)
"""Files that every sweep leaves."""


class Sweep(SweepContents):
    """A whole sweep: ``variants``, ``rows`` of each training, ``overall`` the trainings."""

    @classmethod
    def found(cls, directory: Path) -> Sweep | None:
        """The sweep in a directory, None if there is none; InputError if it cannot be read."""
        path = directory / RECORD
        try:
            return cls.model_validate_json(store.read_regular(path, store.LARGEST))
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or str(error)
        except ValidationError:
            why = "something else, or one of another version"
        raise InputError(f"Expected a sweep in {path}, got {why}. Give another directory.")

    def save(self, directory: str | Path) -> Path:
        """Write sweep.json, the rows as CSV and Parquet, the page and the figure as SVG."""
        import pyarrow.csv
        import pyarrow.parquet

        place, rows = Path(directory), self._table()
        separated, columns = io.BytesIO(), io.BytesIO()
        pyarrow.csv.write_csv(rows, separated)
        pyarrow.parquet.write_table(rows, columns)
        contents = {
            "sweep.html": self.page().encode(),
            "sweep.csv": separated.getvalue(),
            "sweep.parquet": columns.getvalue(),
            "frontier.svg": standalone(self.figure()).encode(),
            RECORD: self.encoded(),
        }
        store.check_writable(place)
        store.write_all({place / name: content for name, content in contents.items()})
        return place

    def encoded(self) -> bytes:
        """Canonical JSON: equal sweeps are equal bytes."""
        data = store.plain(self.model_dump(mode="python"))
        text = json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        return (say.escaped(text) + "\n").encode()

    def figure(self) -> Drawing:
        """Utility against what attacks gain, and against epsilon."""
        return Drawing(
            name="frontier",
            kind="frontier",
            title="What protection costs, and what it buys",
            caption="Up: utility, over that of the same system without noise where there is "
            "one. Right: what the strongest attack gains above guessing, and epsilon; less is "
            f"better. Crosses: intervals of {len(self.seeds)} trainings and their users.",
            svg=frontier.figure(frontier.frontiers(self), frontier.without_utility(self)),
        )

    def page(self) -> str:
        """The page, which needs nothing else."""
        filters = {
            "system": list(dict.fromkeys(each.target for each in self.variants)),
            "kind": [kind for kind in KINDS if self._of(kind)],
            "metric": list(dict.fromkeys(row.metric for row in self.overall)),
        }
        page = fill_template(
            "sweep.html.j2",
            sweep=self,
            figure=self.figure(),
            legend=frontier.legend(),
            block=frontier.block,
            systems=frontier.frontiers(self),
            notes=[note for note in self.notes if NOT_PLAYED not in note],
            unplayed=[note for note in self.notes if NOT_PLAYED in note],
            missing=frontier.without_utility(self),
            filters=filters,
            kinds=KINDS,
            level_words=frontier.level_words,
            tables=[(kind, self._of(kind)) for kind in filters["kind"]],
        )
        return say.legal(page)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each variant, training and figure; settings are columns."""
        return self._table().to_pandas()

    def _of(self, kind: str) -> list[tuple[str, OverTrainingsRow]]:
        """The figures of a kind over all trainings, each with the words of its variant."""
        return [(self.words(row.variant), row) for row in self.overall if row.kind == kind]

    def words(self, place: int) -> str:
        """What a variant is called."""
        variant = self.variants[place]
        swept = ", ".join(f"{name}={value}" for name, value in variant.swept.items())
        return f"{variant.target} {swept}" if swept else variant.target

    def _table(self) -> pyarrow.Table:
        import pyarrow

        axes = list(self.axes)
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            variant = self.variants[row.variant]
            settings = {axis: variant.swept.get(axis, "") for axis in axes}
            rows.append({"target": variant.target, **settings, **row.model_dump(mode="python")})
        return pyarrow.Table.from_pylist(rows)
