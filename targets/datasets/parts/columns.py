"""Columns of a table file, read in blocks of rows: identifiers, numbers and times."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError

_WHOLE = re.compile(rb"(0|[1-9][0-9]{0,15})(\.0+)?")


class EncodedIds(NamedTuple):
    """A column of identifiers, stored as the distinct identifiers and each row's index among them.

    distinct_ids: the m distinct identifiers, in ascending order (m,); 0, 1, 2, ... if they are
        texts
    id_indices: index of each row's identifier in ``distinct_ids`` (n_rows,)
    distinct_texts: the distinct identifiers as texts (m,); empty if they are numbers
    """

    distinct_ids: NDArray[np.int64]
    id_indices: NDArray[np.int32]
    distinct_texts: tuple[str, ...]

    def keep_rows(self, rows: NDArray[np.bool_]) -> Self:
        """Returns the rows for which the mask ``rows`` (n,) is True.

        Identifiers that do not occur in these rows are dropped.
        """
        present, place = factorize(self.id_indices[rows])
        if self.distinct_texts:
            texts = tuple(self.distinct_texts[at] for at in present)
            return type(self)(np.arange(len(present)), place, texts)
        return type(self)(self.distinct_ids[present], place, ())


# Memory: 4 bytes per row (8 for numbers over 2^31), and the distinct texts of each batch.
class IdCollector:
    """Collector of one column of identifiers, which is read batch by batch.

    If all entries are whole numbers, they are the identifiers. Otherwise all entries become texts,
    and a text's identifier is its index among the distinct texts, sorted by bytes.

    Parameters
    ----------
    label : name of the column in error messages. With a label, floats such as "7.0" count as whole
        numbers.
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._parts: list[Any] = []

    def add_batch(self, batch: pa.Array) -> None:
        """Adds one batch of rows: an int64 array, or texts as a pyarrow dictionary of bytes."""
        numbers = pa.types.is_integer(batch.type)
        self._parts.append(pa.array(narrow_ints(batch.to_numpy())) if numbers else batch)

    def encode_ids(self) -> EncodedIds:
        """Returns the column of identifiers collected so far, and empties the collector.

        Raises InputError if an identifier is written in two ways, as a whole number and as a float.
        """
        parts, self._parts = self._parts, []
        if all(pa.types.is_integer(part.type) for part in parts):
            return EncodedIds(*factorize(np.concatenate([part.to_numpy() for part in parts])), ())
        for at, part in enumerate(parts):
            if pa.types.is_integer(part.type):
                parts[at] = part.cast(pa.string()).cast(pa.binary()).dictionary_encode()
        column = pa.chunked_array(parts).unify_dictionaries()
        words = column.chunk(0).dictionary.to_pylist()
        if self.label and all(map(_WHOLE.fullmatch, words)):
            numbers = np.array([int(word.partition(b".")[0]) for word in words])
            present, first = np.unique(numbers, return_index=True)
            if len(present) < len(words):
                again = np.setdiff1d(np.arange(len(words)), first)[0]
                before = words[np.flatnonzero(numbers == numbers[again])[0]]
                raise InputError(
                    f"Expected each {self.label} to be written in one way, got {before.decode()!r} "
                    f"and {words[again].decode()!r}. Write both in the same way."
                )
            rows = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
            return EncodedIds(*factorize(numbers[rows]), ())
        order = sorted(range(len(words)), key=words.__getitem__)
        rank = np.empty(len(words), dtype=np.int32)
        rank[order] = np.arange(len(words))
        rows = rank[np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])]
        texts = tuple(words[at].decode("utf-8", "replace") for at in order)
        return EncodedIds(np.arange(len(words)), rows, texts)


def factorize(ids: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Returns the distinct ids in ascending order (m,), and the index of each id in them (n,)."""
    if ids.min() < 0 or ids.max() > 4 * ids.size + 2**16:
        present, inverse = np.unique(ids, return_inverse=True)
        return present.astype(np.int64), inverse.astype(np.int32)
    # small ids need no sort
    occurs = np.zeros(int(ids.max()) + 1, dtype=bool)
    occurs[ids] = True
    place = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(occurs), place[ids]


def narrow_ints(numbers: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Converts integers to int32 if all of them fit, and otherwise returns them unchanged."""
    fits = numbers.min() >= -(2**31) and numbers.max() < 2**31
    return numbers.astype(np.int32) if fits else numbers


# Largest number up to which float64 represents every whole number.
MAX_EXACT_FLOAT64_INT = 2**53
# Largest finite float64.
MAX_FLOAT64 = np.finfo(np.float64).max
# Maximum number of bytes of a field that is read as text.
MAX_TEXT_BYTES = 1024
# Patterns of a field: a whole number of at most 16 digits, a number in any form, and a number in
# any form with spaces around it.
WHOLE_NUMBER_REGEX = re.compile(rb"[0-9]{1,16}")
NUMBER_REGEX = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
PADDED_NUMBER_REGEX = re.compile(rb"\s*" + NUMBER_REGEX.pattern + rb"\s*")
# Pattern of a number that programs write as a float: with a decimal point or an exponent e+12.
FLOAT_TEXT_REGEX = re.compile(rb"[+-]?[0-9]+(\.[0-9]*([eE][+-]?[0-9]+)?|[eE]\+[0-9]+)")
# Pattern that the bytes of a field must match.
BytesPattern = re.Pattern[bytes]


# Advice at the end of errors: for invalid content, and for a missing value.
REPAIR_FILE_ADVICE = "Repair the file, or fetch it again."
FILL_VALUE_ADVICE = "Add the value, or leave the row out."


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """Expected content of a column of numbers: finite, in [low, high].

    label: name of one number of the column in error messages, such as "rating"
    low, high: smallest and largest allowed number
    pattern: pattern that a field of a text file must match in full, such as ``NUMBER_REGEX`` (any
        number), ``WHOLE_NUMBER_REGEX`` (digits) or ``PADDED_NUMBER_REGEX`` (whole numbers in any
        form, such as 7.0, with spaces around them)
    remedy: advice at the end of an error message
    """

    label: str
    low: float = 0
    high: float = MAX_EXACT_FLOAT64_INT
    pattern: BytesPattern = WHOLE_NUMBER_REGEX
    remedy: str = REPAIR_FILE_ADVICE

    def is_allowed(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns flags of the ``numbers`` (n,) that the column may contain, bool (n,)."""
        good = (numbers >= max(self.low, -MAX_FLOAT64)) & (numbers <= min(self.high, MAX_FLOAT64))
        if self.pattern is not NUMBER_REGEX and numbers.dtype.kind == "f":
            good &= numbers == np.rint(numbers)
        return np.asarray(good)

    def parse_fields(self, fields: pa.BinaryArray) -> NDArray[Any]:
        """Converts text fields (n,) to numbers (n,); an invalid field becomes NaN or -1.

        ``is_allowed`` returns False for NaN and for -1.
        """
        whole = self.pattern is WHOLE_NUMBER_REGEX
        starts, text = _get_content(fields)
        odd = text.translate(None, b"0123456789")
        lengths = np.diff(starts)
        if whole:
            quick = not odd and lengths.min() > 0 and lengths.max() <= 16
        else:
            quick = not odd.translate(None, b".+-eE")
        if quick:
            with suppress(pa.ArrowInvalid):
                kind = pa.int64() if whole else pa.float64()
                return np.asarray(fields.view(pa.string()).cast(kind).to_numpy())
        words, matches = fields.to_pylist(), self.pattern.fullmatch
        if whole:
            return np.array([int(word) if matches(word) else -1 for word in words], dtype=np.int64)
        return np.array([float(word) if matches(word) else np.nan for word in words])

    def __str__(self) -> str:
        kind, span = "a number", ""
        if self.pattern is not NUMBER_REGEX:
            end = f" to {self.high}" if self.high < MAX_EXACT_FLOAT64_INT else " on"
            kind, span = "a whole number", f" from {self.low}{end}"
        return f"{'an' if self.label[0] in 'aeio' else 'a'} {self.label} ({kind}{span})"


@dataclass(frozen=True, slots=True)
class AnyColumn:
    """Expected content of a column whose cells have any type.

    label: name of one cell in error messages
    """

    label: str


# Expected content of columns, by their position in the file: numbers (``NumberColumn``), cells of
# any type (``AnyColumn``), or identifiers (a str: the name of one identifier in error messages).
SpecByPosition = Mapping[int, NumberColumn | AnyColumn | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """A block of consecutive rows of a table file, with the requested columns.

    first_row: index of the first row in the file
    column_specs: expected content of the requested columns, by position in the file
    columns: pyarrow arrays of these columns: binary (fields of a text file), numbers, or a
        dictionary of binary
    describe_row: function that describes a row in error messages, by index in the file
    get_field_text: function that returns the unchanged text of a field, by the row in the block and
        the position of the column in the file
    encoding: encoding of texts
    """

    first_row: int
    column_specs: SpecByPosition
    columns: Mapping[int, Any]
    describe_row: Callable[[int], str]
    get_field_text: Callable[[int, int], str]
    encoding: str = "utf-8"

    @property
    def n_rows(self) -> int:
        """Number of rows of the block."""
        return len(next(iter(self.columns.values())))

    def parse_numbers(self, position: int) -> NDArray[Any]:
        """Returns the column at the given position in the file as numbers (n,).

        Raises InputError at the first number outside the column's allowed range.
        """
        fields, column = self.columns[position], self.column_specs[position]
        assert isinstance(column, NumberColumn)
        text = pa.types.is_binary(fields.type)
        values = column.parse_fields(fields) if text else np.asarray(fields.to_numpy())
        good = column.is_allowed(values)
        if not good.all():
            raise self.make_error(int(np.argmin(good)), position, expected=str(column))
        return values

    def decode_texts(self, position: int) -> list[str]:
        """Returns the column at the given position in the file as texts of any length (n,).

        Raises InputError at the first field that is not text in the block's encoding.
        """
        texts = []
        for row, field in enumerate(self.columns[position].to_pylist()):
            try:
                texts.append(field.decode(self.encoding))
            except UnicodeDecodeError as error:
                raise self.make_error(row, position, expected=f"{self.encoding} text") from error
        return texts

    def encode_texts(self, position: int) -> pa.DictionaryArray:
        """Returns the column at ``position`` in the file as a pyarrow dictionary of bytes.

        Raises InputError for the first field that is empty or too long.
        """
        fields = self.columns[position]
        if pa.types.is_dictionary(fields.type):
            return fields
        lengths = np.diff(_get_content(fields)[0])
        good = (lengths > 0) & (lengths <= MAX_TEXT_BYTES)
        if not good.all():
            entry = get_entry_name(self.column_specs[position])
            text = f"{entry} (1 to {MAX_TEXT_BYTES} bytes of text)"
            raise self.make_error(int(np.argmin(good)), position, expected=f"a {text}")
        return fields.dictionary_encode()

    def collect_ids(self, position: int, collected: IdCollector) -> None:
        """Adds the identifiers in the column at ``position`` in the file to ``collected``.

        They are added as numbers if all fields are whole numbers without a leading zero, and
        otherwise as texts. Raises InputError for a field that is not UTF-8 text, or is a float that
        may have lost digits.
        """
        fields = self.columns[position]
        if pa.types.is_integer(fields.type):
            collected.add_batch(fields)
            return
        if pa.types.is_binary(fields.type):
            starts, text = _get_content(fields)
            lengths = np.diff(starts)
            first = np.frombuffer(text + b"0", dtype=np.uint8)[starts[:-1]]
            plain = (lengths > 0) & (lengths <= 16) & ((first != ord("0")) | (lengths == 1))
            if plain.all() and not text.translate(None, b"0123456789"):
                collected.add_batch(fields.view(pa.string()).cast(pa.int64()))
                return
        words = self._check_utf8(position, self.encode_texts(position))
        for place, word in enumerate(words.dictionary.to_pylist()):
            if may_have_lost_digits(word):
                row = pc.index(words.indices, place).as_py()
                where = self.describe_row(self.first_row + row)
                entry = get_entry_name(self.column_specs[position])
                raise make_lost_digits_error(where, entry, got=word.decode())
        collected.add_batch(words)

    def collect_cells(self, position: int, collected: IdCollector) -> None:
        """Adds the cells in the column at ``position`` in the file to ``collected``, as texts.

        Cells may have any type. Raises InputError for the first cell that is not UTF-8 text.
        """
        fields = self.columns[position]
        words = fields if pa.types.is_dictionary(fields.type) else fields.dictionary_encode()
        collected.add_batch(self._check_utf8(position, words))

    def _check_utf8(self, position: int, words: pa.DictionaryArray) -> pa.DictionaryArray:
        """Returns ``words`` unchanged; InputError for a word that is not UTF-8 text.

        ``position`` is the position of their column in the file.
        """
        for place, word in enumerate(words.dictionary.to_pylist()):
            try:
                word.decode()
            except UnicodeDecodeError as error:
                row = pc.index(words.indices, place).as_py()
                raise self.make_error(row, position, expected="UTF-8 text") from error
        return words

    def make_error(self, row: int, position: int, expected: str) -> InputError:
        """Creates the InputError for a field with unexpected content.

        row: index of the row in the block
        position: position of the column in the file
        expected: the expected content, in words
        """
        text = self.get_field_text(row, position)
        remedy = getattr(self.column_specs[position], "remedy", REPAIR_FILE_ADVICE)
        remedy = FILL_VALUE_ADVICE if remedy is REPAIR_FILE_ADVICE and not text else remedy
        return make_layout_error(self.describe_row(self.first_row + row), expected, text, remedy)


def get_entry_name(spec: NumberColumn | AnyColumn | str) -> str:
    """Returns the name of one entry of a column in error messages, such as "rating".

    ``spec`` is the expected content of the column, or the name itself.
    """
    return spec if isinstance(spec, str) else spec.label


def copy_to_arrow(data: bytes) -> pa.Buffer:
    """Copies ``data`` to a buffer in memory that Arrow owns and may release in any thread."""
    # A thread of Arrow may release a buffer after its reader has returned. If Python owned the
    # memory, the thread would then need the Python interpreter, and abort the process if the
    # interpreter had ended.
    memory = pa.allocate_buffer(len(data))
    np.frombuffer(memory, dtype=np.uint8)[:] = np.frombuffer(data, dtype=np.uint8)
    return memory


def may_have_lost_digits(word: bytes) -> bool:
    """Whether ``word`` may be a large identifier whose last digits a float has lost.

    Text counts as a float if it has a decimal point or an exponent with a plus sign. True for:

    - a float whose absolute value is at least 2^53;
    - a float with an exponent such as e+11, larger than its number of digits after the point.

    >>> [may_have_lost_digits(w) for w in (b"1.2345678901234568e+18", b"1.23E+11", b"7.0", b"5e3")]
    [True, True, False, False]
    """
    if not FLOAT_TEXT_REGEX.fullmatch(word):
        return False
    mantissa, _, power = word.lower().partition(b"e+")
    digits = len(mantissa.partition(b".")[2])
    return abs(float(word)) >= MAX_EXACT_FLOAT64_INT or bool(power and digits < int(power))


def make_lost_digits_error(place: str, what: str, got: str) -> InputError:
    """Creates the InputError for an identifier that may have lost digits by conversion to a float.

    place: description of the row
    what: kind of the identifier, such as "user"
    got: the identifier as written
    """
    expected = f"{'an' if what == 'item' else 'a'} {what} with all its digits"
    remedy = "Write it anew as a whole number or a text, not a float."
    return make_layout_error(place, expected, got, remedy)


def make_layout_error(
    place: str, expected: str, got: object, remedy: str = REPAIR_FILE_ADVICE
) -> InputError:
    """Creates the InputError for a file that does not have the expected layout.

    place: description of the place in the file
    expected, got: expected and actual content
    remedy: advice at the end of the message
    """
    text = got if isinstance(got, str) else repr(got)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return InputError(f"Expected {expected} in {place}, got {text!r}. {remedy}")


def _get_content(fields: pa.BinaryArray) -> tuple[NDArray[np.int32], bytes]:
    """Returns the offset of each field in the bytes of all fields (n + 1,), and these bytes."""
    _, offsets, data = fields.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[fields.offset : fields.offset + len(fields) + 1]
    text = bytes(memoryview(data)[starts[0] : starts[-1]]) if data else b""
    return starts - starts[0], text


# Format of a time: month, day, year and a twelve-hour clock, as in the data set MIND.
AM_PM_TIME_FORMAT = "%m/%d/%Y %I:%M:%S %p"
# Units in which a number may state a time.
TIME_UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
# Smallest number that is read as a time in milliseconds, in microseconds and in nanoseconds.
# Numbers below the first are seconds (1e11 seconds are the year 5138).
MIN_TIMES_IN_MS_US_NS = 1e11, 1e14, 1e17
# Numbers in [FIRST_DATE, END_DATE) may be dates YYYYMMDD; the third constant is the end of this
# range in Unix seconds (the year 2100).
FIRST_DATE, END_DATE, END_DATE_SECONDS = 19700101, 21000101, 4_102_444_800


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn(NumberColumn):
    """Expected content of a column of times; a time without a time zone is in UTC.

    A time is a number, an ISO 8601 date or time, or a text of the form ``AM_PM_TIME_FORMAT``.

    label: name of one time in error messages
    high: largest allowed number
    pattern: pattern of a time that is a number
    """

    label: str = "timestamp"
    high: float = 2.0**62
    pattern: BytesPattern = NUMBER_REGEX

    def parse_fields(self, fields: pa.BinaryArray) -> NDArray[Any]:
        """Converts text fields (n,) to times (n,); invalid fields become NaN.

        A date or time becomes Unix seconds, and a number stays as it is, whatever its unit.
        """
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            with suppress(pa.ArrowInvalid):
                texts = fields.view(pa.string())
                texts[:1].cast(kind)  # first one field, because pyarrow is slow to refuse many
                moments = texts.cast(kind)
                return np.asarray(moments.cast(pa.int64()).to_numpy() // 10**6)
        numbers = super(TimeColumn, self).parse_fields(fields)
        if len(rest := np.flatnonzero(np.isnan(numbers))):
            texts = fields.take(pa.array(rest)).view(pa.string())
            clock = pc.strptime(texts, format=AM_PM_TIME_FORMAT, unit="s", error_is_null=True)
            numbers[rest] = clock.cast(pa.int64()).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(np.isnan(numbers)).tolist():
            with suppress(ValueError):
                moment = datetime.fromisoformat(fields[row].as_py().decode())
                zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                numbers[row] = math.floor(zoned.timestamp())
        return numbers

    def __str__(self) -> str:
        return (
            f"a {self.label} (a number from 0 on, of Unix seconds, an ISO 8601 date "
            "or time, or 11/15/2019 8:55:22 AM)"
        )


def parse_date_numbers(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Converts numbers YYYYMMDDhhmmss (n,) to Unix seconds (n,).

    An invalid time, or a time before 1970, becomes -1.
    """
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


def to_unix_seconds(times: NDArray[Any], name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Converts times (n,) to whole Unix seconds (n,), and returns notes on their interpretation.

    - If all numbers are dates YYYYMMDD before 2100, or all are times YYYYMMDDhhmmss before 2100,
      they are read as such.
    - Otherwise a number below 1e11 is in seconds, below 1e14 in milliseconds, below 1e17 in
      microseconds, and a larger number in nanoseconds.

    ``name`` is the name of the file in the notes.
    """
    for form, scale in (("YYYYMMDD", 10**6), ("YYYYMMDDhhmmss", 1)):
        first, last = (day * 10**6 // scale for day in (FIRST_DATE, END_DATE))
        if first <= times.min() and times.max() < last:
            dates = parse_date_numbers(times * scale)
            if dates.min() >= 0:
                return dates, (f"Times in {name} are read as {form}.",)
    unit = np.digitize(times, MIN_TIMES_IN_MS_US_NS)
    seconds = (np.floor_divide(times, 1000.0**unit) if unit.any() else times).astype(np.int64)
    counts = {TIME_UNITS[each]: int(np.count_nonzero(unit == each)) for each in np.unique(unit)}
    notes = []
    if len(counts) > 1:
        read = ", ".join(f"{each} {count:,}" for each, count in counts.items())
        notes.append(f"Times in {name} have several units, determined by their size: {read}.")
    elif unit.any():
        notes.append(f"Times in {name} are read as {TIME_UNITS[unit[0]]}, cut to whole seconds.")
    if beyond := int(np.count_nonzero(seconds >= END_DATE_SECONDS)):
        notes.append(f"Times in {name} after the year 2100: {beyond:,}.")
    return seconds, tuple(notes)
