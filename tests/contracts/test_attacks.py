"""What every attack must keep: run over all of them, plug-ins included.

A distinguisher scores the outputs of a local game rather than a training; the targets' contract
plays it. Here it only says what it is.
"""

from __future__ import annotations

import copy
import functools
import inspect
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Attack, Background, Family
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.games import attribute, membership, reconstruction
from fedrec_auditor.targets.components import Component, Dense
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Uploads, View
from tests.contracts.targets import brief

GAMES = {
    Family.ATTRIBUTE: attribute,
    Family.MEMBERSHIP: membership,
    Family.RECONSTRUCTION: reconstruction,
}
SEEDS = 8


@functools.cache
def data() -> Interactions:
    return Synthetic(n_users=90, n_items=70, profile=14, signal=1.0).load()


def train(target: Target, interactions: Interactions, rounds: int) -> View:
    run = brief(target, rounds).run(interactions, np.random.default_rng(0))
    view: View = run.transcript.view(Vantage.SERVER)
    return view


def narrow(name: str) -> Target:
    """The target with embeddings of 8 numbers instead of 64: an attack costs as much less."""
    target: Any = FAMILIES["targets"].member(name)()
    if hasattr(target, "learner"):
        target = replace(target, learner=replace(target.learner, dimension=8))
    if hasattr(target, "embedding"):
        target = replace(target, embedding=8, width=16)
    made: Target = target
    return made


@functools.cache
def views() -> dict[str, View]:
    """What the server sees of one training of every target whose users send for themselves.

    One target of all whose messages have the same parts, narrow, for two rounds: what is sent is
    to be of the right form, for the users' part in it is taken out or not looked at.
    """
    found: dict[tuple[str, ...], str] = {}
    for name in FAMILIES["targets"].names():
        view = train(narrow(name), data(), rounds=1)
        uploads = view.rounds[0].uploads if view.rounds else None
        if uploads is not None and view.public.parties is None:
            found.setdefault(tuple(uploads.components), name)
    return {name: train(narrow(name), data(), rounds=2) for name in found.values()}


def make(name: str) -> Attack:
    attack: Attack = FAMILIES["attacks"].member(name)()
    return attack


def reading() -> tuple[str, ...]:
    """The attacks on trainings."""
    return tuple(name for name in FAMILIES["attacks"].names() if make(name).family in GAMES)


def readable() -> list[tuple[str, str]]:
    """All pairs of an attack and a target whose uploads it reads."""
    return [
        (attack, target)
        for attack in reading()
        for target, view in views().items()
        if make(attack).applies(view)
    ]


def background() -> Background:
    codes = data().attributes["gender"].codes
    known = np.arange(0, data().n_users, 3)
    return Background(
        known=known,
        labels=codes[known],
        n_classes=2,
        side=np.eye(3)[data().attributes["age_group"].codes],
        candidates=np.stack([np.arange(90), np.arange(90) % 70], axis=1),
    )


def arrays(guess: Any) -> list[np.ndarray]:
    return [
        value
        for value in (getattr(guess, slot, None) for slot in guess.__slots__)
        if isinstance(value, np.ndarray)
    ]


def messages(view: View) -> list[np.ndarray]:
    return [
        component.dense(np.arange(len(component)))
        for glimpse in view.rounds
        if glimpse.uploads is not None
        for component in glimpse.uploads.components.values()
    ] + [part for glimpse in view.rounds for part in (glimpse.broadcast or {}).values()]


@pytest.fixture(params=reading())
def attack(request: pytest.FixtureRequest) -> Attack:
    return make(request.param)


@pytest.mark.parametrize("name", FAMILIES["attacks"].names())
def test_it_says_what_it_is(name: str) -> None:
    attack = make(name)
    assert attack.family in Family
    assert attack.vantage in Vantage
    assert len(attack.reference) > 10


def test_it_is_never_given_the_truth(attack: Attack) -> None:
    assert list(inspect.signature(attack.infer).parameters) == ["view", "background", "rng"]


def test_it_does_not_apply_where_nothing_was_uploaded(attack: Attack) -> None:
    for view in views().values():
        assert not attack.applies(view.blind())


def test_every_attack_that_reads_trainings_has_a_target() -> None:
    played = {attack for attack, _ in readable()}
    assert played == set(reading())


@pytest.mark.parametrize(("name", "target"), readable())
def test_equal_generators_give_equal_guesses_and_the_view_stays(name: str, target: str) -> None:
    view, known = views()[target], background()
    before, knew = copy.deepcopy(messages(view)), copy.deepcopy(known)
    first, again = (make(name).infer(view, known, np.random.default_rng(4)) for _ in range(2))
    for one, two in zip(arrays(first), arrays(again), strict=True):
        np.testing.assert_array_equal(one, two)
    for one, two in zip(before, messages(view), strict=True):
        np.testing.assert_array_equal(one, two)
    for slot in ("known", "labels", "side", "candidates"):
        np.testing.assert_array_equal(getattr(knew, slot), getattr(known, slot))


def emptied(view: View, rng: np.random.Generator) -> View:
    """The view with uploads that carry nothing of their users: each another's, or coins."""
    cycle = rng.permutation(view.public.n_users)
    order = np.empty_like(cycle)
    order[cycle] = np.roll(cycle, 1)
    coins = view.public.channel is not None
    rounds = []
    for glimpse in view.rounds:
        assert glimpse.uploads is not None
        sent: dict[str, Component] = {
            key: Dense(
                rng.integers(2, size=(len(part), *part.shape), dtype=np.int8)
                if coins
                else part.dense(np.arange(len(part)))
            )
            for key, part in glimpse.uploads.components.items()
        }
        uploads = Uploads(order[glimpse.uploads.users], MappingProxyType(sent))
        rounds.append(replace(glimpse, uploads=uploads))
    public = replace(view.public, channel=BitFlip(0.5, 0.5)) if coins else view.public
    return replace(view, public=public, rounds=tuple(rounds))


@pytest.mark.parametrize(("name", "target"), readable())
def test_uploads_that_carry_nothing_beat_no_baseline(name: str, target: str) -> None:
    """Above its baseline by more than its interval in at most 2.5% of plays (and metrics).

    A play of attribute inference on a whole message includes one on every group of its components,
    and costs as much more: here the whole and single groups take turns.
    """
    attack, view = make(name), views()[target]
    shown = [view]
    if attack.family is Family.ATTRIBUTE and len(view.groups) > 1:
        shown += [view.only(group) for group in view.groups]
    alarms: dict[str, int] = {}
    for seed in range(SEEDS):
        rng = np.random.default_rng([7, seed])
        rows = GAMES[attack.family].play(
            attack,
            emptied(shown[seed % len(shown)], rng),
            data(),
            target=target,
            name=name,
            quick=True,
            confidence=0.95,
            rng=rng,
        )
        assert rows
        for row in rows:
            assert row.ci_low <= row.value <= row.ci_high
            assert row.baseline is not None
            alarms[row.metric] = alarms.get(row.metric, 0) + (row.ci_low > row.baseline)
    # Plays share one data set; still, a count with probability below 1e-4 is no accident.
    limit = stats.binom.isf(1e-4, SEEDS, 0.025)
    assert max(alarms.values()) <= limit, alarms


@pytest.mark.parametrize(("name", "target"), [p for p in readable() if p[1] == "fcf"])
def test_clean_gradients_beat_every_baseline(name: str, target: str) -> None:
    """The control: where everything is uploaded in the clear, no attack stays at chance."""
    many = Synthetic(n_users=400, n_items=100, profile=25, signal=1.0).load()
    rows = GAMES[make(name).family].play(
        make(name),
        train(FAMILIES["targets"].member(target)(), many, rounds=20),
        many,
        target=target,
        name=name,
        quick=True,
        confidence=0.95,
        rng=np.random.default_rng(0),
    )
    assert any(row.baseline is not None and row.ci_low > row.baseline for row in rows)
