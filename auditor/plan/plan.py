"""What affects the answer (``Plan``), and what only affects the speed (``Resources``)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, brief, near_names
from fedrec_auditor.auditor.plan.objects import load_object, settled, stating
from fedrec_auditor.auditor.plan.stated_claim import StatedClaim

if TYPE_CHECKING:
    from fedrec_auditor.targets.systems.base import Target

Number = bool | int | float | str
Setting = Number | Mapping[str, Number]
ALL = "all"
"""In place of a target: all of them."""
OBJECT = ":"
"""In a target: the object of this name in a module, ``module:object``."""
PARTS = {"learner": "learners", "protection": "protections", "route": "routes"}
"""Settings that are members of a family of their own."""
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


LARGEST_NUMBER = 10**15
"""Largest number that a setting may be."""
FEWEST_CANARIES, MOST_CANARIES = 20, 10_000
"""Canaries of a training: what a bound needs; and their inner products are kept in memory."""
SUREST = 1 - 1e-9
"""Largest confidence of a plan: shared out among hundreds of bounds, 1 - confidence is still told
from 0 in doubles, to a millionth of itself."""


class PlanError(InputError):
    """Something in a plan is wrong; ``location`` are the keys that lead to it."""

    def __init__(self, message: str, *location: int | str) -> None:
        super().__init__(message)
        self.location = location


def _confident(value: float) -> float:
    if not 0.5 <= value <= SUREST:
        raise PydanticCustomError(
            "confidence",
            "It lies in [0.5, 1 - 1e-9]: below, an honest target is accused more often than not; "
            "above, its share of a bound is lost in rounding",
        )
    return value


class Plan(BaseModel):
    """Everything that the answer depends on: equal plans on equal data give equal records.

    ``targets`` are names, "all" for every one, by default ``CORE``; ``settings`` gives, by target
    name, its fields that differ from the paper's: a number, a text, or for a part of it (``PARTS``)
    a name or a table of a name and settings. ``data`` is a name or a path; ``columns`` say which
    column of a table is the user, item, rating and timestamp; only ratings of ``min_rating`` and
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
    ``quick`` trades samples, repetitions and rounds of training for time; what is claimed and
    proved is of all rounds. ``only`` "claims" plays the demonstrations on these targets, on all
    that have one if none is named, and nothing else: they bring their own settings and need no
    data.

    >>> plan = Plan(targets=("fcf", "fmf-ldp"), settings={"fcf": {"rounds": 5}}, quick=True)
    >>> make_target("fcf", plan).rounds
    5
    >>> Plan().resolved().targets == CORE
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    targets: tuple[str, ...] = Field(default=(), strict=False)
    data: str = "ml-100k"
    columns: dict[str, str] | None = None
    min_user: Annotated[int, Field(ge=0, lt=2**63)] = 0
    min_item: Annotated[int, Field(ge=0, lt=2**63)] = 0
    min_rating: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**128)] = 0
    confidence: Annotated[float, AfterValidator(_confident)] = 0.95
    quick: bool = False
    attacks: tuple[str, ...] | None = Field(default=None, strict=False)
    estimator: str = "joint-binomial"
    by: str | None = None
    games: tuple[Literal["local", "round", "training", "one-run"], ...] = Field(
        default=("local",), strict=False
    )
    runs: Annotated[int, Field(ge=40, le=10**9)] | None = None
    population: Annotated[
        tuple[Annotated[int, Field(ge=2, lt=2**31)], Annotated[int, Field(ge=2, lt=2**31)]],
        Field(strict=False),
    ] = (24, 32)
    canaries: Annotated[int, Field(ge=FEWEST_CANARIES, le=MOST_CANARIES)] | None = None
    settings: dict[str, dict[str, Number | dict[str, Number]]] = Field(default_factory=dict)
    claims: tuple[StatedClaim, ...] = Field(default=(), strict=False)
    only: Literal["claims"] | None = None

    def resolved(self, given: Collection[str] = ()) -> Plan:
        """The plan with all targets and attacks named; PlanError on an unknown name.

        Names of targets that are ``given``, or places of objects, are not looked up.
        """
        if self.only == "claims":
            return self._demonstrated()
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
        return self.model_copy(update={"targets": tuple(targets), "attacks": tuple(attacks)})

    def _demonstrated(self) -> Plan:
        """The plan with the targets that have a demonstration, among those named."""
        from fedrec_auditor.auditor.plan.demonstrations import demonstration, names

        asked = () if ALL in self.targets else self.targets
        _check("targets", asked, "targets")
        if self.settings:
            raise PlanError(
                "Expected no settings where only claims are demonstrated, got settings for "
                f"{', '.join(self.settings)}. Drop them: each demonstration brings its own.",
                "settings",
            )
        able = tuple(sorted({demonstration(name).target for name in names()}))
        chosen = tuple(name for name in able if not asked or name in asked)
        if not chosen:
            raise PlanError(
                f"Expected a target with a demonstration ({', '.join(able)}), got "
                f"{', '.join(self.targets)}. Name one of them, or none for all.",
                "targets",
            )
        return self.model_copy(update={"targets": chosen, "attacks": ()})

    def digest(self) -> str:
        """SHA-256 of the plan in canonical form."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_target(name: str, plan: Plan) -> Target:
    """The target called ``name`` with the plan's settings; PlanError on a wrong setting.

    Of a system of one's own the object ``module:object``, with the plan's claims.
    """
    if OBJECT in name:
        made = settled(load_object(name), plan.settings.get(name, {}), name)
        return stating(made, plan.claims)
    target: Target = _make("targets", name, plan.settings.get(name, {}), "settings", name)
    return target


def _make(kind: str, name: str, given: Mapping[str, Setting], *location: str) -> Any:
    """The member of a family with these settings.

    A setting that is a part (learner, protection, route) is given by its name, or by a table of its
    ``name`` and its own settings.
    """
    try:
        member = FAMILIES[kind].member(name)
    except InputError as error:
        raise PlanError(str(error), *location) from error
    known = {f.name: f.default for f in fields(member) if f.init}
    settings: dict[str, Any] = {}
    for key, value in given.items():
        where = (*location, key)
        if key not in known:
            raise PlanError(
                f"Expected a setting of {name} ({', '.join(known)}), got {brief(key)}. Rename it.",
                *where,
            )
        if key in PARTS:
            part = {"name": value} if isinstance(value, str) else value
            chosen = part.get("name") if isinstance(part, Mapping) else None
            if not isinstance(part, Mapping) or not isinstance(chosen, str):
                names = ", ".join(FAMILIES[PARTS[key]].names())
                raise PlanError(
                    f"Expected the name of a {key} for {name}, or a table with its name and "
                    f"settings, got {brief(value)}. Name one: {names}.",
                    *where,
                )
            rest = {k: v for k, v in part.items() if k != "name"}
            settings[key] = _make(PARTS[key], chosen, rest, *where)
        else:
            settings[key] = setting_value(name, key, value, known[key], *where)
    try:
        return member(**settings)
    except InputError as error:
        named = [key for key in settings if f"got {key}=" in str(error)]
        raise PlanError(str(error), *location, *named[:1]) from error
    except Exception as error:
        if (plugin := FAMILIES[kind].plugin(member)) is None:
            raise
        raise PlanError(
            f"Expected settings that the {plugin} takes, got {type(error).__name__}: {error}. "
            "Give others, or leave it out.",
            *location,
        ) from error


def setting_value(name: str, key: str, value: Setting, default: object, *location: str) -> Number:
    """A plain setting, of the kind that its default is; PlanError if it is of another."""
    if isinstance(default, bool | str):
        kind, fits = (
            ("true or false" if isinstance(default, bool) else "a text"),
            isinstance(value, type(default)),
        )
    else:
        whole = isinstance(default, int)
        kind = "a whole number" if whole else "a number"
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if fits and whole and isinstance(value, float):
            fits = value.is_integer()
            value = int(value) if fits else value
    if not fits or isinstance(value, Mapping):
        raise PlanError(
            f"Expected {kind} for {name} {key}, got {brief(value)}. Give one.", *location
        )
    if not isinstance(value, str) and LARGEST_NUMBER < abs(value) < math.inf:
        raise PlanError(
            f"Expected a number up to {LARGEST_NUMBER:.0e} for {name} {key}, got {brief(value)}. "
            "Give a smaller one.",
            *location,
        )
    return value


def make_plan(values: dict[str, Any]) -> Plan:
    """A plan from Python values; InputError in one line if one of them is wrong."""
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise _refused(error) from error


def amend(plan: Plan | None, values: dict[str, Any]) -> Plan:
    """The plan with ``values`` over it, but for those that are None, checked again."""
    given = {key: value for key, value in values.items() if value is not None}
    return make_plan({**({} if plan is None else plan.model_dump()), **given})


def _check(kind: str, names: tuple[str, ...], *location: str) -> None:
    known = set(FAMILIES[kind].names())
    try:
        for name in names:
            if name not in known:
                FAMILIES[kind].check(name)
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
