"""How well classes were guessed, over users and draws of the known: several averages of F1, AUC.

An interval covers both what is sampled: users, by a percentile bootstrap of the mean over draws
(or, of AUC, by its placement values, DeLong et al. 1988, on the scale of log-odds, where few users
make an interval that is as wrong on one side as on the other, Qin and Hotilovac 2008), and draws of
the known users, by Student's t of the draws' figures. The two half-widths are added in squares, the
square-and-add rule (Zou and Donner 2008). Draws are tested on users that partly differ, so the
second includes some of the first: the interval errs on the wide side.

Of a class with few users all may be guessed right, or wrong, and no replicate shows that others are
not. The replicates of macro F1, also of its gain over other guesses of the same users, are drawn
again with half a user more of each class, of whom a coin says whether the guess is right (for
shares, Agresti and Coull 1998); the interval holds both. A class of which there is no user in the
sample counts as 0 and as 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts.class_f1 import f1_of_classes, macro_f1
from fedrec_auditor.attacks.parts.ranking import placements
from fedrec_auditor.auditor.games.metrics import Estimate, percentile_interval, resampled

NOT_ASKED = -1
MACRO, BALANCED, AUC, CERTAIN = "macro F1", "balanced accuracy", "AUC", "read for certain"
GAIN = "gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What was guessed of n users in r draws, of C classes.

    ``truth`` (n,) are codes, ``guessed`` (r, n) codes, or ``NOT_ASKED`` of users whose class was
    known in that draw, and ``scores`` (r, n, C), larger for likelier classes, or None. ``shares``
    (r, C) are of who guesses without looking, and each class so often: of ``guessed`` only who is
    asked then counts, and tallies have the expected hits.
    """

    truth: NDArray[np.int64]
    guessed: NDArray[np.int64]
    classes: int
    scores: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None

    @property
    def tallies(self) -> NDArray[np.float64]:
        """A one-hot (r, n, 3, C): of each user's class if guessed right, the class, the guess."""
        eye = np.eye(self.classes + 1, self.classes)  # of no class the last row: it guesses none
        asked = (self.guessed != NOT_ASKED)[:, :, None]
        truth = eye[self.truth][None] * asked
        said = eye[self.guessed] if self.shares is None else self.shares[:, None]
        guessed = said * asked
        return np.stack([truth * guessed, truth, guessed], axis=2)


def _weighted_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the classes' F1, weighted by their frequency."""
    return _ratio(
        (f1_of_classes(tally) * tally[..., 1, :]).sum(axis=-1), tally[..., 1, :].sum(axis=-1)
    )


def _micro_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 of all guesses together: the share of right ones."""
    return _ratio(tally[..., 0, :].sum(axis=-1), tally[..., 1, :].sum(axis=-1))


def _balanced(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes that occur of the share found."""
    found = _ratio(tally[..., 0, :], tally[..., 1, :]).sum(axis=-1)
    return _ratio(found, (tally[..., 1, :] > 0).sum(axis=-1).astype(np.float64))


_FIGURES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    MACRO: macro_f1,
    "micro F1": _micro_f1,
    "weighted F1": _weighted_f1,
    BALANCED: _balanced,
}


def estimates(
    found: Guesses, *, confidence: float, rng: np.random.Generator, beside: Guesses | None = None
) -> dict[str, Estimate]:
    """Every figure, a mean over draws, with its interval; no AUC without scores.

    ``GAIN`` is by how much macro F1 is above that of the guesses ``beside``, in the same draws.
    """
    tallies = found.tallies
    _, n, _, classes = tallies.shape
    subjects = int(np.count_nonzero(tallies.any(axis=(0, 2, 3))))
    weights = resampled(n, rng)
    per_draw, replicates = tallies.sum(axis=1), _replicates(tallies, weights)
    seen = float((per_draw[:, 1] > 0).mean())
    # Half a user more of each class, whom a coin says to be guessed right: (b, 3, C).
    right = rng.integers(2, size=(len(weights), classes)) / 2
    coins = np.stack([right, np.full(right.shape, 0.5), right], axis=1)
    out = {}
    for name, figure in _FIGURES.items():
        each = figure(per_draw)
        value, drawn = float(each.mean()), [figure(replicates).mean(axis=0)]
        if name == MACRO:
            drawn.append(figure(replicates + coins).mean(axis=0))
        if name == BALANCED:
            drawn += [drawn[0] * seen, drawn[0] * seen + 1 - seen]
        out[name] = _hull(value, drawn, each, subjects, confidence)
        if name == MACRO and beside is not None:
            others, theirs = beside.tallies, macro_f1_of(beside)
            bent = macro_f1(others.sum(axis=1)) - theirs  # F1 of mean hits, less the mean F1
            below = macro_f1(_replicates(others, weights)).mean(axis=0) - bent.mean()
            drawn, gained = [one - below for one in drawn], each - theirs
            out[GAIN] = _hull(float(gained.mean()), drawn, gained, subjects, confidence, -1.0)
    if found.scores is not None:
        out[AUC] = _auc(found, subjects, confidence)
    return out


def macro_f1_of(found: Guesses) -> NDArray[np.float64]:
    """The macro F1 alone, of each draw (r,); exactly expected of who guesses without looking."""
    per_draw = found.tallies.sum(axis=1)
    if found.shares is None:
        return macro_f1(per_draw)
    pairs = zip(per_draw[:, 1], found.shares, strict=True)
    return np.array([stratified_guess_f1(counts, shares) for counts, shares in pairs])


def mean_of(found: Guesses) -> float:
    """The macro F1 alone, a mean over draws."""
    return float(macro_f1_of(found).mean())


def stratified_guess_f1(counts: NDArray[np.floating], probabilities: NDArray[np.float64]) -> float:
    """Exact expected macro F1 of guessing class c with probability p_c, whoever the user.

    With n_c true members of n, K ~ Binomial(n, p_c) guesses hit K n_c / n of them on average, so
    E F1_c = sum over K of P(K) 2 K (n_c / n) / (K + n_c).
    """
    n = round(float(counts.sum()))
    k = np.arange(n + 1)
    mass = stats.binom.pmf(k[None, :], n, probabilities[:, None])
    sizes = k[None, :] + counts[:, None]
    f1 = np.divide(2.0 * k * counts[:, None] / n, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
    return float((mass * f1).sum(axis=1).mean())


def _replicates(tallies: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Tallies (r, n, 3, C) of the users drawn by ``weights`` (b, n): (r, b, 3, C)."""
    r, n, _, classes = tallies.shape
    return (weights @ tallies.reshape(r, n, -1)).reshape(r, -1, 3, classes)


def _hull(
    value: float,
    drawn: list[NDArray[np.float64]],
    each: NDArray[np.float64],
    subjects: int,
    confidence: float,
    least: float = 0.0,
) -> Estimate:
    """The interval that holds those of all replicates ``drawn``, widened as ``_both`` does."""
    ends = [percentile_interval(value, one, subjects, confidence, least) for one in drawn]
    low, high = min(one.low for one in ends), max(one.high for one in ends)
    return _both(replace(ends[0], low=low, high=high), each, least)


def _auc(found: Guesses, subjects: int, confidence: float) -> Estimate:
    """Mean over draws and classes of the area under each class's ROC against all others."""
    assert found.scores is not None
    influence = np.zeros(len(found.truth))
    each = np.full(len(found.guessed), 0.5)
    for draw, guessed in enumerate(found.guessed):
        asked = np.flatnonzero(guessed != NOT_ASKED)
        places = placements(found.truth[asked], found.scores[draw][asked])
        if not places:
            continue
        each[draw] = np.mean([area for area, _ in places])
        influence[asked] += np.mean([one for _, one in places], axis=0) / len(each)
    value = float(each.mean())
    half = float(np.sqrt(np.square(influence).sum()))
    if half > 0 and 0 < value < 1 and subjects > 1:
        half *= float(stats.t.isf((1 - confidence) / 2, subjects - 1)) / (value * (1 - value))
        low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
        users = Estimate(value=value, low=low, high=high, confidence=confidence, n=subjects)
    else:
        users = percentile_interval(value, np.array([value]), subjects, confidence)
    return _both(users, each)


def _both(users: Estimate, each: NDArray[np.float64], least: float = 0.0) -> Estimate:
    """The interval over users, widened by what the figures (r,) of the draws vary."""
    draws = len(each)
    spread = 0.0
    if draws > 1:
        tail = (1 - users.confidence) / 2
        spread = float(stats.t.isf(tail, draws - 1) * each.std(ddof=1) / np.sqrt(draws))
    return Estimate(
        value=users.value,
        low=max(least, users.value - float(np.hypot(users.value - users.low, spread))),
        high=min(1.0, users.value + float(np.hypot(users.high - users.value, spread))),
        confidence=users.confidence,
        n=users.n,
    )


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """``part / whole``, 0 where the whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0))
