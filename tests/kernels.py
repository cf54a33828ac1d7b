"""The suite as other processors run it: `python -m tests.kernels`, a run for each kernel.

Kernels of linear algebra (OpenBLAS), levels of vectors (numpy, torch) and code that numba compiles.
A kernel whose instructions this processor lacks would end the interpreter: such a run is named, and
not begun.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Kernel:
    """The environment of a run, and the features of a processor that it needs, as numpy says."""

    name: str
    needs: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def of(core: str, cpu: str = "", vectors: str = "", without: str = "") -> dict[str, str]:
    """Of OpenBLAS, numba, torch, and what numpy does without; nothing is left as it is."""
    names = ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME", "ATEN_CPU_CAPABILITY")
    chosen = dict(
        zip((*names, "NPY_DISABLE_CPU_FEATURES"), (core, cpu, vectors, without), strict=True)
    )
    return {name: value for name, value in chosen.items() if value}


KERNELS = (
    Kernel("as it is"),
    Kernel("Prescott", environment=of("Prescott")),
    Kernel("Nehalem", ("SSE42",), of("Nehalem", "generic", "default", "X86_V3 X86_V4")),
    Kernel("Haswell", ("AVX2",), of("Haswell", "haswell", "avx2", "X86_V4")),
    Kernel("SkylakeX", ("AVX512_SKX",), of("SkylakeX", "skylake-avx512", "avx512")),
    Kernel("Sapphirerapids", ("AVX512_SPR",), of("Sapphirerapids", "sapphirerapids", "avx512")),
)
RUNNING = (
    "import numpy, threadpoolctl;"
    "print(*{each.get('architecture') for each in threadpoolctl.threadpool_info()} - {None})"
)


def lacking(kernel: Kernel) -> list[str]:
    """The features that this processor has not."""
    known = np._core._multiarray_umath.__cpu_features__
    return [name for name in kernel.needs if not known.get(name)]


def ran(kernel: Kernel, words: list[str]) -> str:
    """What became of the run, in a line."""
    if missing := lacking(kernel):
        return f"NOT RUN: this processor lacks {', '.join(missing)}"
    environment = {**os.environ, **kernel.environment}
    asked = subprocess.run([sys.executable, "-c", RUNNING], env=environment, capture_output=True)
    taken = asked.stdout.decode().strip() or f"nothing (exit {asked.returncode})"
    print(f"== {kernel.name}: OpenBLAS takes {taken}", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", *words], env=environment).returncode
    return f"{'passed' if code == 0 else f'FAILED (exit {code})'}, OpenBLAS takes {taken}"


def main(words: list[str]) -> int:
    """Run all of them with these words for pytest; 1 if any fails."""
    ends = {kernel.name: ran(kernel, words) for kernel in KERNELS}
    for name, end in ends.items():
        print(f"{name}: {end}")
    return int(any(end.startswith("FAILED") for end in ends.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["-n", "auto", "--dist", "worksteal", "-q"]))
