"""Reader of user vectors and interactions from a rank-one gradient of an item table.

A client of federated collaborative filtering (FCF) with user vector x sends the gradient

    G = (s - V x) x^T,

where V is the broadcast item table (M items, F columns). The number s_i is 0 unless the user
interacted with item i. The reader computes x and s from G. The estimate fails only if the user
interacted with more than nine tenths of the items, or if noise exceeds the signal.
"""

# At touched items i (with which the user interacted) s_i = c_i - (c_i - 1) x.v_i, where v_i is the
# item's row of V, and c_i its weight in the loss. Let x = t b with |b| = 1.
#
# 1. b is the right singular vector of G (up to sign), and a = G b = t s - t^2 V b.
# 2. With q = V b, a_i = -t^2 q_i at untouched items, which determine t^2.
# 3. s_i = (a_i + t^2 q_i) / t is 0 at untouched items and mostly positive at touched items. The sum
#    of s determines the sign of t.
#
# Step 2 must be robust to touched items, which may outnumber the untouched items. The scale t^2 is
# the densest value of the ratios -a_i / q_i (the shortest window that contains a tenth of them),
# refined by least squares on the items that agree with it. Touched items have ratios t^2 c_i - t
# c_i / q_i, which spread with q_i.
# Step 3: an item is missed only if its prediction x.v_i is exactly c_i / (c_i - 1).

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader
from fedrec_auditor.targets.transcript import Component, ComponentView, Payload, View

_WINDOW = 0.1
_REFINEMENTS = 6
_CERTAIN = 8.0  # standard deviations of s at untouched items, above which a number s_i is decisive
_LOOKED_AT = 16  # number of messages from which the loss of the gradients is recognised
_ONE_DIRECTION = 0.95  # minimum share of a message's squares along one direction without noise
_APART = 4.0  # maximum deviation of untouched items from the closed form, as a multiple of noise


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOneFit:
    """User vectors x and numbers s, fitted to n item gradients of the form G = (s - V x) x^T.

    V is the broadcast item table (M items, F columns). s has one number per item, which is 0 for an
    item without interaction. A message without this form gets user vector 0 and infinite noise.

    user_vectors: user vectors x (n, F)
    item_signals: numbers s of each message (n, M)
    noise_deviation: standard deviation of s at items without interaction (n,)
    """

    user_vectors: NDArray[np.float64]
    item_signals: NDArray[np.float64]
    noise_deviation: NDArray[np.float64]


class RankOneGradientsReader(MessageReader):
    """Reader of gradients of a squared loss over all items, which infers interactions.

    The reader solves the gradient G = (s - V x) x^T of each user's last message for the user's
    vector x and the numbers s (one per item). V is the item table with rows v_i.

    The log-likelihood ratio of an interaction with item i compares two normal densities of s_i:
    mean 1 + alpha (1 - x.v_i) with an interaction, and mean 0 without. ``alpha`` is a public
    parameter of the loss.
    """

    # The size of the noise follows from the items without interaction. The mean with an interaction
    # is the value of s_i for the weight c_i = 1 + alpha. Cost: O(M F^2 + M log M) per user.

    reference = (
        "rank-one closed form, derived in attacks/readers/rank_one_gradients.py from Minto et al. "
        "2021, eq. 4 and 5"
    )

    required_messages = "gradients of a squared loss over all items"

    def can_read(self, view: View) -> bool:
        """Checks whether the view has single users' gradients of a loss over all items.

        The view must show the broadcast model, and devices must not draw items for the loss.
        """
        rounds = uploads.read_item_messages(view, (Payload.GRADIENT,))
        drawn = view.public.settings.get("negatives") or view.public.settings.get("pseudo")
        return bool(rounds) and not drawn and find_gradient_sign(rounds[-1]) != 0

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns user vectors, and the log-likelihood ratio of each possible interaction.

        Both are read from the last message of each user.
        """
        alpha = float(view.public.settings.get("alpha", 1.0))
        rounds = uploads.read_item_messages(view, (Payload.GRADIENT,))
        way = find_gradient_sign(rounds[-1])
        vectors = np.zeros((len(users), rounds[-1].component.shape[1]))
        ratio = np.zeros((len(users), view.public.n_items))
        for sent in rounds:
            assert sent.broadcast is not None
            for whose, gradients in uploads.iter_user_messages(users, sent.users, sent.component):
                solved = fit_rank_one(way * gradients, sent.broadcast)
                vectors[whose] = solved.user_vectors
                ratio[whose] = compute_log_ratios(solved, sent.broadcast, alpha)
        return Evidence(users=users, log_ratio=ratio, user_vectors=vectors)


# Results of ``find_gradient_sign`` by component, kept because every reader calls it.
_WAYS: weakref.WeakKeyDictionary[ComponentView, float] = weakref.WeakKeyDictionary()


def find_gradient_sign(messages: uploads.ModelMessages) -> float:
    """Returns the sign of messages that are gradients of a squared loss over all items.

    The sign is 1 if adding a message to the item table makes the loss smaller, and -1 if larger.
    The result is 0 for messages that are not such gradients.
    """
    # The result is 0 unless most messages change all rows, and rows of items without an interaction
    # are as ``fit_rank_one`` predicts, up to noise. The second test is omitted if noise hides the
    # main direction of messages. If the sign is not public, the result is the sign that better
    # separates items with and without an interaction. The size of the noise is the size of the
    # message's entries after its main direction (top right singular vector) is removed.
    if messages.broadcast is None or not len(messages.component):
        return 0.0
    sent = messages.component
    if not isinstance(sent, ComponentView):
        return _find_sign(sent, messages.broadcast)
    if sent not in _WAYS:
        _WAYS[sent] = _find_sign(sent, messages.broadcast)
    return _WAYS[sent]


def _find_sign(component: Component, items: NDArray[Any]) -> float:
    sent = component.to_dense(np.arange(min(_LOOKED_AT, len(component))))
    rate = component.learning_rate
    ways = (1.0, -1.0) if rate is None else (1.0 if rate > 0 else -1.0,)
    sent = sent[sent.any(axis=(1, 2))]
    if not len(sent):
        return ways[0]
    unmoved = ~np.asarray(sent.any(axis=2)) & np.asarray(items).any(axis=1)
    if np.asarray(unmoved.any(axis=1)).mean() > 0.5:
        return 0.0
    _, rows, columns = sent.shape
    places = np.einsum("nmf,nf->nm", sent, compute_directions(sent), dtype=np.float64)
    total, along = np.einsum("nmf,nmf->n", sent, sent, dtype=np.float64), np.sum(places**2, axis=1)
    hidden = np.median(along / total) < _ONE_DIRECTION
    # The difference of two sums of squares has the rounding error of the larger sum, at least.
    beyond = np.maximum(total - along, np.finfo(np.float64).eps * total)
    noise = np.sqrt(beyond / rows / max(1, columns - 1))
    noise += 4 * np.finfo(sent.dtype).eps * np.abs(places).max(axis=1)
    best, most = 0.0, 0.0
    for way in ways:
        solved = fit_rank_one(way * sent, items)
        lengths = np.linalg.norm(solved.user_vectors, axis=1)
        off = solved.noise_deviation * lengths.clip(min=np.finfo(float).tiny)
        between = float(np.median(uploads.scale_by_two_groups(solved.item_signals)[1]))
        if (hidden or columns == 1 or np.median(off / noise) <= _APART) and between > most:
            best, most = way, between
    return best or (ways[0] if hidden else 0.0)


def compute_directions(gradients: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the direction of the rows of each matrix (n, M, F), up to its sign, (n, F).

    The direction is the top right singular vector, computed from the Gram matrix.
    """
    gram = (gradients.transpose(0, 2, 1) @ gradients).astype(np.float64)
    return np.linalg.eigh(gram)[1][:, :, -1]


def fit_rank_one(gradients: NDArray[Any], items: NDArray[Any]) -> RankOneFit:
    """Solves G = (s - V x) x^T for the user vector x and one number s_i per item.

    The number s_i is 0 unless the user interacted with item i. The start of the file derives the
    solution.

    gradients: item gradients G of n users (n, M, F)
    items: broadcast item table V (M, F)
    """
    # x is a multiple t b of the right singular vector b of G. t^2 is the value on which most items
    # without interaction agree. The sign of t makes the sum of s positive.
    b = compute_directions(gradients)
    a = np.einsum("nmf,nf->nm", gradients, b, optimize=True).astype(np.float64)
    q = b @ items.T.astype(np.float64)
    # Rounding counts as noise, so that the noise of exact uploads is not zero.
    rounding = 4 * np.finfo(gradients.dtype).eps * np.abs(a).max(axis=1)
    square, spread = _fit_length(a, q, rounding)
    signal = a + square[:, None] * q
    t = np.sqrt(square) * np.where(signal.sum(axis=1) < 0, -1.0, 1.0)
    inverse = np.divide(1.0, t, out=np.zeros_like(t), where=t != 0)
    is_unsolved = (t == 0) & a.any(axis=1)
    return RankOneFit(
        user_vectors=t[:, None] * b,
        item_signals=signal * inverse[:, None],
        noise_deviation=np.where(is_unsolved, np.inf, spread * np.abs(inverse)),
    )


def _fit_length(
    a: NDArray[np.float64], q: NDArray[np.float64], rounding: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimates the squared length t^2 of each user's vector robustly, and the noise's deviation.

    The equation is a = -t^2 q + noise for items without an interaction; all other items are
    outliers. Both results are (n,).

    a: positions of gradient rows along the direction of the user's vector (n, M)
    q: predictions of the unit vector in this direction for all items (n, M)
    rounding: least deviation of the noise (n,)
    """
    ratios = np.sort(np.divide(-a, q, out=np.full_like(a, np.inf), where=q != 0), axis=1)
    width = max(1, int(_WINDOW * a.shape[1]))
    with np.errstate(invalid="ignore"):
        gaps = ratios[:, width:] - ratios[:, :-width]
    start = np.argmin(np.nan_to_num(gaps, nan=np.inf), axis=1)
    square = np.take_along_axis(ratios, (start + width // 2)[:, None], axis=1)[:, 0]
    square = np.where(np.isfinite(square), square, 0.0).clip(min=0.0)
    # The closest tenth of a standard normal sample is within 0.1257.
    closest = np.partition(np.abs(a + square[:, None] * q), width, axis=1)[:, width]
    spread = np.maximum(closest / 0.1257, rounding)
    for _ in range(_REFINEMENTS):
        inlier = np.abs(a + square[:, None] * q) <= 3 * spread[:, None]
        weight = np.einsum("nm,nm->n", inlier, q * q)
        fitted = -np.einsum("nm,nm,nm->n", inlier, a, q)
        square = np.divide(fitted, weight, out=square.copy(), where=weight > 0).clip(min=0.0)
        residual = np.where(inlier, a + square[:, None] * q, 0.0)
        count = np.maximum(inlier.sum(axis=1), 1)
        # A normal sample cut at 3 standard deviations has 0.9866 of the full standard deviation.
        deviation = np.sqrt((residual**2).sum(axis=1) / count) / 0.9866
        spread = np.maximum(deviation, rounding)
    return square, spread


def compute_log_ratios(fit: RankOneFit, items: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """Returns log-likelihood ratios of interactions (n, M), from the numbers fitted to gradients.

    fit: user vectors, and one number per item, of n messages, from ``fit_rank_one``
    items: broadcast item table (M, F)
    alpha: public parameter of the loss
    """
    expected = 1.0 + alpha * (1.0 - fit.user_vectors @ items.T.astype(np.float64))
    noise = np.maximum(fit.noise_deviation, np.finfo(np.float64).tiny)[:, None]
    with np.errstate(over="ignore"):
        ratio = (fit.item_signals * expected - expected**2 / 2) / noise / noise
    size = np.abs(fit.item_signals)
    certain = size > _CERTAIN * noise
    # Ratios of decisive numbers s_i grow with them, so that their order is preserved.
    far = MAX_LOG_RATIO * (1.0 + size / np.maximum(size.max(axis=1, keepdims=True), noise))
    ratio = np.where(certain, far, np.clip(ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    return np.where(fit.noise_deviation[:, None] > 0, ratio, -MAX_LOG_RATIO)
