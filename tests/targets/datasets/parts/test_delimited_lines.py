"""A file whose rows are lines: numbers in any form, and errors that name the line."""

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts.block import SPACED, Column
from fedrec_auditor.targets.datasets.parts.delimited import Delimited

COLUMNS = (
    Column(what="user id", written=SPACED),
    Column(what="rating", low=1, high=5, written=SPACED),
)
HEADER = "user_id:token\trating:float"


def table(data: bytes, separator: str = "\t", header: str | None = None) -> Delimited:
    return Delimited(
        place="t.data",
        read=lambda: iter([data] if data else []),
        separator=separator,
        width=2,
        header=header or False,
    )


def numbers(file: Delimited) -> np.ndarray:
    blocks = file.blocks(dict(enumerate(COLUMNS)))
    return np.concatenate([np.column_stack([b.numbers(at) for at in (0, 1)]) for b in blocks])


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
        numbers(table(text.encode(), header=header))
    message = str(caught.value)
    assert f"in t.data, line {4 if header else 3}, got" in message
    assert all(part in message for part in said), message
    assert "\n" not in message


def test_a_long_field_is_shown_short() -> None:
    with pytest.raises(InputError) as caught:
        numbers(table(b"1\t" + b"x" * 10_000))
    assert len(str(caught.value)) < 300


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"at least one row in t.data, got 'an empty file'"):
        numbers(table(b""))


def test_the_header_is_checked() -> None:
    with pytest.raises(InputError, match=r"t.data, line 1, got 'uid:token"):
        numbers(table(b"uid:token\trating:float\n1\t2\n", header=HEADER))
    with pytest.raises(InputError, match="an empty file"):
        numbers(table(HEADER.encode(), header=HEADER))


def test_bytes_that_are_no_text_are_named() -> None:
    (block,) = table(b"1\ta\n2\t\xe9\n").blocks({1: "title"})
    with pytest.raises(InputError, match=r"utf-8 text in t.data, line 2, got '\ufffd'"):
        block.texts(1)
