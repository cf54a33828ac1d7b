"""Older versions of report.json, as the present one; and when a version ends.

``SCHEMA_VERSION`` grows when a field goes, is renamed, or means something else. A field that is
added with a default is no new version: an older file is read without it. Every version since the
first is read; a newer one is refused. The file itself stays as it is, until it is rendered again.

An older file is judged again, by today's rules: its verdicts and severities were others' words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.reports.rows import SCHEMA_VERSION, Contents, Finding

Kept = TypeVar("Kept", bound=Contents)


def present(raw: Any, path: Path) -> tuple[dict[str, Any], int]:
    """What report.json holds as the present version, which is ``raw`` changed; and which it was of.

    InputError, naming ``path``, for another version than those that are read.
    """
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(
            f"Expected schema_version={SCHEMA_VERSION} or an older one in {path}, got {version!r}. "
            "Give the report.json of an audit."
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"Expected schema_version={SCHEMA_VERSION} or an older one in {path}, got {version}. "
            "Read it with the version of the auditor that wrote it, or a newer one."
        )
    assert isinstance(raw, dict)
    try:
        for older in range(version, SCHEMA_VERSION):
            _STEPS[older](raw)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"Expected a record of schema_version={version} in {path}, got one that lacks "
            f"{error}. The file was edited or damaged; run the audit again."
        ) from error
    if version < SCHEMA_VERSION:
        raw.pop("severity", None)
    raw["schema_version"] = SCHEMA_VERSION
    return raw, version


def judged_again(record: Kept, version: int) -> Kept:
    """A record of an older version with today's verdicts; a reason changes with its verdict."""
    shown = tuple(row.model_copy(update={"shown": row.holds}) for row in record.demonstrations)
    findings = tuple(map(_judged_again, record.findings))
    note = f"Read from a record of schema version {version} and judged by today's rules."
    changes = {"findings": findings, "demonstrations": shown, "notes": (*record.notes, note)}
    return record.model_copy(update=changes)


def _judged_again(finding: Finding) -> Finding:
    again = finding.judged_again()
    same = (again.verdict, again.vacuous) == (finding.verdict, finding.vacuous)
    return finding if same else again


def _from_first(raw: dict[str, Any]) -> None:
    """Bounds said no side, and measured ones called their source a method."""
    for bound in _bounds(raw, "accounted"):
        bound["side"] = "upper"
    for bound in _bounds(raw, "measured", "bound"):
        bound["side"] = "lower"
        bound["source"] = bound.pop("method")


def _from_second(raw: dict[str, Any]) -> None:
    """What no scope names was called "beyond"; a demonstration had to name no worlds."""
    for finding in raw["findings"]:
        finding["outside_model"] = finding.pop("beyond", "")
    for trial in _trials(raw):
        trial["worlds"] = trial.get("worlds") or ["not recorded", "not recorded"]


def _from_third(raw: dict[str, Any]) -> None:
    """Quantiles over users stood with a curve, without intervals."""
    for row in raw["attacks"]:
        if users := (row.get("roc") or {}).pop("users", {}):
            told = {k: {"value": x, "ci_low": x, "ci_high": x} for k, x in users.items()}
            row["users"] = {"success": "AUC of a user's candidates", "quantiles": told}


def _bounds(raw: dict[str, Any], *names: str) -> Iterator[dict[str, Any]]:
    rows = [*raw["findings"], *raw["measurements"], *_trials(raw)]
    yield from (row[name] for row in rows for name in names if row.get(name) is not None)


def _trials(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for row in raw.get("demonstrations", ()):
        yield from (row["violation"], row["control"])


_STEPS: dict[int, Callable[[dict[str, Any]], None]] = {
    1: _from_first,
    2: _from_second,
    3: _from_third,
}
"""What makes each version the next one."""
