"""Public packages, one module each: callables that ``auditor verify`` takes, and what to expect.

The packages are installed in a folder of their own, without their dependencies: what the project
itself needs serves, and what a package imports only to plot, to fit or to serve is left blank. Each
draws from a global generator, which is seeded from ours before every call.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[2] / "build" / "wild"
PACKAGES = {
    "pure-ldp": "1.2.0",
    "multi-freq-ldpy": "0.2.5",
    "diffpriv-pure": "0.1.0",
    "privateAB": "0.0.2",
    "nprr": "0.1.4",
    "ornl-presto": "0.1.29",
    "hll-py": "0.1.13",
    "trasgoDP": "2.1.0",
    "syndp": "0.5.2",
    "diffprivlib": "0.6.6",
}
HELPERS = {"xxhash": "3.5.0", "bitarray": "3.12.3", "pandas": "3.1.1"}
"""What those import and the project does not."""

if str(FOLDER) not in sys.path:
    sys.path.append(str(FOLDER))

Drawn = Callable[[Any, np.random.Generator, int], NDArray[Any]]


def install() -> dict[str, str]:
    """Put the packages into ``FOLDER`` with pip; those that cannot be had, and why."""
    refused: dict[str, str] = {}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    present = {path.stem.lower() for path in FOLDER.glob("*.dist-info")}
    for name, version in (HELPERS | PACKAGES).items():
        if f"{name.replace('-', '_').lower()}-{version}" in present:
            continue
        done = subprocess.run(
            [*pip, "--no-deps", "--target", str(FOLDER), f"{name}=={version}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            refused[name] = done.stderr.strip().splitlines()[-1]
    return refused


class Absent:
    """Stands for a module that cannot be imported, until something of it is asked for."""

    def __init__(self, error: ImportError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


def load(module: str, *blank: str) -> Any:
    """Import ``module`` of an installed package, with nothing in the modules ``blank``."""
    for name in blank:
        if name not in sys.modules:
            spec = importlib.util.find_spec(name) if "." not in name else None
            found = importlib.util.module_from_spec(spec) if spec else ModuleType(name)
            sys.modules[name] = found
    try:
        return importlib.import_module(module)
    except ImportError as error:
        return Absent(error)


def at_once(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any, int], Any]], Drawn]:
    """A callable for ``verify_ldp`` of one that draws ``size`` outputs from a global generator."""

    def wrap(draw: Callable[[Any, int], Any]) -> Drawn:
        def call(x: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            for seed in (random.seed, np.random.seed, *seeders):
                seed(rng.integers(2**32).item())
            return np.asarray(draw(x, size))

        call.__name__, call.__module__, call.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return call

    return wrap


def one_by_one(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any], Any]], Drawn]:
    """The same of a callable that draws one output."""

    def wrap(draw: Callable[[Any], Any]) -> Drawn:
        def many(x: Any, size: int) -> NDArray[Any]:
            return np.array([draw(x) for _ in range(size)])

        many.__name__, many.__module__, many.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return at_once(*seeders)(many)

    return wrap
