"""Reads waivers (accepted findings, attacks and checks) from a TOML file."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.waivers import Waiver
from fedrec_auditor.auditor.plan.stated_claim import read_toml


def read_waivers(path: Path | None, today: date) -> tuple[Waiver, ...]:
    """Reads the tables ``[[waiver]]`` of a file; empty if ``path`` is None.

    A waiver is expired if its last day is before ``today``. Raises InputError, which states the
    file, the waiver and the key, if one is wrong.
    """
    if path is None:
        return ()
    _, values = read_toml(path, "file of waivers")
    tables = values.get("waiver")
    if not isinstance(tables, list) or len(values) > 1:
        raise InputError(f"Expected only tables [[waiver]] in {path}, got others. Correct it.")
    waivers = []
    for number, table in enumerate(tables, 1):
        try:
            waiver = Waiver(**table)
        except (TypeError, InputError) as error:
            why = str(error).replace("Waiver.__init__() ", "")
            raise InputError(
                f"Expected a waiver as in docs/ci-gate.md in {path}, got an error in waiver "
                f"{number} ({why}). Correct it."
            ) from error
        waivers.append(replace(waiver, is_expired=waiver.expires < today))
    return tuple(waivers)
