"""Linkage attack: guesses which earlier sender sent each message of the last round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, LinkScores
from fedrec_auditor.attacks.parts import reading, uploads
from fedrec_auditor.attacks.readers import base as readers
from fedrec_auditor.targets import transcript
from fedrec_auditor.targets.transcript import Component, Payload, RoundView, Uploads, View

# Fingerprints: numeric summaries of messages by which messages of one sender are recognised.
#
# A message is read as if its round were the only round. Its fingerprints are what readers
# (``attacks/readers``) infer from the message (interactions, vectors, ratings) and, for each
# component of the message, three summaries: its entries if they are few (for a list, the count of
# each code), the lengths of the rows, and which rows changed. The mean of a round is subtracted,
# because common features of all users do not identify anybody. The similarity of two messages is
# the cosine of their fingerprints.
#
# The weight of each kind of fingerprint is learned from earlier rounds with known senders. Without
# known senders, a fingerprint identifies users if it makes one candidate much more similar to a
# message than all other candidates.

# Fingerprints by name: arrays with one row per message.
FingerprintsByName = dict[str, NDArray[np.float32]]
# Messages of one round: the index of each sender in the array of candidates, and the fingerprints.
SenderFingerprints = tuple[NDArray[np.intp], FingerprintsByName]

_WIDE = 2**14  # maximum size of a part that is compared entry by entry
_PRIME = 2_147_483_647
_ROOM = 64  # number of columns per code of a list


def get_user_messages(round_view: RoundView) -> Mapping[str, Component]:
    """Returns the messages of users in a round, by component name, each with one row per user.

    Shuffled reports are omitted: each of them is a separate message of a single coordinate.
    """
    if round_view.uploads is not None:
        return round_view.uploads.components
    shuffled = (round_view.shuffled or {}).items()
    return {name: part for name, part in shuffled if part.kind is not Payload.REPORTS}


def make_fingerprints(view: View, round_view: RoundView) -> FingerprintsByName:
    """Returns numeric summaries (fingerprints) of the n messages of one round, as arrays by name.

    Each array is (n, p), with mean 0 over messages, and with rows of length 1 or 0. Only this
    round's messages are read; ``view`` gives the public parameters.
    """
    sent = get_user_messages(round_view)
    count = len(next(iter(sent.values())))
    everyone = np.arange(count)
    public = replace(view.public, n_users=count)
    rounds = (RoundView(broadcast=round_view.broadcast, uploads=Uploads(everyone, sent)),)
    alone = replace(view, vantage=Vantage.SERVER, public=public, rounds=rounds)
    prints: FingerprintsByName = {}
    if not reading.explain_no_reader(alone):
        evidence = reading.read_evidence(alone, everyone)
        if evidence.log_ratio is not None:
            prints["interactions"] = _scale_posterior(evidence)
        for name in ("user_vectors", "ratings"):
            part = getattr(evidence, name)
            if part is not None:
                prints[name] = part
    moving = uploads.read_model_messages(alone)
    for name, component in sent.items():
        if name in moving:
            prints |= _fingerprint_model(name, moving[name][0])
        elif component.kind in transcript.LIST_KINDS:
            prints[name] = _count_codes(component.to_dense(everyone).reshape(count, -1))
        elif np.prod(component.shape) <= _WIDE:
            prints[name] = component.to_dense(everyone).reshape(count, -1)
    return {name: _centre(part) for name, part in prints.items()}


def compare_fingerprints(
    last: FingerprintsByName, earlier: Sequence[SenderFingerprints], n_candidates: int
) -> dict[str, NDArray[np.float32]]:
    """Returns one array of similarities (n, n_candidates) per fingerprint, by name.

    A similarity is the cosine of a message's fingerprint in the last round and a candidate sender's
    mean fingerprint in the earlier rounds.

    last: fingerprints (numeric summaries) of n messages of the last round, by name
    earlier: for each earlier round, index of each sender among the candidates, and fingerprints
    n_candidates: number of candidate senders
    """
    cosines = {}
    for name, part in last.items():
        profile = np.zeros((n_candidates, part.shape[1]), dtype=np.float32)
        for whose, prints in earlier:
            if name in prints:  # rounds may differ in their messages
                np.add.at(profile, whose, prints[name])
        cosines[name] = part @ _normalise(profile).T
    return cosines


def compute_margin(cosines: NDArray[np.floating[Any]]) -> float:
    """Returns how clearly the best candidate sender beats the second best, averaged over messages,
    in nats.

    cosines: cosine of each message and each candidate (n, candidates)

    The margin of a message is ln(p2 / p1). Here p1 is the probability that unrelated directions
    have at least the best cosine, and p2 that they have at least the second best. The result is 0
    if there is only one candidate.
    """
    # In p dimensions, the chance probability is about (1 - c^2)^((p - 1) / 2). Cosines of unrelated
    # directions have variance 1 / p, so that p follows from the variance of ``cosines``. An
    # identifier that is repeated exactly has a large margin in any number of dimensions.
    if cosines.shape[1] < 2:
        return 0.0
    first = np.partition(cosines, -2, axis=1)[:, -2:].astype(np.float64)
    spread = max(float(cosines.var()), _MIN_STD)
    chance = -0.5 * (1 / spread - 1) * np.log1p(-(np.clip(first, 0.0, 1 - _MIN_STD) ** 2))
    return float(np.minimum(chance[:, 1] - chance[:, 0], readers.MAX_LOG_RATIO).mean())


def _scale_posterior(evidence: readers.Evidence) -> NDArray[np.float32]:
    """Returns the posterior minus the prior of each interaction, (n, M), in scaled units.

    The unit is the standard deviation sqrt(p (1 - p)) of an item with the share p of users.
    """
    # Each item contributes the odds q q' / p + (1 - q)(1 - q') / (1 - p) = 1 + (q - p)(q' - p) / (p
    # (1 - p)) that two messages are from one user rather than two, where q and q' are the
    # posteriors and p is the prior. To first order, the logarithm of all items' odds is an inner
    # product.
    items, activity = readers.fit_prior(evidence)
    share = expit(items)
    beyond = readers.compute_posterior(evidence) - expit(items + activity[:, None])
    return np.asarray(beyond / np.sqrt(share * (1 - share)), dtype=np.float32)


def _fingerprint_model(name: str, messages: uploads.ModelMessages) -> FingerprintsByName:
    """Returns fingerprints of the changes of one model part: entries, row lengths, changed rows.

    ``name`` is the name of the part, with which the names of the fingerprints begin.
    """
    parts: dict[str, list[NDArray[np.float32]]] = {}
    for _, change, moved in messages.iter_changes():
        if np.prod(change.shape[1:]) <= _WIDE:
            parts.setdefault(name, []).append(change.reshape(len(change), -1))
        if change.ndim != 3:
            continue
        sizes = np.asarray(np.linalg.norm(change, axis=2), dtype=np.float32)
        parts.setdefault(f"{name} sizes", []).append(sizes)
        rows = np.asarray(moved.any(axis=2)).astype(np.float32)
        parts.setdefault(f"{name} moved", []).append(rows)
    return {key: np.concatenate(blocks) for key, blocks in parts.items()}


def _count_codes(codes: NDArray[Any]) -> NDArray[np.float32]:
    """Counts how often each code occurs in each list, (n, p); some codes share a column."""
    wide = min(_WIDE, _ROOM * codes.shape[1])
    bags = np.zeros((len(codes), wide), dtype=np.float32)
    places = (codes.astype(np.int64) % _PRIME * 48_271 % _PRIME) % wide
    rows, used = np.arange(len(codes))[:, None], codes != transcript.LIST_PADDING
    np.add.at(bags, (rows, places), used.astype(np.float32))
    return bags


def _centre(part: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Returns ``part`` with rows of length 1, after subtraction of the mean over messages."""
    finite = np.nan_to_num(part.astype(np.float32), posinf=0.0, neginf=0.0)
    return _normalise(_normalise(finite) - _normalise(finite).mean(axis=0))


def _normalise(part: NDArray[np.float32]) -> NDArray[np.float32]:
    return uploads.divide_or_zero(part, np.linalg.norm(part, axis=1, keepdims=True))


# Maximum number of rounds before the last round that are compared with it.
MAX_EARLIER_ROUNDS = 2
_LUCK = 2.0  # cost per unit of weight, in standard deviations of the gain by chance
_MIN_STD = 1e-6  # smallest standard deviation of cosines


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """Linkage of each message of the last round to the sender of the most similar earlier messages.

    The adversary knows the senders of earlier rounds, but not those of the last round. For example,
    clients of a server change their pseudonyms, or start to use a proxy. If a proxy hides all
    senders, messages are linked to messages of the previous round.

    The similarity of messages is a weighted sum of the cosines of their ``make_fingerprints``.

    family: family of the attack, which is the kind of secret that it infers
    needs_known: whether the attack needs users of known class; always False
    reference: description of the method, with its source
    """

    # The weights are learned from earlier rounds. If a proxy hides all senders, they depend on how
    # clearly the nearest earlier message differs from all other earlier messages.

    family: ClassVar[AttackFamily] = AttackFamily.LINKAGE
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "nearest neighbour by the weighted cosine similarity of messages; derived in "
        "attacks/linkage.py"
    )

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs, in at least two rounds, messages that each hold all data one user sent.
        """
        if view.public.n_silos is not None:
            return "The attack links users' messages, but these come from parties of many users."
        rounds = select_linkable_rounds(view)
        if len(rounds) > 1:
            return ""
        split = [part for seen in view.rounds for part in (seen.shuffled or {}).values()]
        if split and all(component.kind is Payload.REPORTS for component in split):
            return (
                "The attack links whole uploads, but behind the proxy each number of an upload is "
                "a separate message."
            )
        if rounds:
            return "The attack links messages of different rounds, but only one round has messages."
        return uploads.make_refusal(view, "whole messages of single users in two rounds")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> LinkScores:
        """Returns the similarity of each message of the last round to each candidate sender.

        Candidates are the senders of up to two earlier rounds; if senders are hidden, the messages
        of the previous round. Neither the true senders of the last round nor ``rng`` are used.
        """
        *before, last = select_linkable_rounds(view)
        if before[-1].uploads is None:
            batches = [(np.arange(_count_uploads(before[-1])), make_fingerprints(view, before[-1]))]
            candidates = batches[0][0]
        else:
            sent = [(seen.uploads.users, seen) for seen in before if seen.uploads is not None]
            candidates = np.unique(np.concatenate([users for users, _ in sent]))
            batches = [
                (np.searchsorted(candidates, users), make_fingerprints(view, seen))
                for users, seen in sent
            ]
        likeliest = compare_fingerprints(make_fingerprints(view, last), batches, len(candidates))
        weights = _learn_weights(batches, len(candidates)) or _weigh_by_margin(likeliest)
        scores = sum(np.float32(weight) * likeliest[name] for name, weight in weights.items())
        return LinkScores(scores=np.asarray(scores), candidate_senders=candidates.astype(np.int64))


def _learn_weights(batches: list[SenderFingerprints], candidates: int) -> dict[str, float]:
    """Learns weights of fingerprints (message summaries) by linking the last of ``batches``.

    The last batch is a round with known senders, which are linked to the rounds before. The result
    maps the name of each fingerprint to its weight. It is empty if no sender of the last batch is
    in an earlier batch. The method is conditional logistic regression (McFadden 1974).
    """
    *before, (whose, sent) = batches
    earlier = [np.zeros(0, dtype=np.intp), *(users for users, _ in before)]
    both = np.isin(whose, np.concatenate(earlier))
    if not both.any():
        return {}
    chosen = {name: part[both] for name, part in sent.items()}
    cosines = compare_fingerprints(chosen, before, candidates)
    names = sorted(cosines)
    deviations = np.array([max(float(cosines[name].std()), _MIN_STD) for name in names])
    x = np.stack([cosines[name] for name in names]) / deviations[:, None, None]
    true = x[:, np.arange(x.shape[1]), whose[both]]
    price = _LUCK * np.sqrt(x.shape[1])

    # The regression is of the sender of a message on its cosines with the candidates, in standard
    # deviations. Weights are nonnegative, and are penalised by the gain in log-likelihood that a
    # weight would have by chance.

    # Penalised negative log-likelihood of the true senders, and its gradient.
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

    The weight is the mean margin (``compute_margin``) minus 1, divided by the standard deviation of
    the cosines. Fingerprints with a smaller margin than 1 get no weight. If there are no others,
    only the fingerprint with the largest margin is used.
    """
    # By chance alone, the margin is an exponential variable of mean 1.
    margins = {name: compute_margin(each) for name, each in cosines.items()}
    beyond = {name: size - 1.0 for name, size in margins.items() if size > 1.0}
    if not beyond:
        return {max(sorted(margins), key=lambda name: margins[name]): 1.0}
    return {name: more / max(float(cosines[name].std()), _MIN_STD) for name, more in beyond.items()}


def select_linkable_rounds(view: View) -> tuple[RoundView, ...]:
    """Returns the last round with linkable messages, and up to two linkable rounds before it.

    A message is linkable if it holds all data that one user sent in the round. Shuffled reports of
    single coordinates are not linkable. ``view`` is what the adversary sees.
    """
    return tuple([seen for seen in view.rounds if _count_uploads(seen)][-1 - MAX_EARLIER_ROUNDS :])


def _count_uploads(seen: RoundView) -> int:
    return len(next(iter(get_user_messages(seen).values()), ()))
