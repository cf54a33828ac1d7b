"""``auditor attack``: what recorded uploads give away."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.accountants.verdict import LEAK_MARGIN, FailOn, Gate
from fedrec_auditor.auditor.commands.run import Allowed, columns_of, show


def command(
    recording: Annotated[Path, typer.Argument(help="The directory of a recording.")],
    truth: Annotated[
        str | None,
        typer.Option(help="What the senders held: a table, a data set or a path."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="For a table: user=COLUMN, item=, rating= or timestamp=; repeatable."),
    ] = None,
    senders: Annotated[
        Path | None, typer.Option(help="A CSV of sender,user, where senders are pseudonyms.")
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(help="Attacks (`auditor list attacks`), several by commas. Default all."),
    ] = None,
    claim: Annotated[
        Path | None, typer.Option(help="A file (TOML) of what is promised of the system.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Run directory for the reports.")] = Path("attack"),
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes; all cores if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="The first 20 rounds, and fewer repetitions.")
    ] = False,
    memory: Annotated[
        float | None,
        typer.Option(help="GiB that all workers together may take; the machine's if left out."),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with 1 on such a finding; leak: on an attack, too.")
    ] = FailOn.VIOLATED,
    leak_margin: Annotated[
        float,
        typer.Option(help="leak: by how much an attack must beat guessing without the uploads."),
    ] = LEAK_MARGIN,
    allow: Annotated[
        list[Allowed] | None,
        typer.Option(help="inconclusive: exit with 3 for no sample that is too small."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="An earlier report.json: exit with 1 on what got worse only."),
    ] = None,
) -> None:
    """Attack recorded uploads: every attack whose reader fits, held against the truth."""
    from rich.console import Console

    from fedrec_auditor.auditor.progress import progress
    from fedrec_auditor.auditor.recorded_uploads import attack_recording
    from fedrec_auditor.auditor.stated_claim import read_claims
    from fedrec_auditor.reports.record import Record

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    gate = Gate(fail_on, tuple(allow or ()), leak_margin)
    before = None if baseline is None else Record.read(baseline)
    try:
        with progress(Console(stderr=True)) as observe:
            record = attack_recording(
                recording,
                truth=truth,
                columns=columns_of(column),
                senders=senders,
                attacks=None if attacks is None else tuple(attacks.split(",")),
                claim=() if claim is None else read_claims(claim),
                quick=quick,
                seed=seed,
                out=out,
                jobs=jobs,
                memory=memory,
                gate=gate,
                observe=observe,
            )
    except KeyboardInterrupt as error:
        raise IncompleteError(
            f"Interrupted. Finished tasks are kept in {out}; the same command resumes."
        ) from error
    show(record, out, gate, before)
