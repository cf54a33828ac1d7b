"""What a setting of a target, a learner, a protection or a mechanism may be, said beside its field.

A field of the type ``Whole``, ``Positive`` or the like takes such numbers, one of the type ``bool``
true and false, one of a ``Literal`` its values. ``Checked`` refuses all else. What a setting is, a
text beside these says, ``Annotated[Whole, "users a round"]``, or the class where it names it.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from numbers import Integral, Real
from operator import attrgetter
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_origin

from fedrec_auditor.accountants.errors import InputError

TITLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""What a system may be called: files and tasks are named by it."""
TITLED = "at most 100 letters, digits, dots and hyphens"
"""That in words."""


class Range:
    """The numbers of an interval such as "(0, 1]"; ``said`` is what an error calls it.

    With ``also`` it is those of them of which this holds.

    >>> share = Range("(0, 1]")
    >>> share.takes(1), share.takes(0.0), share.takes(True)
    (True, False, False)
    """

    def __init__(
        self,
        span: str,
        said: str = "",
        *,
        whole: bool = False,
        also: Callable[[Any], bool] = lambda value: True,
    ) -> None:
        low, high = map(float, span[1:-1].split(","))
        self.least = low if span[0] == "[" else math.nextafter(low, math.inf)
        self.most = high if span[-1] == "]" else math.nextafter(high, -math.inf)
        self.plain: tuple[type, ...] = (int,) if whole else (float, int)
        self.kind: Any = Integral if whole else Real
        self.also = also
        words = f"in {span}" if high < math.inf else f"of at least {low:g}"
        self.said = said or (f"to be a whole number {words}" if whole else f"in {span}")

    def takes(self, value: Any) -> bool:
        """Whether it is such a number; true and false are none."""
        if type(value) not in self.plain:  # which is quicker to tell than the rest
            if isinstance(value, bool) or not isinstance(value, self.kind):
                return False
            value = float(value)
        return bool(self.least <= value <= self.most and self.also(value))


class Choice:
    """Some values, as a ``Literal`` has them; ``said`` is what an error calls them."""

    def __init__(self, values: tuple[Any, ...], said: str = "") -> None:
        self.values = values
        self.types = {type(value) for value in values}
        self.said = said or f"among {', '.join(map(str, values))}"

    def takes(self, value: Any) -> bool:
        """Whether it is one of them, and of its type."""
        return type(value) in self.types and value in self.values


Rule = Range | Choice

Whole = Annotated[int, Range("[1, inf)", whole=True)]
WholeOrNone = Annotated[int, Range("[0, inf)", whole=True)]
Positive = Annotated[float, Range("[1e-100, 1e100]")]
"""Its square and its inverse are finite doubles, and far from the ends."""
Budget = Annotated[float, Range("[1e-9, 1e100]")]
"""An epsilon whose rates doubles hold, and which a verdict tells from another."""
AboveZero = Annotated[float, Range("(0, inf)")]
Finite = Annotated[float, Range("(-inf, inf)", "to be finite")]
Scale = Annotated[
    float,
    Range("(0, 1e6]", "in (0, 1e6]; divide larger ratings"),
    "R, the best rating of the scale",
]
"""Squares of noisy gradients, of R^3, must fit float32."""
NotNegative = Annotated[float, Range("[0, inf)")]
Share = Annotated[float, Range("(0, 1]")]
ProperShare = Annotated[float, Range("(0, 1)")]
ShareOrNone = Annotated[float, Range("[0, 1)")]
Probability = Annotated[float, Range("[0, 1]")]
Factors = Annotated[Whole, "entries of a user's and of an item's vector"]
_FLAG = Choice((True, False), "to be true or false")


@dataclass(frozen=True)
class Knob:
    """The settings that buy privacy: scales of ``noise`` grow with it, ``budgets`` shrink.

    A setting of a part is named by its place, such as "protection.epsilon". At ``off`` each leaves
    next to no noise, and the system stands beside itself: alike in all else.

    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
    >>> FmfLdp.privacy.turned(FmfLdp(), 4.0)
    {'epsilon': 0.625}
    """

    noise: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    off: float | None = None

    def turned(self, system: Any, factor: float) -> dict[str, float]:
        """These settings of ``system`` with ``factor`` times the noise, by place."""
        scales = dict.fromkeys(self.noise, factor) | dict.fromkeys(self.budgets, 1.0 / factor)
        return {place: attrgetter(place)(system) * scale for place, scale in scales.items()}

    def within(self, part: str) -> Knob:
        """The same of a system that has this part."""
        noise, budgets = ([f"{part}.{n}" for n in names] for names in (self.noise, self.budgets))
        return Knob(tuple(noise), tuple(budgets))


class Checked:
    """A dataclass whose settings are checked when it is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check(self)


def check(settings: Any) -> None:
    """InputError unless every setting is what is declared of it, or left out if it may be None."""
    kind: Any = type(settings)
    for name, rule in declared(kind).items():
        value, default = getattr(settings, name), kind.__dataclass_fields__[name].default
        if not (rule.takes(value) or value is default is None):
            told = f"The default is {default!r}"
            if default is MISSING or default is None:
                told = "Give another"
            raise InputError(f"Expected {name} {rule.said}, got {name}={value!r}. {told}.")


@functools.cache
def declared(kind: type) -> dict[str, Rule]:
    """The rules of a dataclass by field. What declares no rule has that of the class it extends."""
    found = {name: rule for name, hint in _hints(kind) if (rule := _rule(hint)) is not None}
    return {field.name: found[field.name] for field in fields(kind) if field.name in found}


@functools.cache
def types(kind: type) -> dict[str, Any]:
    """What fields are, without what is declared of them: ``float`` of a ``Positive``."""
    return {name: getattr(hint, "__origin__", hint) for name, hint in _hints(kind)}


def meaning(kind: type, setting: str) -> str:
    """What a setting is: the text beside it, or the clause that names it where a class is told."""
    beside = [text for name, hint in _hints(kind) if name == setting for text in _beside(hint)]
    if texts := [text for text in beside if isinstance(text, str)]:
        return str(texts[-1])
    for base in kind.__mro__:
        for clause in re.split(r"(?<=[.;:])\s+(?=[A-Z`])", " ".join(prose(base).split())):
            if f"``{setting}``" in clause:
                return clause.replace("``", "").rstrip(".;:")
    return ""


def prose(kind: type) -> str:
    """What a class says of itself, without examples."""
    return (inspect.getdoc(kind) or "").partition(">>>")[0].strip()


def _beside(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _rule(hint: Any) -> Rule | None:
    bare = hint.__origin__ if _beside(hint) else hint
    if get_origin(bare) is Literal:
        return Choice(get_args(bare))
    rules = (one for one in _beside(hint) if isinstance(one, Rule))
    return _FLAG if bare is bool else next(rules, None)


def _hints(kind: type) -> Iterator[tuple[str, Any]]:
    """All annotations of a class and those it extends, the base first.

    What only type checkers can resolve stays a text.
    """
    for base in reversed(kind.__mro__):
        names = vars(sys.modules.get(base.__module__, typing))
        for name, given in inspect.get_annotations(base).items():
            one = SimpleNamespace(__annotations__={name: given})
            with suppress(Exception):
                given = typing.get_type_hints(one, names, include_extras=True)[name]
            yield name, given


def numbers(settings: Any) -> dict[str, float]:
    """All fields that are numbers, for what is published of a run; true and false are 1 and 0."""
    found = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: float(value) for name, value in found.items() if isinstance(value, Real)}
