"""Rows of others' messages in another order than the items, found by the devices' code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fedrec_auditor import audit_system
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.auditor.games.row_order import ClientOrder
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.severity import Severity
from fedrec_auditor.targets.transcript import RoundView
from tests.attacks.parts.test_shadow_reader import ITEMS, USERS, Device, Parts, histories, view

OWN = np.arange(ITEMS)
MIXED = np.random.default_rng(5).permutation(ITEMS)
PAIRS = OWN ^ 1  # each item in its neighbour's row


def vector(rows: NDArray[np.intp], count: int = ITEMS) -> Callable[..., Parts]:
    """A noisy 1 in the row of each item met."""

    def message(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
        sent = 0.3 * rng.normal(size=count)
        sent[rows[items]] += 1.0
        return {"values": sent}

    return message


def table(rows: NDArray[np.intp], count: int = ITEMS) -> Callable[..., Parts]:
    """Rows moved anywhere of the items met, among noise."""

    def message(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
        sent = 0.3 * rng.normal(size=(count, 4))
        sent[rows[items]] += rng.normal(size=(len(items), 4))
        return {"item": sent}

    return message


@pytest.mark.parametrize(
    ("form", "rows", "count"),
    [
        (vector, MIXED, ITEMS),
        (vector, PAIRS, ITEMS),
        (vector, np.roll(OWN, -1), ITEMS),  # one off, around the end
        (vector, OWN + 1, ITEMS + 1),  # a padding row
        (table, PAIRS, ITEMS),
        (table, MIXED + 2, ITEMS + 3),
    ],
)
def test_rows_in_another_order_are_read_as_the_items(
    form: Callable[..., Callable[..., Parts]], rows: NDArray[np.intp], count: int
) -> None:
    seen = view(Device(form(rows, count), seconds=0.0))
    found = ClientOrder.of(seen)
    ((name, order),) = found.orders.items()
    assert order.tolist() == rows.tolist()
    assert f"stand in the rows of {name!r}: {rows[0]}, {rows[1]}, ..." in found.assumed
    assert not found.doubt
    told = reading.evidence(found.read(seen), np.arange(USERS)).log_ratio
    assert told is not None
    assert roc_auc_score(histories().ravel(), told.ravel()) > 0.9


def active(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    return {"values": rng.normal(size=ITEMS) + len(items) * np.sin(OWN)}


def noise(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    return {"values": rng.normal(size=ITEMS)}


@pytest.mark.parametrize("message", [vector(OWN), table(OWN), active, noise])
def test_items_in_their_order_and_messages_of_none_are_left_as_they_are(
    message: Callable[..., Parts],
) -> None:
    """The number of items that a device has met gives no order, and raises no doubt."""
    assert ClientOrder.of(view(Device(message, seconds=0.0))) == ClientOrder()


def test_devices_hear_and_send_models_in_the_order_of_the_items() -> None:
    """With a padding row, which they hear as it was."""
    heard = []
    raw = np.concatenate([[7.0], OWN])[:, None]

    class Listening(Device):
        def __call__(self, met, broadcast, rng):  # type: ignore[no-untyped-def]
            heard.append(broadcast)
            return super().__call__(met, broadcast, rng)

    device = Listening(table(OWN + 1, ITEMS + 1), seconds=0.0)
    seen = view(device)
    rounds = tuple(replace(one, broadcast={"item": raw}) for one in seen.rounds)
    order = ClientOrder({"item": OWN + 1})
    read = order.read(replace(seen, rounds=rounds))
    first: RoundView = read.rounds[0]
    assert first.broadcast is not None
    assert first.broadcast["item"].tolist() == OWN[:, None].tolist()
    assert read.public.client is not None
    sent = read.public.client(histories(), first.broadcast, np.random.default_rng(0))
    assert sent.components["item"].shape == (ITEMS, 4)
    assert heard[-1]["item"].tolist() == raw.tolist()


def test_an_order_that_cannot_be_found_is_not_assessed() -> None:
    """As many rows as no permutation is fitted to: no success proves nothing."""
    count = 2_100
    rows, rng = np.random.default_rng(5).permutation(count), np.random.default_rng(0)

    def client(history, model, rng):  # type: ignore[no-untyped-def]
        sent = np.zeros(count)
        sent[rows[history.items]] = 1.0
        return sent + 0.1 * rng.normal(size=count)

    record = audit_system(
        client,
        data=(rng.random((12, count)) < 0.01).astype(float),
        games=["local"],
        attacks=["interaction-reconstruction"],
        runs=40,
        jobs=1,
        upload_seconds=0.3,
    )
    (glance,) = glances(record)
    assert glance.severity is Severity.NOT_ASSESSED
    told = [row.reason for row in record.skipped if row.attack == "interaction-reconstruction"]
    assert any("a failure proves nothing. Give rows=FUNCTION" in reason for reason in told)
