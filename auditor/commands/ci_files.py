"""Reports for CI systems (SARIF and JUnit files) of commands that have no run directory."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate

if TYPE_CHECKING:
    from fedrec_auditor.reports.record.rows import CheckRow, Finding


def check_writable(*paths: Path | None) -> None:
    """Raises InputError if one of ``paths`` is a folder, or lies in a folder that does not exist.

    Commands call this function before any work, so that no result is lost.
    """
    for path in filter(None, paths):
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise InputError(
                f"Expected --sarif and --junit as files in existing folders, got {path}. Create "
                "the folder, or name another file."
            )


def render_ci_files(
    findings: Sequence[Finding],
    sarif: Path | None,
    junit: Path | None,
    *,
    gate: Gate = DEFAULT_GATE,
    checks: Sequence[CheckRow] = (),
    place: tuple[str, int] | None = None,
    seed: int = 0,
) -> dict[str, str]:
    """Renders findings (verdicts on claims) as SARIF and JUnit files; returns contents by path.

    ``findings``: the findings to write.
    ``sarif``, ``junit``: paths of the files, or None.
    ``gate``: levels at which findings count as failures.
    ``checks``: results of checks, to be written beside the findings.
    ``place``: source file and line of the results in SARIF; None for the SARIF file itself.
    ``seed``: seed of the verification, which the files state.
    """
    if sarif is None and junit is None:
        return {}
    from fedrec_auditor.auditor.plan.versions import get_versions
    from fedrec_auditor.reports.record.rows import Contents, Provenance
    from fedrec_auditor.reports.writers import ci

    record = Contents(
        plan={},
        provenance=Provenance(versions=get_versions(), seed=seed, data=None, timing={}, machine={}),
        findings=tuple(findings),
        measurements=(),
        attacks=(),
        utility=(),
    )
    files = {}
    if sarif is not None:
        where = (sarif.name, 1) if place is None else place
        files[str(sarif)] = ci.render_sarif(record, gate, checks, where).decode()
    if junit is not None:
        files[str(junit)] = ci.render_junit(record, gate, checks).decode()
    return files


def write_ci_files(files: Mapping[str, str]) -> None:
    """Writes each file completely or not at all. Raises IncompleteError if that fails.

    ``files``: contents by path.
    """
    for path, content in files.items():
        from fedrec_auditor.reports.record.store import write_atomically

        write_atomically(Path(path), content.encode())


def find_source_line(value: Any) -> tuple[str, int] | None:
    """Returns the path, below the working directory, and the line of a Python object's source code.

    The result is None if its source is unknown.
    """
    try:
        file = inspect.getsourcefile(value)
        line = inspect.getsourcelines(value)[1]
        return Path(str(file)).resolve().relative_to(Path.cwd()).as_posix(), max(1, line)
    except (TypeError, OSError, ValueError):
        return None
