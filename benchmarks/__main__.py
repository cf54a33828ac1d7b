"""Runs the benchmarks, prints their tables, and puts them into RESULTS.md, the machine named."""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import platform
import re
import sys
from pathlib import Path

import numpy
import scipy

import benchmarks
from benchmarks import Row

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Benchmark results

Best wall-clock time of several turns; the ratio is against the first row of the job."""


def table(rows: tuple[Row, ...]) -> str:
    lines = ["| job | way | time | rate | ratio | note |", "|---|---|---|---|---|---|"]
    first: dict[str, float] = {}
    for row in rows:
        if math.isnan(row.seconds):
            lines.append(f"| {row.job} | {row.way} | | | | {row.note} |")
            continue
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
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)\n*(?=^## |\Z)", before, re.M | re.S))
    for name in wanted:
        module = modules[name]
        rows, about = table(module.measure()), (module.__doc__ or "").strip()
        sections[name] = f"Machine: {machine()}.\n\n{about}\n\n{rows}"
        print(f"## {name}\n\n{sections[name]}\n", flush=True)
    parts = [f"## {name}\n\n{sections[name]}" for name in known if name in sections]
    RESULTS.write_text("\n\n".join([HEAD, *parts]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
