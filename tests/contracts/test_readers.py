"""Every reader on every form of message: it tells what it says, of whom it is asked."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.attacks import TARGETS, data, training


def told(found: Evidence) -> set[str]:
    return {f.name for f in fields(found) if getattr(found, f.name) is not None} - {"users"}


def test_all_members_of_the_family_are_asked() -> None:
    asked = {type(reader).__name__ for reader in reading.readers()}
    family = FAMILIES["readers"]
    assert asked == {family.member(name).__name__ for name in family.names()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("vantage", Vantage)
def test_no_two_readers_tell_the_same(target: str, vantage: Vantage) -> None:
    view = training(target).transcript.view(vantage, np.random.default_rng(0))
    users = np.array([3, 17, 40])
    found = [told(reader.read(view, users)) for reader in reading.reading(view)]
    assert sum(map(len, found)) == len(set().union(*found))


@pytest.mark.parametrize("target", TARGETS)
def test_who_else_is_asked_about_changes_nothing(target: str) -> None:
    """A user's evidence is its own; those who sent nothing have none, and priors may differ."""
    view = training(target).transcript.view(Vantage.SERVER)
    few, many = np.array([5, 6, 33]), np.arange(60)
    for reader in reading.reading(view):
        alone, among = reader.read(view, few), reader.read(view, many)
        assert told(alone) == told(among)
        for name in told(alone) & {"log_ratio", "vectors", "ratings"}:
            one, other = getattr(alone, name), getattr(among, name)[few]
            if name == "log_ratio":  # beyond is certain, and rests on the last digits of products
                one, other = np.clip(one, -15.0, 15.0), np.clip(other, -15.0, 15.0)
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_evidence_beside_the_true_prior_lowers_no_ranking(target: str) -> None:
    """Items' own shares rank each user's pairs; ratios added may not make it worse, but by chance.

    A ratio of noise is about 0: one as wide as 2 would cost these users .1 of their AUC.
    """
    view, held = training(target).transcript.view(Vantage.SERVER), data().ratings.toarray() != 0
    users = np.arange(90)[held.any(axis=1)]
    counts = held.sum(axis=0) - held[users]  # without the user itself
    prior = np.log((counts + 0.5) / (len(held) - 0.5 - counts))
    for reader in reading.reading(view):
        ratio = reader.read(view, users).log_ratio
        if ratio is None:
            continue
        odds = prior + np.clip(ratio, -SURE, SURE)
        gains = [auc(odds[k], held[u]) - auc(prior[k], held[u]) for k, u in enumerate(users)]
        error = np.std(gains) / np.sqrt(len(gains))
        assert np.mean(gains) > -3.3 * error - 1e-9, type(reader).__name__


def test_nothing_is_read_where_nothing_is_linked() -> None:
    for target in TARGETS:
        view = training(target).transcript.view(Vantage.SERVER).without_uploads()
        assert not reading.reading(view)
        assert "links no message" in reading.refusal(view)
