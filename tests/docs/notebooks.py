"""Runs the notebooks of examples/; ``python -m tests.docs.notebooks`` stores what they print."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import tempfile
from pathlib import Path
from typing import Any

from tests.docs.blocks import ROOT
from tests.docs.session import Session

NOTEBOOKS = tuple(sorted((ROOT / "examples").glob("*.ipynb")))


def outputs(notebook: dict[str, Any], folder: Path) -> tuple[list[list[dict[str, Any]]], Any]:
    """Text outputs of every code cell in the notebook format, and the final namespace."""
    cell_outputs: list[list[dict[str, Any]]] = []
    with Session(folder) as session:
        names = session.module.__dict__
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell_outputs.append(_run("".join(cell["source"]), names, len(cell_outputs) + 1))
    return cell_outputs, names


def _run(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    if isinstance(tree.body[-1], ast.Expr):
        ending = ast.parse("_ = None").body[0]
        ending.value = tree.body[-1].value
        tree.body[-1] = ending
    names["_"] = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        name = f"cell {count}"
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(tree, name, "exec"), names)
    value = names["_"]
    shown: list[dict[str, Any]] = []
    if out.getvalue():
        text = out.getvalue().splitlines(keepends=True)
        shown.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        result = {"data": {"text/plain": repr(value).splitlines(keepends=True)}}
        result |= {"execution_count": count, "metadata": {}, "output_type": "execute_result"}
        shown.append(result)
    return shown


def _store(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        cell_outputs, _ = outputs(notebook, Path(folder))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, (cell, shown) in enumerate(zip(code, cell_outputs, strict=True), 1):
        cell["outputs"], cell["execution_count"] = shown, count
    path.write_text(f"{json.dumps(notebook, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


if __name__ == "__main__":
    for each in NOTEBOOKS:
        _store(each)
