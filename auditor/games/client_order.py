"""The order of the rows in messages of others' devices, by their code on histories made up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts import row_order
from fedrec_auditor.attacks.parts.row_order import DEVIATIONS, SHIFTS, Floats, Ints
from fedrec_auditor.attacks.parts.shadow_reader import (
    FEWEST,
    HELD,
    SECONDS,
    SHADOWS,
    Bits,
    anybody,
    taken_by_code,
)
from fedrec_auditor.targets.transcript import (
    LISTS,
    Broadcast,
    Component,
    DeviceCode,
    Kind,
    RoundView,
    Uploads,
    View,
)

DOUBT = (
    "Messages of the client's code depend on what histories are made up (by {:.1f} standard "
    "errors), and in no order of the rows that was tried do they say of which items: a failure "
    "proves nothing. Give rows=FUNCTION, the rows of items."
)


@dataclass(frozen=True)
class ClientOrder:
    """The rows ``orders[part]`` (M,) of items, of parts of messages whose rows stand otherwise.

    ``doubt`` is a sentence on why attacks without success prove nothing.
    """

    orders: Mapping[str, Ints] = field(default_factory=dict)
    doubt: str = ""

    @classmethod
    def of(cls, view: View) -> Self:
        """The order in a view of messages of others' code; an empty one where none is at hand."""
        client, public, rng = view.public.client, view.public, np.random.default_rng(0)
        sent = [(s.uploads, s.broadcast) for s in view.rounds if s.uploads and not s.in_clear]
        if client is None or not client.others or public.rows is not None or not sent:
            return cls()
        uploads, heard = sent[-1]
        parts = uploads.components
        size = public.n_items + sum(math.prod(part.shape) for part in parts.values())
        if size * FEWEST > HELD or any(part.kind in LISTS for part in parts.values()):
            return cls()
        most = int(min(SHADOWS, HELD // size, SECONDS / max(1e-9, client.seconds)))
        found: dict[str, tuple[Ints | None, float]] = {}
        for count in (FEWEST, max(FEWEST, most)):
            met = anybody(count, public.n_items, client.sizes, rng)

            def sends(some: NDArray[np.intp], met: Bits = met) -> Mapping[str, Component]:
                return client(met[some], heard, rng).components

            try:
                taken, made, _ = taken_by_code(met, sends)
            except InputError:  # readers of messages say why
                return cls()
            for name in parts.keys() & made.keys():
                moved = made[name].dense(np.arange(len(taken))).astype(np.float64)
                if made[name].kind is Kind.MODEL and heard is not None and name in heard:
                    moved -= heard[name]
                found[name] = _order(moved, met[taken], last=count > FEWEST)
            if any(order is not None for order, _ in found.values()):
                break
        own, told = np.arange(public.n_items), max((z for _, z in found.values()), default=0.0)
        known = {name: order for name, (order, _) in sorted(found.items()) if order is not None}
        other = {name: order for name, order in known.items() if not np.array_equal(order, own)}
        return cls(other, "" if known or told < DEVIATIONS else DOUBT.format(told))

    @property
    def assumed(self) -> str:
        """A sentence on the rows; empty where these are the items."""
        said = "; ".join(
            f"{name!r}: {each[0]}, {each[1]}, ..." for name, each in self.orders.items()
        )
        return f"By the client's code items 0, 1, ... stand in the rows of {said}." if said else ""

    def read(self, view: View) -> View:
        """The view with a row per item in these parts, of all models, messages and devices."""
        if not self.orders or view.public.client is None:
            return view
        models = [one.broadcast for one in view.rounds if one.broadcast is not None]
        client = _InOrder(view.public.client, self, models[0] if models else {})
        public = replace(view.public, client=client)
        return replace(view, public=public, rounds=tuple(map(self.at, view.rounds)))

    def at(self, seen: RoundView) -> RoundView:
        """The round with a row per item in these parts."""
        for name, order in self.orders.items():
            seen = seen.at(order, only=name)
        return seen


@dataclass(frozen=True, slots=True)
class _InOrder:
    """Devices' code with a row per item in what it hears and sends; ``first`` is a raw model."""

    code: DeviceCode
    order: ClientOrder
    first: Broadcast
    others: bool = True

    @property
    def seconds(self) -> float:
        return self.code.seconds

    @property
    def sizes(self) -> tuple[int, int]:
        return self.code.sizes

    def __call__(self, met: Any, broadcast: Broadcast | None, rng: np.random.Generator) -> Uploads:
        heard = dict(broadcast or {})
        for name in self.order.orders.keys() & heard.keys() & self.first.keys():
            rows, heard[name] = heard[name], self.first[name].copy()
            heard[name][self.order.orders[name]] = rows
        sent = self.code(met, None if broadcast is None else heard, rng)
        read = self.order.at(RoundView(broadcast=None, uploads=sent)).uploads
        assert read is not None
        return read


def _order(moved: Floats, met: Bits, *, last: bool) -> tuple[Ints | None, float]:
    """The row of each item in messages (n, R, ...) of users who ``met`` (n, M) these, or None.

    By lengths of rows, and by places along the direction in which most vary. And the deviations by
    which messages depend on histories in any order. One is fitted in the ``last`` attempt alone.
    """
    rows = moved.reshape(len(moved), *moved.shape[1:2], -1)
    rows -= rows.mean(axis=0)
    ways = np.linalg.eigh(np.einsum("nrk,nrl->kl", rows, rows))[1][:, -1]
    shown = [np.linalg.norm(rows, axis=2), rows @ ways, -rows @ ways]
    told = max(
        row_order.dependence(each, met) for each in (rows.reshape(len(rows), -1), *shown[:2])
    )
    count, n_items = rows.shape[1], met.shape[1]
    if abs(count - n_items) > SHIFTS[-1]:
        return None, told
    known = sparse.csr_array(met.astype(np.float64))
    units = [row_order.in_standard_units(each, known) for each in shown]
    orders = [row_order.complete(np.arange(n_items) + shift, count) for shift in SHIFTS]
    values = [max(row_order.uniform_support(*each, order) for each in units) for order in orders]
    best = max(range(len(orders)), key=values.__getitem__)
    even, most = values[best]
    plain = most >= (values[0][1] if best else 0.0) + DEVIATIONS
    if not (plain and even) and last and told >= DEVIATIONS:
        fits = [fit for each in units if (fit := row_order.fitted(*each)) is not None]
        if fits:
            return row_order.complete(max(fits, key=lambda fit: fit[1])[0], count), told
    return orders[best] if plain and (even or last) else None, told
