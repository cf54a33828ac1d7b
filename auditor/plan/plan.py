"""The plan of an audit (``Plan``), with all settings that affect results; plans in TOML files."""

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
    full_settings,
    make_member,
    pairs,
    settings_of,
)
from fedrec_auditor.auditor.plan.sources import check_source
from fedrec_auditor.auditor.plan.stated_claim import StatedClaim, read_claims, read_toml, statements

if TYPE_CHECKING:
    from fedrec_auditor.targets.systems.base import Target


SIDE = ("users", "items", "attributes", "bins")
DATA = ("data", "columns", *SIDE, "min_user", "min_item", "min_rating")
"""Fields that choose the audited data; ``SIDE`` has the fields on tables of users and items."""
ALL = "all"
"""Name that stands for all targets."""
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
"""The default targets: the systems of five of the papers."""
MIN_CANARIES, MAX_CANARIES = 20, 10_000
"""Numbers of canaries in a training that a bound needs, and whose inner products fit in memory."""
MAX_CONFIDENCE = 1 - 1e-9
"""Largest confidence of a plan.

Divided among hundreds of bounds, 1 - confidence is still exact to a millionth in doubles.
"""


def _confident(value: float) -> float:
    if not 0.5 <= value <= MAX_CONFIDENCE:
        raise PydanticCustomError(
            "confidence",
            "Confidence lies in [0.5, 1 - 1e-9]: below, an honest target is accused more often "
            "than not; above, the error budget of a bound is lost in rounding",
        )
    return value


@dataclass(frozen=True, slots=True)
class PlanOption:
    """The command-line option of a plan's field.

    help: description of the field.
    name: name of the option, by default that of the field.
    metavar: placeholder of its value in the help.
    reads: parser of a text, or of several texts, into the field's value.
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
    values = pairs(form, example, texts)
    try:
        return {
            name: () if value == "none" else tuple(map(float, value.split(",")))
            for name, value in values.items()
        }
    except ValueError as error:
        raise InputError(f"Expected {form}, got: {error}. For example {example}.") from error


def _ascending(edges: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(edges)):
        raise PydanticCustomError("bins", "The starts of bins ascend")
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
    """All settings on which the results depend: equal plans on equal data give equal records.

    targets: names, "all" for every target, by default ``CORE``.
    data: name of a data set or a path.
    columns: names of a table's columns for user, item, rating and timestamp.
    users, items: paths of tables of users and items (``SideTables``).
    attributes: attributes of users to attack; None for all.
    bins: starts of bins of numbers in these tables, by column.
    min_user, min_item: minimum number of interactions of an audited user, or item.
    min_rating: smallest rating that counts as an interaction.
    seed: seed of all randomness.
    confidence: confidence of all lower bounds together (which share the error budget), and of each
        interval by itself; at least 1/2, so that an honest target is not accused more often than
        not, and at most ``MAX_CONFIDENCE``.
    quick: whether the audit trades samples, repetitions and rounds of training for time; claims and
        proofs are for all rounds.
    trainings: number of trainings, with seeds from ``seed`` on, for attacks and utility; None is 3,
        or 1 in a quick audit. Intervals are over users and trainings.
    attacks: names of attacks on a training; None for all. With an empty list no attack runs, which
        the record notes; games run in any case.
    per_user: whether the record has each user's success.
    estimator: estimator of lower bounds from sampled scores.
    by: attack of interactions whose score "round" and "training" bound; None for the strongest
        known adversary.
    games: games on every target. "local" is a client alone, with attacks and utility on a training
        on the data; "round" and "training" have a canary in a ``population``; "one-run" has many
        ``canaries`` in one training on all data.
    runs: runs of each world in "round" (by default 20,000) and "training" (by default 1,000).
    population: numbers of users and items of the data in these games (``CanaryGame``).
    canaries: number of canaries of "one-run": by default 1,000, at most twice the number of users.
    settings: by target, its fields that differ from the paper's: a number, a text, or for a part
        (``PARTS``) a name or a table of a name and settings.
    claims: claims of a caller's own system.

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
            "Targets, or `all`; by default some of each paper. See `auditor list`. For your own "
            "system MODULE:OBJECT."
        ),
    ] = ()
    data: Annotated[
        str, PlanOption("A data set (`auditor list datasets`) or a path.", reads=str)
    ] = "ml-100k"
    columns: Annotated[
        dict[str, str] | None,
        PlanOption(
            "For a table: user=COLUMN, item=, rating= or timestamp= (none: not read) if it has no "
            "usual name; zeros=rating if 0 is a rating like any other; repeatable.",
            "column",
            reads=_columns,
        ),
    ] = None
    users: Annotated[
        str | None,
        PlanOption(
            "A table of users (CSV, TSV, Parquet) with their attributes, by identifier.",
            metavar="FILE",
            reads=str,
        ),
    ] = None
    items: Annotated[
        str | None,
        PlanOption(
            "A table of items with titles, genres or tags, other features, by identifier.",
            metavar="FILE",
            reads=str,
        ),
    ] = None
    attributes: Annotated[
        _Names | None,
        PlanOption(
            "Attributes of users to attack, separated by commas. Default all.",
            "attribute",
            reads=_several,
        ),
    ] = None
    bins: Annotated[
        dict[str, _Edges],
        PlanOption(
            "Starts of bins of a column of numbers in --users or --items; none keeps the numbers. "
            "Default thirds; repeatable.",
            metavar="NAME=A,B",
            reads=_bins,
        ),
    ] = Field(default_factory=dict)
    min_user: Annotated[_Count, PlanOption("Minimum number of interactions of a user.")] = 0
    min_item: Annotated[_Count, PlanOption("Minimum number of interactions of an item.")] = 0
    min_rating: Annotated[
        float,
        Field(ge=0, allow_inf_nan=False),
        PlanOption("Smallest rating that counts as an interaction."),
    ] = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**128), PlanOption("Seed of all randomness.")] = 0
    confidence: Annotated[
        float,
        AfterValidator(_confident),
        PlanOption("Confidence of all lower bounds together, and of each interval."),
    ] = 0.95
    quick: Annotated[bool, PlanOption("Fewer samples and repetitions, 20 rounds of training.")] = (
        False
    )
    trainings: Annotated[
        Annotated[int, Field(ge=1, le=100)] | None,
        PlanOption("Number of trainings for attacks and utility. Default 3, 1 if quick."),
    ] = None
    attacks: Annotated[
        _Names | None,
        PlanOption(
            "Attacks (`auditor list attacks`), separated by commas. Default all.", reads=_several
        ),
    ] = None
    per_user: Annotated[
        bool, PlanOption("Store each user's success of attacks in report.json, by row number.")
    ] = False
    estimator: Annotated[
        str, PlanOption("Estimator of bounds from samples. See `auditor list estimators`.")
    ] = "joint-binomial"
    by: Annotated[
        str | None, PlanOption("In round and training games: the attack whose score is bounded.")
    ] = None
    games: Annotated[
        tuple[Literal["local", "round", "training", "one-run"], ...],
        Field(strict=False),
        PlanOption("local, round, training, one-run; separated by commas.", reads=_several),
    ] = ("local",)
    runs: Annotated[
        Annotated[int, Field(ge=40, le=10**9)] | None,
        PlanOption("Runs of each world in a round or training game."),
    ] = None
    population: Annotated[
        tuple[_Size, _Size],
        Field(strict=False),
        PlanOption("Users and items in a round or training game.", reads=_sizes),
    ] = (24, 32)
    canaries: Annotated[
        Annotated[int, Field(ge=MIN_CANARIES, le=MAX_CANARIES)] | None,
        PlanOption("Canaries of a one-run game. Default 1000, or 2 per user if fewer."),
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
            "For your own system, MODULE:OBJECT: a file of its claims (TOML).",
            "claim",
            "FILE",
            reads=lambda path: read_claims(Path(path)),
        ),
    ] = ()

    def resolved(self, given: Collection[str] = ()) -> Plan:
        """The plan with explicit targets, attacks and settings; PlanError on an unknown name.

        Names of targets that are ``given``, and MODULE:OBJECT, are not checked.
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
            name: given if OBJECT in name else full_settings(name, given, "settings", name)
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
        """The SHA-256 of the plan in canonical form."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_target(name: str, plan: Plan) -> Target:
    """Makes the target ``name`` with the plan's settings; PlanError for a wrong setting.

    If ``learns`` is true, the defaults are settings under which the target learns. A caller's own
    system ``module:object`` gets the plan's claims.
    """
    if OBJECT in name:
        from fedrec_auditor.auditor.plan.objects import load_object, with_claims, with_settings

        made = with_settings(load_object(name), plan.settings.get(name, {}), name)
        return with_claims(made, plan.claims)
    where = "settings", name
    settings = full_settings(name, plan.settings.get(name, {}), *where)
    settings.pop(LEARNS, None)
    target: Target = make_member("targets", name, settings, *where)
    return target


def make_plan(values: dict[str, Any]) -> Plan:
    """Makes a plan from Python values; InputError in one line if one of them is wrong."""
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise _refused(error) from error


def amend(plan: Plan | None, values: Mapping[str, Any]) -> Plan:
    """A copy of the plan, overridden by the ``values`` that are not None, and checked again.

    The values have the form of the command line or of Python (``PlanOption``), such as one text for
    several names. Settings of a target are merged one by one.
    """
    before = {} if plan is None else plan.model_dump()
    given = {name: _read(name, value) for name, value in values.items() if value is not None}
    if plan is not None and "settings" in given:
        merged = {
            name: plan.settings.get(name, {}) | more for name, more in given["settings"].items()
        }
        given["settings"] = {**plan.settings, **merged}
    return make_plan({**before, **given})


def _read(name: str, value: Any) -> Any:
    """The value of a field, parsed if it is a text, a path or a list of texts."""
    reads = option_of_field(name).reads if name in Plan.model_fields else None
    is_text = isinstance(value, str | Path)
    if name == "targets" and is_text:
        return (value,)
    takes_list = name in ("columns", "settings", "bins") and isinstance(value, list | tuple)
    if isinstance(value, Mapping):
        numbered = name == "columns"  # a file without a header has column numbers
        return {key: str(v) if numbered and isinstance(v, int) else v for key, v in value.items()}
    return value if reads is None or not (is_text or takes_list) else reads(value)


def option_of_field(name: str) -> PlanOption:
    """The command-line option of the field ``name``."""
    (option,) = (each for each in Plan.model_fields[name].metadata if isinstance(each, PlanOption))
    return option


def option_of(name: str) -> str:
    """The name of the field's command-line option.

    >>> option_of("min_user"), option_of("columns")
    ('--min-user', '--column')
    """
    return f"--{option_of_field(name).name or name.replace('_', '-')}"


def help_of(name: str) -> str:
    """The description of a field, with its default if that can be printed.

    >>> help_of("population")
    'Users and items in a round or training game. Default 24x32.'
    """
    default = Plan.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, tuple):
        default = ("x" if name == "population" else ",").join(map(str, default))
    suffix = "" if default in (None, "", {}) or default is False else f" Default {default}."
    return f"{option_of_field(name).help}{suffix}"


def check_plan(plan: Plan, *, given: bool = False) -> None:
    """Raises InputError for a wrong name, setting or path of data, with few imports.

    The caller's own systems are not checked, nor data that are ``given`` in memory.
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
    """The error for the first fault, on one line."""
    first = error.errors()[0]
    setting = first["loc"][0] == "settings" and len(first["loc"]) > 3
    location = first["loc"][:3] if setting else first["loc"]  # further keys: the union's members
    if first["type"] == "extra_forbidden":
        known, key = ", ".join(Plan.model_fields), ".".join(map(str, location))
        remedy = near_names(key, list(Plan.model_fields), "") or "Remove or rename it."
        message = f"expected one of the keys {known}, got {brief(key)}. {remedy}"
        return PlanError(message, *location)
    if first["type"] == "literal_error":
        names = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        near = near_names(str(first["input"]), names, "They are")
        message = f"expected a name of {location[0]}, got {brief(first['input'])}. {near}"
        return PlanError(message, *location)
    value, why = brief(first["input"]), first["msg"]
    if setting:
        part = location[2] in PARTS
        why = (
            "It is a name, or a table of a name and settings" if part else "It is a number or text"
        )
    elif first["type"] == "tuple_type":
        why = f"It is a list, for example [{value}]"
    key = ".".join(map(str, location))[:80]
    return PlanError(f"{key}={value} is refused: {why}. Give another value.", *location)


def read_plan(path: Path) -> Plan:
    """Reads a plan from a TOML file; InputError names the file, the line and the remedy."""
    text, values = read_toml(path, "plan file")
    try:
        plan = make_plan(values)
        for name in plan.resolved().targets:
            make_target(name, plan)
    except PlanError as error:
        raise InputError(f"{path}, line {_line(error.location, text)}: {error}") from error
    return plan


def _line(location: tuple[int | str, ...], text: str) -> int:
    """The line of a TOML text where the statement begins that defines the keys of ``location``.

    Prefixes of the text up to the end of a statement are parsed, by bisection. The line is exact
    for dotted and quoted keys, inline tables and values of several lines.
    """
    text = text.replace("\r\n", "\n")
    lines, ends = text.split("\n"), [end for end, _ in statements(text)]

    def is_defined(statement: int) -> bool:
        value: Any = tomllib.loads("\n".join(lines[: ends[statement]]))
        for part in location:
            if isinstance(value, dict):
                value = value.get(part)
        return value is not None

    first = bisect_left(range(len(ends) - 1), True, key=is_defined)
    return ends[first - 1] + 1 if first and is_defined(first) else 1
