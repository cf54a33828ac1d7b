"""``auditor attack``: what recorded uploads give away."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.verdict import LEAK_MARGIN, FailOn, Gate
from fedrec_auditor.auditor.commands.options import (
    Allow,
    Attacks,
    Baseline,
    Column,
    FailAt,
    Force,
    Jobs,
    LeakMargin,
    Memory,
    Out,
    Separator,
    columns_of,
    resumable,
)
from fedrec_auditor.auditor.commands.run import show


def command(
    recording: Annotated[Path, typer.Argument(help="The directory of a recording.")],
    truth: Annotated[
        str | None,
        typer.Option(help="What the senders held: a table, a data set or a path."),
    ] = None,
    column: Column = None,
    separator: Separator = None,
    senders: Annotated[
        Path | None, typer.Option(help="A CSV of sender,user, where senders are pseudonyms.")
    ] = None,
    attacks: Attacks = None,
    claim: Annotated[
        Path | None, typer.Option(help="A file (TOML) of what is promised of the system.")
    ] = None,
    out: Out = Path("attack"),
    jobs: Jobs = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="The first 20 rounds, and fewer repetitions.")
    ] = False,
    memory: Memory = None,
    fail_on: FailAt = FailOn.VIOLATED,
    leak_margin: LeakMargin = LEAK_MARGIN,
    allow: Allow = None,
    baseline: Baseline = None,
    force: Force = False,
) -> None:
    """Attack recorded uploads: every attack whose reader fits, held against the truth."""
    from fedrec_auditor.auditor.own.recorded_uploads import attack_recording
    from fedrec_auditor.auditor.plan.stated_claim import read_claims
    from fedrec_auditor.reports.record import Record

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    gate = Gate(fail_on, tuple(allow or ()), leak_margin)
    before = None if baseline is None else Record.read(baseline)
    with resumable(out) as observe:
        record = attack_recording(
            recording,
            truth=truth,
            columns=columns_of(column, separator),
            senders=senders,
            attacks=None if attacks is None else tuple(attacks.split(",")),
            claim=() if claim is None else read_claims(claim),
            quick=quick,
            seed=seed,
            out=out,
            jobs=jobs,
            memory=memory,
            gate=gate,
            progress=observe,
            force=force,
        )
    show(record, out, gate, before)
