"""Expressions of interpreted code."""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import operator
import types
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

from fedrec_auditor.auditor.tracing.comparisons import Comparisons
from fedrec_auditor.auditor.tracing.frames import Frame, Function
from fedrec_auditor.auditor.tracing.gate import Thrown
from fedrec_auditor.auditor.tracing.lines import pick
from fedrec_auditor.auditor.tracing.objects import METACLASSES
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply

BINARY: dict[type, tuple[Any, str]] = {
    ast.Add: (operator.add, "add"),
    ast.Sub: (operator.sub, "sub"),
    ast.Mult: (operator.mul, "mul"),
    ast.Div: (operator.truediv, "truediv"),
    ast.FloorDiv: (operator.floordiv, "floordiv"),
    ast.Mod: (operator.mod, "mod"),
    ast.Pow: (operator.pow, "pow"),
    ast.LShift: (operator.lshift, "lshift"),
    ast.RShift: (operator.rshift, "rshift"),
    ast.BitOr: (operator.or_, "or"),
    ast.BitXor: (operator.xor, "xor"),
    ast.BitAnd: (operator.and_, "and"),
    ast.MatMult: (operator.matmul, "matmul"),
}
_UNARY: dict[type, tuple[Any, str]] = {
    ast.USub: (operator.neg, "neg"),
    ast.UAdd: (operator.pos, "pos"),
    ast.Invert: (operator.invert, "invert"),
}
_BUILTINS = vars(builtins)
_FAST = (int, float, bool)
_PICKED = (*_FAST, str, Symbol)
_SUMS = (ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.Add, ast.Sub, ast.BitXor)
_MANY_BITS = 1 << 13


class Expressions(Comparisons):
    """The value of each kind of expression."""

    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression; NotTraced for a kind that is not followed."""
        self.step()
        action = _ACTIONS.get(type(node))
        if action is None:
            self.refuse(f"{type(node).__name__} is not followed")
        return action(self, node, frame)

    def constant(self, node: ast.Constant, frame: Frame) -> Any:
        """A number or a text."""
        return node.value

    def name(self, node: ast.Name, frame: Frame) -> Any:
        """The value of a name."""
        return self.lookup(node.id, frame)

    def lookup(self, name: str, frame: Frame) -> Any:
        """The value of a name, where Python finds it."""
        home = frame.home(name)
        if home is not None:
            if name in home.values:
                return home.values[name]
            if not home.skipped:
                raise Thrown(UnboundLocalError(f"local variable {name!r} has no value"))
        cell = frame.cell(name)
        if cell is not None:
            try:
                value = cell.cell_contents
            except ValueError:
                raise Thrown(NameError(f"free variable {name!r} has no value")) from None
            self.look(value)
            return value
        if name in frame.module:
            return self.of_names(frame.module, name)
        if name in _BUILTINS:
            return _BUILTINS[name]
        raise Thrown(NameError(f"name {name!r} is not defined"))

    def load_attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        """``value.name``."""
        value = self.evaluate(node.value, frame)
        self.place = frame.file, node.lineno
        return self.attribute(value, node.attr)

    def call_node(self, node: ast.Call, frame: Frame) -> Any:
        """A call."""
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            function: Any = super
            args: list[Any] = list(self._around(frame))
        else:
            function = self.evaluate(node.func, frame)
            args = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args += self.iterate(self.evaluate(argument.value, frame))
            else:
                args.append(self.evaluate(argument, frame))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, frame)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
                continue
            self._check_kind(value, (dict,), "**")
            for key in value:
                self._check_kind(key, (str,), "**")
            kwargs.update(value)
        self.place = frame.file, node.lineno
        return self.call(function, tuple(args), kwargs)

    def _around(self, frame: Frame) -> tuple[Any, Any]:
        """The class and the object of the method in which ``super()`` stands."""
        around: Frame | None = frame
        while around is not None and around.first is None:
            around = around.parent
        cell = frame.cell("__class__")
        if cell is None or around is None:
            self.refuse("super() is not followed here")
        return cell.cell_contents, around.first

    def binary_node(self, node: ast.BinOp, frame: Frame) -> Any:
        """``a + b``, and its like."""
        a, b = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
        self.place = frame.file, node.lineno
        action, name = BINARY[type(node.op)]
        return self.binary(action, name, a, b)

    def binary(self, action: Any, name: str, a: Any, b: Any) -> Any:
        """``a + b`` of two values; methods of the code's own classes are interpreted."""
        one, two = type(a), type(b)
        if one in _FAST and two in _FAST:
            self._check_size(name, a, b)
            return self.run(lambda: action(a, b))
        if one in (list, tuple) and one is two and name == "add":
            return self.own(a + b) if one is list else a + b
        if one in (list, tuple) and two in (int, bool) and name == "mul":
            self._check_length(len(a) * max(int(b), 0))
            return self.own(a * b) if one is list else a * b
        if name == "mul" and {one, two} & {str, bytes}:
            for many in (v for v in (a, b) if type(v) in (int, bool)):
                self._check_length(int(many))
        if name == "or" and one in (*METACLASSES, types.UnionType):
            return a | b
        for value, other, method in ((a, b, f"__{name}__"), (b, a, f"__r{name}__")):
            hook = self.method(value, method)
            if hook is not None:
                found = hook(other)
                if found is not NotImplemented:
                    return found
        return self.through(action, (a, b), {}, name)

    def _check_size(self, name: str, a: Any, b: Any) -> None:
        """NotTraced for whole numbers of very many digits."""
        if name in ("pow", "lshift") and type(a) is int and type(b) is int and b > 0:
            bits = a.bit_length() * b if name == "pow" else a.bit_length() + b
            if bits > _MANY_BITS:
                self.refuse(f"it uses a number of more than {_MANY_BITS:,} bits")

    def unary_node(self, node: ast.UnaryOp, frame: Frame) -> Any:
        """``-a``, ``not a``."""
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.Not):
            if type(value) is Symbol:
                return self.run(lambda: not value)
            return not self.truth(value)
        action, name = _UNARY[type(node.op)]
        hook = self.method(value, f"__{name}__")
        return hook() if hook is not None else self.through(action, (value,), {}, name)

    def boolean(self, node: ast.BoolOp, frame: Frame) -> Any:
        """``a and b``, ``a or b``."""
        stops = isinstance(node.op, ast.Or)
        for part in node.values[:-1]:
            value = self.evaluate(part, frame)
            if self.truth(value) is stops:
                return value
        return self.evaluate(node.values[-1], frame)

    def compare_node(self, node: ast.Compare, frame: Frame) -> Any:
        """``a < b <= c``."""
        left = self.evaluate(node.left, frame)
        found: Any = True
        for place, (how, part) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.evaluate(part, frame)
            self.place = frame.file, node.lineno
            found = self.compare(how, left, right)
            if place < len(node.ops) - 1 and not self.truth(found):
                return found
            left = right
        return found

    def conditional(self, node: ast.IfExp, frame: Frame) -> Any:
        """``a if condition else b``: of plain numbers both, while a coin is open."""
        test = self.evaluate(node.test, frame)
        if type(test) is Symbol and not self.rng.path.eager and self._is_plain(node, frame):
            values = self.evaluate(node.body, frame), self.evaluate(node.orelse, frame)
            if all(type(value) in _PICKED for value in values):
                return self.run(lambda: apply(pick, test, *values))
        taken = self.truth(test)
        return self.evaluate(node.body if taken else node.orelse, frame)

    def _is_plain(self, node: ast.IfExp, frame: Frame) -> bool:
        """Whether both sides are numbers and sums of names, which nothing else happens in."""
        for part in (*ast.walk(node.body), *ast.walk(node.orelse)):
            if isinstance(part, ast.Name):
                home = frame.home(part.id)
                values = frame.module if home is None else home.values
                if type(values.get(part.id)) not in _PICKED:
                    return False
            elif not isinstance(part, _SUMS) or (
                isinstance(part, ast.Constant) and type(part.value) not in _PICKED
            ):
                return False
        return True

    def subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        """``value[index]``."""
        value = self.evaluate(node.value, frame)
        index = self.evaluate(node.slice, frame)
        self.place = frame.file, node.lineno
        return self.entry(value, index)

    def entry(self, value: Any, index: Any) -> Any:
        """``value[index]`` of a value."""
        kind = type(value)
        if kind in (list, tuple, str, bytes, range, deque):
            self.look(value)
            self.passes(index, "an index")
            found = self.run(lambda: value[index])
            return self.own(found) if type(found) is list and type(index) is slice else found
        if kind is defaultdict:
            self.check_key(value, index)
            missing = not self.run(lambda: index in value)
            if missing:
                self.may_write(value)
            found = self.run(lambda: value[index])
            if missing:
                self._adopt(found, {}, "a dict")
            return found
        if kind is dict:
            self.check_key(value, index)
            return self.run(lambda: value[index])
        if kind is enum.EnumType and type(index) is str:
            return self.run(lambda: value._member_map_[index])
        if issubclass(kind, tuple) and self.in_class(kind, "__getitem__") is tuple.__getitem__:
            self.passes(index, "an index")
            return self.run(lambda: tuple.__getitem__(value, index))
        hook = self.method(value, "__getitem__")
        if hook is not None:
            return hook(index)
        return self.through(operator.getitem, (value, index), {}, "[]")

    def slice_node(self, node: ast.Slice, frame: Frame) -> Any:
        """``low:high:step``."""
        ends = (node.lower, node.upper, node.step)
        return slice(*(None if end is None else self.evaluate(end, frame) for end in ends))

    def _entries(self, nodes: list[ast.expr], frame: Frame) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.iterate(self.evaluate(node.value, frame))
            else:
                yield self.evaluate(node, frame)

    def list_node(self, node: ast.List, frame: Frame) -> Any:
        """``[a, b]``."""
        return self.own(list(self._entries(node.elts, frame)))

    def tuple_node(self, node: ast.Tuple, frame: Frame) -> Any:
        """``(a, b)``."""
        return tuple(self._entries(node.elts, frame))

    def set_node(self, node: ast.Set, frame: Frame) -> Any:
        """``{a, b}``."""
        entries = [self.passes(entry, "a set") for entry in self._entries(node.elts, frame)]
        return self.own(self.run(lambda: set(entries)))

    def dict_node(self, node: ast.Dict, frame: Frame) -> Any:
        """``{a: b}``."""
        found: dict[Any, Any] = self.own({})
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                other = self.evaluate(value_node, frame)
                self._check_kind(other, (dict,), "**")
                for key in other:
                    self.passes(key, "a dict")
                found.update(other)
                continue
            key = self.passes(self.evaluate(key_node, frame), "a dict")
            value = self.evaluate(value_node, frame)
            self.run(functools.partial(found.__setitem__, key, value))
        return found

    def text(self, node: ast.JoinedStr, frame: Frame) -> Any:
        """``f"{value}"``."""
        return "".join(self.evaluate(part, frame) for part in node.values)

    def formatted(self, node: ast.FormattedValue, frame: Frame) -> Any:
        """One value of such a text."""
        value = self.evaluate(node.value, frame)
        how = "" if node.format_spec is None else self.evaluate(node.format_spec, frame)
        convert = {115: str, 114: repr, 97: ascii}.get(node.conversion)
        if convert is not None:
            value = self.call(convert, (value,), {})
        if how == "" and self.method(value, "__str__") is not None:
            return self.call(str, (value,), {})
        return self.through(format, (value, how), {}, "format")

    def walrus(self, node: ast.NamedExpr, frame: Frame) -> Any:
        """``name := value``."""
        value = self.evaluate(node.value, frame)
        home = frame
        while home.owner == "loop" and home.parent is not None:
            home = home.parent
        self.assign(node.target, value, home)
        return value

    def function_node(self, node: ast.Lambda, frame: Frame) -> Any:
        """``lambda``."""
        return self.made_function(node, frame)

    def made_function(self, node: ast.FunctionDef | ast.Lambda, frame: Frame) -> Function:
        """A function that is made in the call."""
        keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return Function(
            node,
            frame.file,
            frame.module,
            tuple(self.evaluate(part, frame) for part in node.args.defaults),
            {a.arg: self.evaluate(part, frame) for a, part in keywords if part is not None},
            frame,
        )


_ACTIONS: dict[type, Any] = {
    ast.Constant: Expressions.constant,
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.load_attribute,
    ast.Call: Expressions.call_node,
    ast.BinOp: Expressions.binary_node,
    ast.UnaryOp: Expressions.unary_node,
    ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.compare_node,
    ast.IfExp: Expressions.conditional,
    ast.Subscript: Expressions.subscript,
    ast.Slice: Expressions.slice_node,
    ast.List: Expressions.list_node,
    ast.Tuple: Expressions.tuple_node,
    ast.Set: Expressions.set_node,
    ast.Dict: Expressions.dict_node,
    ast.JoinedStr: Expressions.text,
    ast.FormattedValue: Expressions.formatted,
    ast.NamedExpr: Expressions.walrus,
    ast.Lambda: Expressions.function_node,
    ast.ListComp: Expressions.list_loop,
    ast.SetComp: Expressions.set_loop,
    ast.DictComp: Expressions.dict_loop,
    ast.GeneratorExp: Expressions.lazy_loop,
}
