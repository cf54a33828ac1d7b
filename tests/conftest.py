from __future__ import annotations

import gc
import os
import sys

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
