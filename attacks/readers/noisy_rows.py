"""Interactions read from an item table of which noise moves every row.

A row that the device moved changes along the direction that all its rows have in common (see
``item_rows``), own items one way and negatives the other; noise of one size goes in all directions.
So, of each message,

1. entries are passed through the score function of the noise, clip(x / b, -1, 1) for Laplace noise
   and x for Gaussian, by which of the two the spread of most entries looks like: for a small shift
   nothing separates better;
2. the common direction is the top right singular vector of what results;
3. the places z of the rows along it are a mixture of three normal distributions: of rows that did
   not move, with the spread of the noise, of own items, and of negatives on the other side, q to an
   own item. It is fitted by expectation maximisation, for either end of the direction;
4. the evidence on an item is the likelihood ratio of own items against the other two together,
   a mean over the two ends by how likely they are.

Without negatives own items may move either way. Rounds add up. Source: derived here; the score test
is Rao 1948.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp

from fedrec_auditor.attacks.parts.model_messages import item_messages
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.attacks.readers.input_weights import InputWeights
from fedrec_auditor.attacks.readers.item_rows import moves_some_rows
from fedrec_auditor.attacks.readers.rank_one_changes import RankOneChanges
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.targets.transcript import View

ROUNDS = 8
"""Messages a user that are read."""
_PEAKED = 0.752  # mean size over root mean square: .707 of a Laplace, .798 of a normal distribution
_STEPS, _POWERS = 20, 30
_SHARE = 0.05  # of own items among all, at first


class NoisyRows(MessageReader):
    """Messages that move an item table and every row of it.

    Of the first and last rounds, several messages a user.
    """

    reference = (
        "mixture of rows along their common direction, derived in attacks/readers/noisy_rows.py"
    )

    wanted = "an item table of which all rows move"

    def reads(self, view: View) -> bool:
        """Whether there is one, of which no other reader tells more."""
        others = (InputWeights(), RankOneChanges(), RankOneGradients())
        moving = bool(item_messages(view)) and not moves_some_rows(view)
        return moving and not any(reader.reads(view) for reader in others)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Log-likelihood ratios, added over rounds."""
        negatives = view.public.settings.get("negatives", 0)
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        for sent in item_messages(view, per_user=ROUNDS):
            for whose, change, _ in sent.changes_of(users):
                ratio[whose] += log_ratios(change, negatives)
        return Evidence(users=users, log_ratio=np.clip(ratio, -SURE, SURE))


def log_ratios(change: NDArray[np.float32], negatives: float) -> NDArray[np.float32]:
    """Of each row being an own item against not: (n, M, d) -> (n, M). A change of 0 tells 0."""
    active = change.any(axis=(1, 2))
    if not active.all():
        ratio = np.zeros(change.shape[:2], dtype=np.float32)
        if active.any():
            ratio[active] = log_ratios(change[active], negatives)
        return ratio
    scored = _scored(change)
    gram = scored.transpose(0, 2, 1) @ scored
    column = np.argmax(np.einsum("ndd->nd", gram), axis=1)
    direction = np.take_along_axis(gram, column[:, None, None], axis=2)
    for _ in range(_POWERS):
        direction = gram @ (direction / np.linalg.norm(direction, axis=1, keepdims=True))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    place = (scored @ direction)[:, :, 0].astype(np.float64)
    # The spread of the noise along one direction is its spread along most.
    spread = np.sqrt(np.median(np.einsum("ndd->nd", gram), axis=1) / change.shape[1])
    place /= spread[:, None]
    (fit, up), (other, down) = (_mixture(end * place, negatives) for end in (1.0, -1.0))
    chance = log_expit(np.stack([fit - other, other - fit]))[:, :, None]
    return np.asarray(np.logaddexp(chance[0] + up, chance[1] + down), dtype=np.float32)


def _scored(change: NDArray[np.float32]) -> NDArray[np.float32]:
    size = np.abs(change)
    mean = size.mean(axis=(1, 2), keepdims=True)
    root = np.sqrt(np.mean(size**2, axis=(1, 2), keepdims=True))
    scale = np.maximum(mean, np.finfo(np.float32).tiny)
    peaked = mean < _PEAKED * root
    return np.asarray(np.where(peaked, np.clip(change / scale, -1, 1), change / scale))


def _mixture(
    place: NDArray[np.float64], negatives: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-likelihood of the mixture (n,), and log-likelihood ratios of own items (n, M)."""
    q = negatives or 1.0
    share = np.full(len(place), _SHARE)
    excess = np.maximum(place.var(axis=1) - 1.0, 0.01)
    up = np.sqrt(excess / (_SHARE * (1 + q)))
    down = up.copy()
    for _ in range(_STEPS):
        parts = _densities(place, share, q, up, down)
        member = np.exp(parts - logsumexp(parts, axis=0))
        own, other = member[1], member[2]
        share = ((own + other).mean(axis=1) / (1 + q)).clip(1e-4, 0.8 / (1 + q))
        up = ((own * place).sum(axis=1) / (own.sum(axis=1) + 1e-9)).clip(min=0.1)
        down = (-(other * place).sum(axis=1) / (other.sum(axis=1) + 1e-9)).clip(min=0.1)
    parts = _densities(place, share, q, up, down)
    fit = logsumexp(parts, axis=0).sum(axis=1)
    plain = parts - np.log(np.stack([1 - (1 + q) * share, share, q * share]))[:, :, None]
    if not negatives:
        both = np.logaddexp(plain[1], plain[2]) - np.log(2)
        return fit, both - plain[0]
    drawn = np.log(q * share / (1 - share))[:, None]
    still = np.log1p(-q * share / (1 - share))[:, None]
    return fit, plain[1] - np.logaddexp(plain[0] + still, plain[2] + drawn)


def _densities(
    place: NDArray[np.float64],
    share: NDArray[np.float64],
    q: float,
    up: NDArray[np.float64],
    down: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Log of share times density of unmoved rows, own items, negatives: (3, n, M)."""
    shares = np.stack([1 - (1 + q) * share, share, q * share])
    means = np.stack([np.zeros_like(up), up, -down])
    spreads = np.sqrt(1 + (0.3 * means) ** 2)  # rows do not all move as far
    away = (place - means[:, :, None]) / spreads[:, :, None]
    return np.log(shares / spreads)[:, :, None] - away**2 / 2
