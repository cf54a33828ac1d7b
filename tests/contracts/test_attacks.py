"""The attack contract over every member of the family, on every form of message."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.attribute_mlp import AttributeMlp
from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.attacks.gradient_inversion import GradientInversion
from fedrec_auditor.auditor.games.attack_games import ATTACK_GAMES
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.attacks import (
    CHECKS,
    LEARNING_CHECKS,
    TARGETS,
    AttackCase,
    check_uploads_are_needed,
    check_uploads_that_carry_nothing,
    data,
    halves,
    narrow,
    training,
)
from fedrec_auditor.reports.rows import AttackRow
from fedrec_auditor.targets.datasets.synthetic import Synthetic


def make(name: str) -> Any:
    return FAMILIES["attacks"].member(name)()


ATTACKS = FAMILIES["attacks"].names()
LEARNERS = [
    name
    for name in ATTACKS
    if make(name).family is AttackFamily.ATTRIBUTE and make(name).needs_known
]
QUICKER = ("attribute-knn", "attribute-tree")


def played(*, linked: bool) -> Iterator[Any]:
    """Every check of every attack on every target; some wait for `make calibrate`.

    Classifiers share all but the classifier: each target meets one of them here. False alarms are
    counted here where messages are linked, and of the quicker two classifiers.
    """
    for name, (place, target), check in product(ATTACKS, enumerate(TARGETS), CHECKS):
        later = name in LEARNERS and (place - LEARNERS.index(name)) % len(LEARNERS)
        counted = check is check_uploads_that_carry_nothing
        slow = not linked or (name in LEARNERS and name not in QUICKER)
        marks = pytest.mark.calibration if later or (counted and slow) else ()
        yield pytest.param(name, target, check, marks=marks, id=f"{name}-{target}-{check.__name__}")


def quick(name: str) -> Attack:
    """The attack, a perceptron with a tenth of its epochs: `make calibrate` plays the whole."""
    attack: Attack = make(name)
    if isinstance(attack, GradientInversion):
        return replace(attack, most=2)
    return replace(attack, epochs=20) if isinstance(attack, AttributeMlp) else attack


@pytest.mark.parametrize(("name", "target", "check"), [*played(linked=True)])
def test_attack_keeps_the_contract(
    name: str, target: str, check: Callable[[AttackCase], None]
) -> None:
    check(AttackCase(quick(name), training(target), data()))


@pytest.mark.parametrize("check", LEARNING_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", LEARNERS)
def test_learning_attack_keeps_the_contract(name: str, check: Callable[[Attack], None]) -> None:
    check(quick(name))


@pytest.mark.parametrize(("name", "target", "check"), [*played(linked=False)])
def test_attack_keeps_the_contract_where_no_message_is_linked(
    name: str, target: str, check: Callable[[AttackCase], None]
) -> None:
    attack, run = quick(name), training(target)
    seen = [
        vantage
        for vantage in Vantage
        if vantage is not Vantage.SERVER
        and not attack.refusal(run.transcript.view(vantage, np.random.default_rng(0)))
    ]
    whole = attack.family is AttackFamily.USER_MEMBERSHIP
    if not seen or check is check_uploads_are_needed:
        pytest.skip("it reads nothing there")
    for vantage in seen:
        check(AttackCase(attack, run, data(), vantage, halves(target) if whole else None))


def test_trainings_have_every_form_of_message_that_users_send() -> None:
    """One target of all whose messages have the same parts."""

    @functools.cache
    def form(name: str) -> tuple[str, ...]:
        run = narrow(name, rounds=1).run(data(), np.random.default_rng(0))
        sent = run.transcript.rounds and run.transcript.public.parties is None
        return tuple(run.transcript.rounds[0].uploads.components) if sent else ()

    forms = {form(name) for name in FAMILIES["targets"].names()} - {()}
    assert {form(name) for name in TARGETS} == forms
    assert len(forms) == len(TARGETS)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_that_reads_trainings_has_a_target(name: str) -> None:
    views = (
        training(target).transcript.view(vantage)
        for target in TARGETS
        for vantage in (Vantage.SERVER, Vantage.RELEASE)
    )
    assert any(not make(name).refusal(view) for view in views)


@pytest.mark.parametrize(
    "name",
    [
        *LEARNERS,
        "interaction-reconstruction",
        "interaction-membership",
        "linkage",
    ],
)
def test_clean_gradients_beat_every_baseline(name: str) -> None:
    """The control: where everything is uploaded in the clear, no attack stays at chance."""
    many = Synthetic(n_users=400, n_items=100, profile=25, signal=1.0).load()
    run = FAMILIES["targets"].member("fcf")(rounds=20).run(many, np.random.default_rng(0))
    game = Game(
        target="fcf",
        name=name,
        attack=make(name),
        view=run.transcript.view(Vantage.SERVER),
        interactions=many,
        user_vectors=run.user_vectors,
        quick=True,
        confidence=0.95,
        rng=np.random.default_rng(0),
    )
    rows = [row for row in ATTACK_GAMES[make(name).family](game) if isinstance(row, AttackRow)]
    assert any(row.baseline is not None and row.ci_low > row.baseline for row in rows)
