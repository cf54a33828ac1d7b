"""frappe.csv and meta.csv. All rows are made up."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.published_datasets import CONTEXT, Frappe
from tests.targets.datasets.broken import check_named

Row = tuple[int, int, int, str, str, str]
HEADER = "\t".join(["user", "item", "cnt", *CONTEXT])
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 5),
        st.integers(1, 10**5),
        st.sampled_from(["free", "paid"]),
        st.sampled_from(["Spain", "Japan", "unknown", "Côte d'Ivoire"]),
        st.sampled_from(["0", "7", "12"]),
    ),
    min_size=1,
    max_size=15,
)


def write(folder: Path, rows: list[Row], separator: str = "\t") -> Path:
    lines = [f"{u}\t{i}\t{c}\tam\tmo\two\tho\t{p}\tsu\t{co}\t{ci}" for u, i, c, p, co, ci in rows]
    text = "".join(f"{line}\n" for line in [HEADER, *lines])
    (folder / "frappe.csv").write_text(text.replace("\t", separator), "utf-8")
    return folder


@settings(max_examples=60)
@given(ROWS)
def test_counts_are_summed_and_the_usual_place_is_the_users(rows: list[Row]) -> None:
    uses: Counter[tuple[int, int]] = Counter()
    places: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    costs: Counter[int] = Counter()
    for user, item, count, cost, country, city in rows:
        uses[user, item] += count
        places["country", user][country] += 1
        places["city", user][city] += 1
        costs[item] += 1 if cost == "paid" else -1
    with tempfile.TemporaryDirectory() as folder:
        data = Frappe().load(write(Path(folder), rows))
    row, column = data.ratings.nonzero()
    found = zip(data.users[row].tolist(), data.items[column].tolist(), strict=True)
    assert dict(zip(found, data.ratings.data.tolist(), strict=True)) == uses
    assert set(data.attributes) == set(CONTEXT) - {"cost"}
    for key in ("country", "city"):
        attribute = data.attributes[key]
        for user, code in zip(data.users.tolist(), attribute.codes, strict=True):
            most = max(places[key, user].values())
            best = [word for word, number in places[key, user].items() if number == most]
            assert attribute.categories[code] == min(best, key=str.encode)
    assert data.genre_names == ("paid",)
    assert data.genres[:, 0].tolist() == [costs[item] > 0 for item in data.items]


ROW: list[Row] = [(1, 3, 2, "free", "Spain", "0"), (2, 4, 1, "paid", "Japan", "7")]


def test_categories_come_from_the_second_file(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    (tmp_path / "meta.csv").write_text('item\tname\tcategory\n3\t"a\nb"\tTools\n9\tc\tGames\n')
    data = Frappe().load(tmp_path)
    assert data.genre_names == ("paid", "Tools")
    assert data.genres.tolist() == [[False, True], [True, False]]
    (tmp_path / "meta.csv").write_text("item\tname\n3\ta\n")
    with pytest.raises(InputError, match=r"item and category in meta\.csv"):
        Frappe().load(tmp_path)


def test_commas_are_read_as_tabs_are(tmp_path: Path) -> None:
    found = []
    for number, separator in enumerate("\t,"):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder, ROW, separator)
        meta = 'item\tname\tcategory\n3\t"a, b"\tTools\n'.replace("\t", separator)
        (folder / "meta.csv").write_text(meta)
        found.append(Frappe().load(folder))
    assert found[0].digest() == found[1].digest()
    assert found[1].genre_names == ("paid", "Tools")


def test_a_user_is_mostly_where_most_of_its_rows_are(tmp_path: Path) -> None:
    """All contexts but the cost, which is the item's; of equals the first in order."""
    rows = [
        "1\t3\t2\tnight\tmonday\tworkday\twork\tfree\tsunny\tSpain\t0",
        "1\t4\t9\tnoon\tsunday\tweekend\thome\tpaid\train\tSpain\t7",
        "1\t5\t1\tnight\tsunday\tweekend\tunknown\tpaid\train\tJapan\t7",
    ]
    (tmp_path / "frappe.csv").write_text("".join(f"{line}\n" for line in [HEADER, *rows]))
    attributes = Frappe().load(tmp_path).attributes
    usual = {name: one.categories[one.codes[0]] for name, one in attributes.items()}
    assert usual == {
        "daytime": "night",
        "weekday": "sunday",
        "isweekend": "weekend",
        "homework": "home",
        "weather": "rain",
        "country": "Spain",
        "city": "7",
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cnt", "count", ["the columns user, item, cnt", "line 1", "no cnt"]),
        ("1\t3\t2\t", "1\t3\t0\t", ["a count", "line 2", "'0'"]),
        ("1\t3\t2\t", "1\t3\t", ["11 fields", "line 2"]),
        ("1\t3\t2\t", "x\t3\t2\t", ["a user id", "line 2", "'x'"]),
        ("Spain", "", ["a country", "line 2"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, said: list[str]
) -> None:
    check_named(Frappe(), write(tmp_path, ROW) / "frappe.csv", old, new, said)
