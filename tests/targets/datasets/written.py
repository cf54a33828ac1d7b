"""Invented MovieLens rows, writers of every layout, and a simple reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse

from fedrec_auditor.targets.datasets import ml_1m, ml_100k
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.joined import MOVIELENS_GENRES

GROUPS = ("under 35", "35 to 45", "over 45")


@dataclass(frozen=True)
class Rows:
    """Content of the files in line order; users have an age, a gender and an occupation."""

    users: dict[int, tuple[int, str, str]]
    items: dict[int, tuple[str, list[str]]]
    pairs: dict[tuple[int, int], tuple[float, int]]

    def interactions(
        self,
        genres: Sequence[str],
        jobs: Sequence[str] = (),
        groups: Callable[[int], int] = lambda age: (age >= 35) + (age > 45),
        *,
        alone: bool = False,
    ) -> Interactions:
        """Slow reference by dense arrays and dictionaries; ``alone`` is without ratings."""
        users, items = (sorted({pair[side] for pair in self.pairs}) for side in (0, 1))
        ratings = np.zeros((len(users), len(items)), dtype=np.float32)
        for (user, item), (rating, _) in self.pairs.items():
            ratings[users.index(user), items.index(item)] = 1 if alone else rating
        told = [self.users[user] for user in users] if jobs else []
        codes = {
            "gender": ([*map("FM".index, (g for _, g, _ in told))], ("F", "M")),
            "age_group": ([groups(age) for age, _, _ in told], GROUPS),
            "occupation": ([jobs.index(job) for _, _, job in told], tuple(jobs)),
        }
        return Interactions(
            name="oracle",
            users=np.array(users),
            items=np.array(items),
            ratings=sparse.csr_array(ratings),
            timestamps=None if alone else np.array([self.pairs[p][1] for p in sorted(self.pairs)]),
            attributes={
                name: Attribute(codes=np.array(code), categories=categories)
                for name, (code, categories) in codes.items()
                if jobs
            },
            genres=np.array([[name in self.items[i][1] for name in genres] for i in items]),
            genre_names=tuple(genres),
            titles=tuple(self.items[item][0] for item in items),
        )


@st.composite
def rows(
    draw: st.DrawFn,
    genres: Sequence[str],
    jobs: Sequence[str] = ("none",),
    ages: Sequence[int] = range(1, 100),
    stars: Sequence[float] = (1, 2, 3, 4, 5),
    largest: int = 10**6,
) -> Rows:
    """Rows with any ids, titles and genres (in any order, repeated, or none)."""
    ids = st.integers(1, largest)
    person = st.tuples(st.sampled_from(ages), st.sampled_from("FM"), st.sampled_from(jobs))
    users = draw(st.dictionaries(ids, person, min_size=1, max_size=6))
    film = st.tuples(
        st.text("Aé:'\",( #", min_size=1, max_size=5).filter(lambda t: "::" not in f":{t}:"),
        st.lists(st.sampled_from(genres), max_size=4),
    )
    items = draw(st.dictionaries(ids, film, min_size=1, max_size=6))
    pair = st.tuples(st.sampled_from(list(users)), st.sampled_from(list(items)))
    values = st.tuples(st.sampled_from(stars), st.integers(0, 2**40))
    return Rows(users, items, draw(st.dictionaries(pair, values, min_size=1, max_size=20)))


def write(path: Path, found: Iterable[str], encoding: str = "utf-8") -> None:
    path.write_bytes("".join(f"{line}\n" for line in found).encode(encoding))


def official_100k(folder: Path, content: Rows) -> Path:
    write(folder / "u.data", [f"{u}\t{i}\t{r:g}\t{t}" for (u, i), (r, t) in content.pairs.items()])
    write(folder / "u.user", [f"{u}|{a}|{g}|{o}|Z" for u, (a, g, o) in content.users.items()])
    flags = {
        item: "|".join(str(int(name in genres)) for name in ml_100k.ALL_GENRES)
        for item, (_, genres) in content.items.items()
    }
    films = [f"{i}|{t}|01-Jan-1990||u|{flags[i]}" for i, (t, _) in content.items.items()]
    write(folder / "u.item", films, "latin-1")
    return folder


def recbole_100k(folder: Path, content: Rows) -> Path:
    files = {
        "inter": [f"{u}\t{i}\t{r:g}\t{t}" for (u, i), (r, t) in content.pairs.items()],
        "user": [f"{u}\t{a}\t{g}\t{o}\tZ" for u, (a, g, o) in content.users.items()],
        "item": [f"{i}\t{t}\t1990\t{' '.join(g)}" for i, (t, g) in content.items.items()],
    }
    for end, found in files.items():
        name = f"ml-100k.{end}"
        write(folder / name, [ml_100k.HEADER_BY_FILE[name], *found])
    return folder


def official_1m(folder: Path, content: Rows) -> Path:
    jobs = ml_1m.OCCUPATIONS.index
    files = {
        "users.dat": [f"{u}::{g}::{a}::{jobs(o)}::Z" for u, (a, g, o) in content.users.items()],
        "movies.dat": [f"{i}::{t}::{'|'.join(g)}" for i, (t, g) in content.items.items()],
        "ratings.dat": [f"{u}::{i}::{r:g}::{t}" for (u, i), (r, t) in content.pairs.items()],
    }
    for name, found in files.items():
        write(folder / name, found, "latin-1")
    return folder


def pairs_1m(folder: Path, content: Rows) -> Path:
    users, items = zip(*content.pairs, strict=True)
    return write_pairs(official_1m(folder, content), {"userID": [*users], "movieID": [*items]})


def write_pairs(folder: Path, columns: dict[str, list[Any]]) -> Path:
    parquet.write_table(pyarrow.table(columns), folder / "interactions.parquet")
    (folder / "ratings.dat").unlink(missing_ok=True)
    return folder


OF_100K = rows(ml_100k.ALL_GENRES, ml_100k.OCCUPATIONS, [1, 34, 35, 45, 46, 99])
OF_1M = rows(MOVIELENS_GENRES, ml_1m.OCCUPATIONS, [*map(int, ml_1m.AGE_GROUP_BY_CODE)])
# Rows in which user 9 rated nothing, and nobody rated item 7.
SMALL = Rows(
    users={1: (45, "F", "doctor"), 2: (35, "M", "other"), 9: (18, "M", "other")},
    items={5: ("Anon, The", ["War"]), 6: ("Café", []), 7: ("Unseen", ["Drama"])},
    pairs={(1, 5): (4, 9), (2, 6): (2, 8), (1, 6): (3, 7)},
)
