"""MovieLens 1M: 1,000,209 ratings of 6,040 users on 3,706 movies; gender, age and occupation."""

from __future__ import annotations

from functools import partial

from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Interactions
from fedrec_auditor.targets.datasets.parts.batches import Batches, of_parquet
from fedrec_auditor.targets.datasets.parts.columns import broken, in_arrow
from fedrec_auditor.targets.datasets.parts.joined import (
    GENDERS,
    GENRES,
    STARS,
    Genres,
    MovieLens,
    Pairs,
    Trait,
    assemble,
    movies,
    users,
)
from fedrec_auditor.targets.datasets.parts.source import Source
from fedrec_auditor.targets.datasets.parts.table_file import Delimited

PAIRS_ONLY = ("interactions.parquet", "users.dat", "movies.dat")
PAIR_COLUMNS = {"user": "userID", "item": "movieID"}
AGES = {"1": 0, "18": 0, "25": 0, "35": 1, "45": 2, "50": 2, "56": 2}
OCCUPATIONS = (
    "other",
    "educator",
    "artist",
    "clerical",
    "college student",
    "customer service",
    "doctor",
    "executive",
    "farmer",
    "homemaker",
    "K-12 student",
    "lawyer",
    "programmer",
    "retired",
    "sales",
    "scientist",
    "self-employed",
    "engineer",
    "tradesman",
    "unemployed",
    "writer",
)
TRAITS = {
    "gender": Trait(at=1, what="a gender", categories=GENDERS),
    "age_group": Trait(at=2, what="an age code", categories=AGE_GROUPS, written=AGES),
    "occupation": Trait(
        at=3,
        what="an occupation code",
        categories=OCCUPATIONS,
        written={str(code): code for code in range(len(OCCUPATIONS))},
    ),
}


class Ml1m(MovieLens):
    """MovieLens 1M, from the official files or from user-movie pairs without ratings and times.

    The official files are ratings.dat, users.dat and movies.dat (``::``, Latin-1), in a directory
    or in ml-1m.zip. Pairs are in interactions.parquet (userID, movieID), which replaces
    ratings.dat. Every rating is then 1, and the name of the interactions contains "pairs only".

    The items are the 3,706 movies with a rating, as papers count them. The file movies.dat has
    3,883 movies.

    The files give ages as the first year of a range: 1, 18, 25, 35, 45, 50, 56. The first three are
    "under 35", 35 (35 to 44) is "35 to 45", and the others are "over 45". Users of exactly 45
    years, whom the data do not distinguish from those of 46 to 49, are therefore "over 45" here,
    but "35 to 45" in MovieLens 100K. The data do not permit a correction of this difference of one
    year.

    Source: Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """

    name = "ml-1m"
    layouts = (("ratings.dat", "users.dat", "movies.dat"), PAIRS_ONLY)

    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """Reads the users, the movies, and the ratings or the pairs of user and movie."""
        people, films, rated = (
            Delimited.of(source, name, whole=True, separator="::", width=width, encoding="latin-1")
            for name, width in (("users.dat", 5), ("movies.dat", 3), ("ratings.dat", 4))
        )
        alone = layout == PAIRS_ONLY
        return assemble(
            f"{self.name} (pairs only)" if alone else self.name,
            users(people, **TRAITS),
            movies(films, Genres(at=2, names=GENRES)),
            _pairs(source) if alone else Pairs.of(rated, STARS),
        )


def _pairs(source: Source) -> Pairs:
    """Reads the columns userID and movieID of interactions.parquet."""
    place = source.place(PAIRS_ONLY[0])
    data = in_arrow(b"".join(source.blocks(PAIRS_ONLY[0], whole=True)))
    file = Batches(place=place, read=partial(of_parquet, [data]))
    names = file.names()
    wanted: dict[str, tuple[int, str]] = {}
    for role, name in PAIR_COLUMNS.items():
        what = f"column {name} of integers without gaps"
        if name not in names:
            raise broken(place, f"a {what}", "no such column")
        wanted[role] = names.index(name), what
    pairs = Pairs.of(file, wanted)
    if pairs.users.texts or pairs.items.texts:
        raise broken(place, "columns of integers", "texts")
    return pairs
