"""Bayes decoding of flipped interaction bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Reconstruction
from fedrec_auditor.attacks.parts.bits import carries_bits, evidence
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import View

# Numbers of one block of posteriors: 8 MiB in float64.
_BLOCK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class BitDecoding:
    """Posterior of every bit: the public channel's evidence, popularity and activity as the prior.

    The guessed set maximises each user's expected F1 under the posterior, up to the usual
    approximation 2 sum(posterior of the set) / (its size + sum of all posteriors). (The set of
    entries more probable than not makes the fewest mistakes, but is close to empty under strong
    noise.) ``certain`` marks posteriors that are 0 or 1 whatever the prior: under asymmetric
    flipping every reported 0 proves a 0. T fresh uploads add up their log-odds.
    """

    family: ClassVar[AttackFamily] = AttackFamily.RECONSTRUCTION
    vantage: ClassVar[Vantage] = Vantage.SERVER
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = "Bayes' rule on the channel of Gao et al., SIGIR 2020, section 3"

    def refusal(self, view: View) -> str:
        """What is there instead of flipped bits of a known channel, linked to users."""
        needed = "bits of all items and their distribution"
        return "" if carries_bits(view) else unread(view, needed)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        """Guess every user's interaction set."""
        found = evidence(view)
        return Reconstruction(
            items=best_f1_sets(found.posterior()), certain=np.isinf(found.log_odds)
        )


def best_f1_sets(posterior: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Each row's set of entries with the largest expected F1 (approximately): (n, M) bool.

    The best set holds the most probable entries, so only its size is searched, all at once.
    Entries of probability 0 are never taken. Memory: blocks of rows, beside the result.
    """
    step = max(1, _BLOCK // max(1, posterior.shape[1]))
    chosen = np.empty(posterior.shape, dtype=np.bool_)
    for start in range(0, len(posterior), step):
        chosen[start : start + step] = _best_f1_sets(posterior[start : start + step])
    return chosen


def _best_f1_sets(posterior: NDArray[np.float64]) -> NDArray[np.bool_]:
    order = np.argsort(-posterior, axis=1, kind="stable")
    ranked = np.take_along_axis(posterior, order, axis=1)
    size = np.arange(1, posterior.shape[1] + 1)
    total = ranked.sum(axis=1, keepdims=True)
    expected = 2 * np.cumsum(ranked, axis=1) / (size + total)
    taken = size <= 1 + np.argmax(expected, axis=1)[:, None]
    chosen = np.zeros(posterior.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order, taken & (ranked > 0), axis=1)
    return chosen
