"""Reads waivers: results of an audit that an owner accepts until a date.

A waiver changes no verdict, only whether a gate (the rule for failing CI) fails.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.stated_claim import read_toml

_Text = Annotated[str, Field(min_length=1)]


class _Waiver(BaseModel):
    # result: the name of an attack, or the scope of a claim as in junit.xml.
    # expires: the last day of the waiver.
    model_config = ConfigDict(extra="forbid", strict=True)
    target: _Text
    result: _Text
    reason: _Text
    owner: _Text
    expires: date

    def __str__(self) -> str:
        return f"{self.target}, {self.result}: the waiver of {self.owner}"


_FILE = TypeAdapter(dict[Literal["waiver"], list[_Waiver]])


def read_waivers(path: Path, today: date) -> tuple[dict[tuple[str, str], str], tuple[str, ...]]:
    """Reads waivers (accepted failures) from a TOML file.

    Returns two fields of a ``Gate``:

    - one sentence per waiver that is valid ``today``, by (name of the system, name of the attack or
      scope of the claim);
    - one sentence per expired waiver.

    Raises InputError, which states the file and the entry, if a waiver is wrong.
    """
    _, values = read_toml(path, "file of waivers")
    try:
        waivers = _FILE.validate_python(values).get("waiver", [])
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"Expected {path} to hold tables [[waiver]] as docs/ci-gate.md describes, got "
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}. Correct this entry."
        ) from error
    valid = {
        (w.target, w.result): f"{w} holds until {w.expires} ({w.reason})."
        for w in waivers
        if today <= w.expires
    }
    late = (w for w in waivers if w.expires < today)
    return valid, tuple(f"{w} expired on {w.expires}. Renew or remove it." for w in late)
