"""Choice of the readers that can read the messages an adversary sees, and their combined evidence.

A reader turns messages into evidence: log-likelihood ratios of interactions, user vectors, ratings.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logsumexp

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks import readers as family
from fedrec_auditor.attacks.parts import shadow_reader, uploads
from fedrec_auditor.attacks.parts.shadow_reader import MIN_SHADOWS, Bits, ShadowReader
from fedrec_auditor.attacks.readers import base
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, Reader, fit_prior
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.transcript import USER_DATA_KINDS, View

# Maximum number of users times items of evidence that is kept in memory: 64 MiB per table.
MAX_CACHED_NUMBERS = 2**23
_MEMO = "evidence"


@functools.cache
def get_all_readers() -> tuple[Reader, ...]:
    """Returns one instance of each reader class in ``attacks.readers``, sorted by class name.

    A reader infers interactions from messages of one form.
    """
    modules = [
        importlib.import_module(f"{family.__name__}.{info.name}")
        for info in pkgutil.iter_modules(family.__path__)
        if info.name != "base"
    ]
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if hasattr(kind, "refusal") and kind.__module__ == module.__name__
    ]
    return tuple(kind() for kind in sorted(kinds, key=lambda kind: str(kind.__name__)))


def find_readers(view: View) -> tuple[Reader, ...]:
    """Returns the readers that can read the messages of the adversary's view.

    A reader infers interactions from messages of one form, such as noisy item tables.

    - Usually the result is all readers that know the form of the messages; it may be empty.
    - If no reader knows the form, or the devices' code is external (``is_external``), the result is
      one ``ShadowReader``, unless it refuses the view. A ``ShadowReader`` learns from runs of the
      devices' code, and also uses the readers that know the form.
    """
    special = tuple(reader for reader in get_all_readers() if not reader.refusal(view))
    learned, client = ShadowReader(special), view.public.device_code
    if (special and not (client and client.is_external)) or learned.refusal(view):
        return special
    return (learned,)


def read_evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    """Returns what all suitable readers infer from messages about ``users`` (ascending indices).

    The result holds, in particular, the log-likelihood ratio of each interaction. Raises InputError
    if no reader can read the view.
    """
    # Results for all users are kept in memory with the adversary's view if they have at most 2^23
    # numbers.
    if view.public.n_users * view.public.n_items > MAX_CACHED_NUMBERS:
        return _pool_evidence(view, users)
    if _MEMO not in view.cache:
        view.cache[_MEMO] = _pool_evidence(view, np.arange(view.public.n_users)), tuple(view.notes)
    everybody, how = view.cache[_MEMO]
    for note in how:
        view.add_note(note)
    of_all: Evidence = everybody
    return of_all.select(users)


def _pool_evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    chosen = find_readers(view)
    if not chosen:
        raise InputError(f"Expected messages that the attack can read, got none. {_explain(view)}")
    return base.pool_evidence(chosen, view, users)


def explain_no_reader(view: View) -> str:
    """Returns the reason why no reader can read the view's messages; empty if some reader can.

    A reader infers interactions from messages of one form.
    """
    return "" if find_readers(view) else _explain(view)


def _explain(view: View) -> str:
    needed = "bits, ratings or reports of items, or changes of an item table"
    known = uploads.make_refusal(view, needed)
    if not uploads.list_linked_components(view):
        return known
    if view.public.device_code is None:
        return f"{known} To read messages of any other form, the attack needs the client's code."
    return f"{known} {ShadowReader().refusal(view)}"


# Calibration of evidence: weakens log-likelihood ratios of interactions that are overconfident.
#
# Evidence is what readers (``attacks/readers``) infer from messages: the log-likelihood ratio that
# a user interacted with an item. Calibration multiplies all ratios by one scale in [0, 1], which
# keeps their signs and their order. A bend additionally limits large ratios that are wrong too
# often. The terms for users' activity have a scale of their own. Ratios that are infinite, because
# the messages prove the entry, stay unchanged. Scales and bend are fitted to information that the
# adversary may have:
#
# 1. Shadows (simulated users). The devices' code runs, in the rounds of the view, on simulated
#    histories: items by their popularity, users of log-normal activity. The readers read these
#    messages in the same way as users' messages, and scales and bend maximise the likelihood of the
#    simulated histories, which are known: a logistic regression on ratios and activity, with the
#    log-odds of popularity as an offset (Platt 1999). Evidence is unchanged unless shadows refute
#    it by three standard errors over shadows. If shadows refute the evidence but popularity clearly
#    supports it, ratios are only bent, to at most 16 nats, because simulated messages may differ
#    from users' messages.
# 2. Popularity, with or without the devices' code. For an item that a known share pi of the users
#    interacted with, a score falls into bin b with the probability pi f1(b) + (1 - pi) f0(b), where
#    f1 and f0 are the distributions of scores of positives and of negatives. Items of different
#    shares therefore show the difference between the distributions, without any user's history.
#    Popularity weakens only evidence that it refutes clearly, because scores may depend on
#    popularity for other reasons. Source: likelihood of a mixture with known weights.

_ERRORS = 3.0  # standard errors over shadows that refute evidence
_BINS = 64
_SAMPLE = 2**20  # number of scores that define the bins
_TOGETHER = 2**22  # number of scores that are counted at once
_CLEAR = 20.0  # difference in log-likelihood, in nats, that refutes evidence
_TINY = 1e-9
_SCALES_MEMO = "scales"
_BENDS = 0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0

Numbers = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]


class Calibration(NamedTuple):
    """Factors that weaken evidence (log-likelihood ratios of interactions) that is overconfident.

    A log-likelihood ratio r becomes ratio_factor r / (1 + saturation |r|).

    ratio_factor: factor of all log-likelihood ratios
    activity_log_odds_factor: factor of the term that each user's activity (general tendency to
        interact) adds to the log-odds of all items
    saturation: strength of the limit on large ratios: |r| / (1 + saturation |r|) stays below
        1 / saturation nats; 0 for no limit
    """

    ratio_factor: float
    activity_log_odds_factor: float
    saturation: float

    def calibrate_ratios(self, ratio: Numbers) -> Numbers:
        """Returns log-likelihood ratios r as ratio_factor r / (1 + saturation |r|), same shape."""
        return np.asarray(self.ratio_factor * ratio / (1 + self.saturation * np.abs(ratio)))


# Factors that leave evidence unchanged.
IDENTITY_CALIBRATION = Calibration(1.0, 1.0, 0.0)
_NOTHING = Calibration(0.0, 0.0, 0.0)
_DISPUTED = Calibration(1.0, 1.0, _BENDS[1])  # in case evidence on a few users is wrong but strong


def read_calibrated(view: View, users: NDArray[np.int64]) -> Evidence:
    """Returns the log-likelihood ratios of users' interactions, weakened where overconfident.

    Readers (``attacks/readers``) infer the ratios from the messages. Raises InputError if no reader
    can read the messages.

    view: messages and public parameters that the adversary sees
    users: indices of the users, ascending (n,)
    """
    # Simulated users and the popularity of items show how much the readers overstate the ratios.
    evidence = read_evidence(view, users)
    if evidence.log_ratio is None:
        return evidence
    if _SCALES_MEMO not in view.cache:
        view.cache[_SCALES_MEMO] = _fit_to_shadows(view, evidence)
    by, odds = view.cache[_SCALES_MEMO], uploads.get_item_log_odds(view)
    return _scale(evidence, by) if odds is None else calibrate(evidence, odds, view.add_note, by)


def calibrate(
    evidence: Evidence,
    item_log_odds: Floats,
    notify: Callable[[str], None] | None = None,
    shadow_factors: Calibration | None = None,
) -> Evidence:
    """Weakens overconfident log-likelihood ratios, so that they agree with items' known popularity.

    First, the ratios are weakened by ``shadow_factors``, if these are given. Then the likelihood of
    the known popularity (``item_log_odds``) is computed under several ratios. The result changes in
    two cases:

    1. The likelihood is clearly higher under the original than under the weakened ratios. Then the
       original ratios are used, of which only large ones are limited (``Calibration.saturation``).
    2. The likelihood is clearly higher under ratios of 0, as without messages, than under the
       result so far. Then the original ratios are multiplied by the factor from 0 to 1 with the
       highest likelihood.

    Infinite ratios stay unchanged, because the messages prove their entries.

    evidence: log-likelihood ratios of users and items (n, M)
    item_log_odds: log-odds of the share of users who interacted with each item, NaN if unknown (M,)
    notify: function that receives a sentence if the ratios are weakened
    shadow_factors: factors that were fitted to simulated users (shadows), or None
    """
    ratio = evidence.log_ratio
    assert ratio is not None
    known = np.flatnonzero(np.isfinite(item_log_odds))
    counts, stated = _count_ratios(ratio, known)
    some = counts.any(axis=1)
    counts, odds = counts[some], item_log_odds[known[some], None]

    # Negative log-likelihood of items' popularity under the weakened ratios.
    def loss(scales: Calibration) -> float:
        return -_log_likelihood(counts, odds, scales.calibrate_ratios(stated))

    best, note = IDENTITY_CALIBRATION, ""
    if shadow_factors is not None and shadow_factors != IDENTITY_CALIBRATION:
        best, note = shadow_factors, "The attack is calibrated by simulations of the devices' code."
        if loss(shadow_factors) > loss(IDENTITY_CALIBRATION) + _CLEAR:
            best, note = _DISPUTED, "Item popularity contradicts simulations of the devices' code."
    if loss(best) > loss(_NOTHING) + _CLEAR:
        note = "The attack weighs messages by how well they agree with the popularity of items."
        fit = minimize_scalar(
            lambda scale: loss(Calibration(scale, scale, 0.0)), bounds=(0, 1), method="bounded"
        )
        best = Calibration(float(fit.x), float(fit.x), 0.0)
        best = best if loss(best) < loss(_NOTHING) else _NOTHING
    if note and notify is not None:
        notify(note)
    return _scale(evidence, best)


def fit_calibration(evidence: Evidence, histories: Bits, item_log_odds: Floats) -> Calibration:
    """Fits the factors and the saturation with which evidence makes users' known histories most
    likely.

    evidence: log-likelihood ratios of interactions of n users and M items
    histories: True if the user interacted with the item (n, M)
    item_log_odds: log-odds that a user interacted with each item (M,)

    The factors are from 0 to 1. The result is ``IDENTITY_CALIBRATION``, which changes nothing,
    unless a factor below 1 is better by three standard errors over users. Infinite ratios are
    omitted.
    """
    assert evidence.log_ratio is not None
    finite = np.isfinite(evidence.log_ratio)
    ratio = np.where(finite, evidence.log_ratio, 0).astype(np.float64)
    ratio = ratio.clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    activity = np.where(finite, fit_prior(evidence, item_log_odds)[1][:, None], 0)

    # The log-odds of an interaction are a sum of three numbers: the item's log-odds, the ratio, and
    # the user's activity (general tendency to interact). One factor multiplies ratios, and another
    # one activity; a saturation limits large ratios (``Calibration``).

    # Derivatives of each user's log-likelihood by the two factors, (2, n).
    def slopes(bent: Floats, weights: Floats) -> Floats:
        wrong = histories - expit(item_log_odds + weights[0] * bent + weights[1] * activity)
        return np.stack([(wrong * part).sum(axis=1) for part in (bent, activity)])

    # Negative mean log-likelihood of the histories, and its derivatives by the two factors.
    def loss(weights: Floats, bent: Floats) -> tuple[float, Floats]:
        odds = item_log_odds + weights[0] * bent + weights[1] * activity
        likelihood = log_expit(np.where(histories, odds, -odds)).mean()
        return -likelihood, -slopes(bent, weights).sum(axis=1) / histories.size

    whole = slopes(ratio, np.ones(2))
    error = _ERRORS * whole.std(axis=1) / np.sqrt(len(histories)) + _TINY
    if (whole.mean(axis=1) >= -error).all():
        return IDENTITY_CALIBRATION
    fits = []
    for bend in _BENDS:
        bent = (Calibration(1.0, 1.0, bend).calibrate_ratios(ratio),)
        fit = minimize(loss, np.ones(2), bent, "L-BFGS-B", jac=True, bounds=[(0, 1), (0, 1)])
        fits.append((float(fit.fun), Calibration(float(fit.x[0]), float(fit.x[1]), bend)))
    return min(fits, key=lambda fit: fit[0])[1]


def _fit_to_shadows(view: View, evidence: Evidence) -> Calibration:
    """Returns the factors by which messages of simulated users weaken log-likelihood ratios.

    The result is ``IDENTITY_CALIBRATION`` in three cases:

    - messages of simulated users cannot be computed, for example because the devices' code is
      missing, is too slow, or refuses the simulated histories;
    - the readers give no ratios for simulated users;
    - a ``ShadowReader`` reads the messages, because it calibrates its ratios itself.
    """
    readers, client = find_readers(view), view.public.device_code
    learned = any(isinstance(reader, ShadowReader) for reader in readers)
    if client is None or learned or ShadowReader().refusal(view):
        return IDENTITY_CALIBRATION
    read = uploads.select_rounds(view, uploads.list_linked_components(view)[0])
    odds, rng = uploads.get_item_log_odds(view), np.random.default_rng(0)
    of_data = all(part.kind in USER_DATA_KINDS for _, _, part in read)
    rounds = [seen for seen, _, _ in read] if of_data else shadow_reader.choose_rounds(view)
    if MIN_SHADOWS * len(rounds) * client.call_seconds > shadow_reader.MAX_SHADOW_SECONDS:
        return IDENTITY_CALIBRATION
    items = fit_prior(evidence)[0] if odds is None else odds
    chance = expit(items + rng.normal(-0.5, 1.0, size=(MIN_SHADOWS, 1))).astype(np.float32)
    drawn = shadow_reader.draw_similar_histories(MIN_SHADOWS, chance, client.n_items_range, rng)
    known = shadow_reader.FixedReaders(readers, replace(view, rounds=tuple(rounds)))
    try:
        taken, sent, _ = shadow_reader.run_on_accepted(
            drawn, lambda some: [client(drawn[some], s.broadcast, rng).components for s in rounds]
        )
    except InputError as error:
        view.add_note(f"The attack could not be tested on simulated users: {error}")
        return IDENTITY_CALIBRATION
    shadows = known.read_shadow_evidence(sent, len(taken))
    if shadows.log_ratio is None:
        return IDENTITY_CALIBRATION
    return fit_calibration(shadows, drawn[taken], items)


def _scale(evidence: Evidence, by: Calibration) -> Evidence:
    """Multiplies evidence by the factors ``by``: log-likelihood ratios, and terms of activity.

    Infinite ratios stay unchanged.
    """
    if by == IDENTITY_CALIBRATION:
        return evidence
    ratio = evidence.log_ratio
    assert ratio is not None
    items, activity = fit_prior(evidence)
    finite = np.isfinite(ratio)
    weaker = by.calibrate_ratios(np.where(finite, ratio, 0))
    ratio = np.where(finite, weaker.astype(ratio.dtype), ratio)
    activity = by.activity_log_odds_factor * activity
    return replace(evidence, log_ratio=ratio, item_log_odds=items, activity_log_odds=activity)


def _count_ratios(ratio: Numbers, items: NDArray[np.intp]) -> tuple[Numbers, Numbers]:
    """Counts log-likelihood ratios by item and bin, (m, B); returns also each bin's mean, (B,).

    ratio: log-likelihood ratios of users and items (n, M); infinite ratios are omitted
    items: indices of the items to count (m,)
    """
    few = ratio[:: 1 + ratio.size // _SAMPLE]
    few = few[np.isfinite(few)].clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    shares = np.linspace(0, 1, _BINS + 1)[1:-1]
    cuts = np.unique(np.quantile(few, shares)) if len(few) else few
    counts, total = np.zeros((len(items), len(cuts) + 1)), np.zeros(len(cuts) + 1)
    for some in iter_blocks(len(ratio), len(items), _TOGETHER):
        scores = ratio[some][:, items]
        user, item = np.isfinite(scores).nonzero()
        scores = scores[user, item].clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        bins = np.searchsorted(cuts, scores)
        total += np.bincount(bins, scores, counts.shape[1])
        cells = np.bincount(item * counts.shape[1] + bins, minlength=counts.size)
        counts += cells.reshape(counts.shape)
    filled = counts.any(axis=0)
    counts = counts[:, filled]
    return counts, total[filled] / counts.sum(axis=0)


def _log_likelihood(counts: Numbers, odds: Numbers, ratio: Numbers) -> float:
    """Returns the largest log-likelihood of the counts of scores by item and bin.

    counts: number of users whose score of the item is in the bin (m, B)
    odds: log-odds of the items' popularity (m, 1)
    ratio: assumed log-likelihood ratio of each bin (B,)
    """
    chance = np.logaddexp(log_expit(-odds), log_expit(odds) + ratio)
    # The distribution of scores of items without an interaction is the one that reproduces the
    # total count of each bin.
    size = np.log(counts.sum(axis=1, keepdims=True))
    chance += np.log(counts.sum(axis=0)) - logsumexp(size + chance, axis=0)
    chance -= logsumexp(chance, axis=1, keepdims=True)
    return float((counts * chance).sum())
