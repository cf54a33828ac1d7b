"""The register: claims of papers, released code and packages, with their verdicts.

    python -m benchmarks.register [FILE]

writes one page that needs no network: every claim can be filtered, searched and linked.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.found_in_the_wild import list_findings
from benchmarks.wild.package import Package
from benchmarks.wild.rows import read_rows
from fedrec_auditor.accountants.statements import Basis
from fedrec_auditor.accountants.verdict import NumberLabel, Verdict
from fedrec_auditor.auditor.judging.catalogue import (
    judge_entries,
    list_entries,
    make_claimed_system,
)
from fedrec_auditor.reports.documents.catalogue import CatalogueRow, describe_claim, format_command
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.say import replace_unsafe_chars
from fedrec_auditor.reports.writers.html import fill_template
from fedrec_auditor.targets.systems.base import Population

FILE = Path(__file__).parents[1] / "build" / "register.html"
UNCLAIMED_FILE = Path(__file__).with_name("unclaimed.toml")
FILTERS = ("verdict", "basis", "kind", "mechanism", "unit", "vantage")
"""Columns by which the page can be filtered."""
NO_VALUE = "none"
"""Filter value of a row without a unit, a vantage or a known kind of noise."""
NOISE_KINDS = {
    "GaussianDpEvent": "Gaussian",
    "PureDpEvent": "Laplace",
    "LaplaceDpEvent": "Laplace",
    "RandomizedResponseDpEvent": "randomized response",
    "BitFlipDpEvent": "randomized response",
    "ShuffledDpEvent": "randomized response",
}
"""Kind of noise by the name of its privacy event's class."""


@dataclass(frozen=True)
class Entry:
    """A claim with its judgement, as one row of the register.

    key: anchor of the row's permanent link.
    kind: kind of source: "paper", "released code", "package" or "accountant".
    statement: the claim in words.
    claimed: the claimed epsilon.
    holds: the proved or exact value; for code without a claim, the messages that it sends.
    why: reason for the verdict.
    command: command that computes the judgement again.
    basis: origin of the claimed value; nobody claims a value that the audit derived.
    """

    key: str
    kind: str
    mechanism: str
    source: str
    name: str
    statement: str
    claimed: str
    holds: str
    verdict: str
    unit: str
    vantage: str
    why: str
    command: str
    basis: str = Basis.PRINTED.value


def list_paper_entries(judged: Iterable[CatalogueRow]) -> Iterator[Entry]:
    """Yields one entry per row of the catalogue of papers' claims."""
    for row in judged:
        yield Entry(
            key=f"claim-{row.number}",
            kind="released code" if row.paper.code else "paper",
            mechanism=_name_noise(row),
            source=row.paper.title,
            name=f"{row.target}, {row.number}",
            statement=row.statement,
            claimed=describe_claim(row),
            holds=row.provable,
            verdict=(row.verdict or row.arithmetic).label,
            unit=NO_VALUE if row.scope is None else str(row.scope.unit),
            vantage=NO_VALUE if row.scope is None else str(row.scope.vantage),
            why=f"{row.reason} Source: {row.source}.",
            command=format_command(row),
            basis=row.basis.value,
        )


def list_code_entries() -> Iterator[Entry]:
    """Yields one entry per mechanism of a package or repository, for one report to the server."""
    rows = read_rows()
    for place, finding in list_findings().items():
        row = rows[place]
        released = "commit" in Package.from_module(finding.module).toml
        kind = "package" if finding.account is None else "accountant"
        yield Entry(
            key=place.replace(":", "-"),
            kind="released code" if released else kind,
            mechanism=finding.mechanism,
            source=row.package,
            name=row.name,
            statement=f"{finding.claim}. {row.setting}".rstrip(". ") + ".",
            claimed=row.claimed,
            holds=row.exact,
            verdict=Verdict(row.verdict).label,
            unit="report",
            vantage="server",
            why=" ".join(finding.remark.split()),
            command=finding.command,
        )


def read_unclaimed() -> dict[str, dict[str, str]]:
    """The rows of unclaimed.toml, on released code that claims no epsilon, by name."""
    read: dict[str, dict[str, str]] = tomllib.loads(UNCLAIMED_FILE.read_text(encoding="utf-8"))
    return {
        name: {key: " ".join(text.split()) for key, text in row.items()}
        for name, row in read.items()
    }


def list_unclaimed_entries() -> Iterator[Entry]:
    """Yields entries of released code that claims no epsilon, with the messages that it sends."""
    for name, row in read_unclaimed().items():
        yield Entry(
            key=f"released-{name}",
            kind="released code",
            mechanism=NO_VALUE,
            source=row["repository"],
            name=name,
            statement=row["claim"],
            claimed="no epsilon",
            holds=f"Sent: {row['sends']}. It shows {row['shows']}.",
            verdict=Verdict.NO_CLAIM.label,
            unit=NO_VALUE,
            vantage="server",
            why=f"Read at this commit, not run. To repair it: {row['repair']}.",
            command="",
        )


def collect(judged: Iterable[CatalogueRow]) -> list[Entry]:
    """All entries of the register; ``judged`` are the rows of the papers' catalogue."""
    return [*list_paper_entries(judged), *list_code_entries(), *list_unclaimed_entries()]


def _name_noise(row: CatalogueRow) -> str:
    """The kind of noise of a claim's system, such as "randomized response"."""
    target = make_claimed_system(row)
    population = Population(n_users=row.n_users, n_items=row.n_items)
    scopes = [claim.scope for claim in target.get_claims(population)]
    scopes += [] if row.scope is None else [row.scope]
    charged = " ".join(repr(target.get_event(scope, population)) for scope in scopes)
    return next((kind for event, kind in NOISE_KINDS.items() if event in charged), NO_VALUE)


def format_page(claims: Sequence[Entry]) -> str:
    """The register as one self-contained HTML page."""
    filters = {
        name: sorted({getattr(claim, name) for claim in claims}, key=str.lower) for name in FILTERS
    }
    every = (*Verdict, *NumberLabel)
    words = [word for word in every if word.label in filters["verdict"]]
    return replace_unsafe_chars(
        fill_template("register.html.j2", claims=claims, filters=filters, verdicts=words)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.register", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help="The page to write.")
    file = parser.parse_args().file
    file.parent.mkdir(parents=True, exist_ok=True)
    store.write_atomically(file, format_page(collect(judge_entries(list_entries()))).encode())
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
