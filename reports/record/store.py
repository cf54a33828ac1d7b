"""Reader and writer of the files of a run directory: report.json, and reports made from it.

Equal records give equal bytes. A file is written completely or not at all, and report.json is
written last.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from pydantic import ValidationError

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.overview import draw_overview
from fedrec_auditor.reports.record.leaks import SEVERITY_RULE_VERSION
from fedrec_auditor.reports.record.rows import RECORD_SCHEMA_VERSION, Contents
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import ci, html, markdown, svg

# Class of the record that is read.
RecordType = TypeVar("RecordType", bound=Contents)
# Names of files in a run directory: the record, the lock of a running audit, and the overview.
RECORD_FILE = "report.json"
# Address of the JSON schema of a record, the value of ``$schema`` in every report.json.
RECORD_SCHEMA_URN = f"urn:fedrec-auditor:report:{RECORD_SCHEMA_VERSION}"
LOCK_FILE = ".lock"
OVERVIEW_PICTURE_FILE = "overview.svg"
# Names of all files that an audit writes to its run directory, in this order.
_READABLE = ("report.html", "report.md", OVERVIEW_PICTURE_FILE)
RUN_FILE_NAMES = (*_READABLE, "junit.xml", "report.sarif", RECORD_FILE)
# Maximum size of a record in bytes, a hundred times the size of a record of all systems.
MAX_RECORD_BYTES = 2**28
_DAMAGED = "edited or damaged"
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
}


def encode_record(record: Contents) -> bytes:
    """Encodes the record of an audit as canonical JSON: sorted keys, indent 2.

    Floats are written as repr, and infinity as "inf"; NaN is an error. The JSON also has the
    address of its schema, and each system's severity.
    """
    data = to_json(record.model_dump(mode="python"))
    # When the file is read, the severity is computed again from the rows and compared.
    data["severity"] = _derive_severity(record)
    data["$schema"] = RECORD_SCHEMA_URN
    text = json.dumps(data, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (say.escape_controls(text) + "\n").encode()


def write_run_files(record: Contents, directory: Path, gate: Gate = DEFAULT_GATE) -> None:
    """Renders ``record`` and writes all files of a run directory, report.json last.

    ``gate`` (the rule for failing CI) determines the failures in junit.xml, and the smallest
    advantage over guessing that counts as a leak.
    """
    overview, _ = draw_overview(summarize_systems(record))
    contents = {
        "report.html": html.render_html(record, gate).encode(),
        "report.md": markdown.render_markdown(record, gate).encode(),
        OVERVIEW_PICTURE_FILE: svg.make_svg_text(overview).encode(),
        "junit.xml": ci.render_junit(record, gate),
        "report.sarif": ci.render_sarif(record, gate),
        RECORD_FILE: encode_record(record),
    }
    prepare_directory(directory)
    write_files({directory / name: content for name, content in contents.items()})


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file completely or not at all.

    The content goes to a draft next to the file, which replaces the file at the end.
    """
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Writes files in their order, each completely or not at all.

    Raises IncompleteError if a file cannot be written.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            drafts[path] = path.parent / f".{path.name}.{secrets.token_hex(8)}"
            with drafts[path].open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, draft in drafts.items():
            draft.replace(path)
        for parent in {path.parent for path in contents}:
            _sync(parent)
    except OSError as error:
        raise IncompleteError(
            f"Expected to write {', '.join(map(str, contents))}, got {error.strerror or error}. "
            "Free some space on this disk or give another directory."
        ) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def read_regular_file(path: Path, max_size: int, *, follow: bool = False) -> bytes:
    """Reads a regular file of at most ``max_size`` bytes; such a read cannot block.

    Raises OSError, with a description in ``strerror``, for a directory, a FIFO, a device, a larger
    file and, unless ``follow``, a link.
    """
    mode = os.stat(path, follow_symlinks=follow).st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"{kind} instead of a regular file", str(path))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:
        raise OSError(errno.EFBIG, f"more than {max_size:,} bytes", str(path))
    return content


def read_record(location: Path, kind: type[RecordType]) -> RecordType:
    """Reads the record of an audit from a run directory or a report.json.

    ``kind`` is the class of the result. Raises InputError if the file is missing, broken, edited or
    of another version.
    """
    path = location if location.is_file() else location / RECORD_FILE
    try:
        content = read_regular_file(path, MAX_RECORD_BYTES, follow=True)
    except OSError as error:
        raise InputError(
            f"Expected a run directory with {RECORD_FILE}, got {location} "
            f"({error.strerror or error}). Make one with `auditor run --out DIR`."
        ) from error
    try:
        raw = json.loads(content, parse_constant=_refuse, object_hook=_add_basis)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"Expected {path} to be valid JSON, got an error ({error}). Run the audit again."
        ) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != RECORD_SCHEMA_VERSION:
        raise InputError(
            f"Expected schema_version={RECORD_SCHEMA_VERSION} in {path}, got {version!r}. Read the "
            "file with the version of the auditor that wrote it, or run the audit again."
        )
    stored = raw.pop("severity", None)
    raw.pop("$schema", None)
    try:
        record = kind.model_validate(raw)
        encode_record(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        why = f"{place}: {first['msg']}{more}"
        raise _make_edit_error(f"a valid record in {path}", got=why, how=_DAMAGED) from error
    except IncompleteError as error:
        why = f"NaN ({str(error).partition('. ')[0]})"
        raise _make_edit_error(f"a record without NaN in {path}", got=why, how=_DAMAGED) from error
    except (ArithmeticError, RecursionError) as error:
        why = f"numbers that cannot be computed with ({error})"
        raise _make_edit_error(f"a valid record in {path}", got=why, how=_DAMAGED) from error
    _check_verdicts(record, path)
    _check_severity(stored, record, path)
    return record


def check_can_create_files(directory: Path) -> None:
    """Raises InputError unless files can be created in ``directory``; leaves nothing behind.

    If the directory does not exist, the test is made in its nearest parent that exists.
    """
    try:
        places = (directory.absolute(), *directory.absolute().parents)
        probe = next(filter(Path.exists, places)) / f".probe.{secrets.token_hex(8)}"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"Expected a directory that can be written, got {directory} "
            f"({error.strerror or error}). Give another directory."
        ) from error


def prepare_directory(directory: Path) -> None:
    """Creates ``directory``, and raises InputError if an audit cannot write its files there.

    Called before an audit begins, so that no work is lost.
    """
    check_can_create_files(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for path in (directory / name for name in (*RUN_FILE_NAMES, LOCK_FILE)):
        odd = path.is_symlink() or (path.exists() and not path.is_file())
        # Other files than the lock are replaced, not opened.
        if path.is_dir() or (odd and path.name == LOCK_FILE):
            kind = "a directory" if path.is_dir() else "a link, a FIFO or a device"
            raise InputError(
                f"Expected a regular file or nothing at {path}, got {kind}. Remove it, or give "
                "another directory with --out."
            )


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Context in which ``directory``, which is created, is locked for one audit.

    Raises InputError if another audit holds the lock, or if the directory cannot be written. On a
    file system without locks, nothing is locked.
    """
    prepare_directory(directory)
    lock = FileLock(directory / LOCK_FILE, blocking=False)
    with suppress(OSError):  # a file system without locks
        try:
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"Expected a directory in which no other audit runs, got {directory}. Wait "
                "for that audit, or give another directory with --out."
            ) from error
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):  # Windows removes it on release
                (directory / LOCK_FILE).unlink()
        lock.release()


def _add_basis(values: dict[str, Any]) -> dict[str, Any]:
    """Returns a JSON object; a stored claim without a basis gets the basis "unknown"."""
    if {"epsilon", "scope", "statement"} <= values.keys():
        values.setdefault("basis", Basis.UNKNOWN)
    return values


def _make_edit_error(expected: str, got: str, how: str = "edited") -> InputError:
    """Returns the error for a file whose content differs from that written by the auditor."""
    return InputError(f"Expected {expected}, got {got}. The file was {how}. Run the audit again.")


def _check_verdicts(record: Contents, path: Path) -> None:
    for position, finding in enumerate(record.findings):
        place = f"finding {position} ({finding.target})"
        try:
            again = finding.compute_judgement()
        except InputError as error:
            raise InputError(f"In {path}, {place}: {error}") from error
        if (again.verdict, again.is_vacuous) != (finding.verdict, finding.vacuous):
            how = "computed again from claim, proof and measurement of the record"
            raise _make_edit_error(
                f"verdict {again.verdict} (vacuous={again.is_vacuous}) in {place} of {path}, {how}",
                got=f"{finding.verdict} (vacuous={finding.vacuous})",
            )


def _derive_severity(record: Contents) -> dict[str, Any]:
    """Returns the version of the severity rule, each system's severity, and unassessed parts."""
    assessments = {each.section.target: each.assessment for each in summarize_systems(record)}
    gaps = {name: one.unassessed_text for name, one in assessments.items() if one.unassessed_text}
    return {
        "rule": SEVERITY_RULE_VERSION,
        "targets": {name: str(each.severity) for name, each in assessments.items()},
        "not_assessed": gaps,
    }


def _check_severity(stored: Any, record: Contents, path: Path) -> None:
    """Raises InputError if a stored severity does not follow from the rows of the record."""
    # A severity that was stored under another rule is not checked.
    if not isinstance(stored, dict) or stored.get("rule") != SEVERITY_RULE_VERSION:
        return
    derived = _derive_severity(record)
    if stored != derived:
        raise _make_edit_error(f"severity {derived} in {path}, as its rows imply,", got=str(stored))


def to_json(value: Any, place: str = "") -> Any:
    """Converts a value to the types of JSON, without encoding it; infinity becomes "inf".

    Raises IncompleteError for NaN, with its path in the record. The path begins with ``place``.

    >>> to_json({"epsilon": float("inf"), "worlds": ("a", "b")})
    {'epsilon': 'inf', 'worlds': ['a', 'b']}
    """
    if isinstance(value, Mapping):
        return {str(k): to_json(entry, f"{place}.{k}".strip(".")) for k, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry, f"{place}[{i}]") for i, entry in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise IncompleteError(f"Expected a number at {place}, got NaN. Give a number there.")
        return "inf" if value > 0 else "-inf"
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"Expected a number as JSON defines it, got {constant}.")


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
