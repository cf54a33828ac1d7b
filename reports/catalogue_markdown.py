"""The catalogue as a page of Markdown: one table, then a section an entry (`docs/claims.md`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedrec_auditor.reports.catalogue import Arithmetic, CatalogueRow, Figure, TableRow
from fedrec_auditor.reports.catalogue_terminal import counts
from fedrec_auditor.reports.catalogue_words import (
    ARITHMETIC,
    claimed_formula,
    command,
    found,
    holds_formula,
    short,
)
from fedrec_auditor.reports.words import VERDICTS, number, scope_words

_MOST = 6  # wrong numbers listed of one entry
_HEAD = """\
# What five papers claim, and what holds

Statements that five papers on federated recommendation make about their privacy, in our own words,
judged by exact laws and by accountants, without a simulation. This page is made by
`auditor account --all --markdown > docs/claims.md`; a test compares them. Ask for any entry with
`auditor account 22`, for any other setting with `auditor account TARGET --set NAME=VALUE`. What
VIOLATED says can be watched on the running systems: `auditor run --only claims`.

"Claimed" and "Holds" are formulas, with their values in brackets: an epsilon, at the delta that is
named, or the number that a statement rests on. Where "Holds" is an interval, the truth lies within:
its lower end is reached by an exactly known law, its upper end is proved; where it is one number,
both ends meet; "≤" means that only the upper end is known. Users and items are those of MovieLens
100K (943 and 1,682) unless a section says otherwise. An entry may have two verdicts, one on its
epsilon and one on the numbers that it rests on.
"""


def render(rows: Sequence[CatalogueRow], tables: Sequence[TableRow]) -> str:
    """The whole page."""
    lines = [_HEAD, f"{counts(rows)}\n"]
    lines += [f"- **{word}**: {said}" for word, said in VERDICTS.items()]
    lines += [f"- **{word}**: {said}" for word, said in ARITHMETIC.items()]
    lines += ["", "| No. | Target | Claim | Claimed | Holds | Verdict |", "|" + " --- |" * 6]
    lines += [_row(row) for row in rows]
    for row in rows:
        lines += ["", *_section(row)]
    if tables:
        lines += ["", *_tables(tables)]
    return "\n".join(lines) + "\n"


def _row(row: CatalogueRow) -> str:
    cells = (
        f"[{row.number}](#{row.number})",
        f"`{row.target}`",
        row.statement,
        claimed_formula(row),
        holds_formula(row),
        row.judgement,
    )
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _section(row: CatalogueRow) -> Iterator[str]:
    yield f'<a id="{row.number}"></a>'
    yield ""
    yield f"## {row.number}. {row.target}: {row.judgement}"
    yield ""
    yield f"{row.statement} ({row.source}.)"
    yield ""
    if row.scope is not None:
        yield f"- Scope: {scope_words(row.scope)}."
    yield f"- Claimed: {claimed_formula(row)}."
    proof = f"; the upper bound is by {row.proof}" if row.proof else ""
    yield f"- Holds: {holds_formula(row)}{proof}."
    yield f"- Why: {row.reason}"
    if row.vacuous:
        yield "- The claim is vacuous: even if it held, one bit could be guessed 99.9% of the time."
    if row.repaired is not None and row.repaired_settings is not None:
        settings = ", ".join(f"`{name} = {value}`" for name, value in row.repaired_settings.items())
        yield (
            f"- Repaired with {settings}: claimed {short(row.repaired.claim.epsilon)}, holds "
            f"{found(row.repaired)}: {row.repaired.verdict}."
        )
    if row.demonstration is not None:
        yield f"- Demonstration: `{row.demonstration}`, by `{row.shown_by}`."
    yield f"- Ask again: `{command(row)}`."
    if row.figures:
        yield ""
        yield from _figures(row)


def _figures(row: CatalogueRow) -> Iterator[str]:
    shown = row.wrong_figures[:_MOST] if row.wrong_figures else row.figures[:_MOST]
    yield "| Number | Paper | Here |"
    yield "| --- | --- | --- |"
    yield from (_figure(figure) for figure in shown)
    wrong, right = len(row.wrong_figures), len(row.figures) - len(row.wrong_figures)
    rest = []
    if wrong > len(shown):
        rest.append(f"{wrong - len(shown)} more are wrong")
    agreeing = right - (len(shown) if row.arithmetic is Arithmetic.RIGHT else 0)
    if agreeing:
        rest.append(f"{agreeing} {'more agree' if agreeing > 1 else 'more agrees'}")
    yield ""
    how = dict.fromkeys(figure.how for figure in shown)
    yield f"How: {'; '.join(how)}.{f' {_sentence(rest)}' if rest else ''}"


def _figure(figure: Figure) -> str:
    paper = f"below {short(figure.claimed)}" if figure.below else short(figure.claimed)
    return f"| {_cell(figure.what)} | {paper} | {short(figure.right)} |"


def _tables(rows: Sequence[TableRow]) -> Iterator[str]:
    yield '<a id="tables"></a>'
    yield ""
    yield "## Tables 3 and 4 of PrivRec, entry by entry"
    yield ""
    yield "E1 = 1,000 rounds, z = 1. Printed: what the paper has. Counted: 1,000 M steps, as the"
    yield "authors counted, with the digits after the fourth cut off. Holds: 1,000 steps."
    yield ""
    yield "| Table | q = M/N | Delta | Printed | Counted | Holds |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from (table_line(row) for row in rows)


def table_line(row: TableRow) -> str:
    """One line of PrivRec's tables."""
    return (
        f"| {row.table} | {row.clients} / {row.n_users} | {number(row.delta)} | "
        f"{row.printed:.4f} | {row.counted:.4f} | {short(row.lower)} to {short(row.upper)} |"
    )


def _sentence(parts: Sequence[str]) -> str:
    text = ", ".join(parts)
    return text[:1].upper() + text[1:] + "."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
