"""Whether rows are own items, by their places along the direction of their sender.

The mixture of ``readers.noisy_rows``, steps 3 and 4, fitted by expectation maximisation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts.row_places import LUCK, Places

Parts = dict[int, NDArray[np.float32]]

_STEPS = 30
_ALIKE = 10  # of these, at first, in which all messages have one step and all users one share
_SHARE, _COUNTS = 0.05, 10.0  # of own items among all, at first, and items that it is worth
_FARTHEST = 12.0  # deviations of a place
_MOST = 3  # times that a negative is drawn
_LEVEL = 3.0  # of tilts: one over their variance, at first, anywhere from -1 to 1
_STEEPEST = 0.95  # tilt
_LEAST, _TINY = 1e-6, 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMixture:
    """What messages have in common.

    ``end`` of directions is up, +-1. Users whose mean place is more than ``turned`` deviations up
    are upside down, for more rows move down than up. Steps of messages are normal, of mean ``step``
    and ``variance``; shares of own items beta-distributed, of mean ``share`` and worth ``counts``
    items. ``items`` (M,) are log-odds that a user of mean share met each, and ``tilts`` (M,), from
    -1 to 1, how much farther its own items go than negatives: a model that knows an item to be
    popular leaves little to learn of who met it. ``reach`` (4,) are the steps that a negative goes
    which is drawn 0, 1, 2, and more times: at most as many.
    """

    end: float
    turned: float
    step: float
    variance: float
    share: float
    counts: float
    items: NDArray[np.float64]
    tilts: NDArray[np.float64]
    reach: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Of ``users`` (n,): log-likelihood ``ratio`` (n, M) of own items, and ``shares`` (n,) of them.

    ``fit`` is the log-likelihood of the ``mixture`` that tells them.
    """

    mixture: StepMixture
    users: NDArray[np.int64]
    ratio: NDArray[np.float32]
    shares: NDArray[np.float64]
    fit: float


def learned(
    places: Places, negatives: float, items: NDArray[np.float64] | None = None
) -> StepMixture:
    """What all these messages have in common, by the likeliest end and sides of users.

    That is told while all messages have one step.

    ``items`` (M,) are the log-odds that a user met each, where they are known.
    """
    ends = (1.0, -1.0) if negatives and not places.up else (1.0,)
    turned = (np.inf,) if places.alike else (np.inf, LUCK, 0.0) if places.signed else (0.0,)
    turned = turned if negatives > 1 else (np.inf,)
    firsts = [_first(places, negatives, *way, items) for way in product(ends, turned)]
    fit = partial(fitted, places, negatives, learning=True, known=items is not None)
    likeliest = max(firsts, key=lambda first: fit(first, turns=_ALIKE).fit)
    return fit(likeliest).mixture


def _first(
    places: Places,
    negatives: float,
    end: float,
    turned: float,
    items: NDArray[np.float64] | None,
) -> StepMixture:
    """A step and a share, by the mean and the variance of all places.

    Of s own items among all and q negatives for each, at a step of a, the mean is about
    -(q - 1) s a and the variance, above that of noise, ((q + 1) s + q^2 s^2) a^2 less its square.
    """
    place, share = places.values, _SHARE
    mean = end * float(place.mean(dtype=np.float64))
    excess = max(float(place.var(dtype=np.float64)) - 1, 0.01)
    if negatives > 1 and mean < 0:
        squares = (excess + mean**2) * (negatives - 1) ** 2 / mean**2 - negatives**2
        share = float(np.clip((negatives + 1) / max(squares, _TINY), 0.1 * _SHARE, 5 * _SHARE))
    if items is None:
        items = np.full(place.shape[1], logit(share))
    else:
        share = float(expit(items).mean())
    step = float(np.sqrt(excess / (share * (1 + negatives))))
    return StepMixture(
        end=end,
        turned=turned,
        step=step,
        variance=step**2,
        share=share,
        counts=_COUNTS,
        items=items,
        tilts=np.zeros(len(items)),
        reach=np.arange(_MOST + 1.0),
    )


def fitted(
    places: Places,
    negatives: float,
    mixture: StepMixture,
    *,
    learning: bool = False,
    known: bool = False,
    turns: int = _STEPS,
) -> Told:
    """Each message's step and user's share, by the mixture; itself fitted where it is ``learning``.

    Of which ``items`` and their mean ``share`` stay as they are where they are ``known``.

    A device draws ``negatives`` for each own item among the others. Missing information is counted
    as by Louis (1982): what it leaves uncertain is part of how far users differ.
    """
    users, first, whose = np.unique(places.whose, return_index=True, return_inverse=True)
    if not len(users):
        none = np.zeros((0, places.values.shape[1]), dtype=np.float32)
        return Told(mixture=mixture, users=users, ratio=none, shares=np.zeros(0), fit=0.0)
    place = np.clip(mixture.end * places.values, -_FARTHEST, _FARTHEST)
    if np.isfinite(mixture.turned):
        sizes = np.add.reduceat(np.ones(len(place)), first) * place.shape[1]
        mean = np.add.reduceat(place.sum(axis=1, dtype=np.float64), first) / np.sqrt(sizes)
        place[(mean > mixture.turned)[whose]] *= -1
    steps, shares = np.full(len(place), mixture.step), np.full(len(users), mixture.share)
    items = place.shape[1]
    for turn in range(turns + 1):
        rate = negatives * shares / (1 - shares)
        own, others = _densities(place, steps, rate[whose] if negatives else None, mixture)
        mine, rest = (_total(parts) for parts in (own, others))
        ratio = np.add.reduceat(np.log(mine / rest), first, axis=0)
        prior = mixture.items + (logit(shares) - logit(mixture.share))[:, None]
        odds = ratio + prior.astype(np.float32)
        if turn == turns:
            break
        met = expit(odds)
        weight, moved = np.zeros(len(place)), np.zeros(len(place))
        tilted, level = np.zeros(items), np.full(items, _LEVEL)
        gone = np.full((_MOST + 1, 2), _LEAST)
        long = steps.astype(np.float32)
        for parts, given in ((own, met[whose] / mine), (others, (1 - met)[whose] / rest)):
            for times, density in parts.items():
                if times:
                    chance = given * density
                    far = _farther(times, mixture)
                    weight += np.einsum("tm,m->t", chance, far**2)
                    sums = np.einsum("t,tm->m", long**2, chance)
                    chance *= place
                    moved += np.einsum("tm,m->t", chance, far)
                    along = np.einsum("t,tm->m", long, chance)
                    size, way = mixture.reach[abs(times)], np.sign(times)
                    level += size**2 * sums
                    tilted += size * (along - way * size * sums)
                    if times < 0:
                        straight = 1 - mixture.tilts
                        gone[-times] = [-(straight @ along), straight**2 @ sums]
        held = met.sum(axis=1, dtype=np.float64)
        share = mixture.share
        if learning and not known:
            share = float(np.clip(held.mean() / items, _LEAST, 0.5))
        step, variance, counts = mixture.step, mixture.variance, mixture.counts
        if learning and turn < _ALIKE:
            step = max(float(moved.sum() / (weight.sum() + _TINY)), 0.0)
            variance = step**2
            steps[:], shares[:] = step, share
        else:
            sure = weight + 1 / (variance + _TINY)
            steps = np.maximum((moved + step / (variance + _TINY)) / sure, 0)
            shares = np.clip((held + counts * share) / (items + counts), _LEAST, 0.5)
            if learning:
                step = float(steps.mean())
                variance = float(np.mean((steps - step) ** 2 + 1 / sure))
                doubt = np.mean(met * (1 - met), axis=1) / (share * (1 - share))
                worth = counts + items * np.clip(1 - doubt, 0, 1)
                apart = np.mean((shares - share) ** 2 + shares * (1 - shares) / worth)
                counts = max(share * (1 - share) / float(apart) - 1, 3 / share)
        if learning and negatives:
            if turn >= _ALIKE:
                reach = (gone[:, 0] / np.maximum(gone[:, 1], _TINY)).clip(
                    np.arange(_MOST + 1) > 0, np.arange(_MOST + 1)
                )
                mixture = replace(mixture, reach=reach)
            tilts = np.clip(tilted / level, -_STEEPEST, _STEEPEST)
            mixture = replace(mixture, tilts=tilts)
        if learning:
            each = (met.sum(axis=0, dtype=np.float64) + share / 2) / (len(users) + 0.5)
            met_by = mixture.items if known else logit(np.clip(each, _LEAST, 1 - _LEAST))
            mixture = replace(
                mixture, step=step, variance=variance, share=share, counts=counts, items=met_by
            )
    given = expit(prior).astype(np.float32)
    fit = np.log1p(given * np.expm1(np.minimum(ratio, 80))).sum(dtype=np.float64)
    fit += np.log(rest).sum(dtype=np.float64) - _LEVEL / 2 * np.square(mixture.tilts).sum()
    return Told(mixture=mixture, users=users, ratio=ratio, shares=shares, fit=float(fit))


def _densities(
    place: NDArray[np.float32],
    steps: NDArray[np.float64],
    rate: NDArray[np.float64] | None,
    mixture: StepMixture,
) -> tuple[Parts, Parts]:
    """Of own items and of others, by how many steps up they went, each (T, M), times its chance.

    Others are drawn ``rate`` (T,) times in the mean; None where only own items move, either way.
    """

    def normal(times: int, chance: NDArray[np.float64] | float) -> NDArray[np.float32]:
        height = np.asarray(chance, dtype=np.float32)
        away = place - steps.astype(np.float32)[:, None] * _farther(times, mixture)
        return np.exp(-(away**2) / 2) * height.reshape(-1, 1)

    if rate is None:
        return {times: normal(times, 0.5) for times in (1, -1)}, {0: normal(0, 1.0)}
    drawn = [rate**k * np.exp(-rate) / factorial(k) for k in range(_MOST)]
    drawn.append(1 - np.sum(drawn, axis=0))
    return {1: normal(1, 1.0)}, {-k: normal(-k, chance) for k, chance in enumerate(drawn)}


def _farther(times: int, mixture: StepMixture) -> NDArray[np.float32]:
    """By how many steps a row goes up, (M,), that goes up ``times``: of rows that go down fewer."""
    far = np.sign(times) * mixture.reach[abs(times)] * (1 + np.sign(times) * mixture.tilts)
    return np.asarray(far, dtype=np.float32)


def _total(parts: Parts) -> NDArray[np.float32]:
    return np.asarray(np.sum(list(parts.values()), axis=0) + np.float32(_TINY), np.float32)
