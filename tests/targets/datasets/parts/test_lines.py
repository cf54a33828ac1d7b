"""The quick reader is the slow one, only faster; errors name the line."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.lines import Column, Lines

COLUMNS = (
    Column(what="user id"),
    Column(what="rating", low=1, high=5),
)
HEADER = "user_id:token\trating:float"


def table(data: bytes, separator: str = "\t", header: str | None = None) -> Lines:
    return Lines(place="t.data", data=data, separator=separator, width=2, header=header)


@given(
    data=st.lists(st.sampled_from([*'0129.-+e_:#"é \t\n\r\0', "::", "nan", "inf", "\r\n"]))
    .map("".join)
    .map(str.encode),
    separator=st.sampled_from(["\t", "::"]),
)
@example(data=b"1\t2\n\n3\t4\n", separator="\t")
@example(data=b"1\t\n", separator="\t")
@example(data=b"\n\n", separator="\t")
@example(data=b"1e3\t2\r\n3\t4", separator="\t")
@example(data=b"1_0::2\n", separator="::")
@example(data=b"1\t::2\n", separator="::")
@example(data=b"1:::2\n", separator="::")
def test_what_the_quick_reader_takes_the_slow_one_reads_alike(data: bytes, separator: str) -> None:
    one = table(data, separator)
    try:
        with warnings.catch_warnings(action="error"):
            quick = one.quick()
    except InputError:  # an empty file
        return
    if quick is None:
        return
    if all(c.holds(quick[:, at]) for at, c in enumerate(COLUMNS)):
        np.testing.assert_array_equal(quick, one.slow(COLUMNS))
    else:
        with pytest.raises(InputError, match="whole number"):  # never a number of fields
            one.slow(COLUMNS)


@given(
    numbers=st.lists(st.tuples(st.integers(0, 2**53), st.integers(1, 5)), min_size=1),
    separator=st.sampled_from(["\t", "::"]),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    header=st.sampled_from([None, HEADER]),
)
def test_whole_files_come_back_by_the_quick_way(
    numbers: list[tuple[int, int]], separator: str, end: str, last: bool, header: str | None
) -> None:
    lines = [header] if header else []
    lines += [f"{a}{separator}{b}" for a, b in numbers]
    one = table((end.join(lines) + end * last).encode(), separator, header)
    assert one.quick() is not None
    np.testing.assert_array_equal(one.numbers(COLUMNS), numbers)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("7", ("2 fields", "got '1 in 7'")),
        ("7\t3\t1", ("2 fields", "got '3 in 7\\t3\\t1'")),
        ("", ("2 fields",)),
        ("seven\t3", ("a user id (a whole number", "'seven'")),
        ("7\tnan", ("a rating (a whole number", "'nan'")),
        ("7\tinf", ("a rating (a whole number", "'inf'")),
        ("7\t", ("a rating (a whole number", "''")),
        ("7\t6", ("rating (a whole number from 1 to 5)", "'6'")),
        ("7\t0", ("rating", "'0'")),
        ("7\t2.5", ("rating", "'2.5'")),
        ("-7\t3", ("user id", "'-7'")),
        ("7.5\t3", ("user id", "'7.5'")),
        ("7\t３", ("a rating (a whole number", "'３'")),
        ("1e400\t3", ("user id", "'1e400'")),
    ],
)
@pytest.mark.parametrize("header", [None, HEADER])
def test_a_broken_line_is_named(broken: str, said: tuple[str, ...], header: str | None) -> None:
    lines = ["1\t1", "2\t2", broken, "3\t3", "x\ty"]
    text = "\n".join([header, *lines] if header else lines)
    with pytest.raises(InputError) as caught:
        table(text.encode(), header=header).numbers(COLUMNS)
    message = str(caught.value)
    assert f"in t.data, line {4 if header else 3}, got" in message
    assert all(part in message for part in said), message
    assert "\n" not in message


def test_a_long_field_is_shown_short() -> None:
    with pytest.raises(InputError) as caught:
        table(b"1\t" + b"x" * 10_000).numbers(COLUMNS)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_an_empty_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"at least one row in t.data, got 'an empty file'"):
        table(data).numbers(COLUMNS)


def test_the_header_is_checked() -> None:
    with pytest.raises(InputError, match=r"t.data, line 1, got 'uid:token"):
        table(b"uid:token\trating:float\n1\t2\n", header=HEADER).numbers(COLUMNS)
    with pytest.raises(InputError, match="an empty file"):
        table(HEADER.encode(), header=HEADER).numbers(COLUMNS)


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(InputError, match=r"utf-8 text in t.data, line 2"):
        table(b"1\ta\n2\t\xe9\n").rows()
