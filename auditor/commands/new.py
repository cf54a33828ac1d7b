"""Command ``auditor new``: writes template files for a user's own system."""

from __future__ import annotations

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import InputError


class TemplateKind(StrEnum):
    """Kind of template files that ``auditor new`` writes.

    ``SYSTEM``: files for a user's own system.
    """

    SYSTEM = "system"


def command(
    kind: Annotated[TemplateKind, typer.Argument(help="Kind of the template: system.")],
    name: Annotated[str, typer.Argument(help="Name of your system, such as my-recommender.")],
    folder: Annotated[Path, typer.Option(help="Existing folder for the files.")] = Path(),
) -> None:
    """Write template files for your own system: module, claim, small data, and a passing test."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise InputError(
            f"Expected NAME as a letter, then letters, digits, - or _, got {name!r:.60}. Rename it."
        )
    module = name.replace("-", "_").lower()
    made = {
        folder / f"{module}.py": "system.py.txt",
        folder / "claim.toml": "claim.toml.txt",
        folder / "ratings.csv": "ratings.csv.txt",
        folder / "users.csv": "users.csv.txt",
        folder / f"test_{module}.py": "test_system.py.txt",
    }
    if not folder.is_dir():
        raise InputError(f"Expected an existing --folder, got {str(folder)!r}. Create this folder.")
    if there := [str(path) for path in made if path.exists()]:
        raise InputError(
            f"Expected names of new files, got the existing {' and '.join(there)}. Remove these "
            "files, or give another --folder."
        )
    texts = files("fedrec_auditor.auditor.starting")
    for path, template in made.items():
        text = texts.joinpath(template).read_text(encoding="utf-8")
        title = name.replace("_", "-").lower()
        path.write_text(text.replace("@NAME@", title).replace("@MODULE@", module), encoding="utf-8")
        typer.echo(f"Wrote {path}")
    inputs = "--claim claim.toml --data ratings.csv --users users.csv"
    typer.echo(f"Next: auditor run {module}:{kind} {inputs} --fail-on high")
    typer.echo(f"      pytest test_{module}.py")
