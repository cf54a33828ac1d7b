"""Attribute inference, scored: the adversary knows some users' attribute and guesses the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Attack, Background, Labels
from fedrec_auditor.attacks.parts.uploads import senders, summary
from fedrec_auditor.auditor import metrics
from fedrec_auditor.auditor.games.truth import Truth
from fedrec_auditor.reports.record import AttackRow
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.transcript import View

ATTRIBUTES = ("gender", "age_group")
SHARES, QUICK_SHARES = (0.1, 0.3), (0.3,)
REPETITIONS, QUICK_REPETITIONS = 4, 2


def play(
    attack: Attack,
    view: View,
    truth: Truth,
    *,
    target: str,
    name: str,
    quick: bool,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[AttackRow, ...]:
    """A row for each attribute and share of known users: macro F1 over the users not known.

    Played among the users whose messages are read: where a part of them is drawn for each round,
    those of the last one. Where uploads have several groups of components, each is attacked by
    itself as well, at the largest share, so that the leak can be traced to its component.

    The paper does not say how it averages F1 over classes; the macro average is used, because the
    others are near the majority class's share for an adversary who has learned nothing. Each
    repetition draws the known users anew. Baselines: the class most frequent among the known users
    (``majority``), guessing classes at random in their known proportions (``random``, the expected
    value, exact), and the same attack on the view without uploads (``no upload``), from the other
    attributes, which the attack on the uploads is given as well.
    """
    if not attack.applies(view):
        return ()
    interactions, subjects = truth.interactions, senders(view).astype(np.int64)
    played = [
        key
        for key in ATTRIBUTES
        if key in interactions.attributes
        and len(subjects) > 1
        and np.ptp(interactions.attributes[key].codes[subjects]) > 0
    ]
    shares = QUICK_SHARES if quick else SHARES
    groups = view.groups if len(view.groups) > 1 else ()
    rows = []
    for group in ("", *groups):
        condensed = summary(view.only(group) if group else view)
        rows += [
            _row(
                attack,
                condensed,
                interactions.attributes[key],
                subjects,
                _side(interactions, key),
                share,
                _repetitions(quick, bool(group)),
                identity={"target": target, "attack": name},
                key=key,
                group=group,
                confidence=confidence,
                rng=rng,
            )
            for key in played
            for share in (shares if not group else shares[-1:])
        ]
    return tuple(rows)


def _row(
    attack: Attack,
    view: View,
    attribute: Attribute,
    subjects: NDArray[np.int64],
    side: NDArray[np.float64] | None,
    share: float,
    repetitions: int,
    *,
    identity: dict[str, str],
    key: str,
    group: str,
    confidence: float,
    rng: np.random.Generator,
) -> AttackRow:
    codes, classes = attribute.codes, len(attribute.categories)
    n = len(subjects)
    counts = np.zeros((2, repetitions, n, classes, classes))
    majority = np.zeros((repetitions, classes, classes))
    random = np.zeros(repetitions)
    for repeat in range(repetitions):
        known = np.sort(subjects[rng.permutation(n)[: max(1, round(share * n))]])
        background = Background(
            known=known, labels=codes[known], n_classes=classes, side=side, subjects=subjects
        )
        for world, seen in enumerate((view, view.without_uploads())):
            guess = attack.infer(seen, background, rng)
            if not isinstance(guess, Labels):
                raise TypeError(f"Expected Labels from {identity['attack']}, got {type(guess)}.")
            counts[world, repeat, np.searchsorted(subjects, guess.users)] = metrics.confusions(
                codes[guess.users], guess.codes, classes
            )
        frequencies = np.bincount(codes[known], minlength=classes)
        rest = np.bincount(codes[subjects], minlength=classes) - frequencies
        majority[repeat, :, frequencies.argmax()] = rest
        random[repeat] = metrics.stratified_guess_f1(rest, frequencies / len(known))
    found = metrics.macro_f1(counts[0], confidence=confidence, rng=rng)
    baselines = {
        "majority": float(metrics.f1_of(majority.sum(axis=0))),
        "random": float(random.mean()),
        "no upload": float(metrics.f1_of(counts[1].sum(axis=(0, 1)))),
    }
    others = "" if side is None else " and everybody's other attributes"
    return AttackRow(
        **identity,
        family=attack.family,
        vantage=attack.vantage,
        metric=f"{key} macro F1 ({share:.0%} known{f', {group} only' if group else ''})",
        value=found.value,
        ci_low=found.low,
        ci_high=found.high,
        confidence=confidence,
        baseline=max(baselines.values()),
        baselines=baselines,
        n=found.n,
        subject="users",
        reference=attack.reference,
        note=(
            f"Knows the {key} of {share:.0%} of users{others}; {repetitions} draws of the known "
            "users, guesses pooled."
        ),
    )


def _repetitions(quick: bool, part: bool) -> int:
    """Draws of the known users; a quick look at one component takes a single one."""
    if quick:
        return 1 if part else QUICK_REPETITIONS
    return REPETITIONS


def _side(interactions: Interactions, key: str) -> NDArray[np.float64] | None:
    """All users' other attributes, one-hot: (n_users, number of their categories)."""
    parts = [
        np.eye(len(other.categories))[other.codes]
        for name, other in sorted(interactions.attributes.items())
        if name != key
    ]
    return np.concatenate(parts, axis=1) if parts else None
