"""Tables of a paper measured again: utility of trained systems, and attacks on their uploads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import RAW, Condensed, condense
from fedrec_auditor.attacks.parts.supervised import SupervisedAttack
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.games.metrics import MACRO, NOT_ASKED, Estimate, Guesses, estimates
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.utility.baselines import popularity
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.reports.record.rows import ReproducedRow, UtilityRow
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.declarations.paper import AttackedRows, Attacks, Paper, TrainedRows
from fedrec_auditor.targets.federated.systems import Federated
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.systems.base import Evaluation, Model, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurable:
    """One training, or one calculation, and the rows it gives.

    ``data`` names the data set that ``measure`` is given, none if it is empty; the boolean asks for
    a quick answer. ``name`` is unique within a reproduction; finished parts are kept by it.
    """

    name: str
    data: str
    measure: Callable[[Interactions | None, np.random.Generator, bool], tuple[ReproducedRow, ...]]


CONFIDENCE = 0.95


def trained_parts(paper: Paper) -> Iterator[Measurable]:
    """The trainings of a paper, one a row and data set."""
    for trained in paper.printed.trained:
        for data in trained.data:
            for row in trained.rows:
                yield _part(paper, trained, row, data)


def _part(paper: Paper, trained: TrainedRows, row: str, data: str) -> Measurable:
    """One training, named so that no other setting has its name."""
    tables = [table for table in paper.printed.table if table.place == trained.place]
    systems = [table.of(row)[0] for table in tables if row in table.rows]
    system = trained.system or next(iter(systems), row)
    printed = {column: value for table in tables for column, value in table.row(row).items()}
    method = trained.method or row
    settings = "".join(f" {key}={value:g}" for key, value in trained.settings.items())
    cut = f" {trained.items} items" if trained.items else ""
    return Measurable(
        name=f"{trained.place} {method} {data}{cut}{settings}",
        data=data,
        measure=partial(measured, trained, system, method, printed),
    )


def measured(
    trained: TrainedRows,
    system: str,
    method: str,
    printed: Mapping[str, float],
    interactions: Interactions | None,
    rng: np.random.Generator,
    quick: bool,
) -> tuple[ReproducedRow, ...]:
    """The printed metrics of the system, or that of the largest K where none is printed."""
    assert interactions is not None
    target: Target = FAMILIES["targets"].member(system)(**trained.settings)
    if quick:
        target = target.shortened(max(1, (target.sizes.rounds or 1) // 10))
    data = Filter(min_rating=trained.min_rating)(interactions)
    data = _cut(data, trained.items, rng) if trained.items else data
    with one_thread():
        held = utility.hold_out(target.evaluation, data, rng)
        model = target.run(held.train, rng, keep=0).model
        found = held.evaluate(target, model, confidence=CONFIDENCE, rng=rng)
    largest = f"@{max(target.evaluation.cutoffs, default=0)}"
    shown = [row for row in found if row.metric in printed] or [
        row for row in found if row.metric.endswith(largest) or row.metric == "MSE"
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
            beside={"random": row.random, **_simpler(row)},
            note=trained.said if number == 0 else "",
        )
        for number, row in enumerate(shown)
    )


def _simpler(row: UtilityRow) -> dict[str, float]:
    """What needs no federated training, by name: popularity, or user and item means."""
    return {} if row.baseline is None else {row.baseline.name: row.baseline.value}


def _cut(interactions: Interactions, items: int, rng: np.random.Generator) -> Interactions:
    """All users, and so many items drawn from those of 60 interactions or more."""
    met = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    enough = np.flatnonzero(met >= 60)
    drawn = np.sort(rng.choice(enough, min(items, len(enough)), replace=False))
    return Interactions.of(
        interactions.ratings[:, drawn], name=f"{interactions.name}, {items:,} items"
    )


# Tables of attribute inference: each attacker on the whole change of the model, as it was sent.
#
# The adversary has what the paper gives it, the raw change of all parameters of one round's senders
# and the attribute of a share zeta of them, and nothing else: no other attribute, no other reading.
# The round is the last of the training whose hits are shown.

AVERAGES = (MACRO, "micro F1", "weighted F1")
_DRAWS, _QUICK_DRAWS = 10, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One F1, ``printed`` or drawn: of an attribute, an attacker and a share of known users."""

    place: str
    attribute: str
    attacker: str
    attack: str
    share: float
    printed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedSystem:
    """A system, and what is printed of attacks on it on one data set.

    ``settings`` are how it is trained. ``hits`` is its printed Hit@``cutoff`` and where it stands.
    ``components`` are the figures for each component of the upload, attacked by itself as well.
    """

    target: str
    method: str
    data: str
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    cells: Sequence[Cell]
    cutoff: int
    hits: tuple[str, float | None]
    components: Sequence[Cell] = ()
    said: str = ""

    def part(self) -> Measurable:
        """The training and all attacks on it."""
        return Measurable(
            name=f"{self.method} {self.data}", data=self.data, measure=partial(_measured, self)
        )


def attacked_parts(paper: Paper) -> Iterator[Measurable]:
    """The attacked trainings of a paper, one a row and data set."""
    if (attacks := paper.printed.attacks) is not None:
        for trained in attacks.trained:
            for data in trained.data:
                for row in trained.rows:
                    yield _system(paper, attacks, trained, row, data).part()


def _system(
    paper: Paper, attacks: Attacks, trained: AttackedRows, row: str, data: str
) -> AttackedSystem:
    """The system of a row, with all that is printed of it on this data set."""
    tables = [t for t in paper.printed.table if row in t.rows and t.data.lower() == data]
    printed = {t.place: t.row(row).get(f"HR@{attacks.cutoff}") for t in tables}
    figure = attacks.components
    return AttackedSystem(
        target=tables[0].of(row)[0],
        method=row,
        data=data,
        settings=trained.settings,
        cells=[
            _cell(attacks, table.place, table.attribute, column, value)
            for table in tables
            if table.attribute
            for column, value in table.row(row).items()
        ],
        cutoff=attacks.cutoff,
        hits=next((hit for hit in printed.items() if hit[1] is not None), (attacks.drawn, None)),
        components=[
            _cell(attacks, figure.place, attribute, column, None)
            for attribute in figure.attributes
            for column in figure.columns
            if row in figure.rows
        ],
        said=trained.said,
    )


def _cell(attacks: Attacks, place: str, attribute: str, column: str, printed: float | None) -> Cell:
    attacker, share = column.split()
    return Cell(
        place=place,
        attribute=attribute,
        attacker=attacker,
        attack=attacks.attackers[attacker],
        share=float(share),
        printed=printed,
    )


def remarks(rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Which average fits, and whether what is printed beats guessing the frequent class."""
    cells = [row for row in rows if row.printed is not None and "zeta" in row.what]
    if not cells:
        return
    for data in dict.fromkeys(row.what.rpartition(", ")[2] for row in cells):
        yield from _compared(data, [row for row in cells if row.what.endswith(data)])


def _compared(data: str, cells: Sequence[ReproducedRow]) -> Iterator[str]:
    """How far ``cells`` of a data set are from the printed ones, and these from guessing."""
    for average in AVERAGES:
        ours = [row.value if average == AVERAGES[0] else row.beside[average] for row in cells]
        apart = np.abs(np.array(ours) - [row.printed or 0.0 for row in cells])
        yield (
            f"{data}: by {average}, ours are {apart.mean():.3f} from the printed ones on average "
            f"(median {np.median(apart):.3f}, {len(cells)} figures)."
        )
    for average in AVERAGES:
        above = sum((row.printed or 0) > row.beside[f"majority, {average}"] for row in cells)
        yield (
            f"{data}: {above} of {len(cells)} printed figures are above the {average} of guessing "
            "the most frequent class for everybody."
        )


def _measured(
    one: AttackedSystem, interactions: Interactions | None, rng: np.random.Generator, quick: bool
) -> tuple[ReproducedRow, ...]:
    assert interactions is not None
    target: Target = FAMILIES["targets"].member(one.target)(**one.settings)
    if quick:
        target = target.shortened(2)
    with one_thread():
        held, train = _held(target, interactions, rng)
        run = target.run(train, rng, keep=1)
        rows = [_hits(one, held, target, run.model, rng)]
        last = run.transcript.view(Vantage.SERVER)
        whole = condense(last)
        drawn = _Known(train, whole, _QUICK_DRAWS if quick else _DRAWS, rng)
        rows += [drawn.row(one, cell, whole.reading(RAW)) for cell in one.cells]
        for group in last.groups if one.components else ():
            part = condense(last.only(group)).reading(RAW)
            rows += [drawn.row(one, cell, part, f", {group} only") for cell in one.components]
    return tuple(rows)


def _held(
    target: Target, interactions: Interactions, rng: np.random.Generator
) -> tuple[dict[str, Held], Interactions]:
    """The latest item of every user, then a random one of the rest; and what is trained on.

    One training answers for both. Data without timestamps have no latest item.
    """
    held: dict[str, Held] = {}
    if interactions.timestamps is not None:
        held["latest"] = utility.hold_out(target.evaluation, interactions, rng)
        interactions = replace(held["latest"].train, timestamps=None)
    held["random"] = utility.hold_out(target.evaluation, interactions, rng)
    return held, held["random"].train


def _hits(
    one: AttackedSystem,
    held: Mapping[str, Held],
    target: Target,
    model: Model,
    rng: np.random.Generator,
) -> ReproducedRow:
    """The hits over all items of the first item held out, the other's and popularity's beside."""
    popular = Model(arrays={"met": popularity(held["random"].train)})
    first, *others = held

    def hit(which: str, of: Target, by: Model) -> UtilityRow:
        rows = held[which].evaluate(of, by, confidence=CONFIDENCE, rng=rng)
        metric = f"HR@{one.cutoff}", "all items"
        return next(row for row in rows if (row.metric, row.protocol) == metric)

    row, by_popularity = hit(first, target, model), _popularity(target.evaluation)
    beside = {"random": row.random, "popularity": hit(first, by_popularity, popular).value}
    for which in others:
        beside[f"{which} item"] = hit(which, target, model).value
        beside[f"popularity, {which} item"] = hit(which, by_popularity, popular).value
    place, printed = one.hits
    return ReproducedRow(
        place=place,
        system=one.method,
        what=f"Hit@{one.cutoff}, {first} of all items, {one.data}",
        printed=printed,
        value=row.value,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        beside=beside,
        note=one.said,
    )


def _popularity(measured: Evaluation) -> Target:
    """What recommends to everybody the items that most users ``met``."""

    class Popularity(Federated):
        reported = ()
        evaluation = measured

        def score(
            self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
        ) -> NDArray[np.float64]:
            met = model.arrays["met"]
            return np.broadcast_to(met, (len(users), len(met)))

    return Popularity()


class _Known:
    """Draws of the senders whose attribute is known: the same for all attackers and components."""

    def __init__(
        self, data: Interactions, whole: Condensed, draws: int, rng: np.random.Generator
    ) -> None:
        self._data, self._draws, self._rng = data, draws, rng
        self._users = whole.inputs[RAW].users.astype(np.int64)
        self._orders = [rng.permutation(len(self._users)) for _ in range(draws)]

    def row(self, one: AttackedSystem, cell: Cell, view: Condensed, of: str = "") -> ReproducedRow:
        """The attacker's F1 by three averages, beside guessing the most frequent class."""
        attribute = self._data.attributes[cell.attribute]
        codes, classes = attribute.codes[self._users], len(attribute.categories)
        count = max(1, round(cell.share * len(self._users)))
        known = [np.sort(order[:count]) for order in self._orders]
        attack: SupervisedAttack = FAMILIES["attacks"].member(cell.attack)()
        labels = attack.infer_each(
            view,
            [
                Background(
                    known=self._users[each],
                    labels=codes[each],
                    n_classes=classes,
                    subjects=self._users,
                )
                for each in known
            ],
            self._rng,
        )
        guessed = np.full((self._draws, len(codes)), NOT_ASKED)
        for draw, found in enumerate(labels):
            guessed[draw, np.searchsorted(self._users, found.users)] = found.codes
        ours = self._estimates(codes, guessed, attribute)
        frequent = np.where(guessed == NOT_ASKED, NOT_ASKED, 0)
        for draw, each in enumerate(known):
            most = np.bincount(codes[each], minlength=classes).argmax()
            frequent[draw][frequent[draw] != NOT_ASKED] = most
        majority = self._estimates(codes, frequent, attribute)
        name = cell.attribute.removesuffix("_group")
        return ReproducedRow(
            place=cell.place,
            system=one.method,
            what=f"{name}, {cell.attacker}, zeta {cell.share:g}, {one.data}{of}",
            printed=cell.printed,
            value=ours[MACRO].value,
            ci_low=ours[MACRO].low,
            ci_high=ours[MACRO].high,
            beside={
                **{average: ours[average].value for average in AVERAGES[1:]},
                **{f"majority, {average}": majority[average].value for average in AVERAGES},
            },
        )

    def _estimates(
        self, codes: NDArray[np.int64], guessed: NDArray[np.int64], attribute: Attribute
    ) -> dict[str, Estimate]:
        guesses = Guesses(truth=codes, guessed=guessed, classes=len(attribute.categories))
        return estimates(guesses, confidence=CONFIDENCE, rng=self._rng)
