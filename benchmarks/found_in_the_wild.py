"""Verification of mechanisms of public packages against the claims of these packages.

    python -m benchmarks.found_in_the_wild [MODULE ...]
    python -m benchmarks.found_in_the_wild MODULE:KEY --message

verifies every mechanism of ``benchmarks/wild`` or of the given modules. A separate process per
package installs it in its own folder and ends after ``--seconds``. The command prints one row per
mechanism and writes it to found_in_the_wild.json, from which the site makes a page. Stored rows of
other packages stay. With ``--message`` it prints a text for the maintainers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import partial

import joblib

from benchmarks.wild.finding import Finding
from benchmarks.wild.package import NAMES, Package
from benchmarks.wild.page import format_message, format_page
from benchmarks.wild.rows import measure_finding, read_rows, write_rows

MAX_SECONDS = 600.0
"""Time limit per package, in seconds."""


ADDRESSES = tuple(f"{name}:{key}" for name in NAMES for key in Package(name).keys)
"""Addresses "module:key" of all rows, in order."""


def list_findings() -> dict[str, Finding]:
    """The mechanisms of all packages with their claims, by "module:key"."""
    return {found.address: found for name in NAMES for found in Package(name).list_findings()}


def format_stored_page() -> str:
    """The page of the stored results on public packages, in Markdown."""
    rows = read_rows()
    return format_page([(found, rows[place]) for place, found in list_findings().items()])


def measure_module(name: str) -> None:
    """Installs a package, measures its mechanisms in this process, and stores the rows."""
    package = Package(name)
    if refused := package.install():
        sys.exit(f"{package.label} cannot be installed: {refused}")
    rows = {found.address: measure_finding(found) for found in package.list_findings()}
    write_rows(rows, package.results_file)


def measure_in_process(name: str, seconds: float) -> str:
    """Measures a package in a process that ends after ``seconds``.

    Returns the reason if there are no results, else an empty text.
    """
    command = [sys.executable, "-m", "benchmarks.found_in_the_wild", "--here", name]
    try:
        done = subprocess.run(command, check=False, timeout=seconds, stdout=sys.stderr)
    except subprocess.TimeoutExpired:
        return f"{name}: not ended after {seconds:g} s"
    return f"{name}: see above" if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=MAX_SECONDS)
    parser.add_argument("--message", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    known = ADDRESSES if given.message else NAMES
    if unknown := sorted(set(given.modules) - set(known)):
        parser.error(f"Expected one of {', '.join(known)}, got {', '.join(unknown)}.")
    if given.message:
        rows, found = read_rows(), list_findings()
        print(*(format_message(found[key], rows[key]) for key in given.modules), sep="\n")
        return 0
    if given.here:
        measure_module(*given.modules)
        return 0
    missing = []
    names = given.modules or NAMES
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        reasons = pool.map(partial(measure_in_process, seconds=given.seconds), names)
        for name, why in zip(names, reasons, strict=True):
            if why:
                missing.append(why)
                continue
            fresh = read_rows(Package(name).results_file)
            for row in fresh.values():
                print(" | ".join(astuple(row)), flush=True)
            rows = read_rows() | fresh
            write_rows({place: rows[place] for place in ADDRESSES if place in rows})
    for why in missing:
        print(why)
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
