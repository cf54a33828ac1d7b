"""Random randomizers as Python source, and their output distributions by plain enumeration.

The enumeration is independent of the tracer: a stand-in generator returns plain NumPy numbers, once
for every result of the draws. A uniform draw is one of four midpoints, which is exact for code that
only compares it with quarters.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

MAX_RUNS = 300

EXPRESSIONS = {
    "int": [
        "x", "2", "{int_name}", "{int_name}", "rng.integers(3)",
        "rng.integers(-1, 2, dtype=np.int8)", "rng.choice([1, 4, 7])",
        "rng.choice(3, p=[.5, 0, .5])", "rng.binomial(2, .25)", "({int} + {int})",
        "({int} * {int})", "({int} - {int})", "(-{int})", "min({int}, {int})",
        "max({int}, {int}, 1)", "abs({int})", "int({bool})", "({int} if {bool} else {int})",
        "({int} % 3)", "({int} // 2)", "({int} ^ {int})", "np.where({bool}, {int}, {int})",
        "np.clip({int}, 0, 2)", "{vec}[{int} % 3]", "{vec}.sum()", "np.sum({mask})",
        "{vec}.max()", "np.argmax({vec})", "round({int} / 2)", "sorted([{int}, {int}])[0]",
        "len(set([{int}, {int}]))", "sum([{int}, {int}])", "np.uint8({int} % 256)",
        "(np.uint8(1) - np.uint8({int} % 2))", "np.maximum({int}, {int})", "np.dot({vec}, {vec})",
        "np.count_nonzero({vec})", "int('0' + str(abs({int})))", "[3, 1, 2][{int} % 3]",
        "{{0: 5, 1: 6}}.get({int}, 9)", "({bool} + {int})", "len({vec}[{mask}])",
        "int({unif} * 4)", "int(np.floor({unif} * 2))",
        "next((k for k in range(2) if {bool}), 5)", "{vec}[{mask}].sum()", "divmod({int}, 2)[1]",
    ],
    "bool": [
        "({unif} < .25)", "(.75 <= {unif})", "({unif} > .5)", "({int} < {int})",
        "({int} == {int})", "({bool} and {bool})", "({bool} or {bool})", "({bool} ^ {bool})",
        "(not {bool})", "bool({int})", "{mask}.any()", "np.all({mask})", "({int} in (1, 2))",
        "({int} in {vec})", "(.25 < {unif} < .75)", "np.logical_or({bool}, {bool})",
        "any([{bool}, {bool}])", "isinstance({int}, int)", "isinstance({int}, (int, np.integer))",
        "(type({int}) is int)", "np.isfinite({int})", "np.array_equal({vec}, {vec})",
        "(abs({unif} - .5) < .25)", "(np.round({unif} * 2) == 1)", "({unif} * 2 - 1 > 0)",
        "rng.choice([True, False])",
    ],
    "unif": [
        "rng.random()", "(1 - rng.random())", "rng.uniform()", "{unif_name}", "{unif_name}",
    ],
    "mask": [
        "(rng.random(3) < .25)", "({vec} > {int})", "({vec} == {vec})", "(~{mask})",
        "({mask} & {mask})", "rng.integers(2, size=3).astype(bool)", "np.isin({vec}, [1, 2])",
        "np.array([{bool}, {bool}, True])", "np.logical_xor({mask}, {mask})", "{mask}[::-1]",
        "(rng.uniform(size=3) >= .5)", "np.zeros(3, dtype=bool)", "{mask_name}",
    ],
    "vec": [
        "np.arange(3)", "np.zeros(3, dtype=int)", "np.array([x, 1, 2])",
        "rng.integers(2, size=3)", "np.where({mask}, {vec}, {vec})", "({vec} + {vec})",
        "({vec} * {int})", "({vec} % 2)", "{mask}.astype(np.int8)", "{mask}.astype(int)",
        "({vec} ^ {vec})", "{vec}[::-1]", "np.sort({vec})", "np.cumsum({vec})",
        "rng.permutation({vec})", "rng.choice(4, 3, replace=False)", "np.minimum({vec}, {int})",
        "np.roll({vec}, {int})", "np.clip({vec}, 0, 1)", "np.abs({vec})",
        "np.array([{int}, {int}, 0])", "np.eye(3)[{int} % 3]", "np.full(3, {int})",
        "np.ones(3, dtype=np.uint8)", "({vec} - {mask})", "np.unique({vec})[:1].repeat(3)",
        "(np.zeros(3, dtype=np.uint8) - {mask})", "np.where({mask})[0].sum().repeat(3)",
        "rng.binomial(1, .25, size=3)", "np.argsort({vec}, kind='stable')", "{vec_name}",
        "{vec_name}", "np.concatenate([{vec}[:1], {vec}[1:]])", "np.array(sorted({vec}))",
        "(1 - {vec})", "np.stack([{vec}, {vec}])[{int} % 2]", "np.maximum({vec}, {vec})",
        "np.bincount(np.abs({vec}), minlength=3)[:3]", "rng.choice({vec}, 3)",
        "np.tile({int}, 3)", "np.outer({vec}, {vec})[0]", "np.select([{mask}], [{vec}], 7)",
    ],
    "answer": [
        "{int}", "{int}", "{vec}", "{vec}", "{mask}", "{bool}", "({int}, {bool})",
        "[{int}, {int}]", "dict(a={int}, b={vec})", "format({int})", "tuple({vec})",
        "str({int})", "{vec}.tolist()", "np.packbits({mask})", "list({vec})", "set([int({int})])",
        "{vec}[{mask}]", "np.nonzero({mask})[0]", "json.dumps({int} + 0)", "'ab'[{int} % 2]",
        "{vec}.astype(np.uint8).tobytes()", "float({int})", "frozenset({vec}.tolist())",
        "[k for k in range(3) if {mask}[k]]", "(None if {bool} else {int})",
        "np.float32({int}) / 3", "{vec} / 2", "np.array({int})", "'%d' % {int}",
        "np.flatnonzero({vec})",
    ],
}  # fmt: skip

STATEMENTS = [
    "{new_int} = {int}", "{new_vec} = {vec}", "{new_mask} = {mask}", "{new_unif} = {unif}",
    "{new_unif} = rng.random()", "if {bool}: {int_name} = {int}", "if {bool}: return {answer}",
    "{vec_name}[{int} % 3] += {int}", "{vec_name}[{mask}] = {int}",
    "{vec_name}[{mask}] = {vec}[{mask}]", "{vec_name}[{int} % 3] = {int}",
    "{vec_name} = {vec_name} + {int}", "{vec_name} ^= {vec}",
    "for k in range(2): {int_name} += {int}",
    "n = 0\n    while n < 3 and {bool}: n += 1\n    {int_name} = n",
    "try: {int_name} = [1, 2][{int}]\n    except Exception: {int_name} = 9",
    "{int_name} += {bool}", "{vec_name}[{mask}] += {int}", "{vec_name}[:2] = {vec}[1:]",
    "{vec_name}[{mask}] ^= 1", "{int_name}, {new_int} = {int}, {int}",
    "for k in {vec}: {int_name} -= k", "rng.shuffle({vec_name})", "{vec_name} *= {vec}",
    "if {int} > 1: {vec_name} = {vec}\n    else: {vec_name} = {vec}",
    # Aliases and writes through them.
    "{new_vec} = {vec_name}; {vec_name}[{int} % 3] = {int}",
    "q = [{int}, {int}]; r = q; r.append({int}); {int_name} = len(q) + q[-1]",
    "q = dict(a={int}); r = q; r['b'] = {int}; {int_name} = q['b'] - len(q)",
    "q = [[{int}]] * 2; q[0].append(1); {int_name} = len(q[1]) + q[1][0]",
    "q = {vec_name}[:2]; q[0] = {int}", "q = {vec_name}.copy(); q[0] = {int}; {new_vec} = q",
    # Functions, closures, defaults, classes and generators.
    "def g(b, c={int}): return b + c\n    {int_name} = g({int})",
    "def g(c=[]):\n        c.append(1)\n        return len(c)\n    {int_name} = g() + g()",
    "n = {int}\n    def g():\n        nonlocal n\n        n += 1\n        return n\n"
    "    {int_name} = g() * g()",
    "{int_name} = (lambda b, *c, d=2: b + len(c) + d)({int}, {int})",
    "g = [lambda: q for q in range(2)]; {int_name} = g[0]() + {int}",
    "def g():\n        for q in range(3):\n            if {bool}: yield q\n"
    "    {int_name} = sum(g())",
    "b, *c = [{int}, 1, 2]; {int_name} = b + len(c)",
    # Exceptions, break and continue.
    "try:\n        if {bool}: raise ValueError({int})\n        {int_name} = 3\n"
    "    except ValueError as e: {int_name} = e.args[0]\n    finally: {int_name} += 1",
    "try: {int_name} = {{0: 1}}[{int}]\n    except (KeyError, IndexError): {int_name} = 4",
    "try: {int_name} = 5 // {int}\n    except ZeroDivisionError: {int_name} = 6",
    "for q in range(3):\n        if {bool}: break\n    else: {int_name} = 7",
    "for q in range(3):\n        if q == 1: continue\n        {int_name} += q",
    "assert {int} >= 0", "{int_name} = [q for q in range(3) if {bool}][0]",
    # Types.
    "{int_name} = 1 if type({int_name}) is int else 2", "{int_name} = np.int8({int} % 100) + 100",
    "{int_name} = isinstance({int_name}, np.integer) + 0",
]  # fmt: skip

NESTED = re.compile(r"(?<!\{)\{[a-z]+\}")
SHORT = {kind: [t for t in texts if not NESTED.search(t)] for kind, texts in EXPRESSIONS.items()}
SLOT = re.compile(r"\{(new_)?([a-z]+)(_name)?\}")


def make_source(pick: Callable[[Sequence[str]], str], statements: int, depth: int) -> str:
    """Source of a function ``f(x, rng)``; ``pick`` chooses one of several texts."""
    names = {"int": ["a"], "vec": ["v"], "mask": ["m"], "unif": ["rng.random()"]}
    lines = ["def f(x, rng):", "    a = x", "    v = np.array([x, 1, 0])"]
    lines.append("    m = v == 1")

    def fill_slots(text: str, depth: int) -> str:
        made: list[tuple[str, str]] = []

        def fill(match: re.Match[str]) -> str:
            new, kind, name = match.groups()
            if new:
                made.append((kind, f"{kind}{sum(map(len, names.values()))}"))
                return made[-1][1]
            if name:
                return pick(names[kind])
            options = EXPRESSIONS[kind] if depth > 0 else SHORT[kind]
            return fill_slots(pick(options), depth - 1)

        text = SLOT.sub(fill, text.replace("{{", "\0").replace("}}", "\1"))
        for kind, name in made:
            names.setdefault(kind, []).append(name)
        return text.replace("\0", "{").replace("\1", "}")

    lines += ["    " + fill_slots(pick(STATEMENTS), depth) for _ in range(statements)]
    lines.append("    return " + fill_slots(pick(EXPRESSIONS["answer"]), depth))
    return "\n".join(lines)


@cache
def _binomial(n: int, p: float) -> list[Fraction]:
    q = Fraction(p)
    return [math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]


class EnumeratedGenerator:
    """A generator of plain numbers for one result of the draws, of probability ``weight``."""

    def __init__(self, given: list[tuple[int, list[Fraction]]]) -> None:
        self.given, self.drawn, self.weight = given, 0, Fraction(1)

    def draw_value(self, values: Sequence[Any], shares: Sequence[Any] | None = None) -> Any:
        """Value drawn in this run."""
        if self.drawn == len(self.given):
            weights = [Fraction(1)] * len(values)
            if shares is not None:
                weights = [Fraction(float(share)) for share in shares]
            total = sum(weights)
            weights = [weight / total for weight in weights]
            self.given.append((next(k for k, w in enumerate(weights) if w), weights))
        taken, weights = self.given[self.drawn]
        self.drawn += 1
        self.weight *= weights[taken]
        return values[taken]

    def draw_many(self, size: Any, dtype: Any, draw: Callable[[], Any]) -> Any:
        """An array of draws, or a single draw."""
        if size is None:
            return np.dtype(dtype).type(draw())
        return np.array([draw() for _ in range(size)], dtype=dtype)

    def random(self, size: Any = None) -> Any:
        return (
            self.draw_many(size, float, lambda: self.draw_value([0.125, 0.375, 0.625, 0.875]))
            if size
            else self.draw_value([0.125, 0.375, 0.625, 0.875])
        )

    def uniform(self, size: Any = None) -> Any:
        return self.random(size)

    def integers(self, low: int, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Any:
        values = range(low) if high is None else range(low, high)
        return self.draw_many(size, dtype, lambda: self.draw_value(values))

    def binomial(self, n: int, p: float, size: Any = None) -> Any:
        shares = _binomial(n, p)
        return self.draw_many(size, int, lambda: self.draw_value(range(n + 1), shares))

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        values = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        if size is None:
            return self.draw_value(values, p)
        if replace:
            return np.array([self.draw_value(values, p) for _ in range(size)], dtype=values.dtype)
        return self.permutation(values)[:size]

    def permutation(self, x: Any) -> Any:
        x = np.asarray(x)
        return x[list(self.draw_value(list(itertools.permutations(range(len(x))))))]

    def shuffle(self, x: Any) -> None:
        x[:] = self.permutation(x)


def enumerate_outputs(function: Callable[..., Any], value: Any) -> Iterator[tuple[Fraction, Any]]:
    """Every result of the draws: its probability, and the output or the exception."""
    given: list[tuple[int, list[Fraction]]] = []
    for _ in range(MAX_RUNS):
        rng = EnumeratedGenerator(given)
        try:
            answer = function(value, rng)
        except Exception as error:
            answer = error
        del given[rng.drawn :]
        yield rng.weight, answer
        while given:
            taken, weights = given.pop()
            after = next((k for k in range(taken + 1, len(weights)) if weights[k]), None)
            if after is not None:
                given.append((after, weights))
                break
        if not given:
            return
    raise OverflowError("too many runs")


def canonize(answer: Any) -> Any:
    """Part of an output that an observer can distinguish: nested tuples of plain values."""
    if isinstance(answer, BaseException):
        return "raised", type(answer).__name__
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if isinstance(answer, np.generic):
        answer = answer.item()
    if isinstance(answer, dict):
        return "map", tuple(sorted((canonize(k), canonize(v)) for k, v in answer.items()))
    if isinstance(answer, (set, frozenset)):
        return "set", tuple(sorted(map(canonize, answer), key=repr))
    if isinstance(answer, (list, tuple)):
        return "list", tuple(map(canonize, answer))
    if isinstance(answer, float) and math.isnan(answer):
        return "NaN"
    return answer


def list_distribution(function: Callable[..., Any], value: Any) -> Counter[Any]:
    """Exact probability of each output."""
    total: Counter[Any] = Counter()
    for weight, answer in enumerate_outputs(function, value):
        total[canonize(answer)] += weight
    return total
