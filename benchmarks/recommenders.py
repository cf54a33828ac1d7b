"""Utility of our learners compared with others' implementations, popularity and two means.

All implementations are trained without protection on the same training data of MovieLens 100K, and
measured by the same code (``auditor.utility``). Figures are means over two seeds.

- *As printed* are the settings of a paper, *learns* the tuned settings (``learns``), if there are
  any. They were tuned on the split of seed 0, which favours them.
- Ranking: NDCG@10 of each user's latest item among 99 items without interaction. For ``fcf-meta``,
  NDCG@20 of held-out users among all items.
- Ratings: RMSE on a held-out tenth.
- Others' implementations are implicit's ALS and BPR, and Surprise's SVD with and without biases.
  They choose among the settings of ``_GRID`` on a split of the training data. They are optional:
  pip install '.[peers]'.
- Some systems learn otherwise than these: parties of ``hfl-local-sgd`` and ``local-only`` train
  alone, ``dp-sgld`` adds Langevin's noise, users of ``lfl-sgdmf`` are fitted once.
- Each of the n devices of ``fmf-lfl`` changes its user embedding by steps that are 1/n of those on
  items. More or longer steps raise the error.
- ``fedgnn`` weights clients equally, but the error weights ratings equally. It has one pseudo item
  here. With its printed thousand, the error is .985 (one seed).
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.auditor.utility import hold_out
from fedrec_auditor.auditor.utility.held_out import HeldOutData
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import HoldOut, Model, UtilityTest

RESULTS = Path(__file__).with_name("RECOMMENDERS.md")
SEEDS = 2
RANKING = UtilityTest(cutoffs=(10,))
NEW_USERS = UtilityTest(split=HoldOut.HELD_OUT_USERS, cutoffs=(20,))
RATINGS = UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())
METRICS = {
    RANKING: ("NDCG@10", "99 sampled negatives"),
    NEW_USERS: ("NDCG@20", "held-out users"),
    RATINGS: ("MSE", "held-out ratings"),
}
# Settings without protection, by target; with negligible protection if it is always on.
_NOISELESS: Mapping[str, Any] = {"noise_multiplier": 0.0}
LEARNERS: Mapping[UtilityTest, Mapping[str, Mapping[str, Any]]] = {
    RANKING: {
        "fedmf": {},
        "f-dpmf": {"protection": {"name": "unprotected"}},
        "fedncf": {},
        "fedlightgcn": {},
        "fedrec": {},
        "bpr-mf": {"flip": "none"},
        "gmf": {"flip": "none"},
        "fcf": {},
        "mf-np": {},
        "lcf-ub": {},
    },
    NEW_USERS: {"fcf-meta": {}},
    RATINGS: {
        "fmf-vfl": {},
        "fmf-hfl": {},
        "fmf-lfl": {},
        "vfl-sgdmf": _NOISELESS,
        "hfl-sgdmf": _NOISELESS,
        "hfl-synsgd": _NOISELESS,
        "lfl-sgdmf": _NOISELESS,
        "hfl-local-sgd": {},
        "local-only": _NOISELESS,
        "dp-sgd-mf": _NOISELESS,
        "dp-sgld": {"epsilon": 1e6},
        "fedgnn": {"noise": 1e-6, "clip": 1e6, "pseudo": 1},
        "fedpergnn": {"epsilon": 1e6},
    },
}
_GRID: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "ALS": {"factors": (8, 16, 32), "alpha": (1.0, 4.0), "regularization": (0.1, 10.0)},
    "BPR": {"factors": (8, 16, 32), "learning_rate": (0.02, 0.05), "iterations": (100, 200)},
    "SVD": {"n_factors": (10, 20), "n_epochs": (30, 90), "reg_all": (0.05, 0.1)},
}
Scores = Callable[[Interactions, NDArray[np.int64]], NDArray[Any]]
Trainer = Callable[[Interactions, int], Scores]


@dataclass(frozen=True)
class ScoringTarget:
    """A function that scores items, with the interface of a system whose utility is measured."""

    scores: Scores
    evaluation: UtilityTest
    name: str = "measured"
    unprotected_name: str = ""
    reported_metrics: tuple[()] = ()

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Returns the scores (len(users), n_items) of all items for these users."""
        return self.scores(interactions, users)


def measure_metric(
    scores: Scores, held: HeldOutData, evaluation: UtilityTest, seed: int
) -> tuple[float, ...]:
    """The metric of ``scores`` on held-out data, and the metric of the baseline.

    The baseline is popularity, or user and item means.
    """
    target: Any = ScoringTarget(scores, evaluation)
    rng = np.random.default_rng(seed)
    rows = held.evaluate(target, Model(), confidence=0.95, rng=rng)
    (row,) = (row for row in rows if (row.metric, row.protocol) == METRICS[evaluation])
    assert row.baseline is not None
    found = row.value, row.baseline.value
    return tuple(np.sqrt(found)) if evaluation is RATINGS else found


def prepare_system(name: str, settings: Mapping[str, Any]) -> Trainer:
    """Returns a function that trains our system ``name`` and returns its scoring function."""
    plan = Plan(settings={name: dict(settings)})

    def fit(train: Interactions, seed: int) -> Scores:
        target = make_target(name, plan)
        model = target.run(train, np.random.default_rng(seed), n_kept_rounds=1).model
        return lambda interactions, users: target.score(model, interactions, users)

    return fit


def prepare_implicit(kind: str) -> Callable[..., Trainer]:
    """Returns a function from settings to a trainer, for ALS or BPR of the package implicit.

    User factors of held-out users are computed from their interactions.
    """
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    def configure(**settings: Any) -> Trainer:
        def fit(train: Interactions, seed: int) -> Scores:
            known = sparse.csr_matrix(train.ratings > 0, dtype=np.float32)
            chosen = AlternatingLeastSquares if kind == "ALS" else BayesianPersonalizedRanking
            model = chosen(random_state=seed, num_threads=1, **settings)
            model.fit(known, show_progress=False)

            def score(interactions: Interactions, users: NDArray[np.int64]) -> NDArray[Any]:
                if interactions is train:
                    return np.asarray(model.user_factors[users] @ model.item_factors.T)
                mine = sparse.csr_matrix(interactions.ratings[users] > 0, dtype=np.float32)
                folded = model.recalculate_user(np.arange(len(users)), mine)
                return np.asarray(folded @ model.item_factors.T)

            return score

        return fit

    return configure


def prepare_surprise(biased: bool) -> Callable[..., Trainer]:
    """Returns a function from settings to a trainer, for SVD of the package Surprise.

    Scores are clipped to 1..5; items without ratings have the mean rating.
    """
    from surprise import SVD, Trainset

    def configure(**settings: Any) -> Trainer:
        def fit(train: Interactions, seed: int) -> Scores:
            table = train.ratings
            places = {number: number for number in range(max(table.shape))}
            by_user, by_item = defaultdict(list), defaultdict(list)
            for user, (start, end) in enumerate(itertools.pairwise(table.indptr)):
                for item, rating in zip(
                    table.indices[start:end], table.data[start:end], strict=True
                ):
                    by_user[user].append((int(item), float(rating)))
                    by_item[int(item)].append((user, float(rating)))
            full = Trainset(by_user, by_item, *table.shape, table.nnz, (1, 5), places, places)
            model = SVD(biased=biased, random_state=seed, **settings).fit(full)
            rated = np.bincount(table.indices, minlength=train.n_items) > 0

            def score(interactions: Interactions, users: NDArray[np.int64]) -> NDArray[Any]:
                found = model.pu[users] @ model.qi.T
                if biased:
                    found += full.global_mean + model.bu[users, None] + model.bi
                return np.where(rated, np.clip(found, 1, 5), full.global_mean)

            return score

        return fit

    return configure


def search_grid(
    kind: Callable[..., Trainer], grid: Mapping[str, tuple[Any, ...]], evaluation: UtilityTest
) -> Trainer:
    """Returns a trainer with the best settings of ``grid``, chosen on a split of its data."""

    def fit(train: Interactions, seed: int) -> Scores:
        inner = hold_out(evaluation, train, np.random.default_rng(seed))
        every = itertools.product(*grid.values())
        choices = [kind(**dict(zip(grid, each, strict=True))) for each in every]
        sign = 1 if evaluation is RATINGS else -1
        return min(
            choices,
            key=lambda each: (
                sign * measure_metric(each(inner.training_data, seed), inner, evaluation, seed)[0]
            ),
        )(train, seed)

    return fit


def list_trainers(evaluation: UtilityTest) -> Iterator[tuple[str, str, Trainer]]:
    """Yields name, settings and trainer of all recommenders for one protocol.

    Settings are "as printed" or "learns" for our systems, and "" for other packages.
    """
    for name, settings in LEARNERS[evaluation].items():
        yield name, "as printed", prepare_system(name, settings)
        if make_target(name, Plan(settings={name: dict(settings)})).tuned_values:
            yield name, "learns", prepare_system(name, {**settings, "learns": True})
    if evaluation is RATINGS:
        for words, biased in (("Surprise, SVD without biases", False), ("Surprise, SVD", True)):
            yield words, "", search_grid(prepare_surprise(biased), _GRID["SVD"], evaluation)
        return
    yield "implicit, ALS", "", search_grid(prepare_implicit("ALS"), _GRID["ALS"], evaluation)
    if evaluation is RANKING:
        yield "implicit, BPR", "", search_grid(prepare_implicit("BPR"), _GRID["BPR"], evaluation)


def format_section(title: str, evaluation: UtilityTest, data: Interactions) -> Iterator[str]:
    """Yields Markdown lines with one row per learner for one protocol."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, list[float]] = defaultdict(list)
    base: list[float] = []
    for seed in range(SEEDS):
        held = hold_out(evaluation, data, np.random.default_rng(seed))
        for name, way, made in list_trainers(evaluation):
            start = time.perf_counter()
            scores = made(held.training_data, seed)
            seconds[f"{name}/{way}"].append(time.perf_counter() - start)
            value, baseline = measure_metric(scores, held, evaluation, seed)
            values[name][way].append(value)
            print(f"{name} {way} {value:.3f} {seconds[f'{name}/{way}'][-1]:.1f} s", flush=True)
        base.append(baseline)
    yield f"## {title}\n"
    yield "| learner | as printed | learns, or others' | time per training |"
    yield "|---|---|---|---|"
    for name, by_way in values.items():
        took = f"{np.median(seconds[f'{name}/learns']):.1f} s" if "learns" in by_way else ""
        cells = [
            f"{np.mean(by_way[w]):.3f}" if w in by_way else "" for w in ("as printed", "learns")
        ]
        if "" in by_way:
            cells = ["", f"{np.mean(by_way['']):.3f}"]
        yield f"| {name} | {' | '.join(cells)} | {took} |"
    blind = "two means" if evaluation is RATINGS else "popularity"
    yield f"| {blind} | | {np.mean(base):.3f} | |\n"


def format_page() -> str:
    """Trains all recommenders, and returns the page with their utility in Markdown."""
    data = load_data("ml-100k")
    parts = [
        format_section("Ranking: NDCG@10", RANKING, data),
        format_section("Ranking for new users: NDCG@20", NEW_USERS, data),
        format_section("Ratings: RMSE", RATINGS, data),
    ]
    lines = itertools.chain.from_iterable(parts)
    return f"# Recommenders\n\n{(__doc__ or '').strip()}\n\n" + "\n".join(lines)


if __name__ == "__main__":
    RESULTS.write_text(format_page(), encoding="utf-8")
