"""Defines ``Plan``, which has all settings that affect the results of an audit, and reads plans
from files.
"""

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
from fedrec_auditor.auditor.plan import stated_claim
from fedrec_auditor.auditor.plan.families import FAMILIES, check_name, shorten_repr, suggest_names
from fedrec_auditor.auditor.plan.members import (
    LEARNS_SETTING_NAME,
    OBJECT_SEPARATOR,
    PART_FAMILIES,
    PlanError,
    ScalarSetting,
    add_tuned_settings,
    make_member,
    parse_pairs,
    parse_settings,
    qualify_setting,
)
from fedrec_auditor.auditor.plan.sources import check_source

if TYPE_CHECKING:
    from fedrec_auditor.targets.systems.base import Target


# Names of the fields on tables of users and items, and of all fields that select the audited data.
SIDE_TABLE_FIELDS = ("users", "items", "attributes", "bins")
DATA_FIELDS = ("data", "columns", *SIDE_TABLE_FIELDS, "min_user", "min_item", "min_rating")
# Name that stands for all systems.
ALL_TARGETS = "all"
# Names of the default targets, which are systems of five papers.
DEFAULT_TARGETS = (
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
# Minimum number of canaries with which a training gives a bound, and maximum number for memory.
MIN_CANARIES, MAX_CANARIES = 20, 10_000
# Maximum confidence that a plan may ask for.
MAX_CONFIDENCE = 1 - 1e-9
"""Maximum confidence of a plan.

Its error budget, divided among hundreds of bounds, is still exact to 1e-6 in doubles.
"""


def _check_confidence(value: float) -> float:
    if not 0.5 <= value <= MAX_CONFIDENCE:
        raise PydanticCustomError(
            "confidence",
            "Confidence must be in [0.5, 1 - 1e-9]. A smaller value refutes true claims more often "
            "than not, and the error budget of a larger value is lost in rounding",
        )
    return value


@dataclass(frozen=True, slots=True)
class PlanOption:
    """Command-line option that sets a field of the plan.

    ``help``: description of the field.
    ``name``: name of the option; empty if it is the name of the field.
    ``metavar``: placeholder of the option's value in the help; None for the default.
    ``parse``: function that converts a text, or several texts, to the field's value; None if typer
        does.
    """

    help: str
    name: str = ""
    metavar: str | None = None
    parse: Callable[[Any], Any] | None = None


def _to_names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _parse_sizes(text: str) -> tuple[int, int]:
    users, _, items = text.partition("x")
    if not (users.isdecimal() and items.isdecimal()):
        raise InputError(f"Expected population=USERSxITEMS, got {text!r}. Write, e.g., 24x32.")
    return int(users), int(items)


def _parse_columns(texts: Sequence[str]) -> dict[str, str]:
    return parse_pairs("--column name=column", "--column user=user_id", texts)


def _parse_bins(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    form, example = "--bins NAME=A,B or NAME=none", "--bins age=35,45"
    values = parse_pairs(form, example, texts)
    try:
        return {
            name: () if value == "none" else tuple(map(float, value.split(",")))
            for name, value in values.items()
        }
    except ValueError as error:
        raise InputError(f"Expected {form}, got: {error}. Write, e.g., {example}.") from error


def _check_edges(edges: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(edges)):
        raise PydanticCustomError("bins", "The edges of bins must ascend, like 18,25,35")
    return edges


_Edges = Annotated[
    tuple[Annotated[float, Field(allow_inf_nan=False)], ...],
    Field(strict=False),
    AfterValidator(_check_edges),
]
_Names = Annotated[tuple[str, ...], Field(strict=False)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Size = Annotated[int, Field(ge=2, lt=2**31)]


class Plan(BaseModel):
    """All settings on which the results of an audit depend. Equal plans on equal data give equal
    results.

    ``targets``: names of systems, or "all"; by default ``DEFAULT_TARGETS``.
    ``data``: name of a data set, or a path.
    ``columns``: names of a table's columns for user, item, rating and timestamp.
    ``users``: path of a file with a table of users and their attributes (``SideTables``), or None.
    ``items``: path of a file with a table of items and their features, or None.
    ``attributes``: names of the user attributes to attack; None for all.
    ``bins``: lower edges of the bins of numeric columns in these tables, by column.
    ``min_user``: minimum number of interactions of a user; users with fewer are left out.
    ``min_item``: minimum number of interactions of an item; items with fewer are left out.
    ``min_rating``: smallest rating that counts as an interaction.
    ``seed``: seed of all randomness.
    ``confidence``: joint confidence of all lower bounds, and of each single interval; from 1/2 to
        ``MAX_CONFIDENCE``.
    ``quick``: whether to use fewer samples, repetitions and training rounds. Claims and proofs are
        still for all rounds.
    ``trainings``: number of trainings for attacks and utility, with seeds from ``seed`` on. None
        means 3, or 1 in a quick audit.
    ``attacks``: names of attacks on a training; None for all. With an empty list no attack runs;
        games run nevertheless.
    ``per_user``: whether the record lists each user's success.
    ``estimator``: name of the estimator of lower bounds from sampled scores.
    ``by``: name of the attack whose guess is the adversary's score in the games "round" and
        "training"; None for the strongest known adversary.
    ``games``: games (experiments that measure epsilon) for every system. "local" measures one
        client's message, and also runs attacks and utility on a training. "round" and "training"
        have a canary (a designed user) in a small ``population``. "one-run" has many ``canaries``
        in one training on all data.
    ``runs``: number of runs of each world (neighbouring input) in "local", "round" and "training".
        The default depends on the game and on the time of a message (``GameSetup.choose_n_runs``).
    ``population``: numbers of users and items in the games "round" and "training".
    ``canaries``: number of canaries in "one-run"; by default 1,000, but at most twice the number of
        users.
    ``settings``: for each system, the fields that differ from those of its paper: a number or a
        text; for a part (learner, protection, route) a name, or a table of a name and settings.
    ``claims``: claims about the user's own system.

    >>> plan = Plan(targets=("fcf", "fmf-ldp"), settings={"fcf": {"rounds": 5}}, quick=True)
    >>> make_target("fcf", plan).rounds
    5
    >>> Plan().resolve().targets == DEFAULT_TARGETS
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    targets: Annotated[
        _Names,
        PlanOption(
            "Names of targets (`auditor list targets`), or `all`. Default: systems of five papers. "
            "For your own system, give MODULE:OBJECT."
        ),
    ] = ()
    data: Annotated[
        str, PlanOption("Name of a data set (`auditor list datasets`), or a path.", parse=str)
    ] = "ml-100k"
    columns: Annotated[
        dict[str, str] | None,
        PlanOption(
            "Column with an unusual name in a table: user=COLUMN, item=, rating= or timestamp= "
            "(none to omit it). zeros=rating if 0 is a rating like any other. Repeatable.",
            "column",
            parse=_parse_columns,
        ),
    ] = None
    users: Annotated[
        str | None,
        PlanOption(
            "Table of users with their attributes, by identifier (CSV, TSV, Parquet).",
            metavar="FILE",
            parse=str,
        ),
    ] = None
    items: Annotated[
        str | None,
        PlanOption(
            "Table of items with titles, genres, tags or other features, by identifier.",
            metavar="FILE",
            parse=str,
        ),
    ] = None
    attributes: Annotated[
        _Names | None,
        PlanOption(
            "Names of user attributes to attack, separated by commas. Default: all.",
            "attribute",
            parse=_to_names,
        ),
    ] = None
    bins: Annotated[
        dict[str, _Edges],
        PlanOption(
            "Lower edges of bins for a numeric column of --users or --items; none keeps the "
            "numbers. Default: thirds. Repeatable.",
            metavar="NAME=A,B",
            parse=_parse_bins,
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
        AfterValidator(_check_confidence),
        PlanOption("Confidence of all lower bounds together, and of each interval."),
    ] = 0.95
    quick: Annotated[bool, PlanOption("Use fewer samples, repetitions and training rounds.")] = (
        False
    )
    trainings: Annotated[
        Annotated[int, Field(ge=1, le=100)] | None,
        PlanOption("Number of trainings for attacks and utility. Default 3, or 1 if quick."),
    ] = None
    attacks: Annotated[
        _Names | None,
        PlanOption(
            "Attacks (`auditor list attacks`), separated by commas. Default: all.", parse=_to_names
        ),
    ] = None
    per_user: Annotated[
        bool, PlanOption("Store the attacks' success for each user in report.json, by user index.")
    ] = False
    estimator: Annotated[
        str, PlanOption("Estimator of bounds from samples (`auditor list estimators`).")
    ] = "joint-binomial"
    by: Annotated[
        str | None, PlanOption("Attack whose score is used in the round and training games.")
    ] = None
    games: Annotated[
        tuple[Literal["local", "round", "training", "one-run"], ...],
        Field(strict=False),
        PlanOption("Games, separated by commas: local, round, training, one-run.", parse=_to_names),
    ] = ("local",)
    runs: Annotated[
        Annotated[int, Field(ge=40, le=10**9)] | None,
        PlanOption("Number of runs of each world in a local, round or training game."),
    ] = None
    population: Annotated[
        tuple[_Size, _Size],
        Field(strict=False),
        PlanOption("Numbers of users and items in a round or training game.", parse=_parse_sizes),
    ] = (24, 32)
    canaries: Annotated[
        Annotated[int, Field(ge=MIN_CANARIES, le=MAX_CANARIES)] | None,
        PlanOption("Number of canaries in a one-run game. Default 1000, at most 2 per user."),
    ] = None
    settings: Annotated[
        dict[str, dict[str, ScalarSetting | dict[str, ScalarSetting]]],
        PlanOption(
            "Setting of a target (`auditor list TARGET`). Repeatable.",
            "set",
            "[TARGET.]NAME=VALUE",
            parse=parse_settings,
        ),
    ] = Field(default_factory=dict)
    claims: Annotated[
        tuple[stated_claim.StatedClaim, ...],
        Field(strict=False),
        PlanOption(
            "TOML file with the claims of your own system MODULE:OBJECT.",
            "claim",
            "FILE",
            parse=lambda path: stated_claim.read_claims(Path(path)),
        ),
    ] = ()

    def resolve(self, given: Collection[str] = ()) -> Plan:
        """Returns a copy of the plan in which defaults and "all" are replaced by explicit values.

        ``given``: names of systems that are objects in memory. These names, and MODULE:OBJECT, are
            not checked.

        Raises PlanError for an unknown name, a name that occurs twice, or settings of a system that
        is not audited.
        """
        targets = self.targets or DEFAULT_TARGETS
        if ALL_TARGETS in targets:
            targets = FAMILIES["targets"].list_loadable_names()
        attacks = self.attacks
        if attacks is None:
            attacks = FAMILIES["attacks"].list_loadable_names()
        _check_names("estimators", (self.estimator,), "estimator")
        if self.by is not None:
            _check_names("attacks", (self.by,), "by")
        for kind, names in (("targets", targets), ("attacks", attacks)):
            own = [name for name in names if name in given or OBJECT_SEPARATOR in name]
            _check_names(kind, tuple(name for name in names if name not in own), kind)
            if twice := {name for name, times in Counter(names).items() if times > 1}:
                got = f"got {shorten_repr(min(twice))} twice"
                raise PlanError(f"Expected each of the {kind} once, {got}. Omit one.", kind)
        for name in self.settings:
            if name not in targets:
                _check_names("targets", (name,), "settings", name)
                raise PlanError(
                    "Expected settings of audited targets only, got settings for "
                    f"{shorten_repr(name)}. Add this target, or remove its settings.",
                    "settings",
                    name,
                )
        settings = dict(self.settings)
        for name in settings:
            if OBJECT_SEPARATOR not in name:
                settings[name] = add_tuned_settings(name, settings[name], "settings", name)
        change = {
            "targets": tuple(targets),
            "attacks": tuple(attacks),
            "settings": settings,
            "trainings": self.trainings or (1 if self.quick else 3),
        }
        return self.model_copy(update=change)

    def digest(self) -> str:
        """Returns the SHA-256 of the plan in canonical JSON, as hexadecimal digits."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_target(name: str, plan: Plan) -> Target:
    """Constructs the system ``name`` with the settings in ``plan``.

    A user's own system ``module:object`` also gets the claims in ``plan``. Raises PlanError for a
    wrong setting.
    """
    if OBJECT_SEPARATOR in name:
        from fedrec_auditor.auditor.plan.objects import apply_claims, apply_settings, load_system

        made = apply_settings(load_system(name), plan.settings.get(name, {}), name)
        return apply_claims(made, plan.claims)
    where = "settings", name
    # With learns=true, settings that are not given have values with which the training converges.
    settings = add_tuned_settings(name, plan.settings.get(name, {}), *where)
    settings.pop(LEARNS_SETTING_NAME, None)
    target: Target = make_member("targets", name, settings, *where)
    return target


def make_plan(values: dict[str, Any]) -> Plan:
    """Makes a plan from values of its fields, by name. Raises PlanError, with a message of one
    line, for a wrong value.
    """
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise _refuse(error) from error


def amend_plan(plan: Plan | None, values: Mapping[str, Any]) -> Plan:
    """Returns a copy of ``plan`` with the fields in ``values`` replaced, unless their value is
    None.

    ``plan``: the plan; None for a plan with all defaults.
    ``values``: values by name, also in the form of the command line (``PlanOption``).

    Settings of each system are merged one by one; the name of a single system may be omitted.
    Raises PlanError for a wrong value.
    """
    before = {} if plan is None else plan.model_dump()
    given = {name: value for name, value in values.items() if value is not None}
    targets = _parse_field("targets", given.get("targets", plan.targets if plan else ()))
    if len(targets) == 1 and isinstance(given.get("settings"), list | tuple):
        given["settings"] = [qualify_setting(text, targets[0]) for text in given["settings"]]
    given = {name: _parse_field(name, value) for name, value in given.items()}
    if plan is not None and "settings" in given:
        own = plan.settings
        merged = {name: own.get(name, {}) | more for name, more in given["settings"].items()}
        given["settings"] = {**own, **merged}
    return make_plan({**before, **given})


def _parse_field(name: str, value: Any) -> Any:
    """The value of the plan's field ``name``; parsed as on the command line if ``value`` is a text,
    a path, or a list of texts.
    """
    reads = get_plan_option(name).parse if name in Plan.model_fields else None
    is_text = isinstance(value, str | Path)
    if name == "targets" and is_text:
        return (value,)
    takes_list = name in ("columns", "settings", "bins") and isinstance(value, list | tuple)
    if isinstance(value, Mapping):
        numbered = name == "columns"  # a file without a header has column numbers
        return {key: str(v) if numbered and isinstance(v, int) else v for key, v in value.items()}
    return value if reads is None or not (is_text or takes_list) else reads(value)


def get_plan_option(name: str) -> PlanOption:
    """Returns the command-line option that sets the plan's field ``name``."""
    (option,) = (each for each in Plan.model_fields[name].metadata if isinstance(each, PlanOption))
    return option


def get_option_name(name: str) -> str:
    """Returns the name of the command-line option that sets the plan's field ``name``.

    >>> get_option_name("min_user"), get_option_name("columns")
    ('--min-user', '--column')
    """
    return f"--{get_plan_option(name).name or name.replace('_', '-')}"


def get_help_text(name: str) -> str:
    """Returns the help text of the command-line option for the plan's field ``name``.

    The text ends with the default, if that can be printed.

    >>> get_help_text("population")
    'Numbers of users and items in a round or training game. Default 24x32.'
    """
    default = Plan.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, tuple):
        default = ("x" if name == "population" else ",").join(map(str, default))
    suffix = "" if default in (None, "", {}) or default is False else f" Default {default}."
    return f"{get_plan_option(name).help}{suffix}"


def check_plan(plan: Plan, *, is_data_in_memory: bool = False) -> None:
    """Raises InputError if a plan has a wrong name, a wrong setting, or a missing path of data.

    ``is_data_in_memory``: whether the data are in memory, so that their paths are not checked.

    The user's own systems are not checked.
    """
    plan.resolve()  # few packages are imported, so that the check is fast
    if not is_data_in_memory:
        check_source(plan.data, plan.columns, (plan.users, plan.items))
    for name in plan.settings:
        if OBJECT_SEPARATOR not in name:
            make_target(name, plan)


def _check_names(kind: str, names: tuple[str, ...], *location: str) -> None:
    known = FAMILIES[kind].list_names()
    for name in names:
        try:
            check_name(kind, name, known)
        except InputError as error:
            raise PlanError(str(error), *location) from error


def _refuse(error: ValidationError) -> PlanError:
    """The error for the first wrong value of a plan, with a message of one line."""
    first = error.errors()[0]
    setting = first["loc"][0] == "settings" and len(first["loc"]) > 3
    location = first["loc"][:3] if setting else first["loc"]  # further keys name types of a union
    if first["type"] == "extra_forbidden":
        known, key = ", ".join(Plan.model_fields), ".".join(map(str, location))
        remedy = suggest_names(key, list(Plan.model_fields), "") or "Remove or rename this key."
        message = f"Expected one of the keys {known}, got {shorten_repr(key)}. {remedy}"
        return PlanError(message, *location)
    if first["type"] == "literal_error":
        names = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        near = suggest_names(str(first["input"]), names, "They are")
        message = f"Expected a name of {location[0]}, got {shorten_repr(first['input'])}. {near}"
        return PlanError(message, *location)
    value, why = shorten_repr(first["input"]), first["msg"]
    if setting:
        why = "a number or a text is expected"
        if location[2] in PART_FAMILIES:
            why = "a name is expected, or a table of a name and settings"
    elif location[0] == "settings" and len(location) == 2:
        why = f'settings belong to a target: settings={{"TARGET": {{{location[1]!r}: {value}}}}}'
    elif first["type"] == "tuple_type":
        why = f"a list is expected, for example [{value}]"
    key = ".".join(map(str, location))[:80]
    return PlanError(f"{key}={value} is refused: {why}. Give another value.", *location)


def read_plan(path: Path) -> Plan:
    """Reads a plan from a TOML file. Raises InputError, which states the file, the line and the
    remedy, if the plan is wrong.
    """
    text, values = stated_claim.read_toml(path, "plan file")
    try:
        plan = make_plan(values)
        for name in plan.resolve().targets:
            make_target(name, plan)
    except PlanError as error:
        raise InputError(f"{path}, line {_find_line(error.location, text)}: {error}") from error
    return plan


def _find_line(location: tuple[int | str, ...], text: str) -> int:
    """Line of a TOML text, counted from 1, at which the statement begins that defines the keys
    ``location``.
    """
    # Prefixes of the text that end with a statement are parsed, and the first prefix that defines
    # the keys is found by bisection. The line is exact for dotted and quoted keys, inline tables
    # and values that span several lines.
    text = text.replace("\r\n", "\n")
    lines, ends = text.split("\n"), [end for end, _ in stated_claim.find_statement_ends(text)]

    def is_defined(statement: int) -> bool:
        value: Any = tomllib.loads("\n".join(lines[: ends[statement]]))
        for part in location:
            if isinstance(value, dict):
                value = value.get(part)
        return value is not None

    first = bisect_left(range(len(ends) - 1), True, key=is_defined)
    return ends[first - 1] + 1 if first and is_defined(first) else 1
