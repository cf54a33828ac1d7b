"""Reading in blocks is reading line by line, wherever the blocks are cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts import delimited as _delimited
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.lines import Column

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = Column(what="user id")
FIELDS = st.one_of(
    st.integers(0, 10**16 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "0", "007", "5.", ".5", ".", "-1", "1e3", "1e999", "nan", "inf", "1_0"]),
    st.sampled_from(["é", "a b", "3.5", "4.5.6", "12345678901234567890", "0.1234567890123456789"]),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The same bytes in blocks, cut anywhere."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def file(data: bytes, separator: str = ",", cuts: tuple[int, ...] = (), **rest: bool) -> Delimited:
    def read() -> Iterator[bytes]:
        return iter(pieces(data, list(cuts)))

    return Delimited(
        place="t.csv",
        read=read,
        separator=separator.encode(),
        width=2,
        **{"header": False, **rest},
    )


@given(
    st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8),
    st.sampled_from([",", "\t", "::"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 500), max_size=4),
)
@example([("1", "2")] * 3, "::", "\r\n", False, True, [0, 3, 4, 8, 9])
def test_blocks_give_what_lines_give(
    rows: list[tuple[str, str]],
    separator: str,
    end: str,
    last: bool,
    header: bool,
    cuts: list[int],
) -> None:
    lines = ["a" + separator + "b"] * header + [separator.join(row) for row in rows]
    one = file((end.join(lines) + end * last).encode(), separator, tuple(cuts), header=header)
    if not last and lines[-1] == "":  # nothing after the last end of line is no line
        return
    texts: list[tuple[bytes, ...]] = []
    wholes: list[int] = []
    numbers: list[float] = []
    good_whole = [re.fullmatch(r"[0-9]{1,16}", a) and int(a) <= WHOLE.high for a, _ in rows]
    values = [float(b) if NUMBER.fullmatch(b) else np.nan for _, b in rows]
    for block in one.blocks():
        fields = [[block._field(r, c) for c in (0, 1)] for r in range(len(block.ends))]
        texts += [tuple(pair) for pair in fields]
        span = slice(block.row, block.row + len(block.ends))
        if all(good_whole[span]):
            wholes += block.whole(0, WHOLE).tolist()
        else:
            bad = span.start + [bool(good) for good in good_whole[span]].index(False)
            with pytest.raises(InputError, match=rf"t\.csv, line {bad + 1 + header}, got"):
                block.whole(0, WHOLE)
        if np.isfinite(values[span]).all():
            numbers += block.decimals(1, "rating").tolist()
        else:
            bad = span.start + int(np.argmin(np.isfinite(values[span])))
            with pytest.raises(InputError, match=rf"t\.csv, line {bad + 1 + header}, got"):
                block.decimals(1, "rating")
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
def test_the_first_line_with_other_than_two_fields_is_named(
    text: str, separator: str, cuts: list[int]
) -> None:
    one = file(text.encode(), separator, tuple(cuts))
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fits = [
        line.count(separator) == 1
        and "\0" not in line
        and (separator == "," or ":" not in line.replace(separator, ""))
        for line in lines
    ]
    if not text or text in ("\n", "\r\n"):
        with pytest.raises(InputError):
            list(one.blocks())
    elif all(fits):
        assert sum(len(block.ends) for block in one.blocks()) == len(lines)
    else:
        at = fits.index(False) + 1
        with pytest.raises(InputError, match=rf"2 fields separated by .* in t\.csv, line {at}, "):
            list(one.blocks())


@given(
    st.lists(
        st.tuples(*[st.text('ab,"é 1\t', min_size=1, max_size=5)] * 2), min_size=1, max_size=6
    ),
    st.lists(st.integers(0, 200), max_size=3),
)
def test_quoted_fields_are_read_as_rfc_4180_says(
    rows: list[tuple[str, str]], cuts: list[int]
) -> None:
    def quoted(field: str) -> str:
        doubled = field.replace('"', '""')
        return f'"{doubled}"' if doubled != field or "," in field else field

    text = "".join(f"{quoted(a)},{quoted(b)}\n" for a, b in rows)
    found: list[tuple[bytes, bytes]] = []
    for block in file(text.encode(), cuts=tuple(cuts), quotes=True).blocks():
        columns = [block.text(at, "name").tolist() for at in (0, 1)]
        found += zip(*columns, strict=True)
    assert found == [(a.encode(), b.encode()) for a, b in rows]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'1,2\n"a,3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"a"b,3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"\xff",3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"a\nb",3\n', "quotes closed in t.csv, line 2"),
        (b'1,2\n"a",3,4\n', "2 fields separated by ',' in t.csv, line 2"),
    ],
)
def test_a_bad_quotation_is_named(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        list(file(data, quotes=True).blocks())


def test_names_are_those_of_the_first_line() -> None:
    data = b'\xef\xbb\xbfuser,"the ""item"""\r\n1,2\r\n'
    assert file(data, header=True).names() == ("user", 'the "item"')
    for bad in (b"", b"a,a\n", b"\xff,a\n", b'"a\n', b"\n1,2\n"):
        with pytest.raises(InputError, match=r"in t\.csv, line 1, got"):
            file(bad, header=True).names()


def test_a_line_without_end_is_refused_early() -> None:
    def read() -> Iterator[bytes]:
        while True:
            yield b"1" * 2**18

    one = Delimited(place="t", read=read, separator=b",", header=False, width=2)
    with pytest.raises(InputError, match=r"lines of at most 1,048,576 bytes in t, got 'a longer"):
        list(one.blocks())


def test_ranges_are_kept() -> None:
    (block,) = file(b"6,5.5\n").blocks()
    with pytest.raises(InputError, match=r"a rating \(a whole number from 1 to 5\) in t"):
        block.whole(0, Column(what="rating", low=1, high=5))
    with pytest.raises(InputError, match=r"a rating \(a number from 0.5 to 5\) in t\.csv, line 1"):
        block.decimals(1, "rating", 0.5, 5)


def test_a_text_is_neither_empty_nor_endless() -> None:
    (block,) = file(b",%b\n" % (b"x" * (_delimited.WIDEST + 1))).blocks()
    for at in (0, 1):
        with pytest.raises(InputError, match="a name of 1 to 1024 bytes"):
            block.text(at, "name")
