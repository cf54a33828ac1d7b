"""A public package that is verified: where it is installed, and the rows of its mechanisms.

Beside each module of this folder stands a file of the same name with what the package claims, in
numbers and words: ``package``, ``version``, what it ``needs`` beside the project's own packages,
``defaults`` of all rows, and a table for each row under the name of a callable of the module, or
with the ``law`` of the noise, where that alone is in question. See ``Finding`` for the fields.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.wild.finding import Finding
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / "build" / "wild"
NAMES = tuple(sorted(path.stem for path in HERE.glob("*.toml")))
"""The modules of all packages."""


@dataclass(frozen=True)
class Package:
    """The package of the module ``name``; installed in a folder of its own, without dependencies.

    What the project itself needs serves, and what a package imports only to plot, to fit or to
    serve is left blank.
    """

    name: str

    @classmethod
    def of(cls, module: str) -> Package:
        """That of a module, by its whole name."""
        return cls(module.rpartition(".")[2])

    @cached_property
    def said(self) -> dict[str, Any]:
        """What stands in its file."""
        return tomllib.loads((HERE / f"{self.name}.toml").read_text(encoding="utf-8"))

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return INSTALLED / self.name

    @property
    def results(self) -> Path:
        """Where its rows are left when they are measured."""
        return INSTALLED / f"{self.name}.json"

    @property
    def words(self) -> str:
        """Its name and version: of one that the project itself needs, the installed one."""
        name = self.said["package"]
        return f"{name} {self.said.get('version') or metadata.version(name)}"

    def install(self) -> str:
        """Have pip put it into its folder; why it cannot be had, or ""."""
        if "version" not in self.said:
            return ""
        wanted = {self.said["package"]: self.said["version"]} | self.said.get("needs", {})
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        present = {path.stem.lower() for path in self.folder.glob("*.dist-info")}
        missing = [
            f"{name}=={version}"
            for name, version in wanted.items()
            if f"{name.replace('-', '_').lower()}-{version}" not in present
        ]
        if not missing:
            return ""
        done = subprocess.run(
            [*pip, "--no-deps", "--upgrade", "--target", str(self.folder), *missing],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr.strip().splitlines()[-1] if done.returncode else ""

    def load(self, module: str, *blank: str) -> Any:
        """Import a module of it, with nothing in the modules ``blank``, outer ones first."""
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        for name in blank:
            if name not in sys.modules:
                outer = sys.modules.get(name.rpartition(".")[0])
                inside = "." not in name or hasattr(outer, "__path__")
                spec = importlib.util.find_spec(name) if inside else None
                found = importlib.util.module_from_spec(spec) if spec else ModuleType(name)
                sys.modules[name] = found
        try:
            return importlib.import_module(module)
        except ImportError as error:
            return Absent(error)

    def findings(self) -> tuple[Finding, ...]:
        """Its rows."""
        module = importlib.import_module(f"benchmarks.wild.{self.name}")
        defaults = self.said.get("defaults", {})
        found = []
        for key, said in self.said.items():
            if not isinstance(said, dict) or key in ("defaults", "needs"):
                continue
            row: dict[str, Any] = {
                name: " ".join(value.split()) if isinstance(value, str) else value
                for name, value in {**defaults, **said}.items()
            }
            row.setdefault("exact", row["epsilon"])
            law = row.pop("law", None)
            call = getattr(module, key) if law is None else Gaussian(**law)
            if law is not None:
                row["inputs"] = None
            found.append(
                Finding(
                    **row,
                    library=self.said["package"],
                    module=module.__name__,
                    key=key,
                    call=call,
                )
            )
        return tuple(found)


class Absent:
    """Stands for a module that cannot be imported, until something of it is asked for."""

    def __init__(self, error: ImportError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error
