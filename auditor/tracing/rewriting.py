"""Rewrites functions so that every operation in them becomes a call of the tracing interpreter.

Python runs the rewritten functions and handles names, scopes, arguments, loops and generators. The
tracing interpreter (``Interpreter``) computes every operation on a value. Syntax without a rule is
replaced by a call that raises NotTraced.
"""

from __future__ import annotations

import ast
import copy
import itertools
import linecache
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from fedrec_auditor.auditor.tracing import equivalents
from fedrec_auditor.auditor.tracing.syntax import FUTURE_FLAGS, find_syntax

# Global name of the interpreter in rewritten code; it is not a name that source code can contain.
INTERPRETER_VAR = "<run>"
# Prefix of the file name, so that debuggers and coverage tools ignore rewritten code.
_MARK = "<rewritten> "
# Name of each operator's special method, by the name of its class in ``ast``.
OPERATOR_NAMES = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv",
    "Mod": "mod", "Pow": "pow", "LShift": "lshift", "RShift": "rshift", "BitOr": "or",
    "BitXor": "xor", "BitAnd": "and", "MatMult": "matmul", "USub": "neg", "UAdd": "pos",
    "Invert": "invert", "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt",
    "GtE": "ge", "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
# Nodes that stay unchanged except for their children.
_UNCHANGED = (
    ast.Return, ast.Expr, ast.Break, ast.Continue, ast.Pass, ast.Nonlocal, ast.Constant,
    ast.NamedExpr, ast.Tuple, ast.Yield, ast.expr_context, ast.arguments,
)  # fmt: skip
# Nodes that become a call of the named method, with these children as its arguments.
_CALLS: dict[type, tuple[str, ...]] = {
    ast.Subscript: ("get_entry", "value", "slice"),
    ast.Slice: ("make_slice", "lower", "upper", "step"),
    ast.BinOp: ("apply_binary", "op", "left", "right"),
    ast.FormattedValue: ("format_value", "value", "conversion", "format_spec"),
    ast.JoinedStr: ("join_texts", "values"),
    ast.Set: ("make_set", "elts"),
}
_LOOPS = {ast.ListComp: "record_new", ast.SetComp: "make_set", ast.GeneratorExp: "make_iterator"}
# Nodes that a and b in ``a if condition else b`` may contain if both a and b are computed.
_ARITHMETIC = (ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.Add, ast.Sub, ast.BitXor)
_THROWN, _SUBJECT = "<thrown>", "<subject>"


class _OuterName(Exception):
    """Raised for a statement that binds a name that outlives the call, such as a global name."""


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _op(name: str, *arguments: Any) -> ast.Call:
    """Returns the syntax of a call of the interpreter's method ``name``.

    Arguments that are not syntax nodes become constants.
    """
    nodes: list[Any] = [a if isinstance(a, ast.AST) else ast.Constant(a) for a in arguments]
    return ast.Call(ast.Attribute(_load(INTERPRETER_VAR), name, ast.Load()), nodes, [])


def _pack(nodes: list[Any]) -> ast.Tuple:
    return ast.Tuple(nodes, ast.Load())


def _defer(node: ast.expr) -> ast.Lambda:
    return ast.Lambda(_make_arguments([]), node)


def _make_arguments(names: Any) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _set(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _has_yield(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))


@lru_cache(maxsize=4096)
def rewrite_code(code: CodeType) -> CodeType | None:
    """Returns the code of a function, with every operation rewritten as a call of the tracing
    interpreter.

    The result is None if the source code of the function is not found.
    """
    node = find_syntax(code)
    if node is None:
        return None
    new = _Rewriter(node, code).define(copy.deepcopy(node))
    outer = ast.FunctionDef("<outer>", _make_arguments(code.co_freevars), [new], [])
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    flags = code.co_flags & FUTURE_FLAGS
    compiled: CodeType = compile(tree, _MARK + code.co_filename, "exec", flags, dont_inherit=True)
    for _ in range(2):
        compiled = next(part for part in compiled.co_consts if isinstance(part, CodeType))
    return compiled.replace(co_name=code.co_name, co_qualname=code.co_qualname)


class _Rewriter(ast.NodeTransformer):
    """Rules that rewrite the syntax tree of a function, one method per type of syntax node."""

    def __init__(self, node: ast.AST, code: CodeType) -> None:
        every = list(ast.walk(node))
        self.outer_names = {name for n in every if isinstance(n, ast.Global) for name in n.names}
        self.outer_names |= {
            name for n in every if isinstance(n, ast.Nonlocal) for name in n.names
            if name in code.co_freevars
        }  # fmt: skip
        self.first = ""
        owner = code.co_qualname.rpartition(".")[0].rpartition(".")[2]
        self.owner = owner if owner.isidentifier() else ""
        self.places = itertools.count()

    def define(self, node: Any) -> ast.stmt:
        """Returns the rewritten statement that defines the function.

        Default values of arguments become None; the real ones are set on the function object later.
        """
        node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
        node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
        if isinstance(node, ast.Lambda):
            return ast.copy_location(ast.Return(self.visit(node)), node.body)
        node.decorator_list, node.name = [], "<function>"
        (new,) = self.visit(node)
        return new  # type: ignore[no-any-return]

    def visit(self, node: ast.AST) -> Any:
        """Returns the rewritten form of a syntax node.

        A node without a rule becomes a call that raises NotTraced.
        """
        name = type(node).__name__
        rule = getattr(self, f"visit_{name}", None)
        try:
            if rule is not None:
                new = rule(node)
            elif isinstance(node, _UNCHANGED):
                new = self.generic_visit(node)
            elif type(node) in _CALLS:
                method, *parts = _CALLS[type(node)]
                new = _op(method, *(self._convert(getattr(node, part)) for part in parts))
            else:
                new = _op("refuse", f"tracing does not support the syntax {name}")
        except _OuterName as kept:
            if not isinstance(node, ast.stmt):
                raise
            new = _op("refuse", f"the code assigns to {kept}, which keeps its value between calls, "
                                "so that later outputs may depend on it")  # fmt: skip
        if isinstance(node, ast.stmt) and isinstance(new, ast.expr):
            new = ast.Expr(new)
        for part in new if isinstance(new, list) else [new]:
            if hasattr(node, "lineno") and not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return new

    def _convert(self, part: Any) -> Any:
        """Converts a child of a syntax node to an argument of a call of the interpreter."""
        if isinstance(part, ast.operator | ast.unaryop | ast.cmpop):
            return OPERATOR_NAMES[type(part).__name__]
        if isinstance(part, list):
            return _pack(self._visit_all(part))
        return self.visit(part) if isinstance(part, ast.AST) else part

    def _visit_all(self, nodes: list[Any]) -> list[Any]:
        return [self.visit(node) for node in nodes]

    def _visit_block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        news = self._visit_all(statements)
        return [part for new in news for part in (new if isinstance(new, list) else [new])]

    def _make_test(self, node: ast.expr) -> ast.expr:
        return _op("is_true", self.visit(node))

    def _check_name(self, name: str | None) -> None:
        if name in self.outer_names:
            raise _OuterName(name)

    # Names and targets.

    def visit_Name(self, node: ast.Name) -> Any:
        """Keeps a name unchanged.

        Raises ``_OuterName`` if the node binds a name that outlives the call. The name
        ``__builtins__`` becomes a call that raises NotTraced.
        """
        if not isinstance(node.ctx, ast.Load):
            self._check_name(node.id)
        return _op("refuse", "the code uses __builtins__") if node.id == "__builtins__" else node

    def visit_Global(self, node: ast.Global) -> Any:
        """Removes a ``global`` statement.

        Assignments to its names become calls that raise NotTraced.
        """
        return ast.Pass()

    def _mangle(self, name: str) -> str:
        """Returns an attribute's name, changed as Python does for names like ``__name`` within a
        class.
        """
        mangled = name.startswith("__") and not name.endswith("__") and self.owner.strip("_")
        return f"_{self.owner.lstrip('_')}{name}" if mangled else name

    def _rewrite_target(self, node: Any, later: list[ast.stmt]) -> tuple[Any, Any]:
        """Returns an assignment target that consists only of names, and its shape.

        The shape is None for a name, "*" for a starred name, or a tuple of shapes. Assignments to
        other targets, such as attributes, are appended to ``later``.
        """
        if isinstance(node, ast.Starred):
            return self._rewrite_target(node.value, later)[0], "*"
        if isinstance(node, ast.Tuple | ast.List):
            parts = [self._rewrite_target(part, later) for part in node.elts]
            names = ast.Tuple([part for part, _ in parts], ast.Store())
            return names, tuple(shape for _, shape in parts)
        if isinstance(node, ast.Name):
            return self.visit(node), None
        name = f"<{next(self.places)}>"
        if isinstance(node, ast.Attribute):
            setting = _op("set_attribute", self.visit(node.value), self._mangle(node.attr))
        else:
            setting = _op("set_entry", self.visit(node.value), self.visit(node.slice))
        setting.args.append(_load(name))
        later.append(ast.Expr(setting))
        return ast.Name(name, ast.Store()), None

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Rewrites ``a = b``.

        Assignments to attributes and entries become calls of the tracing interpreter.
        """
        value = self.visit(node.value)
        statements: list[ast.stmt] = []
        if len(node.targets) > 1:
            name = f"<{next(self.places)}>"
            statements, value = [_set(name, value)], _load(name)
        for target in node.targets:
            later: list[ast.stmt] = []
            names, shape = self._rewrite_target(target, later)
            new = value if shape is None else _op("unpack", value, shape)
            statements += [ast.Assign([names], new), *later]
        return statements

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Rewrites ``a: T = b`` as an assignment without the annotation."""
        if node.value is None:
            return ast.Pass()
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """Rewrites ``a += b`` and similar assignments as calls of the tracing interpreter."""
        name, target = OPERATOR_NAMES[type(node.op).__name__], node.target
        value = self.visit(node.value)
        if isinstance(target, ast.Name):
            self._check_name(target.id)
            return _set(target.id, _op("apply_in_place", name, _load(target.id), value))
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            return _op("set_attribute_in_place", name, owner, self._mangle(target.attr), value)
        return _op("update_entry_in_place", name, owner, self.visit(target.slice), value)

    def visit_Delete(self, node: ast.Delete) -> Any:
        """Rewrites ``del``. The deletion of an entry becomes a call of the tracing interpreter."""
        found: list[Any] = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.append(ast.Delete([self.visit(target)]))
            elif isinstance(target, ast.Subscript):
                gone = _op("delete_entry", self.visit(target.value), self.visit(target.slice))
                found.append(ast.Expr(gone))
            else:
                return _op("refuse", "tracing does not support del of an attribute")
        return found

    def visit_Import(self, node: Any) -> Any:
        """Rewrites ``import`` and ``from ... import`` as assignments to names."""
        found = []
        for part in node.names:
            name = part.asname or part.name.partition(".")[0]
            self._check_name(name)
            loaded = _op("import_module", part.name, "" if part.asname else name)
            if isinstance(node, ast.ImportFrom):
                package = [_load("__package__")] if node.level else []
                loaded = _op("import_name", part.name, node.module or "", node.level, *package)
            found.append(_set(name, loaded))
        return found

    visit_ImportFrom = visit_Import

    # Control flow.

    def visit_If(self, node: Any) -> Any:
        """Rewrites ``if`` and ``while`` so that the tracing interpreter evaluates the condition."""
        self.generic_visit(node)
        node.test = _op("is_true", node.test)
        return node

    visit_While = visit_If

    def visit_For(self, node: ast.For) -> Any:
        """Rewrites a ``for`` loop so that the tracing interpreter makes its iterator."""
        later: list[ast.stmt] = []
        target, entries = self._rewrite_loop(node, later)
        body = [*later, *self._visit_block(node.body)]
        return ast.For(target, entries, body, self._visit_block(node.orelse))

    def _rewrite_loop(self, node: Any, later: list[ast.stmt]) -> tuple[Any, ast.expr]:
        target, shape = self._rewrite_target(node.target, later)
        shapes = () if shape is None else (shape,)
        return target, _op("iterate", self.visit(node.iter), *shapes)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        """Rewrites ``for a in b if c`` in a comprehension; the tracing interpreter then makes the
        iterator.
        """
        later: list[ast.stmt] = []
        target, entries = self._rewrite_loop(node, later)
        if later or node.is_async:
            entries = _op("refuse", "tracing does not support this kind of comprehension")
        return ast.comprehension(target, entries, [self._make_test(test) for test in node.ifs], 0)

    def visit_Assert(self, node: ast.Assert) -> Any:
        """Rewrites ``assert`` as ``if`` and ``raise``."""
        if sys.flags.optimize:
            return ast.Pass()
        failed = _op("make_assertion_error", *([] if node.msg is None else [self.visit(node.msg)]))
        return ast.If(ast.UnaryOp(ast.Not(), self._make_test(node.test)), [ast.Raise(failed)], [])

    def visit_Raise(self, node: ast.Raise) -> Any:
        """Rewrites ``raise error`` so that the tracing interpreter makes the raised exception.

        A ``raise`` without an exception stays.
        """
        return ast.Raise(None if node.exc is None else _op("to_exception", self.visit(node.exc)))

    def visit_Try(self, node: ast.Try) -> Any:
        """Rewrites ``try`` so that its handlers catch only exceptions of the traced code.

        Errors of the tracing itself, such as NotTraced, are not caught. A ``try`` that contains
        ``yield`` is not supported.
        """
        if _has_yield(node):  # closing a generator runs the rest of its try, at an unknown time
            return _op("refuse", "tracing does not support yield within a try statement")
        last: list[ast.stmt] = [ast.Raise()]
        for handler in reversed(node.handlers):
            self._check_name(handler.name)
            error = ast.Attribute(_load(_THROWN), "error", ast.Load())
            body = [_set(handler.name, error)] if handler.name else []
            kinds = [] if handler.type is None else [self.visit(handler.type)]
            test = _op("can_catch", error, *kinds)
            last = [ast.If(test, body + self._visit_block(handler.body), last)]
        kind = ast.Attribute(_load(INTERPRETER_VAR), "exception_class", ast.Load())
        handlers = [ast.ExceptHandler(kind, _THROWN, last)] if node.handlers else []
        whole = ast.Try(self._visit_block(node.body), handlers, self._visit_block(node.orelse), [])
        if not node.finalbody:
            return whole
        before = f"<{next(self.places)}>"
        test = _op("should_run_finally", _load(before))
        whole.finalbody = [ast.If(test, self._visit_block(node.finalbody), [])]
        return [_set(before, _op("get_current_error")), whole]

    def visit_With(self, node: ast.With) -> Any:
        """Rewrites ``with``; the tracing interpreter enters and leaves the context managers."""
        if _has_yield(node):
            return _op("refuse", "tracing does not support yield within a with statement")
        items = []
        for item in node.items:
            if not isinstance(item.optional_vars, ast.Name | None):
                return _op("refuse", "tracing supports a with statement only if it binds one name")
            value = None if item.optional_vars is None else self.visit(item.optional_vars)
            items.append(ast.withitem(_op("wrap_context", self.visit(item.context_expr)), value))
        return ast.With(items, self._visit_block(node.body))

    def visit_Match(self, node: ast.Match) -> Any:
        """Rewrites ``match`` as a chain of ``if`` statements."""
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = self._make_match(case.pattern, _load(_SUBJECT))
            if case.guard is not None:
                test = ast.BoolOp(ast.And(), [test, self._make_test(case.guard)])
            chain = [ast.If(test, self._visit_block(case.body), chain)]
        return [_set(_SUBJECT, self.visit(node.subject)), *chain]

    def _make_match(self, pattern: ast.pattern, value: ast.expr) -> ast.expr:
        """Returns a condition that is true if ``value`` matches ``pattern``.

        Evaluating the condition also binds the names in the pattern.
        """
        if isinstance(pattern, ast.MatchValue):
            return _op("is_true", _op("compare", "eq", value, self.visit(pattern.value)))
        if isinstance(pattern, ast.MatchSingleton):
            return _op("compare", "is", value, pattern.value)
        if isinstance(pattern, ast.MatchOr):
            return ast.BoolOp(ast.Or(), [self._make_match(p, value) for p in pattern.patterns])
        tests: list[ast.expr] = []
        parts: list[tuple[ast.pattern, ast.expr]] = []
        if isinstance(pattern, ast.MatchAs):
            self._check_name(pattern.name)
            if pattern.pattern is not None:
                tests.append(self._make_match(pattern.pattern, value))
            if pattern.name is not None:
                named = ast.NamedExpr(ast.Name(pattern.name, ast.Store()), value)
                tests.append(ast.Compare(_pack([named]), [ast.IsNot()], [ast.Constant(None)]))
        elif isinstance(pattern, ast.MatchSequence):
            tests.append(_op("matches_sequence", value, len(pattern.patterns)))
            parts = [(p, _op("get_entry", value, k)) for k, p in enumerate(pattern.patterns)]
        elif isinstance(pattern, ast.MatchMapping) and pattern.rest is None:
            keys = self._visit_all(pattern.keys)
            tests.append(_op("matches_mapping", value, *keys))
            parts = [(p, _op("get_entry", value, key))
                     for p, key in zip(pattern.patterns, keys, strict=True)]  # fmt: skip
        elif isinstance(pattern, ast.MatchClass) and not pattern.patterns:
            tests.append(_op("matches_class_pattern", value, self.visit(pattern.cls)))
            named_parts = zip(pattern.kwd_patterns, pattern.kwd_attrs, strict=True)
            parts = [(p, _op("get_attribute", value, name)) for p, name in named_parts]
        else:
            tests.append(_op("refuse", f"tracing does not support {type(pattern).__name__}"))
        tests += [self._make_match(part, of) for part, of in parts]
        return ast.BoolOp(ast.And(), [ast.Constant(True), ast.Constant(True), *tests])

    # Functions and classes.

    def visit_Lambda(self, node: Any) -> Any:
        """Rewrites ``lambda``; ``super()`` within it uses the first argument of the lambda."""
        named = [*node.args.posonlyargs, *node.args.args]
        before, self.first = self.first, named[0].arg if named else ""
        self.generic_visit(node)
        self.first = before
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Rewrites ``def`` without annotations; the tracing interpreter calls the decorators."""
        self._check_name(node.name)
        if getattr(node, "type_params", None):
            return _op("refuse", "tracing does not support type parameters")
        node.returns = None
        self.visit_Lambda(node)
        if node.args.kwarg is not None:
            node.body.insert(0, ast.Expr(_op("record_new", _load(node.args.kwarg.arg))))
        decorators, node.decorator_list = node.decorator_list, []
        called = [_op("call", decorator, _pack([_load(node.name)]), ast.Dict([], []))
                  for decorator in reversed(decorators)]  # fmt: skip
        return [node, *(_set(node.name, call) for call in called)]

    def visit_arg(self, node: ast.arg) -> Any:
        """Removes the annotation of an argument."""
        node.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Rewrites ``class``.

        Classes with decorators, keyword arguments or type parameters become calls that raise
        NotTraced.
        """
        self._check_name(node.name)
        if node.keywords or node.decorator_list or getattr(node, "type_params", None):
            return _op("refuse", f"tracing does not support the definition of class {node.name}")
        before, self.owner = self.owner, node.name
        self.generic_visit(node)
        self.owner = before
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        """Rewrites ``yield from`` so that the tracing interpreter makes its iterator."""
        return ast.YieldFrom(_op("iterate", self.visit(node.value)))

    # Expressions.

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Rewrites ``value.name`` as a call of the tracing interpreter's ``get_attribute``."""
        return _op("get_attribute", self.visit(node.value), self._mangle(node.attr))

    def visit_Starred(self, node: ast.Starred) -> Any:
        """Rewrites ``*value`` so that the tracing interpreter makes the iterator to unpack."""
        return ast.Starred(_op("iterate", self.visit(node.value)), ast.Load())

    def visit_Call(self, node: ast.Call) -> Any:
        """Rewrites a function call, or ``super()`` without arguments, as a call of the tracing
        interpreter.
        """
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            if not self.first:
                return _op("refuse", "tracing supports super() only within methods")
            return _op("make_super", _load("__class__"), _load(self.first))
        function, args = self.visit(node.func), self._convert(node.args)
        keys = [k.arg and ast.Constant(k.arg) for k in node.keywords]
        named = self._to_dict(keys, [k.value for k in node.keywords]) if keys else ast.Dict([], [])
        return _op("call", function, args, named)

    def _to_dict(self, keys: list[Any], values: list[ast.expr]) -> ast.expr:
        """Returns a call of the interpreter that makes a dict from ``keys`` and ``values``.

        A key None marks a value that is a dict to merge, as in ``{**value}``.
        """
        pairs = zip(keys, values, strict=True)
        return _op("make_dict", *(self._convert([v] if k is None else [k, v]) for k, v in pairs))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Rewrites ``-a``, ``not a``, ``+a`` and ``~a`` as calls of the tracing interpreter."""
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Not(), self._make_test(node.operand))
        return _op("apply_unary", OPERATOR_NAMES[type(node.op).__name__], self.visit(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Rewrites ``a and b`` and ``a or b``; the tracing interpreter decides what is true."""
        operands: list[ast.expr] = [_op("wrap_operand", self.visit(value)) for value in node.values]
        return ast.Attribute(ast.BoolOp(node.op, operands), "value", ast.Load())

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Rewrites ``a < b`` and ``a < b < c``; the tracing interpreter compares the values."""
        names = [OPERATOR_NAMES[type(how).__name__] for how in node.ops]
        values = self._visit_all([node.left, *node.comparators])
        if len(names) == 1:
            return _op("compare", names[0], *values)
        if any(len(name) > 2 or name in ("is", "in") for name in names):
            return _op("refuse", "tracing does not support this chain of comparisons")
        first, *rest = (_op("wrap_operand", value) for value in values)
        others: list[ast.expr] = [*rest]
        return ast.Attribute(ast.Compare(first, node.ops, others), "value", ast.Load())

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Rewrites ``a if condition else b``.

        If a and b are sums, differences or exclusive-ors of names and constants, the tracing
        interpreter may compute both of them without a branch (``run_if_else``).
        """
        parts = [*ast.walk(node.body), *ast.walk(node.orelse)]
        body, orelse = self.visit(node.body), self.visit(node.orelse)
        if not all(isinstance(part, _ARITHMETIC) for part in parts):
            return ast.IfExp(self._make_test(node.test), body, orelse)
        read: list[Any] = [p for p in parts if isinstance(p, ast.Name | ast.Constant)]
        return _op("run_if_else", self.visit(node.test), *map(_defer, (_pack(read), body, orelse)))

    def visit_List(self, node: ast.List) -> Any:
        """Rewrites ``[a, b]`` so that the tracing interpreter marks the list as created by the
        traced code.
        """
        return _op("record_new", ast.List(self._visit_all(node.elts), ast.Load()))

    def visit_Dict(self, node: ast.Dict) -> Any:
        """Rewrites ``{a: b, **c}`` as a call of the tracing interpreter that makes the dict."""
        return self._to_dict(node.keys, node.values)

    def visit_ListComp(self, node: Any) -> Any:
        """Rewrites list comprehensions, set comprehensions and generator expressions.

        The tracing interpreter makes their iterators and receives their results.
        """
        kind: Any = ast.GeneratorExp if isinstance(node, ast.GeneratorExp) else ast.ListComp
        return _op(_LOOPS[type(node)], kind(self.visit(node.elt), self._visit_all(node.generators)))

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        """Rewrites a dict comprehension; the tracing interpreter then makes the dict."""
        pair = self._convert([node.key, node.value])
        loop = ast.ListComp(pair, self._visit_all(node.generators))
        return _op("make_dict", ast.Starred(loop, ast.Load()))


def get_running_file() -> str:
    """Returns the path of the source file of the innermost traced function that is running.

    The result is "" if no rewritten code is running.
    """
    frame: Any = sys._getframe()
    while frame is not None and INTERPRETER_VAR not in frame.f_globals:
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename.removeprefix(_MARK)


def locate_error(error: BaseException) -> str:
    """Returns the file name, number and text of the line of traced code that raised ``error``.

    The result is text for messages; "" if the error does not come from traced code.
    """
    file, line, trace = "", 0, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        name = frame.f_code.co_filename.removeprefix(_MARK)
        if INTERPRETER_VAR in frame.f_globals and name != equivalents.__file__:
            file, line = name, trace.tb_lineno
        trace = trace.tb_next
    code = linecache.getline(file, line).strip()
    return f" ({Path(file).name}, line {line}{f': {code}' if code else ''})" if line else ""
