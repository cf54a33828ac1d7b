"""What every reader must keep. Each check raises AssertionError naming what is broken."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from unittest import SkipTest

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import best_f1_sets
from fedrec_auditor.attacks.parts.calibration import calibrated
from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.readers.base import SURE, Evidence, Reader
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.testing.attacks import plain, rewritten
from fedrec_auditor.auditor.testing.parts.checks import Contract
from fedrec_auditor.targets.components import Component, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Run
from fedrec_auditor.targets.transcript import View

_LAST_DIGIT = 2e-7  # twice the precision of float32
_ALIKE = 0.01  # of a log-ratio: rounding moves one by 2e-4 at most in all targets
_ERRORS = 5.0  # standard errors over users, below which a mean of gains may be chance


@dataclass(frozen=True, eq=False)
class ReaderCase:
    """A reader, and a training on ``interactions`` of which it reads what the server sees."""

    reader: Reader
    run: Run
    interactions: Interactions

    @property
    def view(self) -> View:
        """What the reader reads."""
        view = self.run.transcript.view(Vantage.SERVER)
        refusal = self.reader.refusal(view)
        assert not refusal, f"it refuses the training: {refusal}"
        return view


def told(evidence: Evidence) -> set[str]:
    """The kinds of evidence that are there."""
    names = {field.name for field in fields(evidence)} - {"users"}
    return {name for name in names if getattr(evidence, name) is not None}


def check_statement(case: ReaderCase) -> None:
    """It says what it does, and in a sentence why it reads no messages where none is linked."""
    assert case.reader.reference, "it has no reference"
    refusal = case.reader.refusal(case.view.without_uploads())
    assert refusal.endswith("."), f"of no linked messages it says {refusal!r}, and no sentence"


def check_who_else_is_asked_about(case: ReaderCase) -> None:
    """A user's evidence is the same alone and among all; priors may differ."""
    many = np.arange(case.interactions.n_users)
    few = many[5 : len(many) : len(many) // 4 + 1]
    alone, among = case.reader.read(case.view, few), case.reader.read(case.view, many)
    _check_alike(alone, among, few, "who else is asked about")


def check_last_digits(case: ReaderCase) -> None:
    """Evidence is the same if what trained clients send is rounded otherwise."""
    rng, users = np.random.default_rng(0), np.arange(case.interactions.n_users)

    def rounded(part: Component) -> Component:
        if part.kind not in (Kind.CHANGE, Kind.GRADIENT):
            return part
        part = plain(part)
        noise = 1 + _LAST_DIGIT * rng.standard_normal(part.values.shape)
        return replace(part, values=(part.values * noise).astype(np.float32))

    before = case.reader.read(case.view, users)
    after = case.reader.read(rewritten(case.view, rounded), users)
    _check_alike(after, before, users, "the last digits of messages")


def _check_alike(some: Evidence, every: Evidence, users: NDArray[np.int64], what: str) -> None:
    assert told(some) == told(every), f"kinds of evidence change with {what}"
    for name in told(some) & {"log_ratio", "vectors", "ratings"}:
        one, other = getattr(some, name), getattr(every, name)[users]
        if name == "log_ratio":  # beyond is certain
            one, other = np.clip(one, -15.0, 15.0), np.clip(other, -15.0, 15.0)
        same = np.allclose(one, other, rtol=_ALIKE, atol=_ALIKE)
        assert same, f"{name} of users changes with {what}"


def check_evidence_beside_the_true_prior(case: ReaderCase) -> None:
    """Evidence and the items' true shares tell who met what no worse than the shares alone."""
    held = case.interactions.ratings.toarray() != 0
    prior = logit((held.sum(axis=0) + 0.5) / (len(held) + 1))
    evidence = case.reader.read(case.view, np.arange(case.interactions.n_users))
    if evidence.log_ratio is None:
        raise SkipTest("it tells nothing of interactions")
    compare_with_the_prior(calibrated(evidence, prior), prior, case.interactions)


def compare_with_the_prior(
    evidence: Evidence, prior: NDArray[np.float64], interactions: Interactions
) -> None:
    """Evidence on all users makes no posterior worse than its ``prior`` (M,), log-odds of items.

    By the area under each user's ROC curve, the log score of probabilities, and the F1 of the sets
    that are likeliest to have the most, but for chance.
    """
    assert evidence.log_ratio is not None
    held = interactions.ratings.toarray() != 0
    users = np.flatnonzero(held.any(axis=1) & ~held.all(axis=1))
    nothing = Evidence(
        users=evidence.users,
        log_ratio=np.zeros_like(evidence.log_ratio),
        activity=np.zeros(len(held)),
    )
    before, after = (posterior(each, prior)[users] for each in (nothing, evidence))
    for what, score in (("AUC", _areas), ("log score", _log_scores), ("F1", _f1_of_sets)):
        gains = score(after, held[users]) - score(before, held[users])
        error = _ERRORS * np.std(gains) / np.sqrt(len(gains)) + 1e-6
        assert gains.mean() > -error, f"its evidence lowers the {what} by {-gains.mean():.4f}"


def _areas(chance: NDArray[np.float32], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.array([metrics.auc(*pair) for pair in zip(chance, held, strict=True)])


def _log_scores(chance: NDArray[np.float32], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    least = np.exp(-SURE)
    right = np.where(held, chance, 1 - chance.astype(np.float64))
    return np.asarray(np.log(np.maximum(right, least)).mean(axis=1))


def _f1_of_sets(chance: NDArray[np.float32], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    sets = best_f1_sets(chance)
    return np.asarray(2 * (sets & held).sum(axis=1) / (sets.sum(axis=1) + held.sum(axis=1)))


class ReaderContract(Contract, suite=__name__):
    """What every reader must keep, on a training that it reads.

    >>> from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
    >>> from fedrec_auditor.auditor.testing.attacks import data, training
    >>> ReaderContract.check(ReaderCase(RankOneGradients(), training("fcf"), data()))
    ()
    """
