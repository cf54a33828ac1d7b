"""Calls whose answers no coin decides: clocks, files, processes, threads, sockets."""

from __future__ import annotations

import datetime
import gc
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.paths import NotTraced

_HERE = str(Path(__file__).parent)
_LIBRARIES = (str(Path(datetime.__file__).parent), str(Path(np.__file__).parent))
_MODULES = {"time", "posix", "nt", "_socket", "_uuid", "_posixsubprocess", "select"}
_MODULES |= {"_ssl", "_ctypes", "_sqlite3"}
_FUNCTIONS = {
    ("io", "open"),
    ("_io", "open"),
    ("_thread", "start_new_thread"),
    ("builtins", "input"),
}
_HARMLESS = {"fspath", "sleep", "_path_normpath"}
_NOW = {"now", "utcnow", "today"}


@contextmanager
def watched() -> Iterator[None]:
    """NotTraced where code of this thread calls one of these, however it was imported."""
    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # others' code may run in it
    sys.setprofile(_look)
    try:
        yield
        if sys.getprofile() is not _look:
            raise NotTraced("it takes off the watch on what it calls")
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def _look(frame: FrameType, event: str, called: Any) -> None:
    if event != "c_call":
        return
    owner, name = getattr(called, "__self__", None), called.__name__
    module = called.__module__ or type(owner).__module__
    outside = (module in _MODULES and name not in _HARMLESS) or (module, name) in _FUNCTIONS
    outside |= name in _NOW and isinstance(owner, type) and issubclass(owner, datetime.date)
    outside |= isinstance(owner, random.Random) or name in ("fromfile", "memmap")
    outside |= name == "seed" and module.startswith("torch")
    caller = frame.f_code.co_filename
    outside |= name == "id" and module == "builtins" and not caller.startswith(_LIBRARIES)
    if outside and not caller.startswith(_HERE) and not _importing(frame):
        raise NotTraced(f"{module}.{name} is no coin of its generator")


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None
