"""What contracts are, and the checks that several of them share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar
from unittest import SkipTest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, Choice, Rule, declared


class Contract:
    """What a family's members must keep, a test a law: a test class extends it, with a ``subject``.

    ``laws`` are the checks that the module ``suite`` has defined so far, and ``more``. One that
    does not apply raises ``unittest.SkipTest`` with the reason, and pytest reports it as skipped.
    """

    subject: Any
    laws: ClassVar[tuple[Callable[[Any], None], ...]] = ()

    def __init_subclass__(
        cls, suite: str = "", more: tuple[Callable[[Any], None], ...] = ()
    ) -> None:
        defined = vars(sys.modules[suite]).values() if suite else ()
        own = [law for law in defined if getattr(law, "__module__", "") == suite]
        found = [law for law in own if getattr(law, "__name__", "").startswith("check_")]
        for law in (*found, *more):
            setattr(cls, law.__name__.replace("check", "test", 1), _test(law))
        cls.laws += (*found, *more)

    @classmethod
    def check(cls, subject: Any) -> tuple[str, ...]:
        """Hold it to every law; return which do not apply, and why.

        Raises AssertionError at the first law that it breaks.
        """
        skipped = []
        for law in cls.laws:
            try:
                law(subject)
            except SkipTest as reason:
                skipped.append(f"{law.__name__}: {reason}")
        return tuple(skipped)


def _test(law: Callable[[Any], None]) -> Callable[[Contract], None]:
    """The law as a method, which pytest collects where it is a function."""
    return lambda self: law(self.subject)


def check_refused(call: Callable[[], object], what: str, named: str = "") -> None:
    """Raise AssertionError, which says ``what`` was given, unless ``call`` raises InputError.

    The error must hold the text ``named``.
    """
    try:
        call()
    except InputError as error:
        said = str(error)
    else:
        raise AssertionError(f"{what} was not refused")
    assert named in said, f"{what} was refused without naming it: {said}"


def check_ranges(member: Any) -> None:
    """Every setting is refused by name outside its declared range, or of another type."""
    kind: Any = type(member)
    if not issubclass(kind, Checked):
        if is_dataclass(kind) and fields(kind):
            raise SkipTest("it declares no ranges of its settings")
        return
    for name, rule in declared(kind).items():
        left_out = kind.__dataclass_fields__[name].default
        for value in (each for each in outside(rule) if each is not left_out):
            made = partial(replace, member, **{name: value})
            check_refused(made, f"{name}={value!r}", f"got {name}={value!r}")


def outside(rule: Rule) -> list[Any]:
    """Values just outside what a setting may be, and some of other types."""
    never = [math.nan, None, "1", [1.0]]
    if isinstance(rule, Choice):
        known = [(type(value), value) for value in rule.values]
        return [v for v in (*never, 0, 1, True, "none of these") if (type(v), v) not in known]
    least, most = rule.least, rule.most
    ends = [math.nextafter(least, -math.inf), math.nextafter(most, math.inf), -math.inf, math.inf]
    never += [True] + [value for value in ends if not least <= value <= most]
    never += [value for value in (0, 1e-10, 0.3, 3, 9) if not rule.takes(value)]
    return [*never, int(least) - 1, least, least + 0.5] if rule.kind is Integral else never
