from __future__ import annotations

import gc
import os
import sys

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: a process a core
sys.dont_write_bytecode = False  # hundreds of processes import the same modules
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.disable()  # until all tests are collected, for they are kept to the end
# A busy machine is slow, and not wrong. Examples are the same in every run, unless EXPLORE is set.
settings.register_profile("gate", deadline=None, derandomize="EXPLORE" not in os.environ)
settings.load_profile("gate")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
