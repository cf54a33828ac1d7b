"""Moments: times in a column, and the Unix seconds that they stand for."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.parts.block import NUMBER, Column, Pattern

CLOCK = "%m/%d/%Y %I:%M:%S %p"
"""Month, day, year and a clock of twelve hours, as in MIND."""
UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
FROM = 1e11, 1e14, 1e17
"""First number of each unit but the first: in seconds the year 5138."""
FIRST_DAY, LAST_DAY, LATEST = 19700101, 21000101, 4_102_444_800
"""Days that numbers may be written as; the last in Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments(Column):
    """A column of times: numbers, ISO 8601 dates and times, or ``CLOCK``; of no zone in UTC."""

    what: str = "timestamp"
    high: float = 2.0**62
    step: float | None = None
    written: Pattern = NUMBER

    def parse(self, fields: pa.BinaryArray) -> NDArray[Any]:
        """Unix seconds or numbers, (n,); NaN for all else."""
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            with suppress(pa.ArrowInvalid):
                texts = fields.view(pa.string())
                texts[:1].cast(kind)  # pyarrow is slow to refuse many
                moments = texts.cast(kind)
                return np.asarray(moments.cast(pa.int64()).to_numpy() // 10**6)
        numbers = super(Moments, self).parse(fields)
        if len(rest := np.flatnonzero(np.isnan(numbers))):
            texts = fields.take(pa.array(rest)).view(pa.string())
            clock = pc.strptime(texts, format=CLOCK, unit="s", error_is_null=True)
            numbers[rest] = clock.cast(pa.int64()).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(np.isnan(numbers)).tolist():
            with suppress(ValueError):
                moment = datetime.fromisoformat(fields[row].as_py().decode())
                zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                numbers[row] = math.floor(zoned.timestamp())
        return numbers

    def __str__(self) -> str:
        return (
            f"a {self.what} (a number from 0 on, of Unix seconds, an ISO 8601 date "
            "or time, or 11/15/2019 8:55:22 AM)"
        )


def written_dates(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Unix seconds of numbers YYYYMMDDhhmmss, (n,); -1 for those that are not a time."""
    day, clock = np.divmod(numbers.astype(np.int64), 10**6)
    months = (day // 10**4 - 1970) * 12 + day // 100 % 100 - 1
    starts = months.astype("datetime64[M]").astype("datetime64[D]")
    dates = starts + (day % 100 - 1)
    hour, minute, second = clock // 10**4, clock // 100 % 100, clock % 100
    good = (day // 100 % 100 >= 1) & (day // 100 % 100 <= 12) & (day % 100 >= 1)
    good &= (dates.astype("datetime64[M]") == starts.astype("datetime64[M]")) & (hour < 24)
    good &= (minute < 60) & (second < 60) & (months >= 0)
    whole = dates.astype(np.int64) * 86_400 + hour * 3600 + minute * 60 + second
    return np.where(good, whole, -1)


def unix_seconds(times: NDArray[Any], name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Whole Unix seconds of all ``times`` (n,) in a file, and notes of how they were read.

    Numbers that are all dates YYYYMMDD, or times YYYYMMDDhhmmss, up to 2100 are read as these;
    others from 1e11 on as milliseconds, from 1e14 as microseconds, from 1e17 as nanoseconds.
    """
    for form, scale in (("YYYYMMDD", 10**6), ("YYYYMMDDhhmmss", 1)):
        first, last = (day * 10**6 // scale for day in (FIRST_DAY, LAST_DAY))
        if first <= times.min() and times.max() < last:
            dates = written_dates(times * scale)
            if dates.min() >= 0:
                return dates, (f"Times in {name} are read as {form}.",)
    unit = np.digitize(times, FROM)
    seconds = (np.floor_divide(times, 1000.0**unit) if unit.any() else times).astype(np.int64)
    counts = {UNITS[each]: int(np.count_nonzero(unit == each)) for each in np.unique(unit)}
    notes = []
    if len(counts) > 1:
        read = ", ".join(f"{each} {count:,}" for each, count in counts.items())
        notes.append(f"Times in {name} are of several units, each read by its size: {read}.")
    elif unit.any():
        notes.append(f"Times in {name} are read as {UNITS[unit[0]]}, cut to whole seconds.")
    if beyond := int(np.count_nonzero(seconds >= LATEST)):
        notes.append(f"Times in {name} after the year 2100: {beyond:,}.")
    return seconds, tuple(notes)
