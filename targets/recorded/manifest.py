"""The manifest of a recording: what everybody knows of the system, and what its messages are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.recorded.regular_file import check_regular
from fedrec_auditor.targets.settings import TITLE, TITLED, types
from fedrec_auditor.targets.systems.reports import ReportDistribution
from fedrec_auditor.targets.transcript import Channel

MANIFEST = "manifest.json"
LARGEST = 2**28
"""Most bytes of a manifest, nearly all of them identifiers of items."""
ANY = "*"
"""In place of a component's name: all that are not named."""
_CHANNELS: dict[str, Any] = {"bit-flip": BitFlip, "report": ReportDistribution}

_AXES = 32  # of an array, at most
_Size = Annotated[int, Field(ge=0, lt=2**31)]
_Code = Annotated[int, Field(ge=0, lt=2**63)]


def _titled(value: str) -> str:
    if not TITLE.fullmatch(value):
        raise ValueError(f"it consists of {TITLED}")
    return value


class RecordedPart(BaseModel):
    """One component of a message: its ``kind``, the public learning ``rate`` behind it, its shape.

    ``rate`` is that of ``targets.components.Component``. ``shape`` is needed where messages hold
    some rows of a table only, and of reports, with their ``magnitude``; elsewhere it is checked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    rate: Annotated[float, Field(allow_inf_nan=False)] | None = None
    shape: Annotated[tuple[_Size, ...], Field(max_length=_AXES)] | None = None
    magnitude: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> RecordedPart:
        if self.kind is Kind.REPORTS and not (
            self.magnitude and self.shape and len(self.shape) == 2
        ):
            raise ValueError("reports need a magnitude and a shape of two numbers")
        return self


class Manifest(BaseModel):
    """What a recording says of itself, in ``manifest.json``; unknown keys are refused.

    ``algorithm`` is the system's name, ``n_items`` the size of its catalogue; ``items`` are the
    identifiers of its rows, in the truth's words (without them 0, 1, 2, ...). ``components`` say
    what messages are, by name, ``"*"`` of all others. ``route`` is the strongest vantage that the
    protocol shows to anybody, by default all that the recording shows. ``parties`` is their number
    where senders are parties, not users. ``rows`` are each item's in tables or its codes in lists,
    one or as many of every item. ``settings`` are public numbers, ``channel`` the public
    distribution of a randomizer: {"name": "bit-flip", "p": 0.7, "q": 0.3}, or {"name": "report",
    "epsilon": 1.0, "dimension": 1}.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    format: Literal["fedrec-auditor recording"] = "fedrec-auditor recording"
    version: Literal[1] = 1
    algorithm: Annotated[str, AfterValidator(_titled)]
    n_items: Annotated[int, Field(ge=1, lt=2**31)]
    items: tuple[int, ...] | tuple[str, ...] | None = None
    components: Mapping[str, RecordedPart] = Field(
        default_factory=lambda: {ANY: RecordedPart(kind=Kind.CHANGE)}
    )
    route: Vantage | None = None
    parties: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    rows: tuple[_Code, ...] | tuple[tuple[_Code, ...], ...] | None = None
    settings: Mapping[str, float] = Field(default_factory=dict)
    channel: Mapping[str, float | str] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Manifest:
        if self.items is not None:
            if len(self.items) != self.n_items:
                raise ValueError(f"{self.n_items} items need as many identifiers")
            if len(set(self.items)) != len(self.items):
                raise ValueError("an item's identifier stands there twice")
        if self.rows is not None:
            widths = {1 if isinstance(each, int) else len(each) for each in self.rows}
            if len(self.rows) != self.n_items or len(widths) != 1 or 0 in widths:
                raise ValueError(f"{self.n_items} items need as many rows, alike of each")
        if self.channel is not None:
            _channel(self.channel)
        return self

    @classmethod
    def of(cls, place: str, **values: Any) -> Manifest:
        """A manifest of these values; InputError names the first that is wrong, and the place."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"])) or "its keys"
            if first["type"] == "extra_forbidden":
                known = ", ".join(cls.model_fields)
                raise InputError(
                    f"Expected one of {known} as a key of {place}, got {key!r}. Rename it."
                ) from error
            if first["type"] == "missing":
                raise InputError(f"Expected {key} in {place}, got none. Give it.") from error
            why = first["msg"].removeprefix("Value error, ").rstrip(".")
            raise InputError(
                f"{place}: {key}={first['input']!r:.60} is refused: {why}. Mend it."
            ) from error

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """That of a recording; InputError if it is missing, too large, no JSON, or wrong."""
        path = folder / MANIFEST
        check_regular(path, LARGEST, "a recording's manifest")
        try:
            values = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise InputError(f"Expected JSON in {path}, got: {error}. Write it anew.") from error
        if not isinstance(values, dict):
            raise InputError(f"Expected an object in {path}, got {values!r:.60}. Write it anew.")
        return cls.of(str(path), **values)

    def text(self) -> str:
        """The file's content, JSON."""
        return self.model_dump_json(exclude_none=True, indent=1) + "\n"

    def part(self, name: str, place: str) -> RecordedPart:
        """What the component of this name is; InputError if nothing is said of it."""
        found = self.components.get(name) or self.components.get(ANY)
        if found is None:
            raise InputError(
                f"Expected components {', '.join(self.components)} in {place}, got {name!r}. "
                "Name it in the manifest."
            )
        return found

    @property
    def places(self) -> NDArray[np.int64] | None:
        """The rows or codes of all items, (n_items, h); None where none are told."""
        if self.rows is None:
            return None
        return np.array(self.rows, np.int64).reshape(self.n_items, -1)

    @property
    def distribution(self) -> Channel | None:
        """The public distribution of the randomizer; None where none is told."""
        return None if self.channel is None else _channel(self.channel)


def channel_values(channel: Channel | None) -> dict[str, float | str] | None:
    """What a manifest says of a channel; None of one that it has no words for."""
    for name, kind in _CHANNELS.items():
        if type(channel) is kind and is_dataclass(channel):
            return {"name": name} | {f.name: getattr(channel, f.name) for f in fields(channel)}
    return None


def _channel(values: Mapping[str, float | str]) -> Channel:
    given: dict[str, Any] = dict(values)
    kind = _CHANNELS.get(str(given.pop("name", None)))
    if kind is None:
        raise ValueError(f"its name is one of {', '.join(_CHANNELS)}")
    known = {field.name for field in fields(kind)}
    if not set(given) <= known or any(isinstance(value, str) for value in given.values()):
        raise ValueError(f"beside its name it has the numbers {', '.join(sorted(known))}")
    for name, value in given.items():
        if types(kind)[name] is int and value % 1.0 == 0.0:  # read as a float
            given[name] = int(value)
    try:
        made: Channel = kind(**given)
    except (InputError, TypeError) as error:
        raise ValueError(str(error)) from error
    return made
