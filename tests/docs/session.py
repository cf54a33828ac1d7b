"""Runs the blocks of one page, one after the other, in one namespace and one folder."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import linecache
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from unittest import mock

import typer

from fedrec_auditor.auditor.commands.command_line import main, make_app
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import make_target, read_plan
from fedrec_auditor.auditor.plan.stated_claim import read_claims
from fedrec_auditor.auditor.plan.waivers import read_waivers
from tests.contracts.laws import hold
from tests.docs.blocks import ROOT, Block

# Programs whose arguments are not checked.
ASIDE = {"cd", "dask", "git", "ray"}
SETTINGS = {"COLUMNS": "80", "OMP_NUM_THREADS": "1"}
STEPS = re.compile(r"\s&&\s|\n")


def unmet(block: Block) -> str:
    """The missing module that a block needs; "" if none is missing."""
    module = block.reason if block.mark == "needs" else {"yaml": "yaml"}.get(block.language, "")
    return module if module and importlib.util.find_spec(module) is None else ""


class FirstLine(doctest.OutputChecker):
    """Compares only the first line of a failed contract: pytest adds the values below it."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether ``got``, or its first line, is as shown."""
        compared = got.partition("\n")[0] + "\n" if want.startswith("AssertionError") else got
        return super().check_output(want, compared, optionflags)


class Session:
    """A page's namespace and folder; used as a context.

    The session has one core: workers take longer to start than the pages take to run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = ModuleType("page")
        self.printed = ""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(contextlib.chdir(self.folder))
        for patch in (
            mock.patch.object(os, "cpu_count", return_value=1),
            mock.patch.dict(os.environ, SETTINGS),
            mock.patch.object(sys, "path", [str(self.folder), *sys.path]),
        ):
            self._stack.enter_context(patch)
        sys.modules["page"] = self.module
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for name, module in list(sys.modules.items()):  # only the page's: torch loads only once
            place = getattr(module, "__file__", None) or ""
            if name == "page" or place.startswith(str(self.folder)):
                del sys.modules[name]

    def outputs(self, block: Block) -> Iterator[tuple[str, str]]:
        """Runs, parses or reads a block; yields (text on the page, actual text) to compare."""
        if block.language == "text":
            yield block.text, self.printed
        else:
            read = {"python": self._python, "pycon": self._examples, "sh": self._commands}
            read |= {"toml": self._settings, "json": self._json, "yaml": self._workflow}
            (self._write if block.file else read[block.language])(block)

    def _write(self, block: Block) -> None:
        path = Path(block.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _python(self, block: Block) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            lines = block.text.splitlines(keepends=True)
            linecache.cache[str(block)] = len(block.text), None, lines, str(block)
            known = set(self.module.__dict__)
            exec(compile(block.text, str(block), "exec"), self.module.__dict__)
            for name in self.module.__dict__.keys() - known:
                if name.startswith("Test"):  # as pytest would run a reader's tests
                    contract = getattr(self.module, name)
                    hold(contract, contract.subject)
        self.printed = out.getvalue()

    def _examples(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(
            block.text, self.module.__dict__, block.page, block.page, block.line
        )
        runner, output = doctest.DocTestRunner(FirstLine()), io.StringIO()
        runner.run(test, out=output.write, clear_globs=False)
        self.module.__dict__.update(test.globs)
        assert runner.tries
        assert not runner.failures, output.getvalue()

    def _commands(self, block: Block) -> None:
        for step in STEPS.split(block.text):
            check(step)
            if block.mark == "run" and step:
                self._run(step)

    def _settings(self, block: Block) -> None:
        path = Path(f"settings-{block.line}.toml")
        path.write_text(block.text, encoding="utf-8")
        found = tomllib.loads(block.text)
        if "project" in found:
            return
        if "epsilon" in found:
            assert read_claims(path)
        elif "waiver" in found:
            assert read_waivers(path, date(2026, 1, 1))[0]
        else:
            plan = read_plan(path)
            assert [make_target(name, plan).name for name in plan.targets] == list(plan.targets)

    def _json(self, block: Block) -> None:
        json.loads(block.text)

    def _workflow(self, block: Block) -> None:
        import yaml

        for value in _values(yaml.safe_load(block.text)):
            check(value)

    def _run(self, command: str) -> None:
        """Runs a command; an exit code that reports findings is not a failure."""
        program, *words = shlex.split(command, comments=True)
        assert program == "auditor"
        code, told = 0, io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["auditor", *words]),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(told),
        ):
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        assert code in (0, 1), told.getvalue()


def check(line: str) -> None:
    """Parses a command by its program's own parser, as far as possible without running it."""
    words = shlex.split(line, comments=True)
    if not words or words[0] in ASIDE:
        return
    program, *rest = words
    if program == "auditor":
        _parse(rest)
    elif program == "make":
        rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
        assert {word for word in rest if "=" not in word} <= set(rules), line
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        for extras in re.findall(r"fedrec-auditor\[(.*?)\]", line):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), line
    elif program == "python" and rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None, line
    elif program == "python":
        assert (ROOT / rest[0]).is_file(), line
    else:
        assert program in ("pytest", "cat", "pre-commit"), line


def _parse(words: list[str]) -> None:
    """Parses options and arguments by the command line's own parser; checks target names."""
    group = typer.main.get_command(make_app())
    above = group.make_context("auditor", list(words))
    name, command, rest = group.resolve_command(above, words)
    found = command.make_context(name, rest, parent=above).params
    one = {"claims": "subject", "record": "target"}.get(str(name))
    named = found.get("targets") or ([found[one]] if one and not str(found[one]).isdigit() else [])
    for target in named:
        assert target in (None, "all", *FAMILIES["targets"].list_names()) or ":" in target, words


def _values(data: Any) -> Iterator[str]:
    """The commands in a workflow's values, and those made of a hook's arguments."""
    if isinstance(data, list):
        for each in data:
            yield from _values(each)
    elif isinstance(data, dict):
        if isinstance(data.get("run"), str):
            yield from data["run"].splitlines()
        if "args" in data:
            yield shlex.join([*data["id"].split("-", 1), *data["args"]])
        for value in data.values():
            yield from _values(value)
