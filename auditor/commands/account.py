"""Command ``auditor account``: bounds epsilon of noise that the user describes, per round and in
total.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.commands.options import JsonOption, add_options, make_option

_NOISE = {
    "gaussian": make_option(
        str, "Gaussian noise on sums: standard deviation over clipping norm.", metavar="z=NUMBER"
    ),
    "laplace": make_option(str, "Laplace noise on sums: scale over L1 norm.", metavar="b=NUMBER"),
    "randomized_response": make_option(
        str,
        "Randomized response on k categories; or p=NUMBER, the probability of the true category.",
        metavar="epsilon=NUMBER,k=2",
    ),
    "event": make_option(
        Path, "JSON file of a dp-accounting event: its type and its fields.", metavar="EVENT.json"
    ),
    "rate": make_option(float, "Share of users (or units) that a round samples. Default: all."),
    "rounds": make_option(int, "Number of rounds, or of reports per user. Default 1."),
    "delta": make_option(float, "Delta of every epsilon. Default 0."),
    "sampling": make_option(
        str,
        "poisson (the default) samples units independently; fixed samples --rate times --users.",
        metavar="poisson|fixed",
    ),
    "users": make_option(int, "Number of users from which a round samples, for --sampling fixed."),
    "unit": make_option(str, "Unit that is clipped and hidden: user (the default) or interaction."),
    "interactions_per_user": make_option(
        int, "Interactions of a user: also bound epsilon of users."
    ),
    "adjacency": make_option(
        str,
        "Adjacency of the claim. It is shown first, and --target-epsilon refers to it.",
        metavar="add-remove|replace",
    ),
    "shuffle": make_option(int, "Number of users whose local reports are shuffled."),
    "target_epsilon": make_option(
        float,
        "Compute the option that is left out, so that all rounds together have this epsilon: the "
        "noise (`--gaussian z`), --rounds or --rate.",
    ),
    "claimed_epsilon": make_option(
        str,
        "Claimed epsilon of all rounds, to be tested: a number, or an accountant that takes these "
        "settings by name.",
        metavar="NUMBER or PACKAGE.MODULE:CALLABLE",
    ),
}


@add_options(_NOISE)
def command(options: dict[str, Any], as_json: JsonOption = False) -> None:
    """Compute upper and lower bounds on epsilon of your own noise, per round and in total.

    Exits with 1 if a claimed epsilon is refuted. Claims of papers are judged by `auditor claims`.
    """
    if "event" in options:
        from fedrec_auditor.reports.record.store import MAX_RECORD_BYTES, read_regular_file

        path = options["event"]
        try:
            options["event"] = read_regular_file(path, MAX_RECORD_BYTES, follow=True).decode()
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected --event {path} as a readable text file, got: {error}. Give such a file."
            ) from error

    if "claimed_epsilon" in options:
        options["claimed_epsilon"] = _parse_claim(options["claimed_epsilon"])

    from fedrec_auditor.accountants.verdict import Gate
    from fedrec_auditor.auditor.spending.spend import account
    from fedrec_auditor.reports.writers.paragraph import get_output_width

    result = account(**options)
    width = get_output_width()
    print(json.dumps(result.as_data(), indent=2) if as_json else result.describe(width))
    raise typer.Exit(Gate().exit_code(finding.verdict for finding in result.findings))


def _parse_claim(text: str) -> Any:
    """Converts a claimed epsilon to a number, or to the callable that the text names."""
    if ":" in text:
        from fedrec_auditor.auditor.commands.verify import load_mechanism

        return load_mechanism(text)
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"Expected a number or PACKAGE.MODULE:CALLABLE for --claimed-epsilon, got {text!r}. "
            "Give, for example, 1.0."
        ) from None
