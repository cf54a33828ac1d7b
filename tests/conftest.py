from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: a process a core
sys.dont_write_bytecode = False  # hundreds of processes import the same modules
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.disable()  # until all tests are collected, for they are kept to the end
# A busy machine is slow, and not wrong. Examples are few and the same in every run, unless EXPLORE
# is set.
explore = "EXPLORE" in os.environ
settings.register_profile(
    "gate", deadline=None, derandomize=not explore, max_examples=1_000 if explore else 40
)
settings.load_profile("gate")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """One worker compiles a kernel that is kept, the others wait for it and read it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    locks, compiled = Path(tempfile.gettempdir()) / f"kernels-{run}", Dispatcher.compile
    locks.mkdir(exist_ok=True)

    def compile_once(kernel: Any, signature: Any) -> Any:
        if isinstance(kernel._cache, NullCache):
            return compiled(kernel, signature)
        with FileLock(locks / f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"):
            return compiled(kernel, signature)

    Dispatcher.compile = compile_once
