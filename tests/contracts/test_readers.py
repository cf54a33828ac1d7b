"""Contract tests of every reader, on every form of message that it supports.

A reader turns messages into evidence: log-odds that a user interacted with an item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import choose_sets
from fedrec_auditor.attacks.parts import reading, uploads
from fedrec_auditor.attacks.parts.reading import calibrate
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, Reader, compute_posterior
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradientsReader
from fedrec_auditor.attacks.readers.report_readers import FlippedBitsReader
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets import compute
from fedrec_auditor.targets.components import Component, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import View
from tests.contracts.laws import BROKEN
from tests.contracts.trainings import TARGETS, data, plain, rewritten, training

OTHER_READERS = ("FirstLayerReader", "RatingRowsReader")
UNREAD = ("gd-dr",)
LAST_DIGIT = 2e-7  # twice the precision of float32
TOLERANCE = 0.01  # tolerance of a log-ratio: rounding changes one by at most 2e-4 in all targets
ERRORS = 5.0  # standard errors over users, below which a mean of gains may be chance


@dataclass(frozen=True, eq=False)
class ReaderCase:
    """A reader, and the name of a system whose training it reads as the server."""

    reader: Reader
    target: str

    @property
    def view(self) -> View:
        return training(self.target).transcript.view(Vantage.SERVER)

    @property
    def users(self) -> NDArray[np.int64]:
        return np.arange(data().n_users)


def list_kinds(evidence: Evidence) -> set[str]:
    """Names of the kinds of evidence that are present, such as "log_ratio"."""
    names = {field.name for field in fields(evidence)} - {"users"}
    return {name for name in names if getattr(evidence, name) is not None}


def check_statement(case: ReaderCase) -> None:
    """Checks that a reader has a reference, and states why it cannot run on unlinked messages."""
    assert case.reader.reference, "it has no reference"
    refusal = case.reader.refusal(case.view.drop_uploads())
    assert refusal.endswith("."), f"of no linked messages it says {refusal!r}, and no sentence"


def check_who_else_is_asked_about(case: ReaderCase) -> None:
    """Checks that a user's evidence does not depend on the other users that are asked about."""
    many = case.users
    few = many[5 : len(many) : len(many) // 4 + 1]
    alone, among = case.reader.read(case.view, few), case.reader.read(case.view, many)
    _check_alike(alone, among, few, "who else is asked about")


def check_last_digits(case: ReaderCase) -> None:
    """Checks that rounding of the messages' numbers does not change the evidence."""
    rng, users = np.random.default_rng(0), case.users

    def rounded(part: Component) -> Component:
        if part.kind not in (Payload.CHANGE, Payload.GRADIENT):
            return part
        part = plain(part)
        noise = 1 + LAST_DIGIT * rng.standard_normal(part.values.shape)
        return replace(part, values=(part.values * noise).astype(np.float32))

    before = case.reader.read(case.view, users)
    after = case.reader.read(rewritten(case.view, rounded), users)
    _check_alike(after, before, users, "the last digits of messages")


def check_threads(case: ReaderCase) -> None:
    """Checks that evidence is equal to the bit in any number of threads."""
    with patch.object(uploads, "MAX_BLOCK_NUMBERS", 2**10):  # so that there are many blocks
        before = case.reader.read(case.view, case.users)
        with compute.use_threads(3):
            after = case.reader.read(case.view, case.users)
    for name in list_kinds(before) | list_kinds(after):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def _check_alike(some: Evidence, every: Evidence, users: NDArray[np.int64], what: str) -> None:
    assert list_kinds(some) == list_kinds(every), f"kinds of evidence change with {what}"
    for name in list_kinds(some) & {"log_ratio", "user_vectors", "ratings"}:
        one, other = getattr(some, name), getattr(every, name)[users]
        if name == "log_ratio":  # larger values are certain
            one, other = np.clip(one, -15.0, 15.0), np.clip(other, -15.0, 15.0)
        same = np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)
        assert same, f"{name} of users changes with {what}"


def check_evidence_beside_the_true_prior(case: ReaderCase) -> None:
    """Checks that evidence does not make guesses worse than the items' true popularity alone."""
    held = data().ratings.toarray() != 0
    prior = logit((held.sum(axis=0) + 0.5) / (len(held) + 1))
    evidence = case.reader.read(case.view, case.users)
    assert evidence.log_ratio is not None
    compare_with_the_prior(calibrate(evidence, prior), prior, data())


def compare_with_the_prior(
    evidence: Evidence, prior: NDArray[np.float64], interactions: Interactions
) -> None:
    """Checks that evidence does not make guesses of users' items worse than ``prior`` alone.

    ``prior`` has the log-odds of each item (M,). Guesses are compared by each user's AUC, by log
    score, and by the F1 of the sets of items with the largest expected F1; 5 standard errors are
    allowed.
    """
    assert evidence.log_ratio is not None
    held = interactions.ratings.toarray() != 0
    users = np.flatnonzero(held.any(axis=1) & ~held.all(axis=1))
    nothing = Evidence(
        users=evidence.users,
        log_ratio=np.zeros_like(evidence.log_ratio),
        activity_log_odds=np.zeros(len(held)),
    )
    before, after = (compute_posterior(each, prior)[users] for each in (nothing, evidence))
    for what, score in (("AUC", _areas), ("log score", _log_scores), ("F1", _f1_of_sets)):
        gains = score(after, held[users]) - score(before, held[users])
        error = ERRORS * np.std(gains) / np.sqrt(len(gains)) + 1e-6
        assert gains.mean() > -error, f"its evidence lowers the {what} by {-gains.mean():.4f}"


def _areas(chance: NDArray[np.float32], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.array([metrics.get_auc(*pair) for pair in zip(chance, held, strict=True)])


def _log_scores(chance: NDArray[np.float32], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    least = np.exp(-MAX_LOG_RATIO)
    right = np.where(held, chance, 1 - chance.astype(np.float64))
    return np.asarray(np.log(np.maximum(right, least)).mean(axis=1))


def _f1_of_sets(chance: NDArray[np.float32], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    sets = choose_sets(chance)
    return np.asarray(2 * (sets & held).sum(axis=1) / (sets.sum(axis=1) + held.sum(axis=1)))


LAWS = (
    check_statement,
    check_who_else_is_asked_about,
    check_last_digits,
    check_threads,
    check_evidence_beside_the_true_prior,
)


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in UNREAD])
@pytest.mark.parametrize("law", LAWS)
def test_readers_keep_the_law(law: Callable[[ReaderCase], None], target: str) -> None:
    """Runs a check on every reader that can read the system's messages."""
    view = training(target).transcript.view(Vantage.SERVER)
    cases = [
        ReaderCase(reader, target)
        for reader in reading.find_readers(view)
        if law is not check_evidence_beside_the_true_prior
        or type(reader).__name__ not in OTHER_READERS
    ]
    assert cases
    for case in cases:
        law(case)


def test_all_readers_of_the_family_are_used() -> None:
    asked = {type(reader).__name__ for reader in reading.get_all_readers()}
    family = FAMILIES["readers"]
    assert asked == {family.load_class(name).__name__ for name in family.list_names()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("vantage", Vantage)
def test_other_kinds_of_evidence_have_one_reader(target: str, vantage: Vantage) -> None:
    """Checks that each kind of evidence but log-odds of interactions has one reader only."""
    view = training(target).transcript.view(vantage, np.random.default_rng(0))
    users = np.array([3, 17, 40])
    found = [list_kinds(reader.read(view, users)) for reader in reading.find_readers(view)]
    others = [kinds - {"log_ratio"} for kinds in found]
    assert sum(map(len, others)) == len(set().union(*others))


@pytest.mark.parametrize("target", UNREAD)
def test_no_reader_applies_to_omitted_targets(target: str) -> None:
    assert not reading.find_readers(training(target).transcript.view(Vantage.SERVER))


@pytest.mark.parametrize("target", ["fedncf", "fmf-lfl", "fofl-self"])
def test_other_readers_give_no_log_ratio(target: str) -> None:
    view = training(target).transcript.view(Vantage.SERVER)
    some = [one for one in reading.find_readers(view) if type(one).__name__ in OTHER_READERS]
    assert [list_kinds(each.read(view, np.arange(5))) & {"log_ratio"} for each in some] == [set()]


def test_unlinked_messages_are_not_read() -> None:
    for target in TARGETS:
        view = training(target).transcript.view(Vantage.SERVER).drop_uploads()
        assert not reading.find_readers(view)
        assert "no message with a known sender" in reading.explain_no_reader(view)


class BadRefusal(FlippedBitsReader):
    """Faulty reader: its reason for not running is not a sentence."""

    def refusal(self, view: View) -> str:
        return super().refusal(view) and "no"


class SubtractsMean(FlippedBitsReader):
    """Faulty reader: subtracts from each log-ratio the mean over the given users."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        ratio = super().read(view, users).log_ratio
        assert ratio is not None
        return Evidence(users=users, log_ratio=ratio - ratio.mean(axis=0))


class Popularity(FlippedBitsReader):
    """Faulty reader: returns the items' popularity as evidence about each user."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        ratio = super().read(view, np.arange(view.public.n_users)).log_ratio
        assert ratio is not None
        shares = ratio.mean(axis=0)
        log_ratio = np.tile(6 * (shares - shares.mean()), (len(users), 1))
        return Evidence(users=users, log_ratio=log_ratio)


class LastDigits(RankOneGradientsReader):
    """Faulty reader: uses the last bits of numbers as evidence."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        found = super().read(view, users)
        (part,) = view.rounds[-1].uploads.components.values()
        digits = part.to_dense(users).view(np.int32) % 2
        return replace(found, log_ratio=digits.any(axis=2) * 1.0)


class Hasty(FlippedBitsReader):
    """Faulty reader: adds the number of threads to the evidence."""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        activity = np.full(len(users), compute._threads.get())
        return replace(super().read(view, users), activity_log_odds=activity)


@pytest.mark.parametrize(
    ("law", "broken", "target"),
    [
        (check_statement, BadRefusal(), "dplcf-sp"),
        (check_who_else_is_asked_about, SubtractsMean(), "dplcf-sp"),
        (check_evidence_beside_the_true_prior, Popularity(), "dplcf-sp"),
        (check_last_digits, LastDigits(), "fcf"),
        (check_threads, Hasty(), "dplcf-sp"),
    ],
)
def test_the_law_catches(law: Callable[[ReaderCase], None], broken: Reader, target: str) -> None:
    with pytest.raises(BROKEN):
        law(ReaderCase(broken, target))
