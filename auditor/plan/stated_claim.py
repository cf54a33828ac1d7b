"""A claim of a caller's own system, from a TOML file or from a call."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Claim, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.systems.base import ScopedClaim

LARGEST = 2**18
"""Maximum size of a file in bytes: fifty times a plan with every setting of every target."""
MAX_DOTS = 256
"""Maximum number of dots in a statement: the time to parse a key grows with its square."""
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'{3}.*?\'{3}(?:\'{0,2})|"(?:\\.|[^"\\\n])*"'''
    r"""|'[^'\n]*'|\#[^\n]*|[][{}.\n]""",
    re.DOTALL,
)
"""Tokens that decide where a statement of TOML ends: strings, comments, brackets, line ends."""


def read_toml(path: Path, noun: str) -> tuple[str, dict[str, Any]]:
    """Reads a TOML file; returns its text and values. ``noun`` names the file in InputErrors."""
    from fedrec_auditor.reports.record.store import read_regular

    try:
        text = read_regular(path, LARGEST, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(
            f"Expected a readable {noun}, got {str(path)!r} ({why}). Check the path."
        ) from error
    for end, dots in statements(text):
        if dots > MAX_DOTS:
            raise InputError(
                f"Expected at most {MAX_DOTS} dots in a statement of a {noun}, got {dots} in the "
                f"statement that ends in line {end} of {path}. Shorten its keys."
            )
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected TOML, got: {error}. Correct that line.") from error


def statements(text: str) -> Iterator[tuple[int, int]]:
    """The last line of each statement of a TOML text, from 1, and its number of dots."""
    line, depth, dots = 1, 0, 0
    for token in _TOKEN.findall(text):
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        dots += token == "."
        if token == "\n" and depth <= 0:
            yield line, dots
            dots = 0
        line += token.count("\n")
    yield line, dots


class StatedClaim(BaseModel):
    """A claimed epsilon with its scope.

    Parameters
    ----------
    epsilon : at least 0; infinite if no epsilon is promised.
    delta : in [0, 1).
    unit : "user", "interaction", "rating", "attribute", "report", "coordinate" or "bit".
    vantage : adversary's view: "server" (every upload, linked to its user), "shuffled" (unlinked),
        "aggregate" (the sum alone), "peers" (models that are broadcast) or "release".
    horizon : time that the claim covers: one "report", one "round" or the whole "training".
    adjacency : hidden change: the presence of the unit ("add-remove"), its value ("replace"), or
        either ("any pair"). By default presence for an interaction, and for a user whose single
        messages nobody sees; else the value.
    statement, source : the claim in words, and its source.

    >>> claim = StatedClaim(epsilon=1, delta=1e-5, unit="user", vantage="aggregate")
    >>> print(claim.scoped().scope)
    user / add-remove / aggregate / training
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    epsilon: Annotated[float, Field(ge=0, strict=True)]
    delta: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    unit: Unit = Unit.USER
    vantage: Vantage = Vantage.SERVER
    horizon: Horizon = Horizon.TRAINING
    adjacency: Adjacency | None = None
    statement: str = ""
    source: str = "as stated by the caller"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(_message(error)) from error

    def scoped(self) -> ScopedClaim:
        """The claim with its own scope as the scope of judgement."""
        adjacency = self.adjacency
        if adjacency is None:
            messages = self.vantage in (Vantage.SERVER, Vantage.SHUFFLED)
            presence = self.unit is Unit.INTERACTION or (self.unit is Unit.USER and not messages)
            adjacency = Adjacency.ADD_REMOVE if presence else Adjacency.REPLACE
        scope = Scope(
            unit=self.unit, adjacency=adjacency, vantage=self.vantage, horizon=self.horizon
        )
        delta = f", delta {self.delta:g}" if self.delta else ""
        promise = f"Epsilon {self.epsilon:g}{delta} is promised."
        if math.isinf(self.epsilon):
            promise = "No epsilon is promised."
        claim = Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            scope=scope,
            statement=self.statement or promise,
            source=self.source,
        )
        return ScopedClaim(claim=claim, scope=scope, delta=self.delta)


Claims = StatedClaim | Sequence[StatedClaim]
"""One claim, or several."""


def listed(claims: Claims) -> tuple[StatedClaim, ...]:
    """One claim or several as a tuple."""
    return (claims,) if isinstance(claims, StatedClaim) else tuple(claims)


def read_claims(path: Path) -> tuple[StatedClaim, ...]:
    """Reads the claims of a TOML file, which has the keys of one claim or tables ``[[claim]]``.

    Raises InputError with the file, the key and the remedy.
    """

    _, values = read_toml(path, "file of claims")
    tables = values.pop("claim", None)
    if (tables is None) == (not values):
        raise InputError(
            f"Expected the keys of one claim in {path}, or tables [[claim]], got "
            f"{'both' if values else 'neither'}. Write for example epsilon = 1.0."
        )
    listed = tables if isinstance(tables, list) else [tables or values]
    if not listed:
        raise InputError(f"Expected a claim in {path}, got an empty list. Write one, or no file.")
    claims = []
    for table in listed:
        if not isinstance(table, dict):
            raise InputError(
                f"Expected a table as a claim in {path}, got {table!r:.60}. Correct it."
            )
        try:
            claims.append(StatedClaim(**table))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return tuple(claims)


def _message(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"Expected {key} in the claim, got none. Give it."
    if first["type"] == "extra_forbidden":
        known = ", ".join(StatedClaim.model_fields)
        return f"Expected one of {known} in the claim, got {key!r}. Remove or rename it."
    message = first["msg"].removeprefix("Input should be ")
    return f"Expected {key} {message} in the claim, got {first['input']!r:.60}. Give another value."
