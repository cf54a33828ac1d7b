"""Types that declare the allowed values of settings, and the check of settings against them.

Settings are the dataclass fields of systems under audit, local learners and randomizers. The type
of a field declares its allowed values: a range of numbers (``Count``, ``Positive``, ...), ``bool``,
or a ``Literal``. The base class ``Checked`` raises InputError for all other values.
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

# Pattern of a system's name, which becomes part of names of files and tasks.
SYSTEM_NAME_REGEX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# Description of the pattern ``SYSTEM_NAME_REGEX`` for error messages.
SYSTEM_NAME_RULE = "at most 100 letters, digits, dots and hyphens"


class Range:
    """Set of allowed numbers: an interval, restricted to integers if ``whole``.

    span: the interval as text, such as "[0, inf)" or "(0, 1]"
    description: description of the interval for error messages, by default derived from ``span``
    whole: whether only integers are allowed
    condition: function that returns whether a number in the interval is allowed; by default all are

    >>> share = Range("(0, 1]")
    >>> share.allows(1), share.allows(0.0), share.allows(True)
    (True, False, False)
    """

    def __init__(
        self,
        span: str,
        description: str = "",
        *,
        whole: bool = False,
        condition: Callable[[Any], bool] = lambda value: True,
    ) -> None:
        low, high = map(float, span[1:-1].split(","))
        self.min_value = low if span[0] == "[" else math.nextafter(low, math.inf)
        self.max_value = high if span[-1] == "]" else math.nextafter(high, -math.inf)
        self.plain: tuple[type, ...] = (int,) if whole else (float, int)
        self.kind: Any = Integral if whole else Real
        self.condition = condition
        limits = f"in {span}" if high < math.inf else f"of at least {low:g}"
        words = f"to be a whole number {limits}" if whole else f"in {span}"
        self.description = description or words

    def allows(self, value: Any) -> bool:
        """Whether ``value`` is an allowed number. True and False are not numbers."""
        if type(value) not in self.plain:  # a check that is faster than the next ones
            if isinstance(value, bool) or not isinstance(value, self.kind):
                return False
            value = float(value)
        return bool(self.min_value <= value <= self.max_value and self.condition(value))


class AllowedValues:
    """A set of allowed values, such as those of a ``Literal``.

    values: the allowed values
    description: description of the set for error messages, by default a list of the values
    """

    def __init__(self, values: tuple[Any, ...], description: str = "") -> None:
        self.values = values
        self.types = {type(value) for value in values}
        self.description = description or f"among {', '.join(map(str, values))}"

    def allows(self, value: Any) -> bool:
        """Whether ``value`` is in the set and has the type of an allowed value.

        True, for example, does not pass for an allowed 1.
        """
        return type(value) in self.types and value in self.values


# The allowed values of a setting: a range or a choice.
ValueConstraint = Range | AllowedValues

# Whole numbers of at least 1, and of at least 0.
Count = Annotated[int, Range("[1, inf)", whole=True)]
CountOrZero = Annotated[int, Range("[0, inf)", whole=True)]
# A positive number whose square and inverse do not overflow or underflow double precision.
Positive = Annotated[float, Range("[1e-100, 1e100]")]
# An epsilon whose probabilities double precision can represent, so that it can be compared.
Epsilon = Annotated[float, Range("[1e-9, 1e100]")]
# Any positive finite number, and any finite number.
PositiveFloat = Annotated[float, Range("(0, inf)")]
FiniteFloat = Annotated[float, Range("(-inf, inf)", "to be finite")]
# The best rating R of a scale. Noisy gradients grow as R^3, and their squares must fit float32.
BestRating = Annotated[
    float,
    Range("(0, 1e6]", "in (0, 1e6]; divide larger ratings"),
    "R, the best rating of the scale",
]
# A finite number of at least 0.
NonNegative = Annotated[float, Range("[0, inf)")]
# A share that may be 1, but not 0.
Share = Annotated[float, Range("(0, 1]")]
# A number strictly between 0 and 1.
OpenUnitInterval = Annotated[float, Range("(0, 1)")]
# A share that may be 0, but not 1, such as the share of devices that drop out.
ShareBelow1 = Annotated[float, Range("[0, 1)")]
# A number from 0 to 1, both included.
Probability = Annotated[float, Range("[0, 1]")]
# Number of entries of the vector (embedding) of a user or an item.
EmbeddingSize = Annotated[Count, "entries of a user's and of an item's vector"]
_FLAG = AllowedValues((True, False), "to be true or false")


@dataclass(frozen=True)
class NoiseSetting:
    """Description of the settings that determine how much noise a system adds, by their names.

    noise_names: names of the noise settings, which grow with the noise, such as noise scales
    budget_names: names of the budget settings, which shrink as the noise grows, such as epsilon
    noiseless_value: value of each of these settings at which the noise is negligible: about 0 for
        noise settings, a huge number for budgets. None if there is no such value

    A setting of a nested object is named by its attribute path, such as "protection.epsilon".

    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems import FmfLdp
    >>> FmfLdp.noise_setting.scale_noise(FmfLdp(), 4.0)
    {'epsilon': 0.625}
    """

    noise_names: tuple[str, ...] = ()
    budget_names: tuple[str, ...] = ()
    noiseless_value: float | None = None

    def scale_noise(self, system: Any, factor: float) -> dict[str, float]:
        """Returns the noise and budget settings with which ``system`` has ``factor`` times as much
        noise.

        The result maps each setting's name, an attribute path such as "protection.epsilon", to its
        new value.
        """
        scales = dict.fromkeys(self.noise_names, factor)
        scales |= dict.fromkeys(self.budget_names, 1.0 / factor)
        return {place: attrgetter(place)(system) * scale for place, scale in scales.items()}

    def prefix_setting_names(self, part: str) -> NoiseSetting:
        """Returns a copy for a larger system that has these settings in its attribute ``part``.

        Each name of a setting begins with ``part`` and a dot. ``noiseless_value`` of the copy is
        None.
        """
        noise = tuple(f"{part}.{name}" for name in self.noise_names)
        return NoiseSetting(noise, tuple(f"{part}.{name}" for name in self.budget_names))


class Checked:
    """Base class of dataclasses that check the values of their settings on construction.

    Raises InputError for a value that the type of its field does not allow.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        check_settings(self)


def check_settings(settings: Any) -> None:
    """Raises InputError for the first field of a dataclass object whose value its type forbids.

    None is allowed if it is the field's default.
    """
    kind: Any = type(settings)
    for name, rule in get_allowed_values(kind).items():
        value, default = getattr(settings, name), kind.__dataclass_fields__[name].default
        if not (rule.allows(value) or value is default is None):
            remedy = f"The default is {default!r}"
            if default is MISSING or default is None:
                remedy = "Give another value"
            raise InputError(f"Expected {name} {rule.description}, got {name}={value!r}. {remedy}.")


@functools.cache
def get_allowed_values(cls: type) -> dict[str, ValueConstraint]:
    """Returns the allowed values (a range or a choice) of the fields of a dataclass, by field name.

    Fields that declare no allowed values are left out. If a subclass annotates a field again
    without allowed values, the values of the base class apply.
    """
    rules = {name: rule for name, hint in _hints(cls) if (rule := _get_rule(hint)) is not None}
    return {field.name: rules[field.name] for field in fields(cls) if field.name in rules}


@functools.cache
def get_field_types(cls: type) -> dict[str, Any]:
    """Returns the plain type of each annotated field of a class, by field name.

    Allowed values in the annotation are left out: the type of a ``Positive`` field is ``float``.
    """
    return {name: getattr(hint, "__origin__", hint) for name, hint in _hints(cls)}


def describe_setting(cls: type, setting: str) -> str:
    """Returns a text that explains a setting; "" if the class has no such text.

    cls: class that has the setting as a field
    setting: name of the setting

    The text is the last text in the setting's annotation, as in ``Annotated[Count, "users per
    round"]``. Without such a text, a clause of the docstring of the class or a base class is
    returned: the first with the setting's name in double backquotes.
    """
    beside = [text for name, hint in _hints(cls) if name == setting for text in _get_metadata(hint)]
    if texts := [text for text in beside if isinstance(text, str)]:
        return str(texts[-1])
    for base in cls.__mro__:
        for clause in re.split(r"(?<=[.;:])\s+(?=[A-Z`])", " ".join(get_class_doc(base).split())):
            if f"``{setting}``" in clause:
                return clause.replace("``", "").rstrip(".;:").removeprefix(f"{setting}: ")
    return ""


def get_class_doc(cls: type) -> str:
    """Returns the docstring of a class without its examples; "" if the class has no docstring."""
    return (inspect.getdoc(cls) or "").partition(">>>")[0].strip()


def _get_metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _get_rule(hint: Any) -> ValueConstraint | None:
    bare = hint.__origin__ if _get_metadata(hint) else hint
    if get_origin(bare) is Literal:
        return AllowedValues(get_args(bare))
    rules = (one for one in _get_metadata(hint) if isinstance(one, ValueConstraint))
    return _FLAG if bare is bool else next(rules, None)


def _hints(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields name and type of all annotated fields of a class, those of base classes first.

    An annotation that only type checkers can resolve stays a text.
    """
    for base in reversed(kind.__mro__):
        names = vars(sys.modules.get(base.__module__, typing))
        for name, given in inspect.get_annotations(base).items():
            holder = SimpleNamespace(__annotations__={name: given})
            with suppress(Exception):
                given = typing.get_type_hints(holder, names, include_extras=True)[name]
            yield name, given


def get_numbers(settings: Any) -> dict[str, float]:
    """Returns the numeric fields of a dataclass object, by name. True and False become 1 and 0."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: float(value) for name, value in values.items() if isinstance(value, Real)}
