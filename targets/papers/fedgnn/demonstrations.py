"""Violated claims of FedGNN and of its released code, shown on their own messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.declarations.demonstration import (
    Demonstration,
    DistinguishingGame,
    ReadUploads,
)
from fedrec_auditor.targets.papers.fedgnn.systems.fedgnn import FedGnn
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads

_ITEMS = 4
_SMALL = FedGnn(dimension=2, pseudo=2, rounds=1)


_HELD = ((4.0, 4.0, 0.0, 0.0), (0.0, 4.0, 0.0, 0.0))
_RATED = ((1.0, 0.0, 0.0, 0.0), (5.0, 0.0, 0.0, 0.0))


def _sent(uploads: Uploads) -> NDArray[np.float64]:
    return uploads.components["item"].sent(np.arange(len(uploads.users)))[:, 0].astype(float)


def _first(uploads: Uploads) -> NDArray[np.float64]:
    return uploads.components["gnn.A"].dense(np.arange(len(uploads.users)))[:, 0, 0].astype(float)


def _all(uploads: Uploads) -> NDArray[np.float64]:
    """Signs of all numbers, each as a low rating pushes it."""
    every = np.arange(len(uploads.users))
    items, layer = (uploads.components[n].dense(every) for n in ("item", "gnn.A"))
    return np.asarray(np.sign(items * [1.0, -1.0]).sum((1, 2)) + np.sign(layer).sum((1, 2)))


def _side(
    system: FedGnn | FedPerGnn,
    profiles: tuple[tuple[float, ...], tuple[float, ...]],
    read: Callable[[Uploads], NDArray[np.float64]],
    said: tuple[str, str, str],
    samples: int,
    claim: str,
) -> DistinguishingGame:
    """A claim, against a message under a model of the server's choice.

    That pushes all numbers, or, where only one is looked at, that one: all items are (t, 0) and
    the layer is 0, so that its first entry alone has a gradient.
    """
    number, model = claim in ("29", "30"), _SMALL.pushing(_ITEMS)
    if read is _first:
        model = {"item": model["item"] * np.eye(1, 2), "gnn.A": 0 * model["gnn.A"]}
    return DistinguishingGame(
        system=system,
        population=Population(n_users=2, n_items=_ITEMS),
        worlds=said[:2],
        scope=any_pair(Unit.COORDINATE if number else Unit.USER, Vantage.SERVER, Horizon.ROUND),
        draw=ReadUploads(system=system, histories=profiles, read=read, broadcast=model),
        statistic=said[2],
        samples=samples,
        claim=claim,
    )


def rows(*, samples: int = 4_000) -> Demonstration:
    """A row that is not sent proves that its item was not met; sent rows of all items do not."""
    said = ("item 0 in the history", "item 0 not in the history", "whether row 0 is sent")

    def side(violates: bool) -> DistinguishingGame:
        system = replace(_SMALL, pseudo=2 if violates else _ITEMS)
        return _side(system, _HELD, _sent, said, samples, "29b")

    return Demonstration.of(("29b",), side)


def numbers(*, samples: int = 20_000) -> Demonstration:
    """All numbers of a message together tell more than the budget of one."""
    said = "item 0 rated lowest", "item 0 rated highest"
    system = replace(_SMALL, pseudo=_ITEMS)
    return Demonstration(
        entries=("29c",),
        violation=_side(
            system, _RATED, _all, (*said, "the signs of all 12 numbers"), samples, "29b"
        ),
        control=_side(system, _RATED, _first, (*said, "the layer's first number"), samples, "29"),
    )


def batch(*, samples: int = 20_000) -> Demonstration:
    """One user turns the clipped step of a batch whose noise is that of a mean of 32."""
    said = "item 0 rated lowest", "item 0 rated highest", "the layer's first weight"
    released = FedPerGnn(dimension=2, rounds=1)
    control = replace(_SMALL, norm="l2", pseudo=_ITEMS)
    return Demonstration(
        entries=("30",),
        violation=_side(released, _RATED, _first, said, samples, "30"),
        control=_side(control, _RATED, _first, said, samples, "29"),
    )


DEMONSTRATIONS = {"fedgnn-rows": rows, "fedgnn-numbers": numbers, "fedpergnn-batch": batch}
