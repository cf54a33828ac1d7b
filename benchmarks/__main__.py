"""Runs the benchmarks, prints their tables, and writes them with the machine to results.csv."""

from __future__ import annotations

import ast
import csv
import importlib
import math
import os
import pkgutil
import platform
import sys
from pathlib import Path

import numpy
import scipy

import benchmarks
from benchmarks import Row

RESULTS = Path(__file__).with_name("results.csv")
HEAD = ("job", "way", "time", "rate", "ratio", "note")
Lines = list[list[str]]


def format_rows(rows: tuple[Row, ...]) -> Lines:
    """Lines of results.csv: the machine, then time, rate and ratio of each row.

    A ratio above 1 means faster than the job's first row.
    """
    lines = [["machine", describe_machine(), "", "", "", ""]]
    first: dict[str, float] = {}
    for row in rows:
        if math.isnan(row.seconds):
            lines.append([row.job, row.way, "", "", "", row.note])
            continue
        speed = row.work / row.seconds
        ratio = speed / first.setdefault(row.job, speed)
        took, rate = f"{row.seconds * 1e3:.4g} ms", f"{speed:,.4g} {row.unit}/s"
        lines.append([row.job, row.way, took, rate, f"{ratio:.2f}", row.note])
    return lines


def read_results() -> dict[str, Lines]:
    """The lines of results.csv, by the name of the benchmark."""
    found: dict[str, Lines] = {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        for name, *cells in list(csv.reader(file))[1:]:
            found.setdefault(name, []).append(cells)
    return found


def format_section(name: str, lines: Lines) -> str:
    """One benchmark's table as Markdown, with its module's docstring and the machine."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(source))
    table = [list(HEAD), ["---"] * len(HEAD), *lines[1:]]
    rows = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    return f"## {name}\n\nMachine: {lines[0][1]}.\n\n{about}\n\n{rows}\n"


def format_page() -> str:
    """All benchmarks of results.csv as one page in Markdown."""
    intro = "Best wall-clock time of several turns; the ratio is against the first row of the job."
    sections = (format_section(name, lines) for name, lines in read_results().items())
    return "\n".join(["# Measured speed\n", f"{intro}\n", *sections])


def describe_machine() -> str:
    """The processor, the operating system and versions of libraries, in one line."""
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
    sections = read_results()
    for name in wanted:
        sections[name] = format_rows(modules[name].measure())
        print(format_section(name, sections[name]), flush=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["benchmark", *HEAD])
        writer.writerows([name, *cells] for name in known for cells in sections.get(name, ()))


if __name__ == "__main__":
    main()
