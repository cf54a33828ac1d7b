"""Stored records: equal records give equal bytes, invalid ones are refused; uses of a record."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.leaks import rank_leaks
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import (
    RECORD_SCHEMA_VERSION,
    Finding,
    MessagesRow,
    UtilityRow,
)
from fedrec_auditor.reports.record.sections import assign_html_ids
from fedrec_auditor.reports.record.store import RECORD_SCHEMA_URN
from fedrec_auditor.reports.say import describe_basis, summary
from fedrec_auditor.reports.writers import html
from fedrec_auditor.reports.writers.files import CSV_TABLE_NAMES, format_csv_table, write_tables
from tests.reports.conftest import finding, get_summary, scope, upper, vary
from tests.reports.schema import schema, schema_text
from tests.reports.writers.test_html import Page


def test_infinity_is_a_string_and_keys_are_sorted(record: Record) -> None:
    text = store.encode_record(record).decode()
    raw = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    assert raw["findings"][0]["claim"]["epsilon"] == "inf"
    assert text.endswith("}\n")
    assert list(raw) == sorted(raw)
    assert text == json.dumps(raw, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "a FIFO"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.mkdir(), "a directory"),
        (
            lambda path: path.touch() or os.truncate(path, store.MAX_RECORD_BYTES + 1),
            "more than 268,435,456",
        ),
    ],
)
def test_endless_files_are_not_read_as_records(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    make(tmp_path / store.RECORD_FILE)
    with pytest.raises(InputError, match=rf"run directory with report\.json.*\({said}"):
        Record.read(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_locks_that_are_not_files_are_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / store.LOCK_FILE)
    said = r"nothing at .*\.lock, got a "
    with pytest.raises(InputError, match=said), store.lock_directory(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [store.LOCK_FILE]


def test_nan_is_refused_with_its_place(record: Record) -> None:
    attack = vary(record.attacks[0], ci_low=float("nan"))
    broken = vary(record, attacks=(attack,))
    with pytest.raises(IncompleteError, match=r"attacks\[0\]\.ci_low, got NaN"):
        store.encode_record(broken)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_a_killed_write_leaves_the_old_files(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    store.write_run_files(record, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    calls = 0

    def fsync(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise stop

    monkeypatch.setattr(store.os, "fsync", fsync)
    changed = vary(record, errors=("changed",))
    with pytest.raises((KeyboardInterrupt, IncompleteError)):
        store.write_run_files(changed, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_record_is_moved_into_place_last(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []
    replace = Path.replace

    def spy(self: Path, target: Path) -> Path:
        moved.append(target.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", spy)
    store.write_run_files(record, tmp_path)
    assert sorted(moved) == sorted(store.RUN_FILE_NAMES)
    assert moved[-1] == "report.json"


def set_fields(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def edit(raw: dict[str, Any]) -> None:
        raw.update(changes)

    return edit


def set_verdict_proved(raw: dict[str, Any]) -> None:
    refuted = next(f for f in raw["findings"] if f["verdict"] == "VIOLATED")
    refuted["verdict"] = "CONSISTENT"


def raise_the_claim(raw: dict[str, Any]) -> None:
    next(f for f in raw["findings"] if f["verdict"] == "VIOLATED")["claim"]["epsilon"] = "inf"


def set_severity_low(raw: dict[str, Any]) -> None:
    raw["severity"]["targets"]["fcf"] = "Low"


def swap_scope(raw: dict[str, Any]) -> None:
    raw["findings"][1]["accounted"]["scope"]["horizon"] = "report"
    raw["findings"][1]["scope"]["horizon"] = "training"


def set_negative_epsilon(raw: dict[str, Any]) -> None:
    raw["findings"][0]["claim"]["epsilon"] = -1


def set_nan(raw: dict[str, Any]) -> None:
    raw["attacks"][0]["value"] = "nan"


def set_negative_probability(raw: dict[str, Any]) -> None:
    found = next(f for f in raw["findings"] if (f["measured"] or {}).get("witness"))
    found["measured"]["witness"]["probability_b"] = "-inf"


def set_confidence_0(raw: dict[str, Any]) -> None:
    raw["attacks"][0]["confidence"] = 0


def add_unknown_quantile(raw: dict[str, Any]) -> None:
    users = next(row["users"] for row in raw["attacks"] if row["users"])
    users["quantiles"]["evil"] = users["quantiles"]["50%"]


def nest_plan(raw: dict[str, Any]) -> None:
    for _ in range(300):
        raw["plan"] = {"settings": raw["plan"]}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (set_negative_probability, "probability_b >= 0"),
        (set_confidence_0, "edited or damaged"),
        (add_unknown_quantile, r"users\.quantiles\.evil"),
        (nest_plan, "at most 32 nested levels"),
        (set_verdict_proved, "Expected verdict VIOLATED"),
        (raise_the_claim, "Expected verdict NO CLAIM"),
        (swap_scope, "finding 1"),
        (set_severity_low, r"Expected severity \{.*'fcf': 'Critical'"),
        (set_negative_epsilon, r"findings\.0\.claim: .* epsilon=-1"),
        (set_nan, "got NaN"),
        (set_fields(schema_version=6), "schema_version=5 in .* got 6.* run the audit again"),
        (set_fields(schema_version=None), "got None"),
        (set_fields(schema_version=0), "got 0"),
        (set_fields(schema_version=True), "got True"),
        (set_fields(schema_version=1), "schema_version=5 in .* got 1"),
        (set_fields(extra=1), "extra"),
        (set_fields(findings=7), "findings"),
    ],
)
def test_a_tampered_record_is_refused(
    record: Record, tmp_path: Path, edit: Callable[[dict[str, Any]], None], message: str
) -> None:
    raw = json.loads(store.encode_record(record))
    edit(raw)
    (tmp_path / "report.json").write_text(json.dumps(raw))
    with pytest.raises(InputError, match=message) as caught:
        Record.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_invalid_records_are_refused(record: Record, tmp_path: Path) -> None:
    """A missing directory, other files, and a record that is truncated anywhere."""
    with pytest.raises(InputError, match=r"nowhere .*auditor run"):
        Record.read(tmp_path / "nowhere")
    whole = store.encode_record(record)
    cut = [whole[:end] for end in range(0, len(whole) - 2, len(whole) // 23)]
    others = (
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"schema_version": NaN}',
        b"[" * 100_000,
        b"7" * 9999,
    )
    for content in (*cut, *others):
        (tmp_path / "report.json").write_bytes(content)
        with pytest.raises(InputError, match="Expected"):
            Record.read(tmp_path)


def test_no_file_has_control_characters_or_invalid_utf8(record: Record, tmp_path: Path) -> None:
    """File names may have any bytes: the record has them escaped, reports replaced by a mark."""
    evil = "\x1b[31m \x9b31m \x7f \udcff"
    rows = {"notes": (evil,), "errors": (evil,), "plan": {"data": evil, "settings": 1}}
    attack = vary(record.attacks[0], note=evil, metric=evil, target=evil)
    finding = vary(record.findings[0], target=evil, reason=evil, note=evil)
    told = vary(record, **rows, attacks=(attack,), findings=(finding,))
    store.write_run_files(told, tmp_path)
    for name in store.RUN_FILE_NAMES:
        text = (tmp_path / name).read_bytes().decode()
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text), name
    assert json.loads((tmp_path / "report.json").read_text())["notes"] == [evil]


def test_missing_or_outdated_severity_is_derived_again(record: Record, tmp_path: Path) -> None:
    raw = json.loads(store.encode_record(record))
    assert raw["severity"] == {
        "rule": 4,
        "not_assessed": {},
        "targets": {
            "dplcf-ap": "Critical",
            "dplcf-sp": "High",
            "fcf": "Critical",
            "fmf-ldp": "High",
        },
    }
    del raw["severity"]
    (tmp_path / "report.json").write_text(json.dumps(raw))
    assert Record.read(tmp_path) == record
    raw["severity"] = {"rule": 2, "targets": {"fcf": "Low"}}
    (tmp_path / "report.json").write_text(json.dumps(raw))
    assert Record.read(tmp_path) == record


def test_claims_of_earlier_records_are_not_ascribed_to_authors(
    record: Record, tmp_path: Path
) -> None:
    raw = json.loads(store.encode_record(record))
    for row in raw["findings"]:
        del row["claim"]["basis"]
    (tmp_path / "report.json").write_text(json.dumps(raw))
    found = Record.read(tmp_path)
    assert [f.verdict for f in found.findings] == [f.verdict for f in record.findings]
    assert {describe_basis(f.claim) for f in found.findings} == {"author unknown"}


def test_unwritable_directories_are_refused_early(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="can be written"):
            store.prepare_directory(bad)
    (tmp_path / "out" / "report.json").mkdir(parents=True)
    with pytest.raises(InputError, match="got a directory"):
        store.prepare_directory(tmp_path / "out")
    store.prepare_directory(tmp_path / "new" / "deep")
    assert not list((tmp_path / "new" / "deep").iterdir())


def test_a_directory_is_locked_by_one_audit_at_a_time(tmp_path: Path) -> None:
    with (
        store.lock_directory(tmp_path),
        pytest.raises(InputError, match="no other audit"),
        store.lock_directory(tmp_path),
    ):
        pass
    with store.lock_directory(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


PUBLISHED = Path(__file__).parents[3] / "docs" / "report.schema.json"
Validator = Callable[[Any], list[str]]


@pytest.fixture(scope="module")
def list_faults() -> Validator:
    """A function that lists the paths at which a value violates the schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="the extra `dev` has it")
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    return lambda value: [error.json_path for error in validator.iter_errors(value)]


def test_the_published_schema_is_current() -> None:
    """``python -m tests.reports.schema > docs/report.schema.json`` writes it."""
    assert schema_text() == PUBLISHED.read_text(encoding="utf-8")


def test_the_schema_is_versioned_and_is_json() -> None:
    told = json.loads(schema_text(), parse_constant=lambda name: pytest.fail(name))
    assert told["$id"] == RECORD_SCHEMA_URN == f"urn:fedrec-auditor:report:{RECORD_SCHEMA_VERSION}"
    assert f"schema version {RECORD_SCHEMA_VERSION}" in told["title"]
    assert ">>>" not in schema_text()
    assert told["$defs"]["Bound"]["properties"]["largest"]["default"] == "inf"


def edit_record(record: Record, edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(store.encode_record(record))
    edit(raw)
    return raw


@pytest.mark.parametrize(
    ("place", "edit"),
    [
        ("$", lambda raw: raw.update(extra=1)),
        ("$", lambda raw: raw.pop("plan")),
        ("$.schema_version", lambda raw: raw.update(schema_version=2)),
        ("$.findings[0].verdict", lambda raw: raw["findings"][0].update(verdict="SAFE")),
        ("$.findings[0].delta", lambda raw: raw["findings"][0].update(delta="infinite")),
        ("$.attacks[0].value", lambda raw: raw["attacks"][0].update(value=None)),
        ("$.severity.targets.fcf", lambda raw: raw["severity"]["targets"].update(fcf="Bad")),
    ],
)
def test_invalid_records_violate_the_schema(
    record: Record, list_faults: Validator, place: str, edit: Callable[[dict[str, Any]], None]
) -> None:
    assert list_faults(edit_record(record, edit)) == [place]


def test_a_notebook_shows_the_first_screen_of_the_report(record: Record) -> None:
    text = record._repr_html_()
    page = Page(text)
    assert page.count("script") == page.count("link") == page.count("img") == page.count("a") == 0
    assert len(text) < 25_000
    order = ["dplcf-ap", "fcf", "dplcf-sp", "fmf-ldp"]
    assert sorted(order, key=page.words.index) == order
    list_results = "is right 81.6% of the time about which of two items"
    assert page.count("svg") == 2  # one is hidden, depending on the width
    assert all("text-align:left" in (a["style"] or "") for tag, a in page.tags if tag == "td")
    for said in ("1 “false”, 2 “proved”, 1 “no claim”", "943 users", list_results, "Withdraw"):
        assert said in page.words
        assert said in Page(html.render_html(record)).words


def test_the_notebook_style_is_limited_to_the_card(record: Record) -> None:
    style = record._repr_html_().split("<style>")[1].split("</style>")[0]
    for rule in style.split("{")[:-1]:
        selector = rule.rpartition("}")[2].rpartition("*/")[2].strip()
        if not selector.startswith("@"):
            assert all(".privacy-audit" in part for part in selector.split(",")), selector


def test_the_counts_add_up_to_all_systems(record: Record) -> None:
    assert "claims: 1 “false”, 2 “proved”, 1 “no claim”." in summary.describe_verdict_counts(record)
    assert summary.describe_user_hiding(record).startswith("None of 4 systems has a proof")
    first = record.findings[0]
    user = scope("user", "training")
    promised = first.claim.__class__(epsilon=1.0, scope=user, statement="s", source="s")
    hidden = finding("kept", promised, user, upper(1.0, user, "a proof"), None)
    vacuous = finding("wide", promised, user, upper(9.0, user, "a proof"), None)
    bare = finding("bare", promised, user, None, None)
    changed = vary(record, findings=(hidden, vacuous, bare), attacks=())
    counts = summary.describe_verdict_counts(changed)
    assert "claims: 2 “unproved”, 1 “proved”, 4 “not judged”." in counts
    # "wide" and "bare" are unproved; a proof of epsilon 9 hides no user.
    assert summary.describe_user_hiding(changed).startswith("1 of 7 systems has a proof")


def test_a_section_has_all_rows_of_its_target(record: Record) -> None:
    one = record["dplcf-ap"]
    assert {row.target for row in (*one.findings, *one.attacks, *one.skipped)} == {"dplcf-ap"}
    assert one.violated == record.violated
    assert [each.verdict for each in record.violated] == [Verdict.VIOLATED]
    assert repr(one).startswith("dplcf-ap: ✗ false. Epsilon is infinite, by calculation")
    assert record["fcf"].violated == ()
    with pytest.raises(InputError, match=r"one of fcf, fmf-ldp, dplcf-sp, dplcf-ap, got 'nobody'"):
        _ = record["nobody"]


def test_tables_have_a_column_per_number(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pandas(ModuleType):
        DataFrame = staticmethod(lambda rows: rows)

    monkeypatch.setitem(sys.modules, "pandas", Pandas("pandas"))
    rows: Any = record.to_frame()
    assert len(rows) == len(record.findings)
    assert len({tuple(row) for row in rows}) == 1
    for row, source in zip(rows, record.findings, strict=True):
        assert row["claim.epsilon"] == source.claim.epsilon
        assert row["scope.unit"] == source.scope.unit
        assert type(row["verdict"]) is str
        shown = None if source.measured is None else source.measured.epsilon
        assert row["measured.epsilon"] == shown
    assert "accounted" not in rows[0]
    attacks: Any = record.to_frame("attacks")
    assert [row["baselines.random"] for row in attacks] == [0.5] * len(record.attacks)
    with pytest.raises(InputError, match=r"what=findings or .*, got what='plan'"):
        record.to_frame("plan")


def test_tables_without_pandas_are_of_pyarrow(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoPandas:
        def find_spec(self, name: str, *more: Any) -> None:
            if name == "pandas":
                raise ModuleNotFoundError(name)

    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NoPandas(), *sys.meta_path])
    table: Any = record.to_frame("attacks")
    assert table["baselines.random"].to_pylist() == [0.5] * len(record.attacks)


def with_finding(record: Record, finding: Finding) -> Record:
    none = dict.fromkeys(("measurements", "attacks", "skipped", "utility"), ())
    return vary(record, findings=(finding,), **none)


def test_lower_bounds_under_assumptions_are_not_shown(record: Record) -> None:
    one = record["dplcf-sp"].findings[0]
    doubtful = replace(one.measured, epsilon=77.0, assumptions=("scores are Gaussian",))
    changed = with_finding(record, vary(one, measured=doubtful))
    (glance,) = summary.summarize_systems(changed)
    texts = (glance.verdict_sentences, glance.headline, glance.scope_phrase, glance.log_line)
    said = f"{' '.join(texts)} {glance.advice}"
    assert "77" not in said
    assert "shown" not in said


def test_proofs_under_assumptions_do_not_count_as_hiding_users(record: Record) -> None:
    every = next(f for f in record["dplcf-sp"].findings if f.scope.unit is Unit.USER)
    proof = replace(every.accounted, epsilon=1.0)
    sure = vary(every, accounted=proof, measured=None)
    assumed = vary(sure, accounted=replace(proof, assumptions=("luck",)))
    said = [summary.describe_user_hiding(with_finding(record, each)) for each in (sure, assumed)]
    assert [words.split()[0] for words in said] == ["1", "None"]


def test_failed_trainings_are_named_beside_attack_results(record: Record) -> None:
    """A note appears if most messages are empty; it says "broke down" if utility is bad, too."""
    rows = [row for row in record.utility if row.target == "fcf"]
    flat = [vary(row, ci_low=0.0, ci_high=1.0) for row in rows]
    assert rows

    def list_results(silent: int, utility: list[UtilityRow]) -> tuple[str, str]:
        told = MessagesRow(target="fcf", sent=100, empty=silent, oversized=1)
        changed = vary(record, messages=(told,), utility=tuple(utility))
        one = get_summary(changed, "fcf")
        return one.attack_result, one.attack_details.partition(". Attack “")[0]

    for words in list_results(70, flat):
        assert words.endswith("; the training broke down: 71 of 100 messages are empty or unusable")
    for words in (*list_results(70, rows), *list_results(70, [])):
        assert words.endswith("; 71 of 100 messages are empty or unusable")
    for words in list_results(49, flat):
        assert "messages" not in words


def test_false_claims_state_how_many_times_they_are_exceeded(record: Record) -> None:
    finding = record["dplcf-ap"].headline_finding
    for least, said in ((1.6662, "1.66 times the claim"), (20.0, "20 times"), (math.inf, "")):
        shown = replace(finding.measured, epsilon=least)
        changed = vary(record, findings=(vary(finding, measured=shown),))
        sentence = get_summary(changed, "dplcf-ap").verdict_sentences
        assert ("times" in sentence) is bool(said)
        assert said in sentence


def test_html_ids_of_systems_and_findings_do_not_clash(record: Record) -> None:
    first, *rest = record.findings
    bold = vary(first, target="dplcf-ap-interaction-server-report")
    found = assign_html_ids(vary(record, findings=(bold, *rest)))
    assert found["dplcf-ap"].finding_ids == ("dplcf-ap-interaction-server-report-2",)


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t=", "\r@", " ="])
def test_tables_have_no_spreadsheet_formulas(record: Record, sign: str) -> None:
    row = vary(record.findings[0], target=f"{sign}cmd|' /C calc'!A0")
    table = format_csv_table(vary(record, findings=(row,)), "findings")
    (read,) = csv.DictReader(io.StringIO(table))
    assert read["target"] == f"'{sign.strip()}cmd|' /C calc'!A0"
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in read.values())


def test_tables_have_a_row_per_figure_and_a_cell_per_advantage(record: Record) -> None:
    figures = list(csv.DictReader(io.StringIO(format_csv_table(record, "attacks"))))
    key = ("target", "attack", "vantage", "metric", "figure")
    assert len({tuple(row[name] for name in key) for row in figures}) == len(figures)
    values = [float(row["value"]) for row in figures if row["figure"] == "value"]
    assert values == [row.value for row in record.attacks]
    fewest = {row["value"] for row in figures if row["figure"].endswith("activity.fewest items")}
    assert fewest
    (membership,) = (
        row
        for row in csv.DictReader(io.StringIO(format_csv_table(record, "advantages")))
        if row["attack"] == "membership"
    )
    worst = {leak.row.target: leak.advantage for leak in reversed(rank_leaks(record))}
    assert float(membership["fcf"]) == worst["fcf"]


def test_all_tables_are_written(record: Record, tmp_path: Path) -> None:
    assert write_tables(record, tmp_path / "new") == CSV_TABLE_NAMES
    files = {path.name for path in (tmp_path / "new").iterdir()}
    assert files == {f"{name}.csv" for name in CSV_TABLE_NAMES}


@pytest.mark.parametrize("name", CSV_TABLE_NAMES)
def test_empty_tables_have_a_head(record: Record, name: str) -> None:
    empty = record.model_copy(update=dict.fromkeys(CSV_TABLE_NAMES, ()))
    assert format_csv_table(empty, name) == "target\n"
