"""What an unprotected upload gives away is read from it: of every system, from one round."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent

from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.attacks.attribute_attacks import AttributeRows
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.uploads import senders
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import NnSelf, Privrec
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import renamed, scored

DATA = Synthetic(n_users=150, n_items=200, profile=20, signal=1.0).load()
OWN = DATA.ratings.toarray() != 0
POPULATION = Population(n_users=150, n_items=200)
NOISY_OBJECTIVE = {"f-dpmf", "f-gerai", "f-gerai-nl"}
"""Noise in the loss, of which nobody proves an epsilon."""


@cache
def seen(name: str) -> View:
    """One round, seen by the server; of systems that may embed items, with embeddings."""
    target = FAMILIES["targets"].member(name)().shortened(1)
    if isinstance(target, Privrec | NnSelf):
        target = replace(target, item_ids=True)
    transcript = target.run(DATA, np.random.default_rng(0)).transcript
    return transcript.view(Vantage.SERVER)


def unprotected() -> list[str]:
    """Systems of whose interactions the server learns all, from what each user sends."""
    scope, found = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND), []
    for name in FAMILIES["targets"].names():
        event = FAMILIES["targets"].member(name)().event(scope, POPULATION)
        if isinstance(event, NonPrivateDpEvent) and name not in NOISY_OBJECTIVE:
            view = seen(name)
            if view.public.parties is None and any(one.uploads for one in view.rounds):
                found.append(name)
    return found


UNPROTECTED = [
    "dp-privrec",
    "fcf",
    "fcf-meta",
    "fedlightgcn",
    "fedmf",
    "fedncf",
    "fedrec",
    "fmf-lfl",
    "fofl-self",
    "lcf-ub",
    "nn-self",
    "privrec",
]
EMBEDDED = ["dp-privrec", "fedlightgcn", "fedmf", "fedncf", "fedrec", "nn-self", "privrec"]


def test_the_list_is_complete() -> None:
    assert unprotected() == UNPROTECTED


def membership(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all items of every sender, (n, M), and which are their own."""
    users = senders(view)
    return scored(view)[users], OWN[users]


@pytest.mark.parametrize("name", UNPROTECTED)
def test_own_items_are_told_from_others(name: str) -> None:
    values, own = membership(seen(name))
    assert auc(values.ravel(), own.ravel()) > 0.95


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("attribute", ["gender", "age_group", "occupation"])
def test_attributes_with_an_embedding_are_read_with_nobody_known(name: str, attribute: str) -> None:
    codes = DATA.attributes[attribute].codes
    classes = len(DATA.attributes[attribute].categories)
    found = AttributeRows().infer(
        seen(name), Background(n_classes=classes), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(found.users, senders(seen(name)))
    np.testing.assert_array_equal(found.codes, codes[found.users])


@pytest.mark.parametrize("name", sorted({*UNPROTECTED} - {*EMBEDDED}))
def test_attributes_without_an_embedding_are_not_guessed(name: str) -> None:
    view = seen(name)
    attack, background = AttributeRows(), Background(n_classes=2)
    if not attack.refusal(view):
        assert not len(attack.infer(view, background, np.random.default_rng(0)).users)


@pytest.mark.parametrize("name", ["fedmf-ldp", "fedmf-apm", "fedrec-gn"])
def test_noise_leaves_no_row_unmoved(name: str) -> None:
    assert AttributeRows().refusal(seen(name))


@pytest.mark.parametrize("name", ["fcf", "fedmf", "fmf-lfl", "privrec"])
def test_what_messages_are_called_does_not_matter(name: str) -> None:
    """The same system, its broadcast and messages renamed, is read as well."""
    view = seen(name)
    np.testing.assert_array_equal(membership(renamed(view))[0], membership(view)[0])
