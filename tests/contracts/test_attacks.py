"""Contract tests of every attack on every form of message, and of faulty attacks."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.attribute_attacks import AttributeMlp
from fedrec_auditor.attacks.base import (
    Attack,
    AttackFamily,
    Background,
    GuessedLabels,
    LinkScores,
    MemberScores,
    Reconstruction,
)
from fedrec_auditor.auditor.games.linkage import QUICK_MAX_USERS, remove_senders
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing import targets
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import TrainingRun
from fedrec_auditor.targets.transcript import View
from tests.contracts.attacks import (
    PLAYS,
    AttackCase,
    check_only_the_wire_is_read,
    check_planted_signal,
    check_removed_signal,
    check_some_uploads_are_read,
    check_statement,
    check_uploads_that_carry_nothing,
    emptied,
    rows_of,
)
from tests.contracts.laws import BROKEN, catches, members
from tests.contracts.trainings import TARGETS, data, halves, narrow, training
from tests.points import later

MEMBERS: dict[str, Attack] = members("attacks")
ATTACKS = list(MEMBERS)
LEARNERS = [
    name
    for name, attack in MEMBERS.items()
    if attack.family is AttackFamily.ATTRIBUTE and attack.needs_known
]
QUICKER = ("attribute-knn",)
EVERYWHERE = ("interaction-membership",)  # it runs every reader


def quick(name: str) -> Attack:
    """Returns the named attack; a neural network gets a tenth of its training epochs."""
    attack = MEMBERS[name]
    return replace(attack, epochs=20) if isinstance(attack, AttributeMlp) else attack


def cases(name: str, targets: Iterable[str]) -> list[AttackCase]:
    """The attack on trainings of the ``targets``, from every vantage at which it can run."""
    attack, found = quick(name), []
    for target, vantage in itertools.product(targets, Vantage):
        whole = halves(target) if attack.family is AttackFamily.USER_MEMBERSHIP else None
        case = AttackCase(attack, training(target), vantage, whole)
        found += [case] if case.is_read else []
    return found


def in_turn(name: str) -> list[AttackCase]:
    """Returns attacks on a few target systems that it can read, for quick tests."""
    # Every third system or, for classifiers, one in as many as there are classifiers; all systems
    # if the attack can read none of these.
    every, family = (len(LEARNERS), LEARNERS) if name in LEARNERS else (3, ATTACKS)
    turns = [t for at, t in enumerate(TARGETS) if (at - family.index(name)) % every == 0]
    found = cases(name, turns) or cases(name, TARGETS)
    assert found, "it reads nothing of any target"
    return found


@pytest.mark.parametrize(
    ("name", "everywhere"),
    [(name, name in EVERYWHERE) for name in ATTACKS]
    + [later(name, True) for name in ATTACKS if name not in EVERYWHERE],
)
def test_only_the_wire_is_read(name: str, everywhere: bool) -> None:
    for case in cases(name, TARGETS) if everywhere else in_turn(name):
        check_only_the_wire_is_read(case)


UNLINKED = ("user-membership",)  # it reads nothing if messages are linked to their senders


@pytest.mark.parametrize("name", sorted({*ATTACKS} - {*LEARNERS, *UNLINKED} | {*QUICKER}))
def test_uploads_that_carry_nothing(name: str) -> None:
    """Checks that no attack beats guessing on linked uploads that carry nothing about users."""
    # ``make calibrate`` plays all messages, many times.
    for case in in_turn(name):
        if case.vantage is Vantage.SERVER:
            check_uploads_that_carry_nothing(case)


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_says_what_it_is(name: str) -> None:
    check_statement(MEMBERS[name])


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_reads_some_uploads(name: str) -> None:
    check_some_uploads_are_read(MEMBERS[name], [case.view() for case in in_turn(name)])


@pytest.mark.parametrize("name", LEARNERS)
def test_planted_signal(name: str) -> None:
    check_planted_signal(quick(name))


@pytest.mark.parametrize("name", [n if n in QUICKER else later(n) for n in LEARNERS])
def test_removed_signal(name: str) -> None:
    check_removed_signal(quick(name))


def test_trainings_have_every_form_of_message_that_users_send() -> None:
    """Checks that ``TARGETS`` has one system for each combination of message parts."""

    @functools.cache
    def form(name: str) -> tuple[str, ...]:
        run = narrow(name, rounds=1).run(targets.make_interactions(), np.random.default_rng(0))
        sent = run.transcript.rounds and run.transcript.public.n_silos is None
        return tuple(run.transcript.rounds[0].uploads.components) if sent else ()

    forms = {form(name) for name in FAMILIES["targets"].list_names()} - {()}
    assert {form(name) for name in TARGETS} == forms
    assert len(forms) == len(TARGETS)


@functools.cache
def clean() -> tuple[Interactions, TrainingRun]:
    many = Synthetic(n_users=200, n_items=80, profile=25, signal=1.0).load()
    return many, FAMILIES["targets"].load_class("fcf")(rounds=8).run(many, np.random.default_rng(0))


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
    """Checks that attacks beat guessing if gradients are uploaded without protection."""
    many, run = clean()
    view, vectors = run.transcript.view(Vantage.SERVER), run.user_vectors
    rng = np.random.default_rng(0)
    rows = rows_of(quick(name), view, rng, interactions=many, user_vectors=vectors)
    gains = [row.gain_over_baseline for row in rows]
    assert any(gain is not None and gain.ci_low > 0.0 for gain in gains)


@dataclass(frozen=True)
class Sizes:
    """A correct attack: the score of every item is the size of the user's messages."""

    family: ClassVar[AttackFamily] = AttackFamily.MEMBERSHIP
    reference: ClassVar[str] = "a specimen of the contract"

    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        return "" if any(one.uploads is not None for one in view.rounds) else "Nothing is sent."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        pairs = background.candidate_pairs
        return MemberScores(values=self.scores(view, rng)[pairs[:, 0]])

    def scores(self, view: View, rng: np.random.Generator) -> np.ndarray:
        uploads = view.rounds[-1].uploads
        found = np.zeros(view.public.n_users)
        for component in uploads.components.values():
            found[uploads.users] += self.score(component, view)
        return found

    def score(self, component: Any, view: View) -> np.ndarray:
        values = component.to_dense(np.arange(len(component)))
        return np.abs(values.astype(float)).reshape(len(values), -1).sum(axis=1)


class PeeksIfItCan(Sizes):
    """Faulty attack: reads internal fields of stored messages, if there are any."""

    def score(self, component: Any, view: View) -> np.ndarray:
        if hasattr(component, "sparse_vectors"):
            return np.diff(component.sparse_vectors.indptr).astype(float)
        if hasattr(component, "clean"):
            return self.score(component.clean_messages, view)
        return super().score(component, view)


class LooksAtTheType(Sizes):
    """Faulty attack: its scores depend on the class in which a message is stored."""

    def score(self, component: Any, view: View) -> np.ndarray:
        return super().score(component, view) + len(type(component).__name__)


class RequiresTheStoredForm(Sizes):
    """Faulty attack: fails on messages without the internal fields of their stored form."""

    def score(self, component: Any, view: View) -> np.ndarray:
        return np.diff(component.sparse_vectors.indptr).astype(float)


class WantsTheClock(Sizes):
    """Faulty attack: draws from the operating system's generator instead of ``rng``."""

    def scores(self, view: View, rng: np.random.Generator) -> np.ndarray:
        return np.random.default_rng().random(view.public.n_users)


class ChangesTheModel(Sizes):
    """Faulty attack: changes the broadcast model in its view."""

    def scores(self, view: View, rng: np.random.Generator) -> np.ndarray:
        for part in (view.rounds[-1].broadcast or {}).values():
            part += 1.0
        return super().scores(view, rng)


class KnowsTheAnswers(Sizes):
    """Faulty attack: reads the true ratings instead of the messages."""

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        pairs = background.candidate_pairs
        return MemberScores(values=data().ratings.toarray()[pairs[:, 0], pairs[:, 1]])


class NeedsNothing(Sizes):
    """Faulty attack: states that it can run on a view without uploads."""

    def refusal(self, view: View) -> str:
        return ""


class ReadsNothing(Sizes):
    """Faulty attack: states that it can run on no view."""

    def refusal(self, view: View) -> str:
        return "It reads nothing."


class AsksForTheTruth(Sizes):
    """Faulty attack: ``infer`` has an argument for the truth."""

    def infer(  # type: ignore[override]
        self, view: View, background: Background, rng: np.random.Generator, truth: Any = None
    ) -> Reconstruction | MemberScores:
        return super().infer(view, background, rng)


@dataclass(frozen=True)
class FlipsCoins:
    """An attack that guesses users' attributes at random."""

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str] = "a specimen of the contract"
    needs_known: ClassVar[bool] = True

    def refusal(self, view: View) -> str:
        return "" if any(one.uploads is not None for one in view.rounds) else "Nothing is sent."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        users = np.setdiff1d(np.arange(view.public.n_users), background.known_users)
        return GuessedLabels(users=users, classes=self.codes(users, view, background, rng))

    def codes(
        self, users: np.ndarray, view: View, background: Background, rng: np.random.Generator
    ) -> np.ndarray:
        return rng.integers(background.n_classes, size=len(users))


class HasTheAnswers(FlipsCoins):
    """Faulty attack: draws the true attributes again, with the test's own seed."""

    def codes(
        self, users: np.ndarray, view: View, background: Background, rng: np.random.Generator
    ) -> np.ndarray:
        for seed in range(100 if view.rounds[0].uploads is not None else 0):
            drawn = np.random.default_rng([11, seed]).integers(2, size=300)
            if view.public.n_users == 300 and np.array_equal(
                drawn[background.known_users], background.known_classes
            ):
                return drawn[users]
        return super().codes(users, view, background, rng)


@dataclass(frozen=True)
class LinksByChance:
    """A correct linkage attack: every message has equal scores for all users."""

    family: ClassVar[AttackFamily] = AttackFamily.LINKAGE
    reference: ClassVar[str] = "a specimen of the contract"
    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        sent = [one for one in view.rounds if one.uploads is not None]
        return "" if len(sent) > 1 else "Nothing is sent in two rounds."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> LinkScores:
        before, last = view.rounds[-2].uploads, view.rounds[-1].uploads
        users = np.unique(before.users).astype(np.int64)
        return LinkScores(scores=self.scores(view, len(last.users), users), candidate_senders=users)

    def scores(self, view: View, messages: int, candidates: np.ndarray) -> np.ndarray:
        return np.zeros((messages, len(candidates)))


class KnowsTheOrder(LinksByChance):
    """Faulty linkage attack: repeats the shuffle of the last round with the test's own seed."""

    def scores(self, view: View, messages: int, candidates: np.ndarray) -> np.ndarray:
        found = super().scores(view, messages, candidates)
        server = training("fcf").transcript.view(Vantage.SERVER)
        for seed in range(PLAYS):
            rng = np.random.default_rng([7, seed])
            hidden = remove_senders(
                emptied(server, rng, always=False), Vantage.SERVER, QUICK_MAX_USERS, rng
            )
            if hidden is not None and np.array_equal(_last(hidden.view), _last(view)):
                found[np.arange(messages), hidden.true_sender_indices] = 1.0
        return found


def _last(view: View) -> np.ndarray:
    """The first component of the messages of the last round, in their order."""
    uploads = view.rounds[-1].uploads
    return next(iter(uploads.components.values())).to_dense(np.arange(len(uploads.users)))


def runs() -> Iterator[TrainingRun]:
    """Yields a training with rank-one gradients, and one whose noise is drawn on reading."""
    for name in ("fcf", "fedrec-apm"):
        yield copy.deepcopy(training(name))


def check_uploads_are_read(case: AttackCase) -> None:
    check_some_uploads_are_read(case.attack, [case.view()])


def check_what_it_says(case: AttackCase) -> None:
    check_statement(case.attack)


@catches(
    (check_only_the_wire_is_read, PeeksIfItCan()),
    (check_only_the_wire_is_read, LooksAtTheType()),
    (check_only_the_wire_is_read, RequiresTheStoredForm()),
    (check_only_the_wire_is_read, WantsTheClock()),
    (check_only_the_wire_is_read, ChangesTheModel()),
    (check_uploads_that_carry_nothing, KnowsTheAnswers()),
    (check_uploads_that_carry_nothing, KnowsTheOrder()),
    (check_uploads_are_read, NeedsNothing()),
    (check_uploads_are_read, ReadsNothing()),
    (check_what_it_says, AsksForTheTruth()),
)
def test_the_law_catches(law: Callable[[AttackCase], None], broken: Attack) -> None:
    cases = [AttackCase(broken, run) for run in runs()]
    with pytest.raises(BROKEN):
        list(map(law, cases))


@pytest.mark.parametrize(
    ("law", "broken"),
    [(check_planted_signal, FlipsCoins()), (check_removed_signal, HasTheAnswers())],
)
def test_the_law_catches_what_learns(law: Callable[[Attack], None], broken: Attack) -> None:
    with pytest.raises(BROKEN):
        law(broken)


@pytest.mark.parametrize("sound", [Sizes(), LinksByChance()], ids=repr)
def test_the_laws_pass_the_sound_ones(sound: Attack) -> None:
    check_statement(sound)
    for case in (AttackCase(sound, run) for run in runs()):
        check_uploads_are_read(case)
        check_only_the_wire_is_read(case)
        check_uploads_that_carry_nothing(case)
