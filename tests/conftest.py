"""Tests compute in one thread, as the workers of an audit do: pytest runs as many as cores."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read once, when numpy and torch are imported
