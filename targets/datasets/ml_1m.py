"""Loader of MovieLens 1M: 1,000,209 ratings of 3,706 movies by 6,040 users with attributes."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Interactions
from fedrec_auditor.targets.datasets.parts import joined
from fedrec_auditor.targets.datasets.parts.batches import TypedTable, open_parquet
from fedrec_auditor.targets.datasets.parts.columns import copy_to_arrow, make_layout_error
from fedrec_auditor.targets.datasets.parts.joined import InteractionRows, MovieLens, UserColumn
from fedrec_auditor.targets.datasets.parts.source import DataFiles
from fedrec_auditor.targets.datasets.parts.table_file import TextTable

# Files of the layout whose interactions are pairs of user and movie, without ratings.
LAYOUT_WITHOUT_RATINGS = ("interactions.parquet", "users.dat", "movies.dat")
# Names of the columns of interactions.parquet, by the role of a column.
INTERACTION_COLUMN_BY_ROLE = {"user": "userID", "item": "movieID"}
# Index in ``AGE_GROUPS`` of each age code in users.dat; a code is the lowest age of its users.
AGE_GROUP_BY_CODE = {"1": 0, "18": 0, "25": 0, "35": 1, "45": 2, "50": 2, "56": 2}
# Occupations, in the order of their codes in users.dat.
OCCUPATIONS = (
    "other", "educator", "artist", "clerical", "college student", "customer service", "doctor",
    "executive", "farmer", "homemaker", "K-12 student", "lawyer", "programmer", "retired", "sales",
    "scientist", "self-employed", "engineer", "tradesman", "unemployed", "writer",
)  # fmt: skip
# Columns of users.dat with attributes of users, by name of the attribute.
ATTRIBUTE_COLUMNS = {
    "gender": UserColumn(position=1, noun="a gender", categories=joined.MOVIELENS_GENDERS),
    "age_group": UserColumn(
        position=2, noun="an age code", categories=AGE_GROUPS, category_by_word=AGE_GROUP_BY_CODE
    ),
    "occupation": UserColumn(
        position=3,
        noun="an occupation code",
        categories=OCCUPATIONS,
        category_by_word={str(code): code for code in range(len(OCCUPATIONS))},
    ),
}


class Ml1m(MovieLens):
    """MovieLens 1M, from the official files or from user-movie pairs without ratings and times.

    - The official files are ratings.dat, users.dat and movies.dat (separator ``::``, Latin-1), in a
      directory or in ml-1m.zip.
    - User-movie pairs are in interactions.parquet (columns userID and movieID), which replaces
      ratings.dat. Every rating is then 1, and the name of the data set contains "pairs only".

    The items are the 3,706 movies with a rating. The files state age groups: users aged 45 are
    "over 45" here, but "35 to 45" in MovieLens 100K.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.

    name: name of the data set (class attribute)
    layouts: the two possible sets of file names (class attribute)
    """

    name = "ml-1m"
    layouts = (("ratings.dat", "users.dat", "movies.dat"), LAYOUT_WITHOUT_RATINGS)

    def read(self, source: DataFiles, layout: tuple[str, ...]) -> Interactions:
        """Reads users, movies, and either ratings or user-movie pairs, from ``source``.

        ``layout``: the tuple of ``layouts`` whose files exist in ``source``.
        """
        people, films, rated = (
            TextTable.create(
                source, name, in_memory=True, separator="::", width=width, encoding="latin-1"
            )
            for name, width in (("users.dat", 5), ("movies.dat", 3), ("ratings.dat", 4))
        )
        alone = layout == LAYOUT_WITHOUT_RATINGS
        columns, genre_names = joined.MOVIELENS_RATING_COLUMNS, joined.MOVIELENS_GENRES
        rows = _read_pairs(source) if alone else InteractionRows.read(rated, columns)
        name = f"{self.name} (pairs only)" if alone else self.name
        genres = joined.make_genre_parser(2, genre_names)
        return joined.join_files(name, rows, people, ATTRIBUTE_COLUMNS, films, genres, genre_names)


def _read_pairs(source: DataFiles) -> InteractionRows:
    """Reads the user-movie pairs in the columns userID and movieID of interactions.parquet."""
    place = source.describe_file(LAYOUT_WITHOUT_RATINGS[0])
    data = copy_to_arrow(b"".join(source.read_blocks(LAYOUT_WITHOUT_RATINGS[0], in_memory=True)))
    file = TypedTable(label=place, open_batches=partial(open_parquet, [data]))
    names = file.read_names()
    wanted: dict[str, tuple[int, str]] = {}
    for role, name in INTERACTION_COLUMN_BY_ROLE.items():
        what = f"column {name} of integers without gaps"
        if name not in names:
            raise make_layout_error(place, expected=f"a {what}", got="no such column")
        wanted[role] = names.index(name), what
    pairs = InteractionRows.read(file, wanted)
    if pairs.users.distinct_texts or pairs.items.distinct_texts:
        raise make_layout_error(place, expected="integers as userID and movieID", got="texts")
    return pairs
