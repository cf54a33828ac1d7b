"""What a device of GPFedRec sends, against a plain computation, and what noise does not hide."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.learners.parts.minibatches import Examples, draw_order
from fedrec_auditor.targets.papers.gpfedrec.systems.gpfedrec import GpFedRec
from fedrec_auditor.targets.papers.gpfedrec.systems.parts.private_network import (
    Private,
    Rates,
    train,
)
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from tests.attacks.made import told

_DATA = Synthetic(n_users=40, n_items=150, profile=10).load()
_MANY = Population(n_users=943, n_items=1682)
_NUMBER = Scope.parse("coordinate / any pair / server / round")


def test_a_devices_steps_are_those_of_gradient_descent() -> None:
    """By torch's gradients of the loss of each batch of 3, of one device among three."""
    rng, batch, sizes = np.random.default_rng(0), 3, np.array([5, 7, 2])
    met = rng.random(14) < 0.5
    examples = Examples(np.append(0, sizes.cumsum()), np.arange(14).astype(np.int32), met)
    streams = Streams.spawn(rng, 3)
    begin = [Private.drawn(rng, 3, 8) for _ in range(3)]
    private = Private(**{name: np.stack([one[name] for one in begin]) for name in begin[0]})
    rows, toward = (rng.normal(size=(14, 3)).astype(np.float32) for _ in range(2))
    rates = Rates(network=0.2, user=0.5, item=1.5, pull=0.25)
    state = {f.name: torch.tensor(getattr(private, f.name)[1]) for f in fields(private)}
    state["table"] = torch.tensor(rows[5:12])
    target = torch.tensor(toward[5:12])
    order = draw_order(streams, sizes, 0)[1, :7]
    for first in range(0, 7, batch):
        some = order[first : first + batch]
        now = {name: part.clone().requires_grad_() for name, part in state.items()}
        hidden = now["table"][some] @ now["of_item"].T + now["of_user"] @ now["user"] + now["bias"]
        for name in ("second", "third"):
            hidden = hidden.relu() @ now[name].T + now[f"{name}_bias"]
        logit = hidden.relu() @ now["out"] + now["level"]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            logit, torch.tensor(met[5:12][some].astype(np.float32))
        )
        # a step of 1.5 on this pulls by .25
        loss = loss + 0.25 / 3.0 * ((now["table"] - target) ** 2).sum()
        loss.backward()
        for name, part in now.items():
            assert part.grad is not None
            rate = {"user": 0.5, "table": 1.5}.get(name, 0.2)
            state[name] = (part - rate * part.grad).detach()
    train(private, rows, toward, examples, batch, rates, streams)
    np.testing.assert_allclose(rows[5:12], state.pop("table"), rtol=1e-4, atol=1e-5)
    for name, part in state.items():
        np.testing.assert_allclose(getattr(private, name)[1], part, rtol=1e-4, atol=1e-5)


def test_a_row_that_nobody_trained_is_where_its_neighbours_pull_it() -> None:
    system = GpFedRec(rounds=3, noise=0.0, batch=20)
    rounds = system.run(_DATA, np.random.default_rng(0)).transcript.rounds
    last = rounds[-1]
    assert last.broadcast is not None
    base = last.broadcast["item"]
    tables = last.uploads.components["item"].dense(np.arange(40))
    ways = last.broadcast["near"] - base
    steps = -(-5 * np.diff(_DATA.ratings.indptr) // 20)
    share = 1 - (1 - system.pull(150)) ** steps
    gaps = np.abs(tables[:, None] - base - share[:, None, None, None] * ways).max(axis=3)
    still = gaps.min(axis=1) < 1e-5
    trained = 5 * np.diff(_DATA.ratings.indptr)
    assert ((~still).sum(axis=1) <= trained).all()
    # a network whose last layer is dead moves nothing
    assert (~still).sum() > 0.8 * trained.sum()


@pytest.mark.parametrize(("rounds", "keep"), [(10, None), (30, 2)])
def test_noise_on_what_is_not_bounded_hides_no_history(rounds: int, keep: int | None) -> None:
    """Also where messages of the first round, in which nothing is pulled, are not seen.

    Popularity is known, as in an audit; on six seeds the area is at least .83.
    """
    run = GpFedRec(rounds=rounds).run(_DATA, np.random.default_rng(0), keep=keep)
    view, own = run.transcript.view(Vantage.SERVER), _DATA.ratings.toarray() != 0
    view = replace(view, public=replace(view.public, popularity=own.mean(axis=0)))
    _, found = told(view)
    assert np.mean([auc(found[u], own[u]) for u in range(40)]) > 0.7


def test_the_repair_is_exact_and_its_absence_is_charged() -> None:
    law = GpFedRec(clip=0.1).mechanism(_NUMBER, _MANY)
    assert law is not None
    assert exact_lower_bound(law, _NUMBER).epsilon == pytest.approx(2.0)
    assert GpFedRec().mechanism(_NUMBER, _MANY) is None
    assert GpFedRec().number == np.inf


def test_with_a_clip_no_number_moves_farther() -> None:
    tiny = replace(GpFedRec(rounds=2), clip=0.01, noise=1e-9)
    for one in tiny.run(_DATA, np.random.default_rng(0)).transcript.rounds:
        assert one.broadcast is not None
        moved = one.uploads.components["item"].dense(np.arange(40)) - one.broadcast["item"]
        assert np.abs(moved).max() == pytest.approx(0.01, rel=1e-3)


def test_a_pull_beyond_twice_the_way_is_refused() -> None:
    with pytest.raises(InputError, match="below 2, got"):
        GpFedRec(dimension=4)
