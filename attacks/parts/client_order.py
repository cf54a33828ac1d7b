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
from fedrec_auditor.attacks.parts.row_order import (
    DEVIATIONS,
    SHIFTS,
    SPECIAL,
    complete,
    dependence,
    fitted,
    in_standard_units,
    uniform_support,
)
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
    DeviceCode,
    Kind,
    RoundView,
    Uploads,
    View,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ClientOrder:
    """The rows ``orders[part]`` (M,) of items, of parts of messages whose rows stand otherwise.

    ``assumed`` is a sentence on them; ``doubt`` one on why attacks without success prove nothing.
    """

    orders: Mapping[str, Ints] = field(default_factory=dict)
    assumed: str = ""
    doubt: str = ""

    @classmethod
    def of(cls, view: View) -> Self:
        """The order in a view of messages of others' code; an empty one where none is at hand."""
        client, public, rng = view.public.client, view.public, np.random.default_rng(0)
        sent = [one for one in view.rounds if one.uploads is not None and not one.in_clear]
        if client is None or not client.others or public.rows is not None or not sent:
            return cls()
        assert sent[-1].uploads is not None
        parts, heard = sent[-1].uploads.components, sent[-1].broadcast
        size = public.n_items + sum(math.prod(part.shape) for part in parts.values())
        if size * FEWEST > HELD or any(part.kind in LISTS for part in parts.values()):
            return cls()
        most = min(SHADOWS, HELD // size, SECONDS / max(1e-9, client.seconds))
        orders: dict[str, Ints | None] = {}
        told = 0.0
        for count in (FEWEST, max(FEWEST, int(most))):
            every = anybody(count, public.n_items, client.sizes, rng)
            try:
                taken, made, _ = taken_by_code(
                    every,
                    lambda some, every=every: client(every[some], heard, rng).components,
                )
            except InputError:  # readers of messages say why
                return cls()
            met, told = every[taken], 0.0
            for name in parts.keys() & made.keys():
                moved = made[name].dense(np.arange(len(taken))).astype(np.float64)
                if made[name].kind is Kind.MODEL and heard is not None and name in heard:
                    moved -= heard[name]
                orders[name], seen = _order(moved, met, last=count > FEWEST)
                told = max(told, seen)
            if any(order is not None for order in orders.values()):
                break
        known = {name: order for name, order in orders.items() if order is not None}
        own = np.arange(public.n_items)
        other = {name: o for name, o in sorted(known.items()) if not np.array_equal(o, own)}
        assumed = "; ".join(
            f"item 0 is row {order[0]} of {name!r}, item 1 row {order[1]}, and so on"
            for name, order in other.items()
        )
        return cls(
            other,
            assumed and f"By the client's code, {assumed}.",
            ""
            if known or told < DEVIATIONS
            else "Messages of the client's code depend on what histories are made up (by "
            f"{told:.1f} standard errors), and in no order of the rows that was tried do they say "
            "of which items: a failure proves nothing. Give rows=FUNCTION, the rows of items.",
        )

    def read(self, view: View) -> View:
        """The view with a row per item in these parts, of all models, messages and devices."""
        if not self.orders:
            return view
        models = [one.broadcast for one in view.rounds if one.broadcast is not None]
        client = view.public.client
        if client is not None:
            client = _InOrder(client, self, models[0] if models else {})
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
    others: bool = field(default=True, init=False)

    @property
    def seconds(self) -> float:
        return self.code.seconds

    @property
    def sizes(self) -> tuple[int, int]:
        return self.code.sizes

    def __call__(self, met: Any, broadcast: Broadcast | None, rng: np.random.Generator) -> Uploads:
        heard = None if broadcast is None else dict(broadcast)
        for name in self.order.orders.keys() & (heard or {}).keys() & self.first.keys():
            assert heard is not None
            raw = self.first[name].copy()
            raw[self.order.orders[name]] = heard[name]
            heard[name] = raw
        sent = self.order.at(RoundView(broadcast=None, uploads=self.code(met, heard, rng))).uploads
        assert sent is not None
        return sent


def _order(moved: Floats, met: Bits, *, last: bool) -> tuple[Ints | None, float]:
    """The row of each item in messages (n, R, ...) of users who ``met`` (n, M) these, or None.

    By lengths of rows, and by places along the direction in which most vary. And the deviations by
    which messages depend on histories in any order. One is fitted in the ``last`` attempt alone.
    """
    rows = moved.reshape(len(moved), *moved.shape[1:2], -1)
    rows -= rows.mean(axis=0)
    ways = np.linalg.eigh(np.einsum("nrk,nrl->kl", rows, rows))[1][:, -1]
    shown = [np.linalg.norm(rows, axis=2), rows @ ways, -rows @ ways]
    told = max(dependence(each, met) for each in (rows.reshape(len(rows), -1), *shown[:2]))
    count, n_items = rows.shape[1], met.shape[1]
    if abs(count - n_items) > SPECIAL:
        return None, told
    units = [in_standard_units(each, sparse.csr_array(met.astype(np.float64))) for each in shown]
    orders = [complete(np.arange(n_items) + shift, count) for shift in SHIFTS]
    values = [max(uniform_support(*each, order) for each in units) for order in orders]
    best = max(range(len(orders)), key=values.__getitem__)
    even, most = values[best]
    plain = most >= (values[0][1] if best else 0.0) + DEVIATIONS
    if plain and even:
        return orders[best], told
    fits = [fitted(*each) for each in units] if last and told >= DEVIATIONS else []
    order, _ = max((fit for fit in fits if fit is not None), key=lambda f: f[1], default=(None, 0))
    if order is None:
        return orders[best] if plain and last else None, told
    return complete(order, count), told
