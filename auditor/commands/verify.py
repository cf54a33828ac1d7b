"""``auditor verify``: one mechanism or callable against one epsilon."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import sys
from typing import Annotated, Any

import typer

from accountants.errors import InputError


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE.MODULE:CALLABLE",
            help="A mechanism, or a callable f(x, rng) or f(x, rng, size) with discrete outputs.",
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="The claimed epsilon.")],
    inputs: Annotated[
        str, typer.Option(help="Inputs to pair up, as a JSON list. For callables.")
    ] = "[0, 1]",
    delta: Annotated[float, typer.Option(help="The claimed delta.")] = 0.0,
    samples: Annotated[int, typer.Option(help="Draws per input. For callables.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of a measured bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Confirm a local randomizer's privacy ratio, or show the pair of inputs that breaks it."""
    from auditor.verification import verify_ldp

    found = verify_ldp(
        load(target),
        epsilon=epsilon,
        inputs=_parse(inputs),
        delta=delta,
        samples=samples,
        confidence=confidence,
        seed=seed,
    )
    if as_json:
        values = dataclasses.asdict(found)
        if math.isinf(found.epsilon_lower):
            values["epsilon_lower"] = "inf"
        print(json.dumps(values, indent=2))
    else:
        _show(found)
    raise typer.Exit(1 if found.verdict == "VIOLATED" else 0)


def load(target: str) -> Any:
    """Import ``package.module:name``, where the name may be dotted; the working folder counts."""
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        raise InputError(f"Expected PACKAGE.MODULE:CALLABLE, got {target!r}. Add the missing part.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # importing runs the module
        raise InputError(
            f"Expected something importable, got {target!r} ({type(error).__name__}: {error}). "
            "Check the names, and that the module is on the path."
        ) from error
    return found


def _parse(inputs: str) -> list[Any]:
    try:
        values = json.loads(inputs)
    except json.JSONDecodeError as error:
        raise InputError(
            f"Expected --inputs as a JSON list such as [0, 1], got {inputs!r} ({error})."
        ) from error
    if not isinstance(values, list):
        raise InputError(f"Expected --inputs as a JSON list such as [0, 1], got {inputs!r}.")
    return values


def _show(found: Any) -> None:
    how = (
        "exactly"
        if found.exact
        else f"at {found.confidence:.4g} confidence from {found.samples} draws"
    )
    print(f"{found.verdict}: claimed epsilon {found.epsilon:g} at delta {found.delta:g}")
    print(f"  epsilon is at least {found.epsilon_lower:.6g}, {how} ({found.method})")
    witness = found.witness
    if witness is not None:
        print(f"  inputs   {witness.input_a}  against  {witness.input_b}")
        print(f"  output   {witness.output}")
        print(f"  chances  {witness.probability_a:.6g}  against  {witness.probability_b:.6g}")
        if witness.note:
            print(f"  note     {witness.note}")
