"""Settings that affect the answer (``Plan``), and plans in TOML files."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, brief, check_name, near_names
from fedrec_auditor.auditor.plan.members import (
    LEARNS,
    OBJECT,
    PARTS,
    Number,
    PlanError,
    make_member,
    pairs,
    settings_of,
    spelled_out,
)
from fedrec_auditor.auditor.plan.sources import check_source
from fedrec_auditor.auditor.plan.stated_claim import StatedClaim, read_claims, read_toml, statements

if TYPE_CHECKING:
    from fedrec_auditor.targets.systems.base import Target


SIDE = ("users", "items", "attributes", "bins")
DATA = ("data", "columns", *SIDE, "min_user", "min_item", "min_rating")
"""The fields that say which data are audited; ``SIDE`` what else is known of users and items."""
ALL = "all"
"""In place of a target: all of them."""
CORE = (
    "dp-privrec",
    "dplcf-ap",
    "dplcf-sp",
    "fcf",
    "fedrec",
    "fedrec-apm",
    "fmf-ldp",
    "lfl-sgdmf",
    "vfl-sgdmf",
)
"""What is audited where no target is named: the systems that five of the papers are about."""
FEWEST_CANARIES, MOST_CANARIES = 20, 10_000
"""Canaries of a training: what a bound needs; and their inner products are kept in memory."""
SUREST = 1 - 1e-9
"""Largest confidence of a plan: shared out among hundreds of bounds, 1 - confidence is still told
from 0 in doubles, to a millionth of itself."""


def _confident(value: float) -> float:
    if not 0.5 <= value <= SUREST:
        raise PydanticCustomError(
            "confidence",
            "It lies in [0.5, 1 - 1e-9]: below, an honest target is accused more often than not; "
            "above, its share of a bound is lost in rounding",
        )
    return value


@dataclass(frozen=True, slots=True)
class PlanOption:
    """How a field of a plan is said on the command line and in Python.

    ``help`` says what it is. Its option is called like the field, unless it has another ``name``.
    What ``reads`` a text, or several, gives the value that a plan has.
    """

    help: str
    name: str = ""
    metavar: str | None = None
    reads: Callable[[Any], Any] | None = None


def _several(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _sizes(text: str) -> tuple[int, int]:
    users, _, items = text.partition("x")
    if not (users.isdecimal() and items.isdecimal()):
        raise InputError(f"Expected population=USERSxITEMS, got {text!r}. Give for example 24x32.")
    return int(users), int(items)


def _columns(texts: Sequence[str]) -> dict[str, str]:
    return pairs("--column name=column", "--column user=user_id", texts)


def _bins(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    form, example = "--bins NAME=A,B or NAME=none", "--bins age=35,45"
    said = pairs(form, example, texts)
    try:
        return {
            name: () if value == "none" else tuple(map(float, value.split(",")))
            for name, value in said.items()
        }
    except ValueError as error:
        raise InputError(f"Expected {form}, got: {error}. For example {example}.") from error


def _ascending(edges: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(edges)):
        raise PydanticCustomError("bins", "Where bins begin ascends")
    return edges


_Edges = Annotated[
    tuple[Annotated[float, Field(allow_inf_nan=False)], ...],
    Field(strict=False),
    AfterValidator(_ascending),
]
_Names = Annotated[tuple[str, ...], Field(strict=False)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Size = Annotated[int, Field(ge=2, lt=2**31)]


class Plan(BaseModel):
    """Everything that the answer depends on: equal plans on equal data give equal records.

    ``targets`` are names, "all" for every one, by default ``CORE``; ``settings`` gives, by target
    name, its fields that differ from the paper's: a number, a text, or for a part of it (``PARTS``)
    a name or a table of a name and settings. ``data`` is a name or a path; ``columns`` say which
    column of a table is the user, item, rating and timestamp; ``users`` and ``items`` are tables of
    what is known of them, with ``bins`` of numbers (``SideTables``), and ``attributes`` of users
    those to attack, None for all; only ratings of ``min_rating`` and
    more are interactions, and only users and items with at least ``min_user`` and ``min_item`` of
    them are audited. ``attacks`` on a training are names, None for all; of an empty list none is
    run, which the record notes. Games are played whatever they are. ``estimator`` turns sampled
    scores into lower bounds. ``confidence`` is that of the audit as a whole for lower
    bounds (shared out among them), and of every interval by itself; it is at least 1/2, so that an
    honest target is not accused more often than not, and at most ``SUREST``. ``games`` are played
    on every target: "local" of a client alone, with attacks and utility on a training on the data;
    "round" and "training" with a canary among a ``population`` of so many users and items of the
    data (``CanaryGame``), ``runs`` of each world, by default 20,000 rounds and 1,000 trainings;
    "one-run" with many ``canaries`` in a single training on all data, by default 1,000, at most
    twice as many as users. In "round" and "training" the adversary is the strongest that is known
    here, or guesses ``by`` an attack of interactions: its score is what is bounded.
    Attacks and utility are measured on several ``trainings``, whose seeds follow ``seed``: their
    intervals are over users and trainings; None is 3, or 1 of a quick audit.
    ``quick`` trades samples, repetitions and rounds of training for time; what is claimed and
    proved is of all rounds.

    >>> plan = Plan(targets=("fcf", "fmf-ldp"), settings={"fcf": {"rounds": 5}}, quick=True)
    >>> make_target("fcf", plan).rounds
    5
    >>> Plan().resolved().targets == CORE
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    targets: Annotated[
        _Names,
        PlanOption(
            "Targets, or `all`; some of each paper if left out. See `auditor list`. Of your own "
            "MODULE:OBJECT."
        ),
    ] = ()
    data: Annotated[
        str, PlanOption("A data set (`auditor list datasets`) or a path.", reads=str)
    ] = "ml-100k"
    columns: Annotated[
        dict[str, str] | None,
        PlanOption(
            "For a table: user=COLUMN, item=, rating= or timestamp= (none: not read) where it has "
            "no usual name; zeros=rating if a rating of 0 is one like any other; repeatable.",
            "column",
            reads=_columns,
        ),
    ] = None
    users: Annotated[
        str | None,
        PlanOption(
            "A table of users (CSV, TSV, Parquet): what attributes they have, by identifier.",
            metavar="FILE",
            reads=str,
        ),
    ] = None
    items: Annotated[
        str | None,
        PlanOption(
            "A table of items: titles, genres or tags, other features, by identifier.",
            metavar="FILE",
            reads=str,
        ),
    ] = None
    attributes: Annotated[
        _Names | None,
        PlanOption(
            "Attributes of users to attack, several by commas. Default all.",
            "attribute",
            reads=_several,
        ),
    ] = None
    bins: Annotated[
        dict[str, _Edges],
        PlanOption(
            "Of a column of numbers in --users or --items: where bins begin, none to leave it as "
            "it is. Default thirds; repeatable.",
            metavar="NAME=A,B",
            reads=_bins,
        ),
    ] = Field(default_factory=dict)
    min_user: Annotated[_Count, PlanOption("Only users with so many interactions or more.")] = 0
    min_item: Annotated[_Count, PlanOption("Only items with so many interactions or more.")] = 0
    min_rating: Annotated[
        float,
        Field(ge=0, allow_inf_nan=False),
        PlanOption("Only ratings of so much or more count as interactions."),
    ] = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**128), PlanOption("Seed of everything random.")] = 0
    confidence: Annotated[
        float,
        AfterValidator(_confident),
        PlanOption("Of all lower bounds together, and of each interval."),
    ] = 0.95
    quick: Annotated[bool, PlanOption("Fewer samples and repetitions, 20 rounds of training.")] = (
        False
    )
    trainings: Annotated[
        Annotated[int, Field(ge=1, le=100)] | None,
        PlanOption("Trainings that attacks and utility are measured on. Default 3, 1 if quick."),
    ] = None
    attacks: Annotated[
        _Names | None,
        PlanOption(
            "Attacks (`auditor list attacks`), several by commas. Default all.", reads=_several
        ),
    ] = None
    per_user: Annotated[
        bool, PlanOption("Keep in report.json what attacks get of each user, by row number.")
    ] = False
    estimator: Annotated[
        str, PlanOption("What turns samples into bounds. See `auditor list estimators`.")
    ] = "joint-binomial"
    by: Annotated[
        str | None, PlanOption("In round and training games: bound what this attack's score tells.")
    ] = None
    games: Annotated[
        tuple[Literal["local", "round", "training", "one-run"], ...],
        Field(strict=False),
        PlanOption("local, round, training, one-run; several by commas.", reads=_several),
    ] = ("local",)
    runs: Annotated[
        Annotated[int, Field(ge=40, le=10**9)] | None,
        PlanOption("Runs of each world of a round or a training game."),
    ] = None
    population: Annotated[
        tuple[_Size, _Size],
        Field(strict=False),
        PlanOption("Users and items of such a game.", reads=_sizes),
    ] = (24, 32)
    canaries: Annotated[
        Annotated[int, Field(ge=FEWEST_CANARIES, le=MOST_CANARIES)] | None,
        PlanOption("Canaries of a one-run game. Default 1000, or 2 a user if fewer."),
    ] = None
    settings: Annotated[
        dict[str, dict[str, Number | dict[str, Number]]],
        PlanOption(
            "A setting of a target (`auditor list TARGET`); repeatable.",
            "set",
            "TARGET.NAME=VALUE",
            reads=settings_of,
        ),
    ] = Field(default_factory=dict)
    claims: Annotated[
        tuple[StatedClaim, ...],
        Field(strict=False),
        PlanOption(
            "Of a system of your own, MODULE:OBJECT: a file of its claims (TOML).",
            "claim",
            "FILE",
            reads=lambda path: read_claims(Path(path)),
        ),
    ] = ()

    def resolved(self, given: Collection[str] = ()) -> Plan:
        """The plan with all targets, attacks and settings named; PlanError on an unknown name.

        Names of targets that are ``given``, or places of objects, are not looked up.
        """
        targets = FAMILIES["targets"].able() if ALL in self.targets else self.targets or CORE
        attacks = FAMILIES["attacks"].able() if self.attacks is None else self.attacks
        _check("estimators", (self.estimator,), "estimator")
        if self.by is not None:
            _check("attacks", (self.by,), "by")
        for kind, names in (("targets", targets), ("attacks", attacks)):
            own = [name for name in names if name in given or OBJECT in name]
            _check(kind, tuple(name for name in names if name not in own), kind)
            twice = {name for name, times in Counter(names).items() if times > 1}
            if twice:
                raise PlanError(
                    f"Expected each of the {kind} once, got {brief(min(twice))} twice. Drop one.",
                    kind,
                )
        for name in self.settings:
            if name not in targets:
                _check("targets", (name,), "settings", name)
                raise PlanError(
                    f"Expected settings of audited targets only, got settings for {brief(name)}. "
                    "Add it to the targets or drop its settings.",
                    "settings",
                    name,
                )
        settings = {
            name: given if OBJECT in name else spelled_out(name, given, "settings", name)
            for name, given in self.settings.items()
        }
        change = {
            "targets": tuple(targets),
            "attacks": tuple(attacks),
            "settings": settings,
            "trainings": self.trainings or (1 if self.quick else 3),
        }
        return self.model_copy(update=change)

    def digest(self) -> str:
        """SHA-256 of the plan in canonical form."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_target(name: str, plan: Plan) -> Target:
    """The target called ``name`` with the plan's settings; PlanError on a wrong setting.

    Where they say ``learns``, those under which it learns are beneath them. Of a system of one's
    own the object ``module:object``, with the plan's claims.
    """
    if OBJECT in name:
        from fedrec_auditor.auditor.plan.objects import load_object, settled, stating

        made = settled(load_object(name), plan.settings.get(name, {}), name)
        return stating(made, plan.claims)
    where = "settings", name
    settings = spelled_out(name, plan.settings.get(name, {}), *where)
    settings.pop(LEARNS, None)
    target: Target = make_member("targets", name, settings, *where)
    return target


def make_plan(values: dict[str, Any]) -> Plan:
    """A plan from Python values; InputError in one line if one of them is wrong."""
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise _refused(error) from error


def amend(plan: Plan | None, values: Mapping[str, Any]) -> Plan:
    """The plan with ``values`` over it, but for those that are None, checked again.

    They are as the command line or a program says them (``PlanOption``), such as a text for several
    names. Settings go over those of the same target one by one.
    """
    before = {} if plan is None else plan.model_dump()
    given = {name: _read(name, value) for name, value in values.items() if value is not None}
    if plan is not None and "settings" in given:
        over = {
            name: plan.settings.get(name, {}) | more for name, more in given["settings"].items()
        }
        given["settings"] = {**plan.settings, **over}
    return make_plan({**before, **given})


def _read(name: str, value: Any) -> Any:
    """A value of the field of this name, read if it is a text, a path or a list of texts."""
    reads = said_of(name).reads if name in Plan.model_fields else None
    is_text = isinstance(value, str | Path)
    if name == "targets" and is_text:
        return (value,)
    takes_list = name in ("columns", "settings", "bins") and isinstance(value, list | tuple)
    if isinstance(value, Mapping):
        numbered = name == "columns"  # of a file without names of columns
        return {key: str(v) if numbered and isinstance(v, int) else v for key, v in value.items()}
    return value if reads is None or not (is_text or takes_list) else reads(value)


def said_of(name: str) -> PlanOption:
    """How the field of this name is said."""
    (said,) = (each for each in Plan.model_fields[name].metadata if isinstance(each, PlanOption))
    return said


def option_of(name: str) -> str:
    """The option of the field of this name.

    >>> option_of("min_user"), option_of("columns")
    ('--min-user', '--column')
    """
    return f"--{said_of(name).name or name.replace('_', '-')}"


def help_of(name: str) -> str:
    """What the field of this name is, and its default if it has one that can be said.

    >>> help_of("population")
    'Users and items of such a game. Default 24x32.'
    """
    default = Plan.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, tuple):
        default = ("x" if name == "population" else ",").join(map(str, default))
    told = "" if default in (None, "", {}) or default is False else f" Default {default}."
    return f"{said_of(name).help}{told}"


def check_plan(plan: Plan, *, given: bool = False) -> None:
    """InputError for a name, a setting or a place of data that is wrong, with little imported.

    Systems of one's own are left to be loaded, and data that are ``given``.
    """
    plan.resolved()
    if not given:
        check_source(plan.data, plan.columns, (plan.users, plan.items))
    for name in plan.settings:
        if OBJECT not in name:
            make_target(name, plan)


def _check(kind: str, names: tuple[str, ...], *location: str) -> None:
    known = FAMILIES[kind].names()
    for name in names:
        try:
            check_name(kind, name, known)
        except InputError as error:
            raise PlanError(str(error), *location) from error


def _refused(error: ValidationError) -> PlanError:
    """The first thing that is wrong, in a line."""
    first = error.errors()[0]
    setting = first["loc"][0] == "settings" and len(first["loc"]) > 3
    location = first["loc"][:3] if setting else first["loc"]  # beyond: the union's members
    if first["type"] == "extra_forbidden":
        known, key = ", ".join(Plan.model_fields), ".".join(map(str, location))
        remedy = near_names(key, list(Plan.model_fields), "") or "Remove or rename it."
        said = f"expected one of the keys {known}, got {brief(key)}. {remedy}"
        return PlanError(said, *location)
    if first["type"] == "literal_error":
        names = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        near = near_names(str(first["input"]), names, "They are")
        said = f"expected a name of {location[0]}, got {brief(first['input'])}. {near}"
        return PlanError(said, *location)
    shown, why = brief(first["input"]), first["msg"]
    if setting:
        part = location[2] in PARTS
        why = (
            "It is a name, or a table of a name and settings" if part else "It is a number or text"
        )
    elif first["type"] == "tuple_type":
        why = f"It is a list, for example [{shown}]"
    key = ".".join(map(str, location))[:80]
    return PlanError(f"{key}={shown} is refused: {why}. Give another value.", *location)


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML file; InputError names the file, the line and the remedy."""
    text, values = read_toml(path, "plan file")
    try:
        plan = make_plan(values)
        for name in plan.resolved().targets:
            make_target(name, plan)
    except PlanError as error:
        raise InputError(f"{path}, line {_line(error.location, text)}: {error}") from error
    return plan


def _line(location: tuple[int | str, ...], text: str) -> int:
    """Line where the statement begins with which the keys of ``location`` come into a TOML text.

    The beginnings of the text are parsed, up to the end of one statement and another, by bisection:
    exact for dotted and quoted keys, inline tables and values of several lines.
    """
    text = text.replace("\r\n", "\n")
    lines, ends = text.split("\n"), [end for end, _ in statements(text)]

    def there(statement: int) -> bool:
        value: Any = tomllib.loads("\n".join(lines[: ends[statement]]))
        for part in location:
            if isinstance(value, dict):
                value = value.get(part)
        return value is not None

    first = bisect_left(range(len(ends) - 1), True, key=there)
    return ends[first - 1] + 1 if first and there(first) else 1
