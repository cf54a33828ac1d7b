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
from fedrec_auditor.attacks.attribute_attacks import AttributeMlp
from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing import targets
from fedrec_auditor.auditor.testing.attacks import (
    TARGETS,
    AttackCase,
    AttackContract,
    LearningContract,
    check_removed_signal,
    check_uploads_are_needed,
    check_uploads_that_carry_nothing,
    data,
    halves,
    narrow,
    rows_of,
    training,
)
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Run
from tests.points import later


def make(name: str) -> Any:
    return FAMILIES["attacks"].member(name)()


ATTACKS = FAMILIES["attacks"].names()
LEARNERS = [
    name
    for name in ATTACKS
    if make(name).family is AttackFamily.ATTRIBUTE and make(name).needs_known
]
QUICKER = ("attribute-knn",)
# The first reads few of the targets, the second asks every reader that there is.
EVERYWHERE = ("attribute-rows", "interaction-membership")


def quick(name: str) -> Attack:
    """The attack, a perceptron with a tenth of its epochs: `make calibrate` plays the whole."""
    attack: Attack = make(name)
    return replace(attack, epochs=20) if isinstance(attack, AttributeMlp) else attack


@functools.cache
def cases(name: str, target: str, linked: bool) -> list[AttackCase]:
    """One for the server, or one for every vantage without links from which it reads anything."""
    attack, run = quick(name), training(target)
    if linked:
        return [AttackCase(attack, run, data())]
    trainings = halves(target) if attack.family is AttackFamily.USER_MEMBERSHIP else None
    return [
        AttackCase(attack, run, data(), vantage, trainings)
        for vantage in Vantage
        if vantage is not Vantage.SERVER
        and not attack.refusal(run.transcript.view(vantage, np.random.default_rng(0)))
    ]


def in_turn(name: str, target: str) -> bool:
    """Whether it is the attack's turn: every third target, and of classifiers, each another."""
    turns, family = (len(LEARNERS), LEARNERS) if name in LEARNERS else (3, ATTACKS)
    return (TARGETS.index(target) - family.index(name)) % turns == 0


def played() -> Iterator[Any]:
    """Every check of every attack on every target; some wait for `make calibrate`.

    Classifiers share all but the classifier. False alarms are counted here where messages are
    linked, and of the quickest classifier.
    """
    for name, target, linked, check in product(
        ATTACKS, TARGETS, (True, False), AttackContract.laws
    ):
        counted = check is check_uploads_that_carry_nothing
        slow = not linked or (name in LEARNERS and name not in QUICKER)
        turn = in_turn(name, target)
        later = slow or not turn if counted else not turn and name not in EVERYWHERE
        said = f"{name}-{target}-{'linked' if linked else 'unlinked'}-{check.__name__}"
        if linked or check is not check_uploads_are_needed:
            marks = pytest.mark.calibration if later else ()
            yield pytest.param(name, target, linked, check, marks=marks, id=said)


@pytest.mark.parametrize(("name", "target", "linked", "check"), [*played()])
def test_attack_keeps_the_contract(
    name: str, target: str, linked: bool, check: Callable[[AttackCase], None]
) -> None:
    tried = cases(name, target, linked)
    if not tried:
        pytest.skip("it reads nothing there")
    for case in tried:
        check(case)


def learned() -> Iterator[Any]:
    for name, check in product(LEARNERS, LearningContract.laws):
        later = check is check_removed_signal and name not in QUICKER
        marks = pytest.mark.calibration if later else ()
        yield pytest.param(name, check, marks=marks, id=f"{name}-{check.__name__}")


@pytest.mark.parametrize(("name", "check"), [*learned()])
def test_learning_attack_keeps_the_contract(name: str, check: Callable[[Attack], None]) -> None:
    check(quick(name))


def test_trainings_have_every_form_of_message_that_users_send() -> None:
    """One target of all whose messages have the same parts."""

    @functools.cache
    def form(name: str) -> tuple[str, ...]:
        run = narrow(name, rounds=1).run(targets.data(), np.random.default_rng(0))
        sent = run.transcript.rounds and run.transcript.public.parties is None
        return tuple(run.transcript.rounds[0].uploads.components) if sent else ()

    forms = {form(name) for name in FAMILIES["targets"].names()} - {()}
    assert {form(name) for name in TARGETS} == forms
    assert len(forms) == len(TARGETS)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_that_reads_trainings_meets_a_target(name: str) -> None:
    views = (
        training(target).transcript.view(vantage)
        for target in TARGETS
        if in_turn(name, target) or name in EVERYWHERE
        for vantage in (Vantage.SERVER, Vantage.RELEASE)
    )
    assert any(not make(name).refusal(view) for view in views)


@functools.cache
def clean() -> tuple[Interactions, Run]:
    many = Synthetic(n_users=200, n_items=80, profile=25, signal=1.0).load()
    return many, FAMILIES["targets"].member("fcf")(rounds=8).run(many, np.random.default_rng(0))


@pytest.mark.parametrize(
    "name",
    [
        *QUICKER,
        *map(later, sorted({*LEARNERS} - {*QUICKER})),
        "interaction-reconstruction",
        "interaction-membership",
        "linkage",
    ],
)
def test_clean_gradients_beat_every_baseline(name: str) -> None:
    """The control: where everything is uploaded in the clear, no attack stays at chance."""
    many, run = clean()
    view, told = run.transcript.view(Vantage.SERVER), run.user_vectors
    rng = np.random.default_rng(0)
    rows = rows_of(quick(name), view, rng, interactions=many, user_vectors=told)
    assert any(row.ahead is not None and row.ahead.ci_low > 0.0 for row in rows)
