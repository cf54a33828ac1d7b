"""A public package under test: its installation, and the claims of its mechanisms.

Each module of this folder has a TOML file of the same name with the package's claims:

- ``package``: its name
- ``version``: its version; or ``commit``: the commit of a repository that cannot be installed, and
  is reimplemented in the module
- ``needs``: further packages to install, with versions
- ``defaults``: fields that all mechanisms share
- one table per mechanism, named like a callable of the module, with the fields of ``Finding``

If only the noise is tested, the table has its distribution (``law``), and the callable measures its
standard deviation.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
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
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian

WILD_FOLDER = Path(__file__).parent
INSTALL_FOLDER = WILD_FOLDER.parents[1] / "build" / "wild"
NAMES = tuple(sorted(path.stem for path in WILD_FOLDER.glob("*.toml")))
"""Module names of all packages."""


@dataclass(frozen=True)
class Package:
    """The package of the module ``name``, installed in its own folder without dependencies.

    Dependencies of the project itself are shared. Modules that a package imports for other
    purposes, such as plots, are replaced by empty ones.
    """

    name: str

    @classmethod
    def from_module(cls, module: str) -> Package:
        """Returns the package of a module, given by its full name."""
        return cls(module.rpartition(".")[2])

    @cached_property
    def toml(self) -> dict[str, Any]:
        """The contents of the package's TOML file."""
        return tomllib.loads((WILD_FOLDER / f"{self.name}.toml").read_text(encoding="utf-8"))

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the package's mechanisms: those of the tables in the TOML file."""
        others = ("defaults", "needs")
        tables = (key for key, value in self.toml.items() if isinstance(value, dict))
        return tuple(key for key in tables if key not in others)

    @property
    def folder(self) -> Path:
        """The folder in which the package is installed."""
        return INSTALL_FOLDER / self.name

    @property
    def results_file(self) -> Path:
        """The file with the measured results of the package."""
        return INSTALL_FOLDER / f"{self.name}.json"

    @property
    def label(self) -> str:
        """The package's name, with its version or commit."""
        return f"{self.toml['package']} {self.toml.get('version') or self.toml['commit']}"

    def install(self) -> str:
        """Installs the package in its folder with pip.

        Returns the reason if that fails, else an empty text.
        """
        if "version" not in self.toml:
            return ""
        versions = {self.toml["package"]: self.toml["version"]} | self.toml.get("needs", {})
        wanted = [f"{name}=={v}" for name, v in versions.items() if not has_package(name, v)]
        present = {path.stem.lower() for path in self.folder.glob("*.dist-info")}
        if {name.replace("==", "-").replace("-", "_").lower() for name in wanted} <= {
            name.replace("-", "_") for name in present
        }:
            return ""
        shutil.rmtree(self.folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--no-deps", "--target", str(self.folder), *wanted],
            capture_output=True,
            text=True,
            check=False,
        )
        words = done.stderr.strip().splitlines() or ["pip says no more"]
        return words[-1] if done.returncode else ""

    def load(self, module: str, *blank: str) -> Any:
        """Imports a module of the package, with empty modules in place of ``blank``.

        If the import fails, the result raises its error on first use.
        """
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        missing = [name for name in blank if name not in sys.modules]
        for name in missing:
            sys.modules[name] = make_blank_module(name)
        try:
            return importlib.import_module(module)
        except Exception as error:  # whatever a foreign module raises
            for name in missing:
                del sys.modules[name]
            return AbsentModule(error)

    def list_findings(self) -> tuple[Finding, ...]:
        """The package's mechanisms with their claims."""
        module = importlib.import_module(f"benchmarks.wild.{self.name}")
        defaults = self.toml.get("defaults", {})
        listed = []
        for key in self.keys:
            row: dict[str, Any] = {
                name: " ".join(value.split()) if isinstance(value, str) else value
                for name, value in {**defaults, **self.toml[key]}.items()
            }
            row.setdefault("exact", row["epsilon"])
            law = row.pop("law", None)
            call = getattr(module, key) if law is None else Gaussian(**law)
            if law is not None:
                row["inputs"] = None
            listed.append(
                Finding(
                    **row, library=self.toml["package"], module=module.__name__, key=key, call=call
                )
            )
        return tuple(listed)


def has_package(name: str, version: str) -> bool:
    """Whether the project's environment has the package at this version."""
    try:
        return metadata.version(name) == version
    except metadata.PackageNotFoundError:
        return False


class AbsentModule:
    """A stand-in for a module that cannot be imported, which raises the error on first use."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error.with_traceback(None)


def make_blank_module(name: str) -> ModuleType:
    """An empty module, in which every name is None.

    If ``name`` is a package, its submodules can still be imported.
    """
    parent = name.rpartition(".")[0]
    whole = not parent or hasattr(sys.modules.get(parent), "__path__")
    spec = importlib.util.find_spec(name) if whole else None
    if spec is not None and spec.submodule_search_locations is not None:
        return importlib.util.module_from_spec(spec)
    blank = ModuleType(name)
    vars(blank)["__getattr__"] = _return_none
    return blank


def is_blank(module: ModuleType) -> bool:
    """Whether a module is an empty one of ``make_blank_module``."""
    return vars(module).get("__getattr__") is _return_none


def _return_none(name: str) -> None:
    """Returns None for a name of an empty module; raises AttributeError for module metadata."""
    if name.startswith("__"):
        raise AttributeError(name)
