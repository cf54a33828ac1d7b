"""A checkout of a public repository, of which a few files are run."""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.wild.package import has_package, is_blank, make_blank_module
from fedrec_auditor.accountants.errors import InputError


def hash_blob(content: bytes) -> str:
    """The SHA-1 by which git identifies a file with this content.

    >>> hash_blob(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Checkout:
    """Files of a repository that are run.

    files: git's SHA-1 of the content by path.
    needs: versions by package that the files import and the project does not install.
    """

    repository: str
    commit: str
    files: Mapping[str, str]
    needs: Mapping[str, str] = field(default_factory=dict)

    def check(self, folder: Path) -> None:
        """Raises InputError if a file differs from the commit's file, or a package is missing."""
        for name, expected in self.files.items():
            path = folder / name
            found = hash_blob(path.read_bytes()) if path.is_file() else "no such file"
            if found != expected:
                raise InputError(
                    f"Expected {name} of {self.repository} at {self.commit} ({expected}) in "
                    f"{folder}, got {found}. Clone the repository and check that commit out."
                )
        for name, version in self.needs.items():
            if not has_package(name, version):
                raise InputError(
                    f"Expected {name} {version}, which {self.repository} imports, got another "
                    f"version or none. pip install {name}=={version}, or put it on PYTHONPATH."
                )

    def load(
        self, folder: Path, *names: str, blank: Sequence[str] = (), options: Sequence[str] = ()
    ) -> list[ModuleType]:
        """Imports modules of the folder, with ``options`` as their command line.

        Imports named in ``blank`` are replaced by empty modules. Their output is dropped.
        Raises InputError for a module that is not in the folder.
        """
        folder = folder.resolve()
        with _import_from(folder, ["main.py", *options]), redirect_stdout(StringIO()):
            sys.modules.update((name, make_blank_module(name)) for name in blank)
            modules = [importlib.import_module(name) for name in names]
        for module in modules:
            if not _is_within(module, folder):
                raise InputError(
                    f"Expected {module.__name__} in {folder}, got {module.__file__}. "
                    "Give the checkout of the whole repository."
                )
        return modules


@contextmanager
def _import_from(folder: Path, argv: list[str]) -> Iterator[None]:
    """Imports from ``folder`` first, and removes the modules of the folder at the end."""
    before = list(sys.path), sys.argv, dict(sys.modules)
    sys.path.insert(0, str(folder))
    sys.argv = argv
    here = {path.stem for path in folder.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in here]:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.path[:], sys.argv, known = before
        fresh = {n: module for n, module in sys.modules.items() if module is not known.get(n)}
        for name in [name for name, module in fresh.items() if _is_within(module, folder)]:
            del sys.modules[name]
        sys.modules.update(known)


def _is_within(module: ModuleType, folder: Path) -> bool:
    """Whether the module was imported from the folder, or is a blank module."""
    places = [vars(module).get("__file__"), *vars(module).get("__path__", ())]
    return is_blank(module) or any(place and Path(place).is_relative_to(folder) for place in places)


def seed_globals(rng: np.random.Generator) -> None:
    """Seeds the global generators of random, numpy and torch with a number drawn from ``rng``."""
    import torch

    seed = int(rng.integers(2**31))
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what released code draws from
    torch.manual_seed(seed)
