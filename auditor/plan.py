"""What affects the answer (``Plan``), and what only affects the speed (``Resources``)."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accountants.errors import InputError
from auditor.families import FAMILIES

Number = bool | int | float | str


class Plan(BaseModel):
    """Everything that the answer depends on: equal plans on equal data give equal records.

    ``targets`` are names; ``settings`` gives the fields of a target that differ from its paper's,
    by target name. ``attacks`` are names, None for all; ``estimator`` turns sampled scores into
    lower bounds. ``confidence`` is that of the audit as a whole for lower bounds (shared out among
    them), and of every interval by itself. ``quick`` trades samples and repetitions for time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    targets: tuple[str, ...] = Field(default=(), strict=False)
    data: str = "ml-100k"
    seed: Annotated[int, Field(ge=0)] = 0
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    quick: bool = False
    attacks: tuple[str, ...] | None = Field(default=None, strict=False)
    estimator: str = "clopper-pearson"
    settings: dict[str, dict[str, Number]] = Field(default_factory=dict)

    def resolved(self) -> Plan:
        """The plan with all targets and attacks named; InputError on an unknown name."""
        FAMILIES["estimators"].check(self.estimator)
        targets = self.targets or FAMILIES["targets"].names()
        attacks = FAMILIES["attacks"].names() if self.attacks is None else self.attacks
        for kind, names in (("targets", (*targets, *self.settings)), ("attacks", attacks)):
            for name in names:
                FAMILIES[kind].check(name)
        for kind, names in (("targets", targets), ("attacks", attacks)):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise InputError(f"Expected each of the {kind} once, got {min(twice)!r} twice.")
        unused = sorted(set(self.settings) - set(targets))
        if unused:
            raise InputError(
                f"Expected settings of audited targets only, got settings for {unused[0]!r}. "
                f"Add it to the targets or drop its settings."
            )
        return self.model_copy(update={"targets": tuple(targets), "attacks": tuple(attacks)})

    def digest(self) -> str:
        """SHA-256 of the plan in canonical form."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Resources:
    """What only affects the speed: the number of worker processes."""

    jobs: int


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML file; InputError names the file, the line and the remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Expected a readable plan file, got {str(path)!r} ({error}). Check the path."
        ) from error
    try:
        return Plan.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: expected TOML, got: {error}. Mend that line.") from error
    except ValidationError as error:
        raise InputError(f"{path}, {_describe(error, text)}") from error


def make_plan(values: dict[str, Any]) -> Plan:
    """A plan from Python values; InputError in one line if one of them is wrong."""
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise InputError(_describe(error, "")) from error


def amend(plan: Plan | None, values: dict[str, Any]) -> Plan:
    """The plan with ``values`` over it, checked again."""
    return make_plan({**({} if plan is None else plan.model_dump()), **values})


def make_resources(jobs: int | None = None) -> Resources:
    """Resources with ``jobs`` workers, by default one a core."""
    count = (os.cpu_count() or 1) if jobs is None else jobs
    if count < 1:
        raise InputError(f"Expected jobs of at least 1, got jobs={count}. Leave it out for all.")
    return Resources(jobs=count)


def _describe(error: ValidationError, text: str) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    where = f"line {_line(first['loc'], text)}: " if text else ""
    if first["type"] == "extra_forbidden":
        known = ", ".join(Plan.model_fields)
        return f"{where}expected one of the keys {known}, got {key!r}. Remove or rename it."
    value = first["input"]
    shown = "nan" if isinstance(value, float) and math.isnan(value) else repr(value)
    return f"{where}{key}={shown} is refused: {first['msg']}. Give another value."


def _line(location: tuple[int | str, ...], text: str) -> int:
    """Line of a key in a TOML text: its own assignment if found, else its table's header."""
    lines = text.splitlines()
    names = [re.escape(part) for part in location if isinstance(part, str)]
    start = 0
    for depth, name in enumerate(names):
        table = r"\.".join(rf"[\"']?{part}[\"']?" for part in names[: depth + 1])
        header = re.compile(rf"\s*\[\s*{table}\s*\]")
        assignment = re.compile(rf"\s*[\"']?{name}[\"']?\s*[.=]")
        for number in range(start, len(lines)):
            if header.match(lines[number]) or assignment.match(lines[number]):
                start = number
                break
    return start + 1
