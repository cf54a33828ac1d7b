"""Defines ``StatedClaim``, a claim about a user's own system, which is read from a TOML file or
made in Python.
"""

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

# Maximum size of a TOML file in bytes, fifty times that of a plan with all settings.
MAX_TOML_BYTES = 2**18
# Maximum number of dots in the keys of a TOML statement, because the time to parse a key grows with
# their square.
MAX_KEY_DOTS = 256
# Tokens that determine where a TOML statement ends: strings (also those without an end, so that the
# search is linear), comments, brackets and line ends.
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?(?:"""|\Z)"{0,2}|\'{3}.*?(?:\'{3}|\Z)\'{0,2}|"(?:\\.|[^"\\\n])*"?'''
    r"""|'[^'\n]*'?|\#[^\n]*|[][{}.\n]""",
    re.DOTALL,
)


def read_toml(path: Path, noun: str) -> tuple[str, dict[str, Any]]:
    """Reads a TOML file, and returns its text and its parsed values.

    ``noun``: name for such a file in errors, for example "plan file".

    Raises InputError if the file cannot be read, is too large, or is not valid TOML.
    """
    from fedrec_auditor.reports.record.store import read_regular_file

    try:
        text = read_regular_file(path, MAX_TOML_BYTES, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        got = f"{str(path)!r} ({why})"
        raise InputError(f"Expected a readable {noun}, got {got}. Give such a file.") from error
    for end, dots in find_statement_ends(text):
        if dots > MAX_KEY_DOTS:
            raise InputError(
                f"Expected keys of at most {MAX_KEY_DOTS} dots in the {noun}, got {dots} dots in "
                f"the statement that ends in line {end} of {path}. Shorten the keys there."
            )
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected TOML in {path}, got: {error}. Correct the file.") from error


def find_statement_ends(text: str) -> Iterator[tuple[int, int]]:
    """Yields the last line and the number of dots of each statement of a TOML text.

    Lines are counted from 1. Dots in strings and comments do not count. A key of the statement
    cannot be nested more deeply than the number of dots allows.
    """
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
    epsilon : claimed epsilon, at least 0; infinite if no epsilon is promised.
    delta : claimed delta, in [0, 1).
    unit : what the claim hides: "user", "interaction", "rating", "attribute", "report",
        "coordinate" or "bit".
    vantage : what the adversary sees: "server" (every upload, linked to its user), "shuffled"
        (uploads that are not linked to users), "aggregate" (only the sum of uploads), "peers" (the
        models that clients receive) or "release" (the final model).
    horizon : time that the claim covers: one "report", one "round" or the whole "training".
    adjacency : change of the unit that is hidden: its presence ("add-remove"), its value
        ("replace"), or either ("any pair"). The default is "add-remove" for an interaction, and for
        a user if the adversary sees no single uploads; otherwise it is "replace".
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
            raise InputError(_format_error(error)) from error

    def scoped(self) -> ScopedClaim:
        """Returns the claim with its scope (unit, adjacency, vantage, horizon), in which it is
        judged. If the adjacency is None, it gets the default.
        """
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


# Type of an argument with one claim, several claims, or the path of a file with claims.
ClaimsInput = StatedClaim | Sequence[StatedClaim] | str | Path


def list_claims(claims: ClaimsInput) -> tuple[StatedClaim, ...]:
    """Returns claims as a tuple; ``claims`` is a single claim, several claims, or the path of a
    file of claims.

    Raises InputError if the file or one of its claims is wrong.
    """
    if isinstance(claims, str | Path):
        return read_claims(Path(claims))
    return (claims,) if isinstance(claims, StatedClaim) else tuple(claims)


def read_claims(path: Path) -> tuple[StatedClaim, ...]:
    """Reads claims from a TOML file that has either the keys of one claim, or tables ``[[claim]]``.

    Raises InputError, which states the file, the key and the remedy, if the file or a claim is
    wrong.
    """

    _, values = read_toml(path, "file of claims")
    tables = values.pop("claim", None)
    if (tables is None) == (not values):
        raise InputError(
            f"Expected either the keys of one claim in {path}, or tables [[claim]], got "
            f"{'keys and tables' if values else 'no claim'}. Write one of the two forms."
        )
    listed = tables if isinstance(tables, list) else [tables or values]
    if not listed:
        raise InputError(f"Expected a claim in {path}, got an empty list. Add a claim to it.")
    claims = []
    for table in listed:
        if not isinstance(table, dict):
            got = f"{table!r:.60}"
            raise InputError(f"Expected a table as a claim in {path}, got {got}. Write [[claim]].")
        try:
            claims.append(StatedClaim(**table))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return tuple(claims)


def _format_error(error: ValidationError) -> str:
    from fedrec_auditor.auditor.plan.families import shorten_repr

    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"Expected {key} in the claim, got none. Add {key}."
    if first["type"] == "extra_forbidden":
        known = ", ".join(StatedClaim.model_fields)
        return f"Expected one of {known} in the claim, got {key!r}. Remove or rename {key}."
    message = first["msg"].removeprefix("Input should be ")
    got = shorten_repr(first["input"])
    return f"Expected {key} of the claim to be {message}, got {got}. Give another value."
