"""Runs the benchmarks, prints a table, and writes RESULTS.md with the machine named."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from pathlib import Path

import numpy
import scipy

import benchmarks
from benchmarks import Row

RESULTS = Path(__file__).with_name("RESULTS.md")


def table(rows: tuple[Row, ...]) -> str:
    lines = ["| job | way | time | rate | ratio | note |", "|---|---|---|---|---|---|"]
    first: dict[str, float] = {}
    for row in rows:
        speed = row.work / row.seconds
        ratio = speed / first.setdefault(row.job, speed)
        lines.append(
            f"| {row.job} | {row.way} | {row.seconds * 1e3:.4g} ms | {speed:,.4g} {row.unit}/s "
            f"| {ratio:.2f} | {row.note} |"
        )
    return "\n".join(lines)


def machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return (
        f"{model}, {os.cpu_count()} cores seen, {platform.system()}, "
        f"Python {platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}"
    )


def main() -> None:
    names = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name != "__main__"]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    known = [name for name, module in modules.items() if hasattr(module, "measure")]
    wanted = sys.argv[1:] or known
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        sys.exit(f"Expected benchmarks among {', '.join(known)}, got {', '.join(unknown)}.")
    parts = [
        "# Benchmark results",
        f"Machine: {machine()}.",
        "Best wall-clock time of several turns; the ratio is against the first row of the job.",
    ]
    for name in wanted:
        module = modules[name]
        parts += [f"## {name}", (module.__doc__ or "").strip(), table(module.measure())]
        print("\n\n".join(parts[-3:]), flush=True)
    if wanted == known:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
