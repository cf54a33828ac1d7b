"""The exit code of a gate, and what it rests on beside verdicts: severities, leaks, a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from fedrec_auditor.accountants.verdict import INCOMPLETE, NOT_ASSESSED, FailOn, Gate
from fedrec_auditor.reports.comparison import Comparison
from fedrec_auditor.reports.glance import Glance, gated
from fedrec_auditor.reports.leaks import leak_line, leaks
from fedrec_auditor.reports.rows import Contents


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
