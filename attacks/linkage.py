"""Linkage: which message of a round is whose, by what the same users sent in rounds before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from fedrec_auditor.attacks.base import AttackFamily, Background, Links
from fedrec_auditor.attacks.parts.fingerprints import Batch, fingerprints, likeness, margin, whole
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import Kind, RoundView, View

ROUNDS = 2
"""Most rounds before the last that are read."""
_LUCK = 2.0  # deviations by which chance may speak for a fingerprint: what a unit of weight costs
_LEAST = 1e-6  # of a deviation of cosines


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """The nearest neighbour by all fingerprints of messages (``fingerprints``), weighted.

    It knows who sent what in earlier rounds and not who sends in the last one: a server whose
    clients change their pseudonyms, or hide behind a proxy from then on. How much each fingerprint
    tells is learned on earlier rounds. Behind a proxy it knows no sender at all, and goes by those
    fingerprints by which one message stands out.
    """

    family: ClassVar[AttackFamily] = AttackFamily.LINKAGE
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "nearest neighbour by weighted cosines of what messages tell of their senders; derived in "
        "attacks/parts/fingerprints.py"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of whole messages in two rounds or more."""
        if view.public.parties is not None:
            return "Links messages of single users; these come from parties."
        rounds = linked_rounds(view)
        if len(rounds) > 1:
            return ""
        split = [part for seen in view.rounds for part in (seen.shuffled or {}).values()]
        if split and all(component.kind is Kind.REPORTS for component in split):
            return (
                "Links whole messages; behind the proxy each report of one coordinate is a message "
                "of its own."
            )
        if rounds:
            return "Links messages of different rounds; there is a single round with messages."
        return unread(view, "whole messages of single users in two rounds")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Links:
        """How like each message of the last round is to those of every candidate.

        Of that round no sender is read.
        """
        *before, last = linked_rounds(view)
        if before[-1].uploads is None:
            batches = [(np.arange(_count(before[-1])), fingerprints(view, before[-1]))]
            candidates = batches[0][0]
        else:
            sent = [(seen.uploads.users, seen) for seen in before if seen.uploads is not None]
            candidates = np.unique(np.concatenate([users for users, _ in sent]))
            batches = [
                (np.searchsorted(candidates, users), fingerprints(view, seen))
                for users, seen in sent
            ]
        likeliest = likeness(fingerprints(view, last), batches, len(candidates))
        weights = _weights(batches, len(candidates)) or _standing_out(likeliest)
        scores = sum(np.float32(weight) * likeliest[name] for name, weight in weights.items())
        return Links(scores=np.asarray(scores), candidates=candidates.astype(np.int64))


def _weights(batches: list[Batch], candidates: int) -> dict[str, float]:
    """Of each fingerprint, by linking the last of these rounds to those before; empty if none.

    Conditional logistic regression (McFadden 1974) of who sent a message on its cosines with the
    candidates, in their deviations. Weights are not negative, and cost what chance would gain.
    """
    *before, (whose, sent) = batches
    both = np.isin(
        whose, np.concatenate([np.zeros(0, dtype=np.intp), *(users for users, _ in before)])
    )
    if not both.any():
        return {}
    cosines = likeness({name: part[both] for name, part in sent.items()}, before, candidates)
    names = sorted(cosines)
    deviations = np.array([max(float(cosines[name].std()), _LEAST) for name in names])
    x = np.stack([cosines[name] for name in names]) / deviations[:, None, None]
    true = x[:, np.arange(x.shape[1]), whose[both]]
    price = _LUCK * np.sqrt(x.shape[1])

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = np.tensordot(weights, x, 1)
        excess = np.einsum("knc,nc->k", x, softmax(scores, axis=1)) - true.sum(axis=1)
        value = (logsumexp(scores, axis=1) - weights @ true).sum()
        return value + price * weights.sum(), excess + price

    bounds = [(0.0, None)] * len(names)
    fitted = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", bounds=bounds)
    return dict(zip(names, fitted.x / deviations, strict=True))


def _standing_out(cosines: dict[str, NDArray[np.float32]]) -> dict[str, float]:
    """Weights where no sender is known: by how far the nearest stand out, less chance's margin.

    Of what is nothing but chance the margin is an exponential variable of mean 1.
    """
    margins = {name: margin(each) for name, each in cosines.items()}
    beyond = {name: found - 1.0 for name, found in margins.items() if found > 1.0}
    if not beyond:
        return {max(sorted(margins), key=lambda name: margins[name]): 1.0}
    return {name: more / max(float(cosines[name].std()), _LEAST) for name, more in beyond.items()}


def linked_rounds(view: View) -> tuple[RoundView, ...]:
    """The last round with whole messages, and up to ``ROUNDS`` before it."""
    able = [seen for seen in view.rounds if _count(seen)]
    return tuple(able[-1 - ROUNDS :])


def _count(seen: RoundView) -> int:
    return len(next(iter(whole(seen).values()), ()))
