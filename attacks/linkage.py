"""Linkage attack: guesses which earlier sender sent each message of the last round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from fedrec_auditor.attacks.base import AttackFamily, Background, Links
from fedrec_auditor.attacks.parts.fingerprints import (
    Batch,
    fingerprints,
    mean_margin,
    similarities,
    user_messages,
)
from fedrec_auditor.attacks.parts.uploads import refusal_text
from fedrec_auditor.targets.transcript import Kind, RoundView, View

# Maximum number of rounds before the last round that are compared with it.
PRIOR_ROUNDS = 2
_LUCK = 2.0  # cost per unit of weight, in standard deviations of the gain by chance
_LEAST = 1e-6  # smallest standard deviation of cosines


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """Linkage of each message of the last round to the sender of the most similar earlier messages.

    The adversary knows the senders of earlier rounds, but not those of the last round. An example
    is a server whose clients change their pseudonyms, or start to use a proxy. Similarity is a
    weighted sum of cosines of ``fingerprints``, numeric summaries of a message. The weights are
    learned from earlier rounds. If a proxy hides all senders, the weights depend on how clearly the
    nearest earlier message differs from all other earlier messages.
    """

    family: ClassVar[AttackFamily] = AttackFamily.LINKAGE
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "nearest neighbour by weighted cosines of fingerprints of messages; derived in "
        "attacks/parts/fingerprints.py"
    )

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs, in at least two rounds, messages that each hold all data one user sent.
        """
        if view.public.n_silos is not None:
            return "The attack links messages of single users, but these come from parties."
        rounds = linked_rounds(view)
        if len(rounds) > 1:
            return ""
        split = [part for seen in view.rounds for part in (seen.shuffled or {}).values()]
        if split and all(component.kind is Kind.REPORTS for component in split):
            return (
                "The attack links whole uploads, but behind the proxy each number of an upload is "
                "a separate message."
            )
        if rounds:
            return "The attack links messages of different rounds, but only one round has messages."
        return refusal_text(view, "whole messages of single users in two rounds")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Links:
        """Returns the similarity of each message of the last round to each candidate sender.

        Candidates are the senders of up to two earlier rounds; if senders are hidden, the messages
        of the previous round. Neither the true senders of the last round nor ``rng`` are used.
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
        likeliest = similarities(fingerprints(view, last), batches, len(candidates))
        weights = _learn_weights(batches, len(candidates)) or _weigh_by_margin(likeliest)
        scores = sum(np.float32(weight) * likeliest[name] for name, weight in weights.items())
        return Links(scores=np.asarray(scores), candidates=candidates.astype(np.int64))


def _learn_weights(batches: list[Batch], candidates: int) -> dict[str, float]:
    """Learns weights of fingerprints (message summaries) by linking the last of ``batches``.

    The last batch is a round with known senders, which are linked to the rounds before.

    The result maps the name of each fingerprint to its weight; it is empty if no sender of the last
    round is in an earlier round. The method is conditional logistic regression (McFadden 1974) of
    the sender of a message on its cosines with the candidates, in standard deviations. Weights are
    nonnegative, and are penalised by the gain in log-likelihood that a weight would have by chance.
    """
    *before, (whose, sent) = batches
    both = np.isin(
        whose, np.concatenate([np.zeros(0, dtype=np.intp), *(users for users, _ in before)])
    )
    if not both.any():
        return {}
    cosines = similarities({name: part[both] for name, part in sent.items()}, before, candidates)
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


def _weigh_by_margin(cosines: dict[str, NDArray[np.float32]]) -> dict[str, float]:
    """Returns weights of fingerprints (message summaries), by name, if no senders are known.

    The weight is the mean margin of the nearest message (``mean_margin``), less 1, divided by the
    standard deviation of the cosines. By chance alone, the margin is an exponential variable of
    mean 1. If no margin exceeds 1, the fingerprint of the largest margin alone counts.
    """
    margins = {name: mean_margin(each) for name, each in cosines.items()}
    beyond = {name: size - 1.0 for name, size in margins.items() if size > 1.0}
    if not beyond:
        return {max(sorted(margins), key=lambda name: margins[name]): 1.0}
    return {name: more / max(float(cosines[name].std()), _LEAST) for name, more in beyond.items()}


def linked_rounds(view: View) -> tuple[RoundView, ...]:
    """Returns the last round with linkable messages, and up to two rounds before it.

    A message is linkable if it holds all that one user sent, unlike shuffled reports of single
    coordinates. ``view`` is what the adversary sees.
    """
    able = [seen for seen in view.rounds if _count(seen)]
    return tuple(able[-1 - PRIOR_ROUNDS :])


def _count(seen: RoundView) -> int:
    return len(next(iter(user_messages(seen).values()), ()))
