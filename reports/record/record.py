"""The record of an audit and of a sweep with their methods for users, and the gate on a record."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, INCOMPLETE, NOT_ASSESSED, FailOn, Gate
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import sweep_figure
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.record import frontier, store
from fedrec_auditor.reports.record.comparison import Comparison
from fedrec_auditor.reports.record.frontier import SWEEP, OverTrainingsRow, SweepContents
from fedrec_auditor.reports.record.leaks import leak_line, leaks
from fedrec_auditor.reports.record.rows import Contents, Finding, flat
from fedrec_auditor.reports.record.sections import Section, sections
from fedrec_auditor.reports.say.summary import (
    Summary,
    gated,
    hidden_words,
    summarize_systems,
    summary,
    tally,
)
from fedrec_auditor.reports.writers.files import standalone
from fedrec_auditor.reports.writers.html import fill_template

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of a gate.

    code: exit code.
    failing: summaries of the systems that fail the gate.
    unassessed: one line for each system that was not assessed for the gate.
    compared: comparison with the baseline, if there is one.
    leak: summary line of a gate on leaks; empty for another gate.
    """

    code: int
    failing: tuple[Summary, ...]
    unassessed: tuple[str, ...]
    compared: Comparison | None
    leak: str

    @classmethod
    def of(cls, record: Contents, gate: Gate, baseline: Contents | None = None) -> Self:
        """The outcome of ``gate`` for a record.

        - 3: the record has errors; or a system was not assessed, unless the gate allows that or
          something else fails. With a ``baseline`` also if no claim is in both records, or a leak
          that the baseline assessed is not assessed now.
        - 1: ``gate`` fails; with a ``baseline`` only for changes for the worse.
        - 0: otherwise.
        """
        failing, unknown = gated(record, gate)
        compared = None if baseline is None else Comparison.of(record, baseline, gate)
        gaps = {each.gap_line: None for each in unknown}
        if compared is not None:
            gaps |= dict.fromkeys(compared.lost)
        fails: bool | None = bool(compared.worse) if compared else (True if failing else None)
        code = gate.code((finding.verdict for finding in record.findings), failing=fails)
        open_ = gaps and NOT_ASSESSED not in gate.allow
        apart = compared is not None and not (compared.worse or compared.shared)
        if record.errors or apart or (open_ and not code):
            code = INCOMPLETE
        informative = leaks(record, gate.leak_margin) or not (failing or unknown)
        line = gate.fail_on is FailOn.LEAK and informative
        return cls(
            code,
            failing,
            tuple(gaps),
            compared,
            leak_line(record, gate.leak_margin) if line else "",
        )


_TABLES = ("findings", "measurements", "attacks", "skipped", "utility", "messages")


class Record(Contents):
    """The record of a whole audit, with ``findings``, ``attacks``, ``utility`` and other rows.

    ``Contents`` describes the fields. ``print`` shows one line per system, the worst first; a
    notebook shows the first screen of the report.

    >>> from fedrec_auditor import audit
    >>> record = audit("fcf", data="synthetic", settings={"fcf": {"rounds": 1}}, attacks=(), jobs=1)
    >>> record.provenance.data.n_users, [row.metric for row in record.utility][:2]
    (600, ['HR@2', 'NDCG@2'])
    >>> record
    <Record of fcf: 1 no claim.>
    >>> record["fcf"].headline_finding.verdict, record.violated
    (<Verdict.NO_CLAIM: 'NO CLAIM'>, ())
    >>> Record.model_validate_json(record.model_dump_json()) == record
    True
    """

    @classmethod
    def read(cls, location: str | Path) -> Record:
        """Reads the record of a run directory or of a report.json.

        Raises InputError if it is missing, broken, edited or of another version.
        """
        return store.read(Path(location), cls)

    def save(self, directory: str | Path, gate: Gate = DEFAULT_GATE) -> Path:
        """Writes all reports (``store.FILES``) to a directory and returns its path.

        ``gate`` decides which cases of junit.xml are failures, and its margin which rows are leaks.
        Raises InputError if the directory cannot be written.
        """
        store.write(self, Path(directory), gate)
        return Path(directory)

    def exit_code(self, gate: Gate = DEFAULT_GATE, baseline: Contents | None = None) -> int:
        """The exit code of ``auditor run``: 1 if ``gate`` fails, 3 if that is not known, else 0.

        With a ``baseline``, an earlier record, 1 means that something got worse since then.
        """
        return GateOutcome.of(self, gate, baseline).code

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The findings that refute a claim; an empty tuple does not prove that the claims hold."""
        return tuple(finding for section in sections(self) for finding in section.violated)

    def __getitem__(self, target: str) -> Section:
        """The section of one target; raises InputError if the audit has no target of this name."""
        by_name = {section.target: section for section in sections(self)}
        if target not in by_name:
            raise InputError(
                f"Expected a target of this audit, one of {', '.join(by_name) or 'none'}, got "
                f"{target!r}. Correct the name."
            )
        return by_name[target]

    def to_frame(self, what: str = "findings") -> pandas.DataFrame:
        """The rows of one kind as a table: findings, measurements, attacks, skipped, utility, ...

        Each number or word has a column; a part has columns such as ``claim.epsilon`` and
        ``scope.unit``. Raises InputError for another kind, and if pandas is not installed.
        """
        if what not in _TABLES:
            raise InputError(
                f"Expected one of {', '.join(_TABLES)}, got {what!r}. Name one of them."
            )
        try:
            import pandas
        except ImportError as error:
            raise InputError(
                f"Expected pandas for a table, got: {error}. Install it (`pip install pandas`), or "
                f"read the rows of record.{what}."
            ) from error
        return pandas.DataFrame(flat(getattr(self, what)))

    def __repr__(self) -> str:
        names = ", ".join(section.target for section in sections(self)) or "no system"
        return f"<Record of {names}: {summary(self).removeprefix('Claims: ')}>"

    def __str__(self) -> str:
        failed = [f"error: {say.printable(error)}" for error in self.errors]
        return "\n".join(
            [
                summary(self),
                *(f"- {say.printable(each.line)}" for each in summarize_systems(self)),
                *failed,
            ]
        )

    def _repr_html_(self) -> str:
        """The first screen of the report, without scripts and with styles of its own only."""
        page = fill_template(
            "notebook.html.j2",
            record=self,
            shares=tally(self),
            hidden=hidden_words(self),
            glances=summarize_systems(self),
        )
        return say.legal(page)


SWEEP_FILES = ("sweep.html", "sweep.csv", "sweep.parquet", "svg", SWEEP)
"""Names of the files that every sweep writes."""


class Sweep(SweepContents):
    """The record of a whole sweep: ``variants``, ``rows`` per training, and ``overall`` figures."""

    @classmethod
    def load(cls, directory: Path) -> Sweep | None:
        """Reads the sweep in a directory; None without one, InputError if it cannot be read."""
        path = directory / SWEEP
        try:
            return cls.model_validate_json(store.read_regular(path, store.LARGEST))
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or str(error)
        except ValidationError:
            why = "another file, or a sweep of another version"
        raise InputError(f"Expected a sweep in {path}, got {why}. Give another directory.")

    def save(self, directory: str | Path) -> Path:
        """Writes sweep.json, the rows as CSV and Parquet, the page, and the figure as SVG."""
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
            "svg": standalone(self.figure()).encode(),
            SWEEP: self.encoded(),
        }
        store.check_writable(place)
        store.write_all({place / name: content for name, content in contents.items()})
        return place

    def encoded(self) -> bytes:
        """The sweep as canonical JSON: equal sweeps give equal bytes."""
        data = store.plain(self.model_dump(mode="python"))
        text = json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        return (say.escaped(text) + "\n").encode()

    def figure(self) -> Picture:
        """The figure of utility against the gain of attacks, and against epsilon."""
        return Picture(
            sweep_figure.figure(frontier.frontiers(self), frontier.without_utility(self)),
            "The price of protection, and its benefit",
            say.fill_text("caption", "frontier", trainings=len(self.seeds)),
            name="frontier",
            kind="frontier",
        )

    def page(self) -> str:
        """The self-contained HTML page."""
        filters = {
            "system": list(dict.fromkeys(each.target for each in self.variants)),
            "kind": [kind for kind in frontier.KINDS if self._of(kind)],
            "metric": list(dict.fromkeys(row.metric for row in self.overall)),
        }
        page = fill_template(
            "sweep.html.j2",
            sweep=self,
            figure=self.figure(),
            drawn=sweep_figure,
            systems=frontier.frontiers(self),
            notes=[note for note in self.notes if frontier.NOT_RUN not in note],
            unplayed=[note for note in self.notes if frontier.NOT_RUN in note],
            missing=frontier.without_utility(self),
            filters=filters,
            frontier=frontier,
            tables=[(kind, self._of(kind)) for kind in filters["kind"]],
        )
        return say.legal(page)

    def to_frame(self) -> pandas.DataFrame:
        """The rows of each variant, training and figure as a table; settings are columns."""
        return self._table().to_pandas()

    def _of(self, kind: str) -> list[tuple[str, OverTrainingsRow]]:
        """The figures of a kind over all trainings, each with the name of its variant."""
        return [(self.words(row.variant), row) for row in self.overall if row.kind == kind]

    def words(self, place: int) -> str:
        """The name of the variant at this index."""
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
