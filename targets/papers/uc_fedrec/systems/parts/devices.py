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
class Trained:
    """What a local training leaves of n devices.

    User rows (n, d), item tables (n, M, d), which items were ``touched`` (n, M), and the filters,
    by attribute (n, classes, d + 1).
    """

    rows: Floats
    tables: Floats
    touched: Flags
    filters: dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Devices:
    """Which items n devices hold, ``own`` (n, M), and of each attribute their user's category.

    ``codes`` (n,) by attribute, and whether it is ``hidden`` (n,).
    """

    own: Flags
    codes: Mapping[str, Ints]
    hidden: Mapping[str, Flags]

    def take(self, some: Ints) -> Devices:
        """These devices."""
        codes = {name: part[some] for name, part in self.codes.items()}
        hidden = {name: part[some] for name, part in self.hidden.items()}
        return Devices(self.own[some], codes, hidden)

    def train(
        self, rows: Floats, items: Floats, filters: Mapping[str, Floats], how: Steps, coins: Streams
    ) -> Trained:
        """Steps from the users' ``rows`` (n, d), the table ``items`` (M, d) and the ``filters``.

        A device without an own item, or without another, has nothing to train on and sends what it
        was sent. Memory: some tables of items a device.
        """
        n, m = self.own.shape
        held = self.own.sum(axis=1)
        able = (held > 0) & (held < m)
        order = np.argsort(~self.own, axis=1, kind="stable")  # own ones first
        rows = rows.astype(np.float32)
        tables = np.repeat(np.asarray(items, np.float32)[None], n, axis=0)
        told = {name: np.repeat(part[None], n, axis=0) for name, part in filters.items()}
        moving, pace = np.zeros_like(tables), np.zeros_like(rows)
        learning = {name: np.zeros_like(part) for name, part in told.items()}
        touched = np.zeros(self.own.shape, np.bool_)
        device = np.arange(n)[:, None]
        for step in range(how.epochs):
            drawn = coins.fold_in(step).uniform(how.batch * (1 + how.negatives))
            mine = (drawn[:, : how.batch] * held[:, None]).astype(np.int64)
            rest = (drawn[:, how.batch :] * (m - held)[:, None]).astype(np.int64)
            met = np.take_along_axis(order, np.repeat(mine, how.negatives, axis=1), axis=1)
            other = np.take_along_axis(order, (held[:, None] + rest).clip(max=m - 1), axis=1)
            apart = np.einsum("nd,nmd->nm", rows, tables)
            wrong = -expit(apart[device, other] - apart[device, met]) / met.shape[1]
            wrong *= able[:, None]
            weight = _summed(met, wrong, m) - _summed(other, wrong, m)
            for chosen in (met, other):
                touched[device, chosen] = True
            of_row = np.einsum("nm,nmd->nd", weight, tables)
            for name, part in told.items():
                errors = softmax(_scores(part, rows), axis=1)
                classes, hide = part.shape[1], self.hidden[name][:, None]
                errors -= np.where(hide, 1 / classes, np.eye(classes)[self.codes[name]])
                of_row += np.where(hide & able[:, None], _back(part, errors), 0.0)
                change = errors[:, :, None] * np.insert(rows, rows.shape[1], 1, axis=1)[:, None]
                change = np.where((able[:, None] & ~hide)[:, :, None], change, 0.0)
                change *= _shortened(np.sqrt((change**2).sum(axis=(1, 2))), how.clip)[:, None, None]
                learning[name] = MOMENTUM * learning[name] + change
                told[name] = (part - how.rate / SLOWER * learning[name]).astype(np.float32)
            squares = (weight**2).sum(axis=1) * (rows**2).sum(axis=1) + (of_row**2).sum(axis=1)
            scale = _shortened(np.sqrt(squares), how.clip).astype(np.float32)
            moving *= np.float32(MOMENTUM)
            moving += (scale[:, None] * weight).astype(np.float32)[:, :, None] * rows[:, None]
            pace = MOMENTUM * pace + scale[:, None] * of_row
            tables -= np.float32(how.rate) * moving
            rows = (rows - how.rate * pace).astype(np.float32)
        return Trained(rows, tables, touched & able[:, None], told)


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


def _shortened(length: NDArray[Any], most: float) -> NDArray[Any]:
    """By what gradients of these lengths are multiplied, so that none is longer."""
    return np.asarray(most / np.maximum(length, most))
