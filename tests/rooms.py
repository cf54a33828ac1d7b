"""Code lines of every room, held to the ceilings of ``rooms.toml``: ``python -m tests.rooms``.

A room is a folder without the rooms inside it; its tests are the folder of the same name under
``tests/``. Blank lines, comments and docstrings are not code.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("accountants", "attacks", "auditor", "reports", "src", "targets", "tests")
KINDS = ("source", "tests")


def count_code_lines(source: str) -> int:
    """Count lines that are neither blank nor a part of a docstring nor a comment alone."""
    lines = source.splitlines()
    skipped = {number for number, line in enumerate(lines, 1) if not line.strip()}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            continue
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str())) as text, *_]:
                skipped.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        number = token.start[0]
        if token.type == tokenize.COMMENT and lines[number - 1].lstrip().startswith("#"):
            skipped.add(number)
    return len(lines) - len(skipped)


def find_room(path: Path, rooms: set[str]) -> tuple[str, str]:
    """Return the innermost room of a file, and whether it is source or tests there.

    LookupError where no room holds it.
    """
    kind = "tests" if path.parts[0] == "tests" else "source"
    inside = Path(*path.parts[1:]) if kind == "tests" else path
    for folder in inside.parents:
        if str(folder) in rooms:
            return str(folder), kind
    raise LookupError(f"No room of rooms.toml holds {path}. Add one, and lower another.")


def count_rooms(root: Path, rooms: set[str]) -> Counter[tuple[str, str]]:
    """Code lines by room and kind."""
    counts: Counter[tuple[str, str]] = Counter()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.is_symlink() and not any(part.is_symlink() for part in path.parents):
                lines = count_code_lines(path.read_text(encoding="utf-8"))
                counts[find_room(path.relative_to(root), rooms)] += lines
    return counts


def list_excess(counts: Counter[tuple[str, str]], ceilings: dict[str, dict[str, int]]) -> list[str]:
    """One sentence for each room above its ceiling."""
    return [
        f"Expected at most {ceilings[room].get(kind, 0):,} code lines of {kind} in {room}, "
        f"got {lines:,}. Delete some, or lower another room's ceiling by as much."
        for (room, kind), lines in sorted(counts.items())
        if lines > ceilings[room].get(kind, 0)
    ]


def main() -> int:
    ceilings = tomllib.loads((ROOT / "rooms.toml").read_text(encoding="utf-8"))
    counts = count_rooms(ROOT, set(ceilings))
    for kind in KINDS:
        total = sum(lines for (_, side), lines in counts.items() if side == kind)
        ceiling = sum(room.get(kind, 0) for room in ceilings.values())
        print(f"{kind}: {total:,} code lines, ceilings {ceiling:,}")
    sentences = list_excess(counts, ceilings)
    print(*sentences, sep="\n", end="\n" if sentences else "")
    return bool(sentences)


if __name__ == "__main__":
    sys.exit(main())
