"""Attribute inference, scored: the adversary knows some users' attribute and guesses the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.attribute_mlp import HIDDEN
from fedrec_auditor.attacks.base import Background, Labels
from fedrec_auditor.attacks.parts.features import NUMBERS, summary
from fedrec_auditor.attacks.parts.uploads import senders
from fedrec_auditor.auditor import metrics
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.reports.record import AttackRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import View

ATTRIBUTES = ("gender", "age_group")
MORE_ATTRIBUTES = (*ATTRIBUTES, "occupation")  # where nothing has to be learnt
SHARES, QUICK_SHARES = (0.1, 0.3), (0.3,)
REPETITIONS, QUICK_REPETITIONS = 4, 2


def play(game: Game) -> tuple[AttackRow, ...]:
    """A row for each attribute and share of known users: macro F1 over the users not known.

    Played among the users whose messages are read: where a part of them is drawn for each round,
    those of the last rounds, and as many of them as an attack has memory for. An attack that learns
    is played at several shares of known users. And where uploads have several groups of components,
    each is attacked by itself as well, at the largest share, so that the leak can be traced to its
    component. An attack that does not learn is played once, with nobody known; an attribute of
    which it can tell nothing has no row.

    The paper does not say how it averages F1 over classes; the macro average is used, because the
    others are near the majority class's share for an adversary who has learned nothing. Each
    repetition draws the known users anew. Baselines: the class most frequent among the known users
    (``majority``), guessing classes at random in their known proportions (``random``, the expected
    value, exact), and, of an attack that learns, itself on the view without uploads (``no
    upload``), from the other attributes, which the attack on the uploads is given as well. With
    nobody known, classes are as frequent as among all.
    """
    if game.attack.refusal(game.view):
        return ()
    interactions, subjects = game.interactions, senders(game.view).astype(np.int64)
    played = [
        key
        for key in (ATTRIBUTES if game.attack.needs_known else MORE_ATTRIBUTES)
        if key in interactions.attributes
        and len(subjects) > 1
        and np.ptp(interactions.attributes[key].codes[subjects]) > 0
    ]
    if not game.attack.needs_known:
        found = [_unlearned(game, subjects, key) for key in played]
        return tuple(row for row in found if row is not None)
    shares = QUICK_SHARES if game.quick else SHARES
    groups = game.view.groups if len(game.view.groups) > 1 else ()
    rows = []
    for group in ("", *groups):
        condensed = summary(game.view.only(group) if group else game.view)
        rows += [
            _row(game, condensed, senders(condensed).astype(np.int64), key, share, group)
            for key in played
            for share in (shares if not group else shares[-1:])
        ]
    return tuple(rows)


def most_held(users: int, width: int) -> float:
    """Bytes that an attack holds at most, of messages of ``width`` numbers.

    The summary, its rows of the known users again, and the perceptron's first layer with what Adam
    keeps of it.
    """
    return 4.0 * (1 + max(SHARES)) * min(NUMBERS, users * width) + 16.0 * HIDDEN[0] * width


def _unlearned(game: Game, subjects: NDArray[np.int64], key: str) -> AttackRow | None:
    """Guess attribute ``key`` of all ``subjects`` (n,), none of whom is known."""
    attribute = game.interactions.attributes[key]
    codes, classes = attribute.codes, len(attribute.categories)
    nobody = np.zeros(0, dtype=np.int64)
    background = Background(known=nobody, labels=nobody, n_classes=classes, subjects=subjects)
    guess = game.guess(Labels, background, game.view)
    if not len(guess.users):
        return None
    counts = np.zeros((1, len(subjects), classes, classes))
    counts[0, np.searchsorted(subjects, guess.users)] = metrics.confusions(
        codes[guess.users], guess.codes, classes
    )
    frequencies = np.bincount(codes[guess.users], minlength=classes)
    majority = np.zeros((classes, classes))
    majority[:, frequencies.argmax()] = frequencies
    return game.row(
        f"{key} macro F1 (nobody known)",
        metrics.macro_f1(counts, confidence=game.confidence, rng=game.rng),
        {
            "majority": float(metrics.f1_of(majority)),
            "random": metrics.stratified_guess_f1(frequencies, frequencies / len(guess.users)),
        },
        f"Knows the {key} of no user, and the order of its categories in the model.",
    )


def _row(
    game: Game, view: View, subjects: NDArray[np.int64], key: str, share: float, group: str
) -> AttackRow:
    """Guess attribute ``key`` of ``subjects`` (n,) from ``view``, a ``share`` of them known."""
    attribute = game.interactions.attributes[key]
    codes, classes, side = attribute.codes, len(attribute.categories), _side(game.interactions, key)
    repetitions = QUICK_REPETITIONS if game.quick else REPETITIONS
    if game.quick and group:  # a quick look at one component takes a single draw
        repetitions = 1
    n = len(subjects)
    counts = np.zeros((2, repetitions, n, classes, classes))
    majority = np.zeros((repetitions, classes, classes))
    random = np.zeros(repetitions)
    for repeat in range(repetitions):
        known = np.sort(subjects[game.rng.permutation(n)[: max(1, round(share * n))]])
        background = Background(
            known=known, labels=codes[known], n_classes=classes, side=side, subjects=subjects
        )
        for world, seen in enumerate((view, view.without_uploads())):
            guess = game.guess(Labels, background, seen)
            counts[world, repeat, np.searchsorted(subjects, guess.users)] = metrics.confusions(
                codes[guess.users], guess.codes, classes
            )
        frequencies = np.bincount(codes[known], minlength=classes)
        rest = np.bincount(codes[subjects], minlength=classes) - frequencies
        majority[repeat, :, frequencies.argmax()] = rest
        random[repeat] = metrics.stratified_guess_f1(rest, frequencies / len(known))
    baselines = {
        "majority": float(metrics.f1_of(majority.sum(axis=0))),
        "random": float(random.mean()),
        "no upload": float(metrics.f1_of(counts[1].sum(axis=(0, 1)))),
    }
    others = "" if side is None else " and everybody's other attributes"
    return game.row(
        f"{key} macro F1 ({share:.0%} known{f', {group} only' if group else ''})",
        metrics.macro_f1(counts[0], confidence=game.confidence, rng=game.rng),
        baselines,
        f"Knows the {key} of {share:.0%} of users{others}; {repetitions} draws of the known "
        "users, guesses pooled.",
    )


def _side(interactions: Interactions, key: str) -> NDArray[np.float64] | None:
    """All users' other attributes, one-hot: (n_users, number of their categories)."""
    parts = [
        np.eye(len(other.categories))[other.codes]
        for name, other in sorted(interactions.attributes.items())
        if name != key
    ]
    return np.concatenate(parts, axis=1) if parts else None
