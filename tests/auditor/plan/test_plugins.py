"""Tests of plug-ins that do not load or fail: each is one line, and the audit runs without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan import plugins
from fedrec_auditor.auditor.plan.families import FAMILIES, PLUGIN_FAMILIES, load_papers
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.auditor.run.tasks import Audit, list_audit_omissions
from fedrec_auditor.reports.record.record import Record
from tests.command import cli, refusal

Install = Callable[..., None]
MODULES = {
    "theirs_raises": "raise RuntimeError('one\\n\\ntwo')\n",
    "theirs_exits": "raise SystemExit(0)\n",
    "theirs_wrong": "def (\n",
    "theirs": """
from dataclasses import dataclass
from fedrec_auditor.targets.systems.base import Target
KEEP = 0.75
class Plain:
    pass
class Needs:
    def __init__(self, more):
        pass
@dataclass(frozen=True)
class Empty:
    rounds: int = 2
class Fails:
    def recognises(self, path):
        raise KeyError("a bug")
    load = recognises
@dataclass(frozen=True)
class Picky:
    rounds: int = 2
    def __post_init__(self):
        if self.rounds != 2:
            raise KeyError("a bug")
for _name in (name for name in dir(Target) if not name.startswith("_")):
    setattr(Picky, _name, None)
""",
}
LOAD_ERRORS = {
    "raises on import": ("theirs_raises:X", "RuntimeError: one two"),
    "exits on import": ("theirs_exits:X", "SystemExit: 0"),
    "is no Python": ("theirs_wrong:X", "SyntaxError"),
    "is not there": ("no_such_module:X", "ModuleNotFoundError"),
    "names no attribute": ("theirs", "not of the form MODULE:CLASS"),
    "names one that is not there": ("theirs:Nope", "AttributeError"),
    "is malformed": ("their module:::X", "not of the form MODULE:CLASS"),
    "is empty": ("", "not of the form MODULE:CLASS"),
    "is no class": ("theirs:KEEP", "0.75, which is not a class"),
    "is of another type": ("builtins:int", "a class"),
    "has nothing of the family": ("theirs:Empty", "a class without"),
}


# Families of plug-ins whose members are classes.
CLASSES = sorted({*PLUGIN_FAMILIES} - {"papers"})


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Function that writes the files of an installed distribution with the given entry points."""

    def done(points: str, name: str = "their-members") -> None:
        site = tmp_path / f"site-{name}"
        folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(points)
        for module, text in MODULES.items():
            (site / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(site))

    return done


@pytest.mark.parametrize(("value", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS)
def test_a_plugin_that_fails_to_load_is_one_line(
    install: Install, value: str, message: str
) -> None:
    built_in = {kind: FAMILIES[kind].list_names() for kind in CLASSES}
    install("".join(f"[fedrec_auditor.{kind}]\ntheirs = {value}\n" for kind in CLASSES))
    for kind in CLASSES:
        family = FAMILIES[kind]
        assert "theirs" in family.list_names()
        assert family.read_summary("theirs").startswith("plug-in")
        assert family.list_loadable_names() == built_in[kind]
        (line,) = family.list_load_errors()
        assert line.startswith(
            f"Left out: the {family.singular} plug-in 'theirs' of their-members 1.0"
        )
        assert message in line
        assert "\n" not in line
        with pytest.raises(InputError, match=r"their-members 1\.0") as caught:
            family.load_class("theirs")
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("theirs_raises", "RuntimeError: one two"),
        ("theirs_exits", "SystemExit: 0"),
        ("no_such_package", "ModuleNotFoundError"),
        ("theirs", "ModuleNotFoundError"),  # a module without systems
        ("theirs:KEEP", "not of the form PACKAGE"),
        ("fedrec_auditor.accountants", "ModuleNotFoundError"),
    ],
)
def test_a_paper_that_cannot_be_read_is_one_line(
    install: Install, value: str, message: str
) -> None:
    built_in, systems = tuple(load_papers()), FAMILIES["targets"].list_names()
    install(f"[fedrec_auditor.papers]\ntheirs = {value}\n")
    (line,) = FAMILIES["papers"].list_load_errors()
    assert line.startswith("Left out: the paper plug-in 'theirs' of their-members 1.0")
    assert message in line
    assert tuple(load_papers()) == built_in
    assert FAMILIES["targets"].list_names() == systems


@pytest.mark.parametrize("kind", sorted({*CLASSES} - {"mechanisms"}))
def test_a_plugin_that_needs_arguments_does_not_load(install: Install, kind: str) -> None:
    install(f"[fedrec_auditor.{kind}]\ntheirs = theirs:Needs\n")
    (line,) = FAMILIES[kind].list_load_errors()
    settable = FAMILIES[kind].has_settings
    assert ("not a dataclass" if settable else "TypeError: ") in line


def test_taken_and_invalid_names_are_reported(install: Install) -> None:
    install(
        "[fedrec_auditor.attacks]\nattribute-mlp = theirs:Plain\n../x = theirs:Plain\n", "first"
    )
    install("[fedrec_auditor.attacks]\nbroken\n", "second")
    install("[fedrec_auditor.mechanisms]\none = theirs:Plain\n", "third")
    install("[fedrec_auditor.mechanisms]\none = theirs:Plain\n", "fourth")
    lines = FAMILIES["attacks"].list_load_errors()
    assert len(lines) == 3
    assert any("of first 1.0" in line and "a name that is taken" in line for line in lines)
    assert any("'../x' of first 1.0" in line and "letters, digits" in line for line in lines)
    assert any("of second 1.0" in line and "cannot be read" in line for line in lines)
    assert FAMILIES["attacks"].load_class("attribute-mlp").__module__.startswith("fedrec_auditor.")
    lines = FAMILIES["mechanisms"].list_load_errors()
    assert [("third" in line, "taken" in line) for line in lines] in (
        [(True, True), (False, False)],
        [(False, False), (True, True)],
    )
    assert {"first", "third", "fourth"} <= set(plugins.get_plugin_versions())


BROKEN_PLUGINS = """
[fedrec_auditor.accountants]
theirs = theirs_exits:X
[fedrec_auditor.attacks]
theirs = theirs_raises:X
[fedrec_auditor.targets]
theirs = theirs:Empty
[fedrec_auditor.datasets]
theirs = theirs:KEEP
[fedrec_auditor.papers]
theirs = theirs:KEEP
"""


def test_an_audit_runs_without_broken_plugins_and_notes_them(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "t.csv"
    data.write_text("user,item\n" + "".join(f"{i % 30},{i * i % 17}\n" for i in range(300)))
    words = ("run", "random", "--quick", "--jobs", "1", "--data", data, "--out", tmp_path / "out")
    assert cli(*words)[0] == 0
    before = Record.read(tmp_path / "out")
    install(BROKEN_PLUGINS)
    code, out, _ = cli(*words)
    assert code == 0
    record = Record.read(tmp_path / "out")
    left = ("attack", "accountant", "dataset")
    *notes, slow, repeated, quick = record.notes
    assert "rows of t.csv are left out because another row" in repeated
    assert quick.startswith("Each game (a simulation) makes 10% of its usual runs")
    assert slow.startswith("Slow attacks that did not run: ")
    for noun, note in zip(left, notes, strict=True):  # one target was named
        assert f"the {noun} plug-in 'theirs'" in note
    assert caplog.messages == notes
    said = " ".join(out.split())  # long lines are wrapped
    assert all(f"note: {note}" in said for note in record.notes)
    assert record.findings == before.findings
    assert record.attacks == before.attacks
    assert record.provenance.versions["their-members"] == "1.0"


def test_broken_targets_are_omitted_from_all_and_refused_by_name(
    install: Install, tmp_path: Path
) -> None:
    built_in = FAMILIES["targets"].list_names()
    install(BROKEN_PLUGINS)
    assert Plan(targets=("all",)).resolve().targets == built_in
    assert "the target plug-in 'theirs' of their-members 1.0" in refusal(
        "run", "theirs", "random", "--data", "synthetic", "--out", tmp_path / "out"
    )
    assert not (tmp_path / "out").exists()
    for command in (("list",), ("doctor",), ("claims", "fcf")):
        code, out, err = cli(*command)
        assert code == 0
        if command == ("doctor",):
            assert "Left out: the accountant plug-in 'theirs' of their-members 1.0" in out + err


@pytest.mark.parametrize("kind", sorted({*FAMILIES} - {*PLUGIN_FAMILIES}))
def test_plugins_of_a_closed_family_are_ignored_with_one_line(install: Install, kind: str) -> None:
    built_in = FAMILIES[kind].list_names()
    install(f"[fedrec_auditor.{kind}]\ntheirs = theirs_exits:X\n")
    assert FAMILIES[kind].list_names() == built_in
    (line,) = FAMILIES[kind].list_load_errors()
    assert line.startswith(
        f"Left out: the {FAMILIES[kind].singular} plug-in 'theirs' of their-members"
    )
    assert "Expected a member of targets, papers, attacks, mechanisms, datasets" in line
    assert line in list_audit_omissions(Plan(targets=("random",)))


def test_a_broken_plugin_of_a_plan_is_refused_before_any_work(install: Install) -> None:
    install("[fedrec_auditor.attacks]\ntheirs = theirs_raises:X\n")
    with pytest.raises(InputError, match=r"plug-in 'theirs' of their-members 1\.0 .*RuntimeError"):
        Audit.from_plan(Plan(targets=("random",), data="synthetic", attacks=("theirs",)))


def test_failures_of_plugins_at_settings_or_files_are_reported(
    install: Install, tmp_path: Path
) -> None:
    install(
        "[fedrec_auditor.targets]\ntheirs = theirs:Picky\n"
        "[fedrec_auditor.datasets]\ntheirs = theirs:Fails\n"
    )
    with pytest.raises(InputError, match=r"plug-in 'theirs' of their-members 1\.0 .*KeyError"):
        make_target("theirs", Plan(settings={"theirs": {"rounds": 3}}))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="without such files"):
        load_data(str(tmp_path / "none"))
