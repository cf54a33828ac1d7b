"""Tables of attribute inference: each attacker on the whole change of the model, as it was sent.

The adversary has what the paper gives it, the raw change of all parameters of one round's senders
and the attribute of a share zeta of them, and nothing else: no other attribute, no other reading.
The round is the last of the training whose Hit@20 is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import RAW, Condensed, condense
from fedrec_auditor.attacks.parts.supervised import SupervisedAttack
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.games.class_metrics import MACRO, NOT_ASKED, Guesses, estimates
from fedrec_auditor.auditor.metrics import Estimate
from fedrec_auditor.auditor.reproductions.measurable import Measurable
from fedrec_auditor.auditor.reproductions.trained import CONFIDENCE
from fedrec_auditor.auditor.utility.baselines import popularity
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.reports.rows import ReproducedRow, UtilityRow
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.declarations.printed import PrintedTable
from fedrec_auditor.targets.systems.base import Evaluation, Model, Target
from fedrec_auditor.targets.systems.federated import Federated

ATTACKERS = {
    "AIA": "attribute-mlp",
    "DT": "attribute-tree",
    "SVC": "attribute-svc",
    "KNN": "attribute-knn",
}
AVERAGES = (MACRO, "micro F1", "weighted F1")
_DRAWS, _QUICK_DRAWS = 10, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One printed F1: of a table, for an attribute, an attacker and a share of known users."""

    place: str
    attribute: str
    attacker: str
    share: float
    printed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedSystem:
    """A system, and what is printed of attacks on it on one data set.

    ``settings`` are how it is trained. ``hits`` is its Hit@20 by the tables that have it.
    ``components`` says that each component of the upload is attacked by itself as well, which the
    paper draws in Figure 4.
    """

    target: str
    method: str
    data: str
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    cells: Sequence[Cell]
    hits: Mapping[str, float] = field(default_factory=dict)
    components: bool = False
    said: str = ""

    def part(self) -> Measurable:
        """The training and all attacks on it."""
        return Measurable(
            name=f"{self.method} {self.data}", data=self.data, measure=partial(_measured, self)
        )


def parts(paper: Paper) -> Iterator[Measurable]:
    """The attacked trainings of a paper, one a row and data set."""
    for attacked in paper.printed.attacked:
        for data in attacked.data:
            for row in attacked.rows:
                tables = [
                    table
                    for table in paper.printed.table
                    if row in table.rows and table.data.lower() == data
                ]
                yield AttackedSystem(
                    target=tables[0].of(row)[0],
                    method=row,
                    data=data,
                    settings=attacked.settings,
                    cells=[cell for table in tables for cell in _cells(table, row)],
                    hits={
                        table.place: table.row(row)["HR@20"]
                        for table in tables
                        if "HR@20" in table.columns
                    },
                    components=row in attacked.components,
                    said=attacked.said,
                ).part()


def _cells(table: PrintedTable, row: str) -> Iterator[Cell]:
    """The printed F1 scores of a row of a table, none where the table has none."""
    for column, value in table.row(row).items() if table.attribute else ():
        attacker, share = column.split()
        yield Cell(
            place=table.place,
            attribute=table.attribute,
            attacker=attacker,
            share=float(share),
            printed=value,
        )


def remarks(rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Which average fits, and whether what is printed beats guessing the frequent class."""
    cells = [row for row in rows if row.printed is not None and "zeta" in row.what]
    if not cells:
        return
    yield (
        "AIA is the paper's network on the coordinates of the change in the span of the known "
        "users' (attribute-mlp), for speed; the other attackers read the change as it is."
    )
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
            rows += [
                drawn.row(
                    one,
                    Cell(
                        place="Figure 4",
                        attribute=key,
                        attacker="AIA",
                        share=share,
                        printed=None,
                    ),
                    part,
                    of=f", {group} only",
                )
                for key in ("age_group", "gender")
                for share in (0.1, 0.2)
            ]
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
    """Hit@20 over all items of the first item held out, the other's and popularity's beside."""
    popular = Model(arrays={"met": popularity(held["random"].train)})
    first, *others = held

    def hit(which: str, of: Target, by: Model) -> UtilityRow:
        rows = held[which].evaluate(of, by, confidence=CONFIDENCE, rng=rng)
        return next(row for row in rows if (row.metric, row.protocol) == ("HR@20", "all items"))

    row = hit(first, target, model)
    beside = {"random": row.random, "popularity": hit(first, _Popularity(), popular).value}
    for which in others:
        beside[f"{which} item"] = hit(which, target, model).value
        beside[f"popularity, {which} item"] = hit(which, _Popularity(), popular).value
    ((place, printed),) = one.hits.items() or (("Figure 5", None),)
    return ReproducedRow(
        place=place,
        system=one.method,
        what=f"Hit@20, {first} of all items, {one.data}",
        printed=printed,
        value=row.value,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        beside=beside,
        note=one.said,
    )


@dataclass(frozen=True, kw_only=True)
class _Popularity(Federated):
    """What recommends to everybody the items that most users ``met``."""

    reported = ()
    evaluation = Evaluation(cutoffs=(20,))

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        """The same for all users, (len(users), n_items)."""
        met = model.arrays["met"]
        return np.broadcast_to(met, (len(users), len(met)))


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
        attack: SupervisedAttack = FAMILIES["attacks"].member(ATTACKERS[cell.attacker])()
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
