"""Finds the syntax tree of a function, by the position of its code object in the source file."""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import operator
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

# Compiler flags of all ``from __future__`` imports.
FUTURE_FLAGS = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
# Syntax tree of a function with a name, or of a lambda.
FunctionNode = ast.FunctionDef | ast.Lambda


@lru_cache(maxsize=4096)
def find_syntax(code: CodeType) -> FunctionNode | None:
    """Returns the syntax tree of the function with the code object ``code``; None if not found."""
    generated = code.co_filename == "<string>"
    source = _generate_source(code) if generated else "".join(linecache.getlines(code.co_filename))
    if not source:
        return None
    nodes, codes = _parse_source(code.co_filename, source, code.co_flags & FUTURE_FLAGS)
    if code not in codes:
        return None
    matches = [node for node in nodes.get(code.co_firstlineno, ()) if _is_source(node, code)]
    if code.co_name == "<lambda>":  # the innermost lambda that contains all of the code
        inner = [n for n in matches if not any(m is not n and m in ast.walk(n) for m in matches)]
        matches = inner or matches
    return matches[0] if matches and len({ast.dump(node) for node in matches}) == 1 else None


def _generate_source(code: CodeType) -> str:
    """Returns the source code that SciPy generates at run time for its method ``_parse_args_rvs``.

    The result is "" for any other function. The caller checks that the source compiles to ``code``.
    """
    names = code.co_varnames[1 : code.co_argcount]
    if code.co_name != "_parse_args_rvs" or names[-1:] != ("size",):
        return ""
    shapes = [name for name in names[:-1] if name not in ("loc", "scale")]
    continuous = "scale" in names
    first = "".join(f"{name}, " for name in shapes)
    given, passed = ("loc=0, scale=1", "loc, scale") if continuous else ("loc=0", "loc, 1")
    source = f"def _parse_args_rvs(self, {first} {given}, size=None):\n"
    source += f"    return self._argcheck_rvs({first} {passed}, size=size)\n"
    return "\n" * (code.co_firstlineno - 1) + source


@lru_cache(maxsize=256)
def _parse_source(
    name: str, source: str, future: int
) -> tuple[dict[int, list[FunctionNode]], frozenset[CodeType]]:
    """Returns the functions of a source file by first line, and all code objects of the compiled
    file.

    ``future``: compiler flags of ``from __future__`` imports. Both results are empty if the file
    does not compile.
    """
    try:
        tree = ast.parse(source, name)
        whole = compile(tree, name, "exec", future, dont_inherit=True, optimize=sys.flags.optimize)
    except (SyntaxError, ValueError):
        return {}, frozenset()
    nodes: dict[int, list[FunctionNode]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            nodes.setdefault(first, []).append(node)
    return nodes, frozenset([*_walk(whole), *_walk(_compile_pytest(source, name, future) or whole)])


def _compile_pytest(source: str, name: str, future: int) -> CodeType | None:
    """Compiles the file with ``assert`` statements rewritten as pytest does.

    The result is None if pytest is not running, or the file has no ``assert``.
    """
    rewriting = sys.modules.get("_pytest.assertion.rewrite")
    if rewriting is None or "assert" not in source:
        return None
    tree = ast.parse(source, name)
    rewriting.rewrite_asserts(tree, source.encode(), name, None)
    compiled: CodeType = compile(
        tree, name, "exec", future, dont_inherit=True, optimize=sys.flags.optimize
    )
    return compiled


def _walk(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _walk(part)


def _is_source(node: FunctionNode, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    n_arguments = code.co_argcount + code.co_kwonlyargcount
    if code.co_name != "<lambda>" or names != [*code.co_varnames[:n_arguments]]:
        return False
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places = [
        ((line, column), (end, end_column))
        for line, end, column, end_column in code.co_positions()
        if column is not None and (line, column) != (end, end_column)
    ]
    if not places:
        # Python 3.12 gives no position to RETURN_CONST, the only instruction of a constant body.
        compiled = _walk(compile(ast.Expression(node), code.co_filename, "eval"))
        constants = {(each.co_code, repr(each.co_consts)) for each in compiled}
        return (code.co_code, repr(code.co_consts)) in constants
    return all(first <= start and end <= last for start, end in places)
