"""``auditor account``: epsilon of the user's own noise, per round and in total; no simulation."""

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
        str, "Gaussian noise on sums: standard deviation / clipping norm.", metavar="z=NUMBER"
    ),
    "laplace": extra(str, "Laplace noise on sums: scale / L1 clipping norm.", metavar="b=NUMBER"),
    "randomized_response": extra(
        str,
        "Local reports on k categories; or p=NUMBER, the probability of the true category.",
        metavar="epsilon=NUMBER,k=2",
    ),
    "event": extra(
        Path, "An event of dp-accounting as JSON: its type and its fields.", metavar="EVENT.json"
    ),
    "rate": extra(float, "Share of users (or units) sampled per round; all if left out."),
    "rounds": extra(int, "Number of rounds, or of reports per user; 1 if left out."),
    "delta": extra(float, "Delta of every epsilon; 0 if left out."),
    "sampling": extra(
        str,
        "poisson (the default): each unit independently; fixed: --rate times --users users.",
        metavar="poisson|fixed",
    ),
    "users": extra(int, "With --sampling fixed: number of users from which a round samples."),
    "unit": extra(str, "The clipped unit, which is hidden: user (the default) or interaction."),
    "interactions_per_user": extra(int, "With --unit interaction: also users with this many."),
    "adjacency": extra(
        str,
        "The adjacency of the claim: shown first, and used by --target-epsilon.",
        metavar="add-remove|replace",
    ),
    "shuffle": extra(int, "Users whose local reports are shuffled."),
    "target_epsilon": extra(
        float,
        "Find the option that is left out, so that all rounds keep this epsilon: the noise "
        "(`--gaussian z`), --rounds or --rate.",
    ),
    "claimed_epsilon": extra(
        str,
        "Test this claim for all rounds: a number, or an accountant that takes these settings by "
        "name.",
        metavar="NUMBER or PACKAGE.MODULE:CALLABLE",
    ),
}
_OF_CLAIMS = ("all", "entry", "items", "junit", "markdown", "only", "sarif", "set", "tables")
"""Options of `claims` that this command had in earlier versions."""


@with_options(_NOISE)
def command(
    options: dict[str, Any],
    as_json: AsJson = False,
    moved: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    of_claims: Annotated[
        bool, typer.Option(*(f"--{name}" for name in _OF_CLAIMS), hidden=True)
    ] = False,
) -> None:
    """Compute upper and lower bounds on epsilon of your own noise, per round and in total.

    Exits with 1 if a claimed epsilon is refuted. The claims of papers are judged by `auditor
    claims`.
    """
    if moved or of_claims:
        words = shlex.join(word for word in sys.argv[2:] if word != "--entry")
        raise InputError(
            f"Expected your own noise, such as --gaussian z=1.1, got {words}. Claims of papers "
            f"and targets are judged by `auditor claims {words}`."
        )
    if "event" in options:
        try:
            options["event"] = options["event"].read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected a readable event in {options['event']}, got: {error}. Give a JSON file."
            ) from error

    if "claimed_epsilon" in options:
        options["claimed_epsilon"] = _claim(options["claimed_epsilon"])

    from fedrec_auditor.accountants.verdict import Gate
    from fedrec_auditor.auditor.spending.spend import account
    from fedrec_auditor.reports.writers.paragraph import columns

    result = account(**options)
    print(json.dumps(result.as_data(), indent=2) if as_json else result.describe(columns()))
    raise typer.Exit(Gate().code(finding.verdict for finding in result.findings))


def _claim(text: str) -> Any:
    """Converts a text to a number, or to the callable that it names."""
    if ":" in text:
        from fedrec_auditor.auditor.commands.verify import load

        return load(text)
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"Expected a number or PACKAGE.MODULE:CALLABLE for --claimed-epsilon, got {text!r}. "
            "Give one of these."
        ) from None
