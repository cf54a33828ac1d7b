"""Records of an audit and of a sweep, and the outcome of a gate (rule for failing CI)."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, INCOMPLETE, Exemption, FailOn, Gate
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import sweep_figure
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.record import frontier, store
from fedrec_auditor.reports.record.comparison import Comparison
from fedrec_auditor.reports.record.frontier import SWEEP_RECORD_FILE, SweepContents
from fedrec_auditor.reports.record.leaks import describe_leaks, find_leaks
from fedrec_auditor.reports.record.rows import Contents, Finding, flatten_rows
from fedrec_auditor.reports.record.sections import Section, group_by_system
from fedrec_auditor.reports.record.waivers import drop_waived
from fedrec_auditor.reports.say import summary
from fedrec_auditor.reports.say.summary import describe_verdict_counts, summarize_systems
from fedrec_auditor.reports.writers.html import fill_template
from fedrec_auditor.reports.writers.svg import make_svg_text

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """Outcome of a gate (the rule for failing CI) on the record of an audit.

    exit_code: exit code of the command: 0, 1 (the gate fails) or 3 (undecided).
    failing_systems: summaries of the systems that fail the gate.
    unassessed_lines: one line per system whose severity the gate needs, but which was not assessed.
    comparison: comparison with an earlier record, the baseline; None without a baseline.
    leak_text: sentences on the worst leak, if the gate is on leaks; else empty.
    """

    exit_code: int
    failing_systems: tuple[summary.Summary, ...]
    unassessed_lines: tuple[str, ...]
    comparison: Comparison | None
    leak_text: str

    @classmethod
    def evaluate_gate(cls, record: Contents, gate: Gate, baseline: Contents | None = None) -> Self:
        """Applies a gate to the record of an audit.

        record: the record of the audit.
        gate: the rule for failing CI.
        baseline: an earlier record; if it is given, only changes for the worse fail the gate.

        The first of these rules that applies gives the exit code:

        - 3 if the record has errors, or contradicts itself (verdict UNSOUND);
        - 3 if nothing became worse, and the two records have no judged claim in common (without
          claims: no attack result);
        - 1 if ``gate`` fails;
        - 3 if a claim could not be tested, or a severity that the gate needs was not assessed, or a
          leak is no longer assessed, unless the gate allows this;
        - 1 if a waiver is expired, except with ``--fail-on never``;
        - 0 otherwise.
        """
        compared = None if baseline is None else Comparison.compare(record, baseline, gate)
        record = drop_waived(record, gate)
        failing, unknown = summary.select_by_gate(record, gate)
        gaps = {each.unassessed_line: None for each in unknown}
        if compared is not None:
            gaps |= dict.fromkeys(compared.newly_unassessed)
        fails: bool | None = bool(compared.regressions) if compared else (True if failing else None)
        code = gate.exit_code((finding.verdict for finding in record.findings), failing=fails)
        open_ = gaps and not gate.allows(Exemption.NOT_ASSESSED)
        apart = compared is not None and not (compared.regressions or compared.has_common_results)
        if record.errors or apart or (open_ and not code):
            code = INCOMPLETE
        code = gate.apply_expired_waivers(code)
        informative = find_leaks(record, gate.leak_margin) or not (failing or unknown)
        line = gate.fail_on is FailOn.LEAK and informative
        leak_text = describe_leaks(record, gate.leak_margin) if line else ""
        return cls(code, failing, tuple(gaps), compared, leak_text)


_TABLES = ("findings", "measurements", "attacks", "skipped", "utility", "messages")


class Record(Contents):
    """The record of a whole audit, with ``findings``, ``attacks``, ``utility`` and other rows.

    ``Contents`` describes the fields. ``print`` shows one line per system, the worst first.

    >>> from fedrec_auditor import audit
    >>> record = audit("fcf", data="synthetic", settings={"fcf": {"rounds": 1}}, attacks=(), jobs=1)
    >>> record.provenance.data.n_users, [row.metric for row in record.utility][:2]
    (600, ['HR@2', 'NDCG@2'])
    >>> record
    <Record of fcf: 1 “no claim”.>
    >>> record["fcf"].headline_finding.verdict, record.violated
    (<Verdict.NO_CLAIM: 'NO CLAIM'>, ())
    >>> Record.model_validate_json(record.model_dump_json()) == record
    True
    """

    @classmethod
    def read(cls, location: str | Path) -> Record:
        """Reads the record of an audit from a run directory or a report.json.

        Raises InputError if the file is missing, broken, edited or of another version.
        """
        return store.read_record(Path(location), cls)

    def save(self, directory: str | Path, gate: Gate = DEFAULT_GATE) -> Path:
        """Writes all reports (``store.RUN_FILE_NAMES``) to a directory and returns its path.

        ``gate`` (the rule for failing CI) determines the failures in junit.xml, and the smallest
        advantage over guessing that counts as a leak. Raises InputError if the directory cannot be
        written.
        """
        store.write_run_files(self, Path(directory), gate)
        return Path(directory)

    def exit_code(self, gate: Gate = DEFAULT_GATE, baseline: Contents | None = None) -> int:
        """Returns the exit code of ``auditor run``: 1 if ``gate`` fails, 3 if undecided, else 0.

        ``gate`` is the rule for failing CI. If a ``baseline`` (an earlier record) is given, only
        changes for the worse fail it.
        """
        return GateOutcome.evaluate_gate(self, gate, baseline).exit_code

    @property
    def violated(self) -> tuple[Finding, ...]:
        """Findings (judged claims) with a refuted claim; other claims may still be false."""
        return tuple(finding for section in group_by_system(self) for finding in section.violated)

    def __getitem__(self, target: str) -> Section:
        """Returns all rows on the system ``target``.

        Raises InputError if the audit has no system of this name.
        """
        by_name = {section.target: section for section in group_by_system(self)}
        if target not in by_name:
            raise InputError(
                f"Expected target to be a system of this audit, one of "
                f"{', '.join(by_name) or 'none'}, got {target!r}. Correct the name."
            )
        return by_name[target]

    def to_frame(self, what: str = "findings") -> pandas.DataFrame | pyarrow.Table:
        """Returns the rows of one kind as a pandas DataFrame; without pandas, a pyarrow Table.

        ``what`` is the kind, such as "findings" or "attacks". Entries of a nested object have
        columns such as ``claim.epsilon``. Raises InputError for an unknown kind.
        """
        if what not in _TABLES:
            raise InputError(
                f"Expected what={' or '.join(_TABLES)}, got {what=}. Give one of these names."
            )
        return _make_frame(flatten_rows(getattr(self, what)))

    def __repr__(self) -> str:
        names = ", ".join(section.target for section in group_by_system(self)) or "no system"
        return f"<Record of {names}: {describe_verdict_counts(self).partition(': ')[2]}>"

    def __str__(self) -> str:
        failed = [f"error: {say.make_printable(error)}" for error in self.errors]
        return "\n".join(
            [
                describe_verdict_counts(self),
                *(f"- {say.make_printable(each.log_line)}" for each in summarize_systems(self)),
                *failed,
            ]
        )

    def _repr_html_(self) -> str:
        """Returns the first screen of the report as HTML with inline styles, for a notebook."""
        page = fill_template("notebook.html.j2", record=self, glances=summarize_systems(self))
        return say.replace_unsafe_chars(page)


# Names of the files and folders that saving a sweep writes.
SWEEP_FILES = ("sweep.html", "sweep.csv", "sweep.parquet", "svg", SWEEP_RECORD_FILE)


class Sweep(SweepContents):
    """Record of a whole sweep: systems with their settings, and results of all trainings.

    ``SweepContents`` describes the fields.
    """

    @classmethod
    def load(cls, directory: Path) -> Sweep | None:
        """Reads the record of a sweep from a directory; None if the directory has none.

        Raises InputError if the file cannot be read as a sweep of this version.
        """
        path = directory / SWEEP_RECORD_FILE
        try:
            return cls.model_validate_json(store.read_regular_file(path, store.MAX_RECORD_BYTES))
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or str(error)
        except ValidationError:
            why = "another file, or a sweep of another version"
        raise InputError(f"Expected a sweep's record in {path}, got {why}. Give another directory.")

    def save(self, directory: str | Path) -> Path:
        """Writes the record as sweep.json, with CSV, Parquet, an HTML page and a drawing.

        CSV and Parquet have one row per result of each training. Returns the path of the directory.
        """
        import pyarrow.csv
        import pyarrow.parquet

        place, rows = Path(directory), self._make_table()
        separated, columns = io.BytesIO(), io.BytesIO()
        pyarrow.csv.write_csv(rows, separated)
        pyarrow.parquet.write_table(rows, columns)
        contents = {
            "sweep.html": self.page().encode(),
            "sweep.csv": separated.getvalue(),
            "sweep.parquet": columns.getvalue(),
            "svg": make_svg_text(self.figure()).encode(),
            SWEEP_RECORD_FILE: self.encoded(),
        }
        store.prepare_directory(place)
        store.write_files({place / name: content for name, content in contents.items()})
        return place

    def encoded(self) -> bytes:
        """Encodes the record as canonical JSON; equal records give equal bytes."""
        data = store.to_json(self.model_dump(mode="python"))
        text = json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        return (say.escape_controls(text) + "\n").encode()

    def figure(self) -> Picture:
        """Draws utility against the gain of attacks over guessing, and against epsilon."""
        systems, note = frontier.make_frontiers(self), frontier.describe_missing_utility(self)
        return Picture(
            sweep_figure.draw_sweep(systems, note),
            "Utility, leakage and epsilon by setting",
            say.fill_text("caption", "frontier", trainings=len(self.seeds)),
            name="frontier",
            kind="frontier",
        )

    def page(self) -> str:
        """Renders the record of the sweep as one self-contained HTML page."""
        filters = {
            "system": list(dict.fromkeys(each.target for each in self.variants)),
            "kind": [kind for kind in frontier.QUANTITY_KIND_LABELS if self._list_numbers(kind)],
            "metric": list(dict.fromkeys(row.metric for row in self.overall)),
        }
        page = fill_template(
            "sweep.html.j2",
            sweep=self,
            figure=self.figure(),
            drawn=sweep_figure,
            systems=frontier.make_frontiers(self),
            notes=[note for note in self.notes if frontier.NOT_RUN_SEPARATOR not in note],
            unplayed=[note for note in self.notes if frontier.NOT_RUN_SEPARATOR in note],
            missing=frontier.describe_missing_utility(self),
            filters=filters,
            frontier=frontier,
            tables=[(kind, self._list_numbers(kind)) for kind in filters["kind"]],
        )
        return say.replace_unsafe_chars(page)

    def to_frame(self) -> pandas.DataFrame | pyarrow.Table:
        """Returns the results of each training as a table, in the form of ``Record.to_frame``.

        The table has one row per result, and one column per swept setting.
        """
        return _make_frame(self._make_table().to_pylist())

    def _list_numbers(self, kind: str) -> list[tuple[str, frontier.AllTrainingsRow]]:
        """Returns pairs (name of the variant, result) of one ``kind`` over all trainings."""
        return [(self.name_at(row.variant), row) for row in self.overall if row.kind == kind]

    def name_at(self, place: int) -> str:
        """Returns the name of a variant (system and swept settings).

        ``place`` is the index of the variant in ``variants``.
        """
        variant = self.variants[place]
        swept = ", ".join(f"{name}={value}" for name, value in variant.swept.items())
        return f"{variant.target} {swept}" if swept else variant.target

    def _make_table(self) -> pyarrow.Table:
        import pyarrow

        rows: list[dict[str, Any]] = []
        for row in self.rows:
            variant = self.variants[row.variant]
            settings = {axis: variant.swept.get(axis, "") for axis in self.axes}
            rows.append({"target": variant.target, **settings, **row.model_dump(mode="python")})
        return pyarrow.Table.from_pylist(rows)


def _make_frame(rows: list[dict[str, Any]]) -> pandas.DataFrame | pyarrow.Table:
    try:
        import pandas
    except ImportError:
        import pyarrow

        return pyarrow.Table.from_pylist(rows)
    return pandas.DataFrame(rows)
