"""``auditor new``: files to begin with."""

from __future__ import annotations

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import InputError


class Begun(StrEnum):
    """What may be begun."""

    SYSTEM = "system"


def command(
    kind: Annotated[Begun, typer.Argument(help="What to begin: system.")],
    name: Annotated[str, typer.Argument(help="Its name, such as my-recommender.")],
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path(),
) -> None:
    """Write a commented file of a system of your own, and its test: both pass as they stand."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise InputError(
            f"Expected a name of letters, digits and hyphens, got {name!r:.60}. Give another one."
        )
    module = name.replace("-", "_").lower()
    made = {
        folder / f"{module}.py": "system.py.txt",
        folder / f"test_{module}.py": "test_system.py.txt",
    }
    if not folder.is_dir():
        raise InputError(f"Expected a folder, got {str(folder)!r}, which is none. Make it first.")
    if there := [str(path) for path in made if path.exists()]:
        raise InputError(
            f"Expected no file {' or '.join(there)}, got one. Remove it, or give another name."
        )
    texts = files("fedrec_auditor.auditor.starting")
    for path, template in made.items():
        text = texts.joinpath(template).read_text(encoding="utf-8")
        title = name.replace("_", "-").lower()
        path.write_text(text.replace("@NAME@", title).replace("@MODULE@", module), encoding="utf-8")
        typer.echo(f"Wrote {path}")
    typer.echo(f"Next: auditor run {module}:{kind} --data ml-100k --quick")
    typer.echo(f"      pytest test_{module}.py")
