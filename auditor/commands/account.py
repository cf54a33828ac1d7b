"""``auditor account``: what noise of one's own spends, per round and in total; no simulation."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.commands.options import AsJson, tell_left_out

_OF_CLAIMS = ("all", "entry", "items", "junit", "markdown", "only", "sarif", "set", "tables")
"""Options that were of this command before `claims` had them."""


def command(
    gaussian: Annotated[
        str | None,
        typer.Option(
            metavar="z=NUMBER", help="Gaussian noise on sums: deviation over clipping norm."
        ),
    ] = None,
    laplace: Annotated[
        str | None,
        typer.Option(metavar="b=NUMBER", help="Laplace noise on sums: scale over L1 norm."),
    ] = None,
    randomized_response: Annotated[
        str | None,
        typer.Option(
            metavar="epsilon=NUMBER,k=2",
            help="Local reports on k categories; or p=NUMBER, the chance of the true one.",
        ),
    ] = None,
    event: Annotated[
        Path | None,
        typer.Option(
            metavar="EVENT.json", help="An event of dp-accounting: its type and its fields."
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Share that a round draws; all if left out.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds, or reports of one user; 1 if left out.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Of every epsilon; 0 if left out.")] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            metavar="poisson|fixed",
            help="Each by itself, as if left out, or --rate times --users of --users.",
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="With --sampling fixed: those that a round draws from.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="What is clipped, and so hidden: user, as if left out, or interaction."),
    ] = None,
    interactions_per_user: Annotated[
        int | None, typer.Option(help="With --unit interaction: users of so many, too.")
    ] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(
            metavar="add-remove|replace",
            help="The one that is meant: told first, and kept by --target-epsilon.",
        ),
    ] = None,
    shuffle: Annotated[
        int | None, typer.Option(help="Users whose local reports are shuffled.")
    ] = None,
    target_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Finds what is left out so that all rounds keep it: the noise (`--gaussian z`), "
            "--rounds, or --rate."
        ),
    ] = None,
    as_json: AsJson = False,
    moved: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    of_claims: Annotated[
        bool, typer.Option(*(f"--{name}" for name in _OF_CLAIMS), hidden=True)
    ] = False,
) -> None:
    """Say what noise of your own spends: epsilon per round and in total, from above and below.

    What papers claim of theirs is judged by `auditor claims`.
    """
    stated: dict[str, Any] = {
        name: value
        for name, value in locals().items()
        if value is not None and name not in ("as_json", "moved", "of_claims")
    }
    if moved or of_claims:
        words = shlex.join(word for word in sys.argv[2:] if word != "--entry")
        raise InputError(
            f"Expected noise of your own, such as --gaussian z=1.1, got {words}. Claims of papers "
            f"and targets are judged by `auditor claims {words}`."
        )
    if event is not None:
        try:
            stated["event"] = event.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected a readable event in {event}, got: {error}. Give a JSON file."
            ) from error

    from fedrec_auditor.auditor.spending.spend import account
    from fedrec_auditor.reports.paragraph import columns

    tell_left_out()
    found = account(**stated)
    print(json.dumps(found.as_data(), indent=2) if as_json else found.describe(columns()))
