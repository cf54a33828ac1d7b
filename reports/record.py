"""The record of an audit, what users do with it, and the exit code of a gate on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, INCOMPLETE, NOT_ASSESSED, FailOn, Gate
from fedrec_auditor.reports import say, store
from fedrec_auditor.reports.comparison import Comparison
from fedrec_auditor.reports.glance import Glance, gated, glances, hidden_words, shares, summary
from fedrec_auditor.reports.html import fill_template
from fedrec_auditor.reports.leaks import leak_line, leaks
from fedrec_auditor.reports.rows import Contents, Finding, flat
from fedrec_auditor.reports.section import Section, sections

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The exit ``code`` of a gate, the systems that fail it and those not assessed for it.

    ``compared`` is the record against the baseline, where there is one. ``leak`` is the line of a
    gate on leaks, empty for another gate.
    """

    code: int
    failing: tuple[Glance, ...]
    unassessed: tuple[str, ...]
    compared: Comparison | None
    leak: str

    @classmethod
    def of(cls, record: Contents, gate: Gate, baseline: Contents | None = None) -> Self:
        """The outcome: 3 for a failed piece, else what ``gate`` says.

        What was not assessed never passes: 3, unless the gate allows it or something else fails.
        With a ``baseline`` 1 is for what got worse since then only, and 3 if no claim is in both,
        or a leak that was assessed then is not now.
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
        told = leaks(record, gate.leak_margin) or not (failing or unknown)
        line = gate.fail_on is FailOn.LEAK and told
        return cls(
            code,
            failing,
            tuple(gaps),
            compared,
            leak_line(record, gate.leak_margin) if line else "",
        )


_TABLES = ("findings", "measurements", "attacks", "skipped", "utility", "messages")


class Record(Contents):
    """A whole audit: ``findings``, ``attacks``, ``utility`` and more as rows; see ``Contents``.

    ``print`` shows a line a system, the worst first, a notebook the first screen of the report.

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
        """The record of a run directory, or of a report.json.

        InputError if it is missing, broken, edited or of another version.
        """
        return store.read(Path(location), cls)

    def save(self, directory: str | Path, gate: Gate = DEFAULT_GATE) -> Path:
        """Write all reports to a directory, which is given back; see ``store.FILES``.

        ``gate`` decides what junit.xml calls a failure, and its margin what a leak is. InputError
        if the directory cannot be written.
        """
        store.write(self, Path(directory), gate)
        return Path(directory)

    def exit_code(self, gate: Gate = DEFAULT_GATE, baseline: Contents | None = None) -> int:
        """Exit code of ``auditor run``: 0, 1 for what ``gate`` fails, 3 for what is not known.

        With a ``baseline``, an earlier record, 1 is for what got worse since then.
        """
        return GateOutcome.of(self, gate, baseline).code

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The findings that refute a claim; none is no proof that the claims hold."""
        return tuple(finding for section in sections(self) for finding in section.violated)

    def __getitem__(self, target: str) -> Section:
        """The section of one target; InputError if the audit has none of this name."""
        found = {section.target: section for section in sections(self)}
        if target not in found:
            raise InputError(
                f"Expected a target of this audit, one of {', '.join(found) or 'none'}, got "
                f"{target!r}. Mend the name."
            )
        return found[target]

    def to_frame(self, what: str = "findings") -> pandas.DataFrame:
        """Rows of one kind as a table: findings, measurements, attacks, skipped, utility, ...

        A column a number or word, those of a part under its name: ``claim.epsilon``,
        ``scope.unit``. InputError for another kind, and where pandas is not installed.
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
            [summary(self), *(f"- {say.printable(each.line)}" for each in glances(self)), *failed]
        )

    def _repr_html_(self) -> str:
        """The first screen of the report, which styles nothing else and has no script."""
        page = fill_template(
            "notebook.html.j2",
            record=self,
            shares=shares(self),
            hidden=hidden_words(self),
            glances=glances(self),
        )
        return say.legal(page)
