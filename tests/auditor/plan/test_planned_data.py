"""Tests of tables of users and items: in a plan, on the command line, and as DataFrames."""

import re

import pyarrow as pa
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.plan import Plan, amend_plan, read_plan
from fedrec_auditor.auditor.plan.planned_data import load_planned_data, prepare_data
from fedrec_auditor.reports.record.record import Record
from tests.command import cli, refusal

AGES = list(range(20, 50))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    met = [f"{user},{item}\n" for user in range(30) for item in range(user % 3, 6)]
    (tmp_path / "r.csv").write_text("user,item\n" + "".join(met))
    known = [f"{user},{age},{'fm'[user % 2]}\n" for user, age in enumerate(AGES)]
    (tmp_path / "u.csv").write_text("user,age,sex\n" + "".join(known))
    (tmp_path / "i.csv").write_text("item,genre\n" + "".join(f"{n},g{n % 2}\n" for n in range(6)))
    return tmp_path


def test_a_file_of_a_plan_names_users_items_and_bins(folder):
    (folder / "plan.toml").write_text(
        'data = "r.csv"\nusers = "u.csv"\nitems = "i.csv"\nattributes = ["age"]\n'
        "[bins]\nage = [25, 40]\n"
    )
    data = load_planned_data(read_plan(folder / "plan.toml"))
    assert data.attributes["age"].classes == ("below 25", "25 to below 40", "40 and more")
    assert data.genre_names == ("g0", "g1")


def test_doctor_shows_the_loaded_data(folder):
    words = ("--data", "r.csv", "--users", "u.csv", "--items", "i.csv", "--bins", "age=25,40")
    code, out, _ = cli("doctor", *words)
    assert code == 0
    for text in ("users             30", "below 25 16.7%", "f 50.0%, m 50.0%"):
        assert text in out


ROWS = "".join(f"{u}::{i}::4::1500000{u}{i}\n" for u in range(10, 40) for i in range(7))


def test_the_error_names_the_options_for_a_file_without_header(folder):
    (folder / "ratings.dat").write_text(ROWS)
    for words in (("doctor",), ("run", "fcf", "--quick"), ("sweep", "fcf", "--quick")):
        err = refusal(*words, "--data", "ratings.dat")
        assert "looks like a row" in err
    options = re.findall(r"--no-header|--column \w+=\d", err)
    words = " ".join(options).split()
    code, out, err = cli("doctor", "--data", "ratings.dat", *words)
    assert (code, err) == (0, "")
    assert "interactions      210, 100.00% of pairs" in out
    assert "not read: 3, 4. If one is, say --column rating=NAME or --column timestamp=NAME." in out
    code, out, _ = cli("doctor", "--data", "ratings.dat", *words, "--column", "timestamp=4")
    assert "2017-07-14T02:41:40 to 2017-07-14T02:46:36 (UTC)" in out
    columns = {"header": "no", "user": 1, "item": 2, "rating": 3}
    data, plan = prepare_data("ratings.dat", amend_plan(None, {"columns": columns}))
    assert data is None
    assert load_planned_data(plan).ratings.data.tolist() == [4.0] * 210


def test_a_file_of_users_without_header_is_refused(folder):
    (folder / "r.csv").write_text("1,5\n1,6\n2,5\n")
    (folder / "u.csv").write_text("1,f\n2,m\n")
    options = ("--no-header", "--column", "user=1", "--column", "item=2")
    for words in (options, ()):
        error = refusal(
            "doctor", "--data", "r.csv" if words else "synthetic", "--users", "u.csv", *words
        )
        assert "names of columns in u.csv, line 1" in error
        assert "Write a line of names above it." in error
    (folder / "u.csv").write_text("user,sex\n1,f\n2,m\n")
    assert cli("doctor", "--data", "r.csv", "--users", "u.csv", *options)[0] == 0


def test_recordings_are_attacked_with_users_of_a_file(folder):
    assert (
        cli("record", "fcf", "--data", "r.csv", "--quick", "--with-truth", "--out", "kept")[0] == 0
    )
    words = ("--users", "u.csv", "--attribute", "sex", "--attacks", "attribute-bayes", "--quick")
    code, _, err = cli("attack", "kept", *words, "--out", "found")
    assert code in (0, 1), err
    record = Record.read(folder / "found")
    assert {row.metric.partition(" ")[0] for row in record.attacks} == {"sex"}


def test_whole_numbers_may_be_floats(folder):
    met = pa.table({"user": [1.0, 1.0, 2.0, 3.0], "item": [7, 8, 8, 7]})
    known = pa.table({"user": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"]})
    data, _ = prepare_data(met, Plan(), users=known)
    assert data.users.tolist() == [1, 2, 3]
    assert data.attributes["sex"].codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("interactions", "users", "message"),
    [
        ({"user": [1.5], "item": [1]}, {"user": [1]}, "got 'a column of type double'"),
        (
            {"user": [2.0**60], "item": [1]},
            {"user": [1]},
            "with all its digits in the DataFrame data",
        ),
        ({"user": [1], "item": [1]}, {"user": [9], "sex": ["f"]}, "in the DataFrame users"),
        (
            {"user": [1], "item": [1]},
            {"user": [1, 1], "sex": ["f", "m"]},
            "the DataFrame users, row",
        ),
        ({"user": [1], "item": [1]}, {"who": [1], "sex": ["f"]}, "users in the DataFrame users"),
    ],
)
def test_errors_name_the_dataframe(folder, interactions, users, message):
    with pytest.raises(InputError, match=message) as error:
        prepare_data(pa.table(interactions), Plan(), users=pa.table(users))
    assert "/tmp" not in str(error.value)
    assert ".parquet" not in str(error.value)


def test_without_attributes_no_attribute_is_attacked(folder):
    from fedrec_auditor.auditor.run.runner import audit

    given = {"data": "r.csv", "users": "u.csv", "attacks": ("attribute-bayes",), "quick": True}
    record = audit("fcf", attributes=(), jobs=1, **given)
    assert not record.attacks
    assert {row.reason for row in record.skipped} == {
        "No attribute was asked for. Name some, or leave them out for all."
    }
