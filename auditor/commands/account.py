"""``auditor account``: what noise of one's own spends, per round and in total; no simulation."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.commands.options import AsJson, extra, with_options

_NOISE = {
    "gaussian": extra(
        str, "Gaussian noise on sums: deviation over clipping norm.", metavar="z=NUMBER"
    ),
    "laplace": extra(
        str, "Laplace noise on sums: scale over L1 clipping norm.", metavar="b=NUMBER"
    ),
    "randomized_response": extra(
        str,
        "Local reports on k categories; or p=NUMBER, the chance of the true one.",
        metavar="epsilon=NUMBER,k=2",
    ),
    "event": extra(
        Path, "An event of dp-accounting as JSON: its type and its fields.", metavar="EVENT.json"
    ),
    "rate": extra(float, "Share that a round draws; all if left out."),
    "rounds": extra(int, "Rounds, or reports of one user; 1 if left out."),
    "delta": extra(float, "Of every epsilon; 0 if left out."),
    "sampling": extra(
        str,
        "Each by itself, as if left out, or --rate times --users of --users.",
        metavar="poisson|fixed",
    ),
    "users": extra(int, "With --sampling fixed: those that a round draws from."),
    "unit": extra(str, "What is clipped, and so hidden: user, as if left out, or interaction."),
    "interactions_per_user": extra(int, "With --unit interaction: users of so many, too."),
    "adjacency": extra(
        str,
        "The one that is meant: told first, and kept by --target-epsilon.",
        metavar="add-remove|replace",
    ),
    "shuffle": extra(int, "Users whose local reports are shuffled."),
    "target_epsilon": extra(
        float,
        "Finds what is left out so that all rounds keep it: the noise (`--gaussian z`), --rounds, "
        "or --rate.",
    ),
    "claimed_epsilon": extra(
        str,
        "Judged as a claim for all rounds: a number, or an accountant that takes these settings by "
        "their names.",
        metavar="NUMBER or PACKAGE.MODULE:CALLABLE",
    ),
}
_OF_CLAIMS = ("all", "entry", "items", "junit", "markdown", "only", "sarif", "set", "tables")
"""Options that were of this command before `claims` had them."""


@with_options(_NOISE)
def command(
    said: dict[str, Any],
    as_json: AsJson = False,
    moved: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    of_claims: Annotated[
        bool, typer.Option(*(f"--{name}" for name in _OF_CLAIMS), hidden=True)
    ] = False,
) -> None:
    """Say what noise of your own spends: epsilon per round and in total, from above and below.

    Exits with 1 if an epsilon that is claimed of it is refuted. What papers claim of theirs is
    judged by `auditor claims`.
    """
    if moved or of_claims:
        words = shlex.join(word for word in sys.argv[2:] if word != "--entry")
        raise InputError(
            f"Expected noise of your own, such as --gaussian z=1.1, got {words}. Claims of papers "
            f"and targets are judged by `auditor claims {words}`."
        )
    if "event" in said:
        try:
            said["event"] = said["event"].read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected a readable event in {said['event']}, got: {error}. Give a JSON file."
            ) from error

    if "claimed_epsilon" in said:
        said["claimed_epsilon"] = _claim(said["claimed_epsilon"])

    from fedrec_auditor.accountants.verdict import Gate
    from fedrec_auditor.auditor.spending.spend import account
    from fedrec_auditor.reports.writers.paragraph import columns

    found = account(**said)
    print(json.dumps(found.as_data(), indent=2) if as_json else found.describe(columns()))
    raise typer.Exit(Gate().code(finding.verdict for finding in found.findings))


def _claim(text: str) -> Any:
    """The number that a text is, or the callable that it names."""
    if ":" in text:
        from fedrec_auditor.auditor.commands.verify import load

        return load(text)
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"Expected a number or PACKAGE.MODULE:CALLABLE for --claimed-epsilon, got {text!r}. "
            "Give one."
        ) from None
