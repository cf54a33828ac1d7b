"""Runs the suite once per kernel, as other processors run it: `python -m tests.kernels`.

A kernel is a choice of linear algebra (OpenBLAS), of vector instructions (numpy, torch) and of the
processor for which numba compiles. A kernel with instructions that this processor lacks would end
the interpreter: such a run is not begun, and its name is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Kernel:
    """A choice of instructions: environment variables, and numpy names of required features."""

    name: str
    needs: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def set_up(core: str, cpu: str = "", vectors: str = "", without: str = "") -> dict[str, str]:
    """Environment variables for OpenBLAS, numba, torch, and features that numpy does not use."""
    names = ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME", "ATEN_CPU_CAPABILITY")
    chosen = dict(
        zip((*names, "NPY_DISABLE_CPU_FEATURES"), (core, cpu, vectors, without), strict=True)
    )
    return {name: value for name, value in chosen.items() if value}


KERNELS = (
    Kernel("as it is"),
    Kernel("Prescott", environment=set_up("Prescott")),
    Kernel("Nehalem", ("SSE42",), set_up("Nehalem", "generic", "default", "X86_V3 X86_V4")),
    Kernel("Haswell", ("AVX2",), set_up("Haswell", "haswell", "avx2", "X86_V4")),
    Kernel("SkylakeX", ("AVX512_SKX",), set_up("SkylakeX", "skylake-avx512", "avx512")),
    Kernel("Sapphirerapids", ("AVX512_SPR",), set_up("Sapphirerapids", "sapphirerapids", "avx512")),
)
SHOW = (
    "import numpy, threadpoolctl;"
    "print(*{each.get('architecture') for each in threadpoolctl.threadpool_info()} - {None})"
)


def list_missing(kernel: Kernel) -> list[str]:
    """Lists required features that this processor lacks."""
    known = np._core._multiarray_umath.__cpu_features__
    return [name for name in kernel.needs if not known.get(name)]


def run_suite(kernel: Kernel, words: list[str]) -> str:
    """Runs the suite with a kernel; returns the result as one line."""
    if missing := list_missing(kernel):
        return f"NOT RUN: this processor lacks {', '.join(missing)}"
    environment = {**os.environ, **kernel.environment}
    asked = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True)
    taken = asked.stdout.decode().strip() or f"nothing (exit {asked.returncode})"
    print(f"== {kernel.name}: OpenBLAS takes {taken}", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", *words], env=environment).returncode
    return f"{'passed' if code == 0 else f'FAILED (exit {code})'}, OpenBLAS takes {taken}"


def main(words: list[str]) -> int:
    """Runs the suite with all kernels and these arguments of pytest; returns 1 if a run fails."""
    ends = {kernel.name: run_suite(kernel, words) for kernel in KERNELS}
    for name, end in ends.items():
        print(f"{name}: {end}")
    return int(any(end.startswith("FAILED") for end in ends.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["-n", "auto", "--dist", "worksteal", "-q"]))
