"""Reproduces a paper's tables: trains systems and measures their utility and the success of attacks
on their uploads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import RAW, ViewWithInputs, add_input_tables
from fedrec_auditor.attacks.parts.supervised import SupervisedAttack
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.games.metrics import (
    MACRO_F1,
    NOT_GUESSED_CODE,
    Estimate,
    Guesses,
    estimate_metrics,
)
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.utility.baselines import count_users_per_item
from fedrec_auditor.auditor.utility.held_out import HeldOutData
from fedrec_auditor.reports.record.rows import ReproducedRow, UtilityRow
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Attribute, Filter, Interactions
from fedrec_auditor.targets.declarations.paper import AttackRows, AttackTables, Paper, RetrainedRows
from fedrec_auditor.targets.federated.systems import FederatedSystem
from fedrec_auditor.targets.systems.base import Model, Target, UtilityTest


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPart:
    """One part of a reproduction of a paper's numbers: a training or calculation.

    - ``name``: unique name within a reproduction, under which the finished result is stored.
    - ``data_set``: name of the data set, or an empty string if none is needed.
    - ``compute_rows``: function that computes rows of a table from the data (or None), a random
      generator, and a flag that is true for a shorter run.
    """

    name: str
    data_set: str
    compute_rows: Callable[
        [Interactions | None, np.random.Generator, bool], tuple[ReproducedRow, ...]
    ]


# Confidence of all intervals in reproductions.
INTERVAL_CONFIDENCE = 0.95


def iter_training_parts(paper: Paper) -> Iterator[PaperPart]:
    """Yields the trainings that repeat a paper's utility results, one for each pair of a row in the
    paper's tables and a data set.
    """
    for trained in paper.printed_numbers.trained:
        for data in trained.data:
            for row in trained.rows:
                yield _make_part(paper, trained, row, data)


def _make_part(paper: Paper, trained: RetrainedRows, row: str, data: str) -> PaperPart:
    """One training, with a name that no training with other settings has."""
    tables = [table for table in paper.printed_numbers.table if table.place == trained.place]
    systems = [table.get_system_names(row)[0] for table in tables if row in table.rows]
    system = trained.system or next(iter(systems), row)
    printed = {column: value for table in tables for column, value in table.get_row(row).items()}
    method = trained.method or row
    settings = "".join(f" {key}={value:g}" for key, value in trained.settings.items())
    cut = f" {trained.items} items" if trained.items else ""
    return PaperPart(
        name=f"{trained.place} {method} {data}{cut}{settings}",
        data_set=data,
        compute_rows=partial(train_and_test, trained, system, method, printed),
    )


def train_and_test(
    trained: RetrainedRows,
    system: str,
    method: str,
    printed: Mapping[str, float],
    interactions: Interactions | None,
    rng: np.random.Generator,
    quick: bool,
) -> tuple[ReproducedRow, ...]:
    """Trains a system, and measures its utility by the metrics that the paper prints, one row per
    metric.

    - ``trained``: declaration of the training: its data, its settings, and the table of the paper.
    - ``system``: name of the system in this project.
    - ``method``: name of the system in the paper.
    - ``printed``: values in the paper, by metric.
    - ``interactions``: data to train on; must not be None.
    - ``rng``: source of randomness.
    - ``quick``: whether to train for a tenth of the rounds.
    """
    assert interactions is not None
    target: Target = FAMILIES["targets"].load_class(system)(**trained.settings)
    if quick:
        target = target.limit_rounds(max(1, (target.sizes.rounds or 1) // 10))
    data = Filter(min_rating=trained.min_rating)(interactions)
    data = _sample_items(data, trained.items, rng) if trained.items else data
    with limit_to_one_thread():
        split = utility.hold_out(target.evaluation, data, rng)
        model = target.run(split.training_data, rng, n_kept_rounds=0).model
        rows = split.evaluate(target, model, confidence=INTERVAL_CONFIDENCE, rng=rng)
    largest = f"@{max(target.evaluation.cutoffs, default=0)}"
    # If the paper prints none of the measured metrics: MSE, if measured, and the ranking metrics,
    # such as HR@K, at the largest K.
    reported = [row for row in rows if row.metric in printed] or [
        row for row in rows if row.metric.endswith(largest) or row.metric == "MSE"
    ]
    return tuple(
        ReproducedRow(
            place=trained.place,
            system=method,
            what=f"{row.metric}, {row.protocol}, {data.name}",
            printed=printed.get(row.metric),
            value=row.value,
            ci_low=row.ci_low,
            ci_high=row.ci_high,
            beside={"random": row.random, **_get_baseline(row)},
            note=trained.said if number == 0 else "",
        )
        for number, row in enumerate(reported)
    )


def _get_baseline(row: UtilityRow) -> dict[str, float]:
    """Utility of the baseline without federated training, by the baseline's name; empty if the row
    has no baseline.
    """
    return {} if row.baseline is None else {row.baseline.name: row.baseline.value}


def _sample_items(interactions: Interactions, items: int, rng: np.random.Generator) -> Interactions:
    """Interactions with at most ``items`` items, drawn at random from the items with at least 60
    interactions.
    """
    met = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    enough = np.flatnonzero(met >= 60)
    drawn = np.sort(rng.choice(enough, min(items, len(enough)), replace=False))
    return Interactions.create(
        interactions.ratings[:, drawn], name=f"{interactions.name}, {items:,} items"
    )


# Tables of attribute inference: each attacker sees the whole change of the model, as it was sent.
#
# The adversary has the knowledge that the paper assumes: the change of all parameters by each
# sender of one round, and the attribute to infer for a share zeta of the senders, but no other
# attribute. The round is the last one of the training whose Hit@K is reported.

# Averages of F1 over classes that a result states.
F1_AVERAGES = (MACRO_F1, "micro F1", "weighted F1")
_DRAWS, _QUICK_DRAWS = 10, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScore:
    """One F1 score of an attack that infers an attribute, as in a table or figure of a paper.

    - ``table_name``: name of the table or figure, such as "Table 3".
    - ``attribute``: attribute to infer.
    - ``attacker``: name of the attacker in the paper.
    - ``attack``: name of the corresponding attack of this project.
    - ``known_user_share``: share (zeta in the paper) of users whose attribute the adversary knows.
    - ``printed_f1``: F1 in the paper; None if a figure shows it.
    """

    table_name: str
    attribute: str
    attacker: str
    attack: str
    known_user_share: float
    printed_f1: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedSystem:
    """A system, and the results of attacks on it that a paper prints for one data set.

    - ``target``: name of the system in this project.
    - ``system_in_paper``: name of the system in the paper.
    - ``data_set``: name of the data set.
    - ``settings``: settings of the training.
    - ``upload_scores``: F1 scores of attacks on the whole upload.
    - ``hit_cutoff``: K of the utility metric Hit@K in the paper.
    - ``place_and_hit_rate``: name of the paper's table or figure with Hit@K, and its value; None
      for a figure.
    - ``component_scores``: F1 scores of attacks on each component of the upload by itself.
    - ``note``: sentences for the row of Hit@K in the result.
    """

    target: str
    system_in_paper: str
    data_set: str
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    upload_scores: Sequence[TableScore]
    hit_cutoff: int
    place_and_hit_rate: tuple[str, float | None]
    component_scores: Sequence[TableScore] = ()
    note: str = ""

    def make_part(self) -> PaperPart:
        """Makes one part of the reproduction, which consists of the training of the system and all
        attacks on it.
        """
        name, measure = f"{self.system_in_paper} {self.data_set}", partial(_run_attacks, self)
        return PaperPart(name=name, data_set=self.data_set, compute_rows=measure)


def iter_attack_parts(paper: Paper) -> Iterator[PaperPart]:
    """Yields the trainings on whose uploads a paper reports attacks, one for each pair of a row in
    the paper's tables and a data set.
    """
    if (attacks := paper.printed_numbers.attacks) is not None:
        for trained in attacks.trained:
            for data in trained.data:
                for row in trained.rows:
                    yield _make_system(paper, attacks, trained, row, data).make_part()


def _make_system(
    paper: Paper, attacks: AttackTables, trained: AttackRows, row: str, data: str
) -> AttackedSystem:
    """Collects the results that a paper prints on attacks, for the system in the table row ``row``
    and the data set ``data``.

    - ``attacks``: declaration of the attacks of the paper.
    - ``trained``: declaration of the training that is attacked.
    """
    tables = [t for t in paper.printed_numbers.table if row in t.rows and t.data.lower() == data]
    printed = {t.place: t.get_row(row).get(f"HR@{attacks.cutoff}") for t in tables}
    figure = attacks.components
    return AttackedSystem(
        target=tables[0].get_system_names(row)[0],
        system_in_paper=row,
        data_set=data,
        settings=trained.settings,
        upload_scores=[
            _make_score(attacks, table.place, table.attribute, column, value)
            for table in tables
            if table.attribute
            for column, value in table.get_row(row).items()
        ],
        hit_cutoff=attacks.cutoff,
        place_and_hit_rate=next(
            (hit for hit in printed.items() if hit[1] is not None), (attacks.drawn, None)
        ),
        component_scores=[
            _make_score(attacks, figure.place, attribute, column, None)
            for attribute in figure.attributes
            for column in figure.columns
            if row in figure.rows
        ],
        note=trained.said,
    )


def _make_score(
    attacks: AttackTables, place: str, attribute: str, column: str, printed: float | None
) -> TableScore:
    attacker, share = column.split()
    return TableScore(
        table_name=place,
        attribute=attribute,
        attacker=attacker,
        attack=attacks.attackers[attacker],
        known_user_share=float(share),
        printed_f1=printed,
    )


def compare_with_paper(rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Yields sentences that compare printed F1 scores of attacks (those in the paper) with measured
    scores and with guessing.

    Guessing means the most frequent class for everybody.
    """
    cells = [row for row in rows if row.printed is not None and "zeta" in row.what]
    if not cells:
        return
    for data in dict.fromkeys(row.what.rpartition(", ")[2] for row in cells):
        yield from _compare_scores(data, [row for row in cells if row.what.endswith(data)])


def _compare_scores(data: str, cells: Sequence[ReproducedRow]) -> Iterator[str]:
    """Yields two kinds of sentences on one data set: the mean difference of measured and printed F1
    scores, and the number of printed scores above guessing.

    Guessing means the most frequent class for everybody.
    """
    for average in F1_AVERAGES:
        measured = [row.value if average == MACRO_F1 else row.beside[average] for row in cells]
        apart = np.abs(np.array(measured) - [row.printed or 0.0 for row in cells])
        yield (
            f"{data}: by {average}, ours are {apart.mean():.3f} from the printed ones on average "
            f"(median {np.median(apart):.3f}, {len(cells)} figures)."
        )
    for average in F1_AVERAGES:
        above = sum((row.printed or 0) > row.beside[f"majority, {average}"] for row in cells)
        yield (
            f"{data}: {above} of {len(cells)} printed figures are above the {average} of guessing "
            "the most frequent class for everybody."
        )


def _run_attacks(
    case: AttackedSystem, interactions: Interactions | None, rng: np.random.Generator, quick: bool
) -> tuple[ReproducedRow, ...]:
    assert interactions is not None
    target: Target = FAMILIES["targets"].load_class(case.target)(**case.settings)
    if quick:
        target = target.limit_rounds(2)
    with limit_to_one_thread():
        splits, train = _hold_out(target, interactions, rng)
        run = target.run(train, rng, n_kept_rounds=1)
        rows = [_measure_hits(case, splits, target, run.model, rng)]
        last = run.transcript.view(Vantage.SERVER)
        whole = add_input_tables(last)
        drawn = _KnownUsers(train, whole, _QUICK_DRAWS if quick else _DRAWS, rng)
        rows += [drawn.row(case, cell, whole.with_only_input(RAW)) for cell in case.upload_scores]
        for group in last.group_names if case.component_scores else ():
            part = add_input_tables(last.keep_part_group(group)).with_only_input(RAW)
            name = f", {group} only"
            rows += [drawn.row(case, cell, part, name) for cell in case.component_scores]
    return tuple(rows)


def _hold_out(
    target: Target, interactions: Interactions, rng: np.random.Generator
) -> tuple[dict[str, HeldOutData], Interactions]:
    """Holds out the latest item of every user, then a random item, and returns both splits and the
    remaining data.

    One training serves both splits. Data without timestamps have no latest item, so only the random
    item is held out.
    """
    splits: dict[str, HeldOutData] = {}
    if interactions.timestamps is not None:
        splits["latest"] = utility.hold_out(target.evaluation, interactions, rng)
        interactions = replace(splits["latest"].training_data, timestamps=None)
    splits["random"] = utility.hold_out(target.evaluation, interactions, rng)
    return splits, splits["random"].training_data


def _measure_hits(
    case: AttackedSystem,
    splits: Mapping[str, HeldOutData],
    target: Target,
    model: Model,
    rng: np.random.Generator,
) -> ReproducedRow:
    """Row of Hit@K of the trained ``model`` on the first of ``splits``, with further values of
    Hit@K beside it.

    The further values are for random scores, for the other split, and, on every split, for a
    ranking by popularity.
    """
    popular = Model(arrays={"met": count_users_per_item(splits["random"].training_data)})
    first, *others = splits

    def hit(which: str, of: Target, by: Model) -> UtilityRow:
        rows = splits[which].evaluate(of, by, confidence=INTERVAL_CONFIDENCE, rng=rng)
        metric = f"HR@{case.hit_cutoff}", "all items"
        return next(row for row in rows if (row.metric, row.protocol) == metric)

    row, by_popularity = hit(first, target, model), _make_popularity(target.evaluation)
    beside = {"random": row.random, "popularity": hit(first, by_popularity, popular).value}
    for which in others:
        beside[f"{which} item"] = hit(which, target, model).value
        beside[f"popularity, {which} item"] = hit(which, by_popularity, popular).value
    place, printed = case.place_and_hit_rate
    return ReproducedRow(
        place=place,
        system=case.system_in_paper,
        what=f"Hit@{case.hit_cutoff}, {first} of all items, {case.data_set}",
        printed=printed,
        value=row.value,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        beside=beside,
        note=case.note,
    )


def _make_popularity(train_and_test: UtilityTest) -> Target:
    """A system that recommends to everybody the items with the most users."""

    class Popularity(FederatedSystem):
        reported_metrics = ()
        evaluation = train_and_test

        def score(
            self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
        ) -> NDArray[np.float64]:
            met = model.arrays["met"]
            return np.broadcast_to(met, (len(users), len(met)))

    return Popularity()


class _KnownUsers:
    """Random draws of the users whose attribute the adversary knows. All attackers, and all
    components of the upload, use the same draws.
    """

    def __init__(
        self, data: Interactions, whole: ViewWithInputs, draws: int, rng: np.random.Generator
    ) -> None:
        self._data, self._draws, self._rng = data, draws, rng
        self._users = whole.inputs[RAW].users.astype(np.int64)
        self._orders = [rng.permutation(len(self._users)) for _ in range(draws)]

    def row(
        self, case: AttackedSystem, cell: TableScore, view: ViewWithInputs, of: str = ""
    ) -> ReproducedRow:
        """Result of one attack: F1 by three averages (macro, micro, weighted), and the F1 of
        guessing the most frequent class.

        - ``case``: the attacked system.
        - ``cell``: the score in the paper, with its attacker, attribute and share of known users.
        - ``view``: the messages that the adversary sees, with the inputs of the attack.
        - ``of``: text on the attacked component of the upload; "" for the whole upload.
        """
        attribute = self._data.attributes[cell.attribute]
        codes, classes = attribute.codes[self._users], len(attribute.categories)
        count = max(1, round(cell.known_user_share * len(self._users)))
        known = [np.sort(order[:count]) for order in self._orders]
        attack: SupervisedAttack = FAMILIES["attacks"].load_class(cell.attack)()
        labels = attack.infer_per_background(
            view,
            [
                Background(
                    known_users=self._users[users],
                    known_classes=codes[users],
                    n_classes=classes,
                    subjects=self._users,
                )
                for users in known
            ],
            self._rng,
        )
        guessed = np.full((self._draws, len(codes)), NOT_GUESSED_CODE)
        for draw, found in enumerate(labels):
            guessed[draw, np.searchsorted(self._users, found.users)] = found.classes
        measured = self._estimate_f1(codes, guessed, attribute)
        frequent = np.where(guessed == NOT_GUESSED_CODE, NOT_GUESSED_CODE, 0)
        for draw, users in enumerate(known):
            frequent_class = np.bincount(codes[users], minlength=classes).argmax()
            frequent[draw][frequent[draw] != NOT_GUESSED_CODE] = frequent_class
        majority = self._estimate_f1(codes, frequent, attribute)
        name = cell.attribute.removesuffix("_group")
        return ReproducedRow(
            place=cell.table_name,
            system=case.system_in_paper,
            what=f"{name}, {cell.attacker}, zeta {cell.known_user_share:g}, {case.data_set}{of}",
            printed=cell.printed_f1,
            value=measured[MACRO_F1].value,
            ci_low=measured[MACRO_F1].low,
            ci_high=measured[MACRO_F1].high,
            beside={
                **{average: measured[average].value for average in F1_AVERAGES[1:]},
                **{f"majority, {average}": majority[average].value for average in F1_AVERAGES},
            },
        )

    def _estimate_f1(
        self, codes: NDArray[np.int64], guessed: NDArray[np.int64], attribute: Attribute
    ) -> dict[str, Estimate]:
        n_classes = len(attribute.categories)
        guesses = Guesses(true_classes=codes, class_guesses=guessed, n_classes=n_classes)
        return estimate_metrics(guesses, confidence=INTERVAL_CONFIDENCE, rng=self._rng)
