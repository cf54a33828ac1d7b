"""The catalogue in the terminal: its entries in brief."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.verdict import Word
from fedrec_auditor.reports.catalogue import CatalogueRow
from fedrec_auditor.reports.catalogue_document import counts, entry_part
from fedrec_auditor.reports.catalogue_words import claimed_words, holds_words, judgement_words
from fedrec_auditor.reports.document import Facts, Passage
from fedrec_auditor.reports.document_terminal import write_blocks
from fedrec_auditor.reports.paragraph import print_hanging, print_line
from fedrec_auditor.reports.words import CLAIMED

_BRIEF = ("Claim", "Reading", "Claimed", "Derived", "Holds")
"""The facts of an entry that a list has."""

if TYPE_CHECKING:
    from rich.console import Console


def render_catalogue(
    rows: Sequence[CatalogueRow], console: Console, only: Collection[Word] = ()
) -> None:
    """Print the entries paper by paper, in the order of their numbers, then how many of each kind.

    On a terminal a few lines an entry; elsewhere one. Of ``only`` some words, entries that have one
    of them; how many are hidden is said.
    """
    shown = [row for row in rows if row.is_any_of(only)]
    if not console.is_terminal:
        for row in shown:
            said = f"{row.number} {row.target}: {row.statement} {CLAIMED[row.whose]} "
            said += claimed_words(row)
            print_line(console, f"{said}; holds {holds_words(row)}; {judgement_words(row)}")
    else:
        for title, group in groupby(shown, key=lambda row: row.paper.title):
            print_hanging(console, title, style="bold")
            write_blocks(Passage(title, tuple(map(_brief, group))), console, 2)
            console.print()
    told = [counts(shown)] if shown else []
    if only:
        kept = " --only ".join(word.lower().replace(" ", "-") for word in only)
        hidden = [row for row in rows if row not in shown]
        told.append(f"Hidden, as --only {kept} asks: {counts(hidden) or 'none.'}")
    if shown and console.is_terminal:
        told.append(f"An entry in full: `auditor claims {shown[0].number}`.")
    (print_hanging if console.is_terminal else print_line)(console, " ".join(told))


def _brief(row: CatalogueRow) -> Passage:
    whole = entry_part(row)
    (facts,) = (block for block in whole.blocks if isinstance(block, Facts))
    kept = tuple(fact for fact in facts.rows if fact[0] in _BRIEF)
    return Passage(whole.title, (Facts(kept),), colour=whole.colour)
