"""Devices of UC-FedRec: steps of a pairwise loss, and of filters of attributes, many at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.streams import Streams

Flags = NDArray[np.bool_]
MOMENTUM = 0.9
SLOWER = 20  # times are the steps of a filter smaller


@dataclass(frozen=True, slots=True)
class Steps:
    """How a device trains: see ``UcFedRec``."""

    epochs: int
    batch: int
    negatives: int
    rate: float
    clip: float


@dataclass(frozen=True, slots=True)
class TrainedDevices:
    """What a local training leaves of n devices.

    User rows (n, d), the rows of items that were ``touched`` (n, M), one device after the other,
    and the filters, by attribute (n, classes, d + 1).
    """

    rows: Floats
    values: Floats
    touched: Flags
    filters: dict[str, Floats]


@dataclass(frozen=True, slots=True)
class ConsentingDevices:
    """Which items n devices hold, ``own`` (n, M), and of each attribute their user's category.

    ``codes`` (n,) by attribute, and whether it is ``hidden`` (n,).
    """

    own: Flags
    codes: Mapping[str, Ints]
    hidden: Mapping[str, Flags]

    def take(self, some: Ints) -> ConsentingDevices:
        """These devices."""
        codes = {name: part[some] for name, part in self.codes.items()}
        hidden = {name: part[some] for name, part in self.hidden.items()}
        return ConsentingDevices(self.own[some], codes, hidden)

    def train(
        self, rows: Floats, items: Floats, filters: Mapping[str, Floats], how: Steps, coins: Streams
    ) -> TrainedDevices:
        """Steps from the users' ``rows`` (n, d), the table ``items`` (M, d) and the ``filters``.

        A step moves the row of an item along the user's row: with c_s and p_s those of step s, and
        as the momentum sums up, a table is V - rate sum_s g_s c_s p_s. A device without an own
        item, or without another, has nothing to train on. Memory: ``epochs`` numbers a device and
        item.
        """
        m, held, items = self.own.shape[1], self.own.sum(axis=1), np.asarray(items, np.float64)
        able = ((held > 0) & (held < m))[:, None]
        order = np.argsort(~self.own, axis=1, kind="stable")  # own ones first
        told = {name: np.repeat(part[None], len(rows), axis=0) for name, part in filters.items()}
        learning = {name: np.zeros_like(part) for name, part in told.items()}
        weights: list[Floats] = []
        paths: list[Floats] = []
        rows, pace = rows.astype(np.float64), np.zeros(rows.shape)
        touched, device = np.zeros(self.own.shape, np.bool_), np.arange(len(rows))[:, None]
        for step in range(how.epochs):
            drawn = coins.fold_in(step).uniform(how.batch * (1 + how.negatives))
            mine = np.repeat(drawn[:, : how.batch] * held[:, None], how.negatives, axis=1)
            rest = held[:, None] + drawn[:, how.batch :] * (m - held)[:, None]
            met, other = (
                np.take_along_axis(order, each.astype(np.int64).clip(max=m - 1), axis=1)
                for each in (mine, rest)
            )
            touched[device, met] = touched[device, other] = True
            moved = how.rate * gains(step)
            apart = (rows @ items.T).astype(np.float32)
            for far, weight, path in zip(moved, weights, paths, strict=True):
                apart -= (far * (rows * path).sum(axis=1, keepdims=True)).astype(
                    np.float32
                ) * weight
            wrong = expit(apart[device, other] - apart[device, met]) / met.shape[1] * able
            weight = _summed(other, wrong, m) - _summed(met, wrong, m)
            of_row = weight @ items
            for far, before, path in zip(moved, weights, paths, strict=True):
                of_row -= far * np.einsum("nm,nm->n", weight, before)[:, None] * path
            for name, part in told.items():
                errors, hide = softmax(_scores(part, rows), axis=1), self.hidden[name][:, None]
                even = 1 / part.shape[1]
                errors -= np.where(hide, even, np.eye(part.shape[1])[self.codes[name]])
                of_row += _back(part, errors) * (hide & able)
                change = errors[:, :, None] * np.insert(rows, rows.shape[1], 1, axis=1)[:, None]
                change *= (able & ~hide)[:, :, None]
                change *= _shortened((change**2).sum(axis=(1, 2)), how.clip)[:, None, None]
                learning[name] = MOMENTUM * learning[name] + change
                told[name] = part - how.rate / SLOWER * learning[name]
            squares = (weight**2).sum(axis=1) * (rows**2).sum(axis=1) + (of_row**2).sum(axis=1)
            scale = _shortened(squares, how.clip)[:, None]
            weights.append((scale * weight).astype(np.float32))
            paths.append(rows)
            pace = MOMENTUM * pace + scale * of_row
            rows = rows - how.rate * pace
        touched &= able
        owner, item = np.nonzero(touched)
        values = items[item]
        for gain, weight, path in zip(gains(how.epochs), weights, paths, strict=True):
            values -= how.rate * gain * weight[owner, item, None] * path[owner]
        single = {name: part.astype(np.float32) for name, part in told.items()}
        return TrainedDevices(rows.astype(np.float32), values.astype(np.float32), touched, single)


def gains(steps: int) -> NDArray[np.float64]:
    """How often the gradient of each step has been gone along after so many: with momentum."""
    return np.asarray((1 - MOMENTUM ** np.arange(steps, 0, -1)) / (1 - MOMENTUM))


def _summed(items: Ints, values: Floats, count: int) -> Floats:
    """Sums of ``values`` (n, k) by items, (n, count)."""
    keys = items + count * np.arange(len(items))[:, None]
    found = np.bincount(keys.ravel(), values.ravel(), len(items) * count)
    return np.asarray(found.reshape(len(items), count))


def _scores(part: Floats, rows: Floats) -> NDArray[Any]:
    """What a filter (n, c, d + 1) gives of user rows (n, d): a score a category."""
    return np.asarray(np.einsum("ncd,nd->nc", part[:, :, :-1], rows) + part[:, :, -1])


def _back(part: Floats, errors: NDArray[Any]) -> NDArray[Any]:
    """Their derivative by the rows, times ``errors`` (n, c)."""
    return np.asarray(np.einsum("ncd,nc->nd", part[:, :, :-1], errors))


def _shortened(squares: NDArray[Any], most: float) -> NDArray[Any]:
    """By what gradients of these squared lengths are multiplied, so that none is longer."""
    return np.asarray(most / np.maximum(np.sqrt(squares), most))
