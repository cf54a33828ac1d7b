"""Reading in blocks equals reading line by line, wherever the blocks are cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import csv as fast

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.columns import (
    MAX_TEXT_BYTES,
    NUMBER_REGEX,
    PADDED_NUMBER_REGEX,
    NumberColumn,
    RowBlock,
)
from fedrec_auditor.targets.datasets.parts.table_file import TextTable

FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = NumberColumn(label="user id")
REAL = NumberColumn(label="rating", low=-np.inf, high=np.inf, pattern=NUMBER_REGEX)
SPACED_ID = NumberColumn(label="user id", pattern=PADDED_NUMBER_REGEX)
TEXTS = {0: "name", 1: "name"}
FIELDS = st.one_of(
    st.integers(0, 10**16 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "0", "007", "5.", ".5", ".", "-1", "1e3", "1e999", "nan", "inf", "1_0"]),
    st.sampled_from(["é", "a b", "3.5", "4.5.6", "12345678901234567890", "0.1234567890123456789"]),
)


def cut_data(data: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes in blocks, cut at these positions."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def make_table(
    data: bytes, separator: str = ",", cuts: tuple[int, ...] = (), **rest: bool | str
) -> TextTable:
    def read() -> Iterator[bytes]:
        return iter(cut_data(data, list(cuts)))

    rest = {"header": False, **rest}
    return TextTable(label="t.csv", open_blocks=read, separator=separator, width=2, **rest)


@given(
    st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8),
    st.sampled_from([",", "\t", "::"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 500), max_size=4),
)
@example([("1", "2")] * 3, "::", "\r\n", False, True, [0, 3, 4, 8, 9])
def test_blocks_give_the_same_as_lines(
    rows: list[tuple[str, str]], separator: str, end: str, last: bool, header: bool, cuts: list[int]
) -> None:
    lines = ["a" + separator + "b"] * header + [separator.join(row) for row in rows]
    one = make_table((end.join(lines) + end * last).encode(), separator, tuple(cuts), header=header)
    if not last and lines[-1] == "":  # the text after the last line end is not a line if empty
        return
    texts: list[tuple[bytes, ...]] = []
    wholes: list[int] = []
    numbers: list[float] = []
    good_whole = [re.fullmatch(r"[0-9]{1,16}", a) and int(a) <= WHOLE.high for a, _ in rows]
    values = [float(b) if FLOAT.fullmatch(b) else np.nan for _, b in rows]
    for block in one.read_blocks(TEXTS):
        texts += zip(*(block.columns[at].to_pylist() for at in (0, 1)), strict=True)
    for block in one.read_blocks({0: WHOLE, 1: REAL}):
        span = slice(block.first_row, block.first_row + block.n_rows)
        if all(good_whole[span]):
            wholes += block.parse_numbers(0).tolist()
        else:
            bad = span.start + [bool(good) for good in good_whole[span]].index(False)
            with pytest.raises(InputError, match=rf"t\.csv, line {bad + 1 + header}, got"):
                block.parse_numbers(0)
        if np.isfinite(values[span]).all():
            numbers += block.parse_numbers(1).tolist()
        else:
            bad = span.start + int(np.argmin(np.isfinite(values[span])))
            with pytest.raises(InputError, match=rf"t\.csv, line {bad + 1 + header}, got"):
                block.parse_numbers(1)
    assert texts == [(a.encode(), b.encode()) for a, b in rows]
    if all(good_whole):
        assert wholes == [int(a) for a, _ in rows]
    if np.isfinite(values).all():
        assert numbers == values  # the same doubles


@given(
    st.lists(st.sampled_from(["1", "2", "é", ",", ":", "::", "\n", "\r\n", "\0", '"'])).map(
        "".join
    ),
    st.sampled_from([",", "::"]),
    st.lists(st.integers(0, 50), max_size=3),
)
def test_the_first_line_without_two_fields_is_named(
    text: str, separator: str, cuts: list[int]
) -> None:
    made = make_table(text.encode(), separator, tuple(cuts))
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fits = [line.count(separator) == 1 and "\0" not in line for line in lines]
    if not text or text in ("\n", "\r\n"):
        with pytest.raises(InputError):
            list(made.read_blocks(TEXTS))
    elif all(fits):
        assert sum(block.n_rows for block in made.read_blocks(TEXTS)) == len(lines)
    else:
        at = fits.index(False) + 1
        with pytest.raises(InputError, match=rf"2 fields separated by .* in t\.csv, line {at}, "):
            list(made.read_blocks(TEXTS))


@given(
    st.lists(
        st.tuples(*[st.text('ab,"é 1\t', min_size=1, max_size=5)] * 2), min_size=1, max_size=6
    ),
    st.lists(st.integers(0, 200), max_size=3),
)
def test_quoted_fields_are_read_as_in_rfc_4180(
    rows: list[tuple[str, str]], cuts: list[int]
) -> None:
    def quote(field: str) -> str:
        doubled = field.replace('"', '""')
        return f'"{doubled}"' if doubled != field or "," in field else field

    text = "".join(f"{quote(a)},{quote(b)}\n" for a, b in rows)
    found: list[tuple[bytes, bytes]] = []
    for block in make_table(text.encode(), cuts=tuple(cuts), has_quotes=True).read_blocks(TEXTS):
        columns = [block.encode_texts(at).to_pylist() for at in (0, 1)]
        found += zip(*columns, strict=True)
    assert found == [(a.encode(), b.encode()) for a, b in rows]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'1,2\n"a,3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"a"b,3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"\xff",3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"a\nb",3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"a",3,4\n', "2 fields separated by ',' in t.csv, line 2"),
    ],
)
def test_invalid_quotes_are_named(data: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)):
        list(make_table(data, has_quotes=True).read_blocks(TEXTS))


def test_column_names_are_those_of_the_first_line() -> None:
    data = b'\xef\xbb\xbfuser,"the ""item"""\r\n1,2\r\n'
    assert make_table(data, header=True, has_quotes=True).read_names() == ("user", 'the "item"')
    for bad in (b"", b"a,a\n", b"\xff,a\n", b'"a\n', b"\n1,2\n"):
        with pytest.raises(InputError, match=r"in t\.csv, line 1, got"):
            make_table(bad, header=True, has_quotes=True).read_names()


def test_endless_lines_are_refused_early() -> None:
    def read() -> Iterator[bytes]:
        while True:
            yield b"1" * 2**18

    one = TextTable(label="t", open_blocks=read, separator=",", header=False, width=2)
    with pytest.raises(InputError, match=r"lines of at most 1,048,576 bytes in t, got 'a longer"):
        list(one.read_blocks(TEXTS))


@pytest.mark.parametrize("header", [False, True])
def test_invalid_numbers_are_shortened_and_named_with_their_line(header: bool) -> None:
    for bad, told in (("seven", "'seven'"), ("", "''"), ("1e400", "'1e400'"), ("３", "'３'")):
        lines = ["a,b"] * header + ["1,1", f"{bad},2", ""]
        (block,) = make_table("\n".join(lines).encode(), header=header).read_blocks({0: SPACED_ID})
        with pytest.raises(InputError, match=rf"in t\.csv, line {2 + header}, got {told}"):
            block.parse_numbers(0)
    (block,) = make_table(b"x" * 10_000 + b",1\n").read_blocks({0: WHOLE})
    with pytest.raises(InputError) as caught:
        block.parse_numbers(0)
    assert len(str(caught.value)) < 300


def test_the_header_is_checked_and_a_row_is_required() -> None:
    with pytest.raises(InputError, match=r"the header 'a,b' in t\.csv, line 1, got 'x,b'"):
        list(make_table(b"x,b\n1,2\n", header="a,b").read_blocks(TEXTS))
    for data, header in ((b"", False), (b"a,b", "a,b")):
        with pytest.raises(InputError, match=r"at least one row in t\.csv, got 'an empty file'"):
            list(make_table(data, header=header).read_blocks(TEXTS))


def test_invalid_utf8_is_named() -> None:
    (block,) = make_table(b"1,a\n2,\xe9\n").read_blocks(TEXTS)
    with pytest.raises(InputError, match=r"utf-8 text in t\.csv, line 2, got '\ufffd'"):
        block.decode_texts(1)


def test_values_out_of_range_are_refused() -> None:
    stars = NumberColumn(label="rating", low=1, high=5)
    parts = NumberColumn(label="rating", low=0.5, high=5, pattern=NUMBER_REGEX)
    (block,) = make_table(b"6,5.5\n").read_blocks({0: stars, 1: parts})
    with pytest.raises(InputError, match=r"a rating \(a whole number from 1 to 5\) in t"):
        block.parse_numbers(0)
    with pytest.raises(InputError, match=r"a rating \(a number\) in t\.csv, line 1"):
        block.parse_numbers(1)


def test_texts_are_neither_empty_nor_too_long() -> None:
    (block,) = make_table(b",%b\n" % (b"x" * (MAX_TEXT_BYTES + 1))).read_blocks(TEXTS)
    for at in (0, 1):
        with pytest.raises(InputError, match=r"a name \(1 to 1024 bytes of text\)"):
            block.encode_texts(at)


class SlowReader(TextTable):
    """A reader that reads line by line only."""

    def _read_csv(self, *_: object) -> None:
        return None


KINDS = (
    NumberColumn(label="user id"),
    NumberColumn(label="rating", low=1, high=5, pattern=PADDED_NUMBER_REGEX),
    REAL,
    "name",
)


def read_columns(one: TextTable, kind: NumberColumn | str) -> list[object] | str:
    """The two columns of one kind that a reader gives, or its error."""

    def read(block: RowBlock, at: int) -> list[object]:
        values = block.encode_texts(at) if isinstance(kind, str) else block.parse_numbers(at)
        return list(values.tolist())

    try:
        return [
            pair
            for block in one.read_blocks({0: kind, 1: kind})
            for pair in zip(read(block, 0), read(block, 1), strict=True)
        ]
    except InputError as error:
        return str(error)


@given(
    data=st.lists(st.sampled_from([*'0129.-+e_x:#"é, \t\n\r\0', "::", "nan", "inf", "\r\n"]))
    .map("".join)
    .map(str.encode),
    separator=st.sampled_from(["\t", ",", "::"]),
    kind=st.sampled_from(KINDS),
    quotes=st.booleans(),
)
@example(data=b"1\t2\n\n3\t4\n", separator="\t", kind=KINDS[1], quotes=False)
@example(data=b"1\t\n", separator="\t", kind=KINDS[1], quotes=False)
@example(data=b"\n\n", separator="\t", kind=KINDS[1], quotes=False)
@example(data=b"1e3\t2\r\n3\t4", separator="\t", kind=KINDS[1], quotes=False)
@example(data=b"1_0::2\n", separator="::", kind=KINDS[1], quotes=False)
@example(data=b"1\t::2\n", separator="::", kind=KINDS[1], quotes=False)
@example(data=b"1:::2\n", separator="::", kind=KINDS[1], quotes=False)
@example(data=b"0x1,2\n", separator=",", kind=KINDS[0], quotes=False)
@example(data=b" 1,2\n", separator=",", kind=KINDS[0], quotes=False)
@example(data=b'"1",""""\n', separator=",", kind="name", quotes=True)
@example(data=b'1"",2\n', separator=",", kind="name", quotes=True)
@example(data=b'"1\n",2\n', separator=",", kind="name", quotes=True)
def test_pyarrow_reads_the_same_as_line_by_line(
    data: bytes, separator: str, kind: NumberColumn | str, quotes: bool
) -> None:
    both = [
        reader(
            label="t.data",
            open_blocks=lambda: iter([data]),
            separator=separator,
            width=2,
            has_quotes=quotes and separator != "::",
        )
        for reader in (TextTable, SlowReader)
    ]
    assert read_columns(both[0], kind) == read_columns(both[1], kind)


def test_columns_lie_in_the_memory_of_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a thread that releases Python's memory after the interpreter ends aborts the
    process.
    """
    data = b"1,2\n" * 1000
    read, before, held = fast.read_csv, pa.total_allocated_bytes(), list[int]()

    def record_call(*args: Any) -> pa.Table:
        held.append(pa.total_allocated_bytes() - before)
        return read(*args)

    monkeypatch.setattr(fast, "read_csv", record_call)
    (block,) = make_table(data).read_blocks({0: WHOLE})
    assert block.parse_numbers(0).tolist() == [1] * 1000
    assert held[0] >= len(data)
