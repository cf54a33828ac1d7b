"""Made-up rows for the tests of the large MovieLens sets, and the obvious way to read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.movielens import LARGE_GENRES

Movies = dict[int, tuple[str, list[str]]]
Pairs = dict[tuple[int, int], tuple[float, int]]
Write = Callable[[Path, Movies, Pairs], Path]

TITLES = st.text("Aé'\",( #", min_size=1, max_size=6)
MOVIES = st.dictionaries(
    st.integers(1, 10**6) | st.integers(2**31, 2**40),
    st.tuples(TITLES, st.lists(st.sampled_from(LARGE_GENRES), max_size=4, unique=True)),
    min_size=1,
    max_size=6,
)
SMALL: tuple[Movies, Pairs] = (
    {5: ("Anon, The", ["War"]), 6: ("Café", []), 7: ("Unseen", [])},
    {(1, 5): (4.5, 9), (2, 6): (0.5, 8), (1, 6): (3, 7)},
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Movies, Pairs]:
    movies = draw(MOVIES)
    pair = st.tuples(st.integers(1, 9), st.sampled_from(list(movies)))
    values = st.tuples(st.integers(1, 10).map(lambda half: half / 2), st.integers(0, 2**40))
    return movies, draw(st.dictionaries(pair, values, min_size=1, max_size=20))


def oracle(movies: Movies, pairs: Pairs) -> Interactions:
    """Dense arrays and dictionaries."""
    users, items = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    ratings = np.zeros((len(users), len(items)), dtype=np.float32)
    for (user, movie), (rating, _) in pairs.items():
        ratings[users.index(user), items.index(movie)] = rating
    return Interactions(
        name="oracle",
        users=np.array(users),
        items=np.array(items),
        ratings=sparse.csr_array(ratings),
        timestamps=np.array([pairs[pair][1] for pair in sorted(pairs)]),
        genres=np.array([[name in movies[movie][1] for name in LARGE_GENRES] for movie in items]),
        genre_names=LARGE_GENRES,
        titles=tuple(movies[movie][0] for movie in items),
    )
