"""Reconstruction of users' interaction sets, vectors and ratings from uploads of any form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import AttackFamily, Background, Reconstruction
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.reading import read_calibrated
from fedrec_auditor.attacks.parts.uploads import assign_pseudonyms, find_subjects
from fedrec_auditor.attacks.readers.base import compute_posterior
from fedrec_auditor.attacks.readers.feature_network import FeatureNetworkReader
from fedrec_auditor.attacks.readers.small_readers import PopularityReader, UserRowsReader
from fedrec_auditor.targets.transcript import View

# Entries in one block of posteriors: 8 MiB in float64.
_BLOCK = 2**20
_RANKING = (FeatureNetworkReader, PopularityReader, UserRowsReader)


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionReconstruction:
    """Reconstruction of users' interaction sets, vectors and ratings from their uploads.

    Readers (``attacks/readers``) turn messages into log-likelihood ratios of interactions. The
    prior has two parts: the popularity of items, estimated from all uploads unless it is known, and
    the activity of users. From the posterior, ``choose_sets`` guesses the set of each user.

    ``is_proved`` of the result marks entries that are proved under any prior. For example, if true
    1s are never flipped, a reported 0 proves a 0.

    If messages are shuffled, so that their senders are unknown, the attack guesses one set per
    message: the interactions of its sender.

    family: family of the attack, which is the kind of secret that it infers
    needs_known: whether the attack needs users of known class; always False
    reference: description of the method, with its source
    """

    family: ClassVar[AttackFamily] = AttackFamily.RECONSTRUCTION
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "Bayes' rule, applied to what messages reveal by the methods in attacks/readers, each of "
        "which names its source"
    )

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs messages that some reader (``attacks/readers``) can turn into probabilities
        of interactions, not only into a ranking of items.
        """
        hidden = assign_pseudonyms(view)
        if any(isinstance(reader, _RANKING) for reader in reading.find_readers(hidden or view)):
            return "This adversary can only rank items, which does not reveal whole sets of items."
        return reading.explain_no_reader(hidden or view)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        """Guesses interaction sets, user vectors and ratings of the users ``background.subjects``.

        If ``background.subjects`` is None, the interactions of all senders are guessed. ``view`` is
        what the adversary sees.
        """
        hidden = assign_pseudonyms(view)
        view = hidden or view
        chosen = None if hidden is not None else background.subjects
        among = find_subjects(view).astype(np.int64) if chosen is None else chosen
        evidence = read_calibrated(view, among)
        sets = certain = None
        if evidence.log_ratio is not None:
            sets = choose_sets(compute_posterior(evidence, background.prior_log_odds))
            certain = np.isinf(evidence.log_ratio)
        return Reconstruction(
            users=evidence.users,
            items=sets,
            user_vectors=evidence.user_vectors,
            ratings=evidence.ratings,
            is_proved=certain,
        )


def choose_sets(posterior: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Returns, for each of n users, a set of items that nearly maximises the expected F1 score.

    The result is a mask (n, M) of M items. ``posterior`` (n, M) is the probability that each user
    interacted with each item. Items of probability 0 are never included.

    The expected F1 of a set is approximated by 2 sum(posterior of the set) / (size of the set + sum
    of all posteriors). For the empty set it is the probability that the user has no interactions.
    """
    # The best set consists of the most probable items, so that only its size is searched. The set
    # of entries with a probability above 1/2 would make the fewest mistakes, but is close to empty
    # under strong noise. Memory: the result, and one block of users.
    step = max(1, _BLOCK // max(1, posterior.shape[1]))
    chosen = np.empty(posterior.shape, dtype=np.bool_)
    for start in range(0, len(posterior), step):
        chosen[start : start + step] = _maximize_f1(posterior[start : start + step])
    return chosen


def _maximize_f1(posterior: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    order = np.argsort(-posterior, axis=1, kind="stable")
    ranked = np.take_along_axis(posterior, order, axis=1)
    size = np.arange(1, posterior.shape[1] + 1)
    total = ranked.sum(axis=1, keepdims=True)
    expected = 2 * np.cumsum(ranked, axis=1) / (size + total)
    none = np.prod(1 - ranked, axis=1, keepdims=True)
    best = 1 + np.argmax(expected, axis=1)[:, None]
    taken = (size <= best) & (expected.max(axis=1, keepdims=True) > none)
    chosen = np.zeros(posterior.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order, taken & (ranked > 0), axis=1)
    return chosen
