"""The attack contract over every member of the family, on every form of message."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from unittest import SkipTest

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


# Attacks that read anything: where no message is linked to its sender, and where all are.
UNLINKED = ("interaction-membership", "interaction-reconstruction", "linkage")
UNLINKED += ("user-membership",)
LINKED = tuple(name for name in ATTACKS if name != "user-membership")


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
    """Every check of every attack, with the targets that it is tried on; some wait for calibration.

    Classifiers share all but the classifier. False alarms are counted here where messages are
    linked, and of the quickest classifier.
    """
    for name, linked, check in product(ATTACKS, (True, False), AttackContract.laws):
        counted = check is check_uploads_that_carry_nothing
        slow = not linked or (name in LEARNERS and name not in QUICKER)
        if name not in (LINKED if linked else UNLINKED):
            continue
        if check is check_uploads_are_needed and not linked:
            continue
        now = [
            target
            for target in TARGETS
            if in_turn(name, target) or (name in EVERYWHERE and not counted)
        ]
        now = [] if counted and slow else now
        said = f"{name}-{'linked' if linked else 'unlinked'}-{check.__name__}"
        further = [target for target in TARGETS if target not in now]
        if now:
            yield pytest.param(name, now, linked, check, id=said)
        if further:
            marks = pytest.mark.calibration
            yield pytest.param(name, further, linked, check, marks=marks, id=f"{said}-further")


@pytest.mark.parametrize(("name", "targets", "linked", "check"), [*played()])
def test_attack_keeps_the_contract(
    name: str, targets: Sequence[str], linked: bool, check: Callable[[AttackCase], None]
) -> None:
    """On every target of whose messages it reads something, and there is one."""
    held = 0
    for target in targets:
        for case in cases(name, target, linked):
            try:
                check(case)
            except SkipTest:
                continue
            except AssertionError as error:
                error.add_note(f"on {target}, seen by the {case.vantage}")
                raise
            held += 1
    assert held, f"{check.__name__} applies to nothing of {targets}"


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


@pytest.mark.parametrize("name", sorted({*ATTACKS} - {*UNLINKED}))
def test_who_reads_nothing_unlinked_reads_nothing_of_any_target(name: str) -> None:
    assert not any(cases(name, target, False) for target in TARGETS)


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
