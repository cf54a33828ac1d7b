"""Attribute inference, scored: the adversary knows some users' attribute and guesses the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Background, Labels, LearningAttack
from fedrec_auditor.attacks.parts.inputs import (
    ITEMS,
    NUMBERS,
    SUMMARY,
    Condensed,
    condense,
    most_read,
    table_input,
)
from fedrec_auditor.attacks.parts.uploads import senders
from fedrec_auditor.auditor.games.game import Game, who_is_hit
from fedrec_auditor.auditor.games.metrics import (
    CERTAIN,
    GAIN,
    MACRO,
    NOT_ASKED,
    Guesses,
    estimates,
    mean_of,
)
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow, UsersRow
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.transcript import View

SHARES, QUICK_SHARES = (0.1, 0.2, 0.3), (0.3,)
DRAWS, QUICK_DRAWS = 10, 3
QUICK_WIDTH = 20_000
_SHARED = 1024  # senders up to which the readings are kept for the next attack
_READINGS = 14
_FIRST = ("gender", "age_group")  # the paper's attributes
_ALL, _TRUE = "all uploads", "true interaction set"
_UNTOLD = "No rows or columns move as its categories would, or several places do."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One attribute, and draws of a share of the ``subjects`` (n,) whose class is known."""

    key: str
    attribute: Attribute
    share: float
    subjects: NDArray[np.int64]
    backgrounds: tuple[Background, ...]


def play(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """A row for each attribute and share of known users: macro F1 over the users not known.

    Played among the users who have a value of it and whose messages are read: where a part of them
    is drawn for each round, those of the first and last rounds, and as many of them as an attack
    has memory for. An attack
    that learns is played at several shares of known users, and chooses itself what it reads, and
    whether; at the largest share each reading of the uploads, whole or of one group of components,
    is attacked by itself as well (not in a quick audit), so that the leak can be traced. An attack
    that does not learn is played once, with nobody known, and has a row of the users whose
    attribute it reads for certain. What is not played has a row that says why.

    The paper does not say how it averages F1 over classes; the macro average is used, because the
    others are near the majority class's share for an adversary who has learned nothing; they are
    ``further`` figures. All are means over draws of the known users, which are the same for every
    reading. Baselines: the class most frequent among the known users (``majority``), guessing
    classes at random in their known proportions (``random``, the expected value, exact), and, of an
    attack that learns, itself on the view without uploads (``no upload``), from the other
    attributes, which the attack on the uploads is given as well. What it gains over the best has an
    interval over the same users and draws. With nobody known, classes are as frequent as among all.
    Beside it stands the same attack on the true interaction set.
    """
    if game.attack.refusal(game.view):
        return ()
    attributes = game.interactions.attributes
    if not attributes:
        return (game.skipped("The data have no attributes of users. Bring them with --users."),)
    learns = game.attack.needs_known
    whole = _condensed(game) if learns else None
    subjects = senders(game.view).astype(np.int64)
    if whole is not None and whole.inputs:
        subjects = whole.inputs[SUMMARY].users.astype(np.int64)
    rows: list[AttackRow | SkippedRow] = []
    untold = list[str]()
    read = subjects
    asked = attributes if game.attributes is None else game.attributes
    if not asked:
        return (game.skipped("No attribute was asked for. Name some, or leave them out for all."),)
    for key in sorted(asked, key=lambda key: (key not in _FIRST, key != _FIRST[0], key)):
        subjects = read[attributes[key].known[read]]
        why = _unplayable(attributes[key], subjects)
        if why:
            rows.append(game.skipped(f"{key}: {why}"))
        elif whole is None:
            found = _unlearned(game, subjects, key)
            rows += found
            untold += [] if found else [key]
        else:
            rows += _learned(game, whole, subjects, key)
    if untold:
        rows.append(game.skipped(f"{', '.join(untold)}: {_UNTOLD}"))
    return tuple(rows)


def most_held(users: int, width: int) -> float:
    """Bytes that an attack holds at most, of messages of ``width`` numbers.

    A reading, its rows of the known users again, and inner products of the rows of all readings.
    """
    numbers, most = most_read(users)
    held = 4.0 * (2 + max(SHARES)) * min(numbers, users * width)
    return held + (4.0 * _READINGS + 12.0) * min(users, most) ** 2


def _unplayable(attribute: Attribute, subjects: NDArray[np.int64]) -> str:
    """Why nothing is to be guessed of these users; empty where something is."""
    n = len(subjects)
    if n < 2:
        return f"messages of {n} users are read, and two are needed."
    if np.ptp(attribute.codes[subjects]) == 0:
        return f"all {n} users whose messages are read are of one class."
    return ""


def _condensed(game: Game) -> Condensed:
    """The readings of the uploads, made once for all attacks where they are of few senders."""
    if _ALL not in game.condensed:
        found = condense(game.view)
        if found.inputs and len(found.inputs[SUMMARY].users) > _SHARED:
            return found
        game.condensed[_ALL] = found
    for said in game.condensed[_ALL].how:
        game.view.tell(said)
    return game.condensed[_ALL]


def _learned(
    game: Game, whole: Condensed, subjects: NDArray[np.int64], key: str
) -> Iterator[AttackRow | SkippedRow]:
    """The rows of one attribute, of an attack that learns from known users."""
    usable = [name for name, one in whole.inputs.items() if not one.problem]
    for name, each in whole.inputs.items():
        if each.problem:
            yield game.skipped(f"{key}, {name}: {each.problem}")
    wide = _too_wide(game, whole, usable)
    for name in wide:
        yield game.skipped(
            f"{key}, {name}: {whole.inputs[name].width:,} columns, which only an audit without "
            "--quick sorts."
        )
    usable = [name for name in usable if name not in wide]
    if not usable:
        return
    if why := _beyond(game, subjects):
        yield game.skipped(f"{key}, {_TRUE}: {why}")
    whole = whole.beside({name: whole.inputs[name] for name in usable})
    shares = QUICK_SHARES if game.quick else SHARES
    for share in shares:
        question = _question(game, subjects, key, share)
        if not question.backgrounds:
            yield game.skipped(
                f"{key}, {share:.0%} known: of {len(subjects)} users these are all of one class, "
                "in every draw."
            )
            continue
        baselines = _baselines(game, whole, question)
        from_interactions = _from_interactions(game, whole, question)
        yield _row(game, whole, question, "", baselines, from_interactions)
        for name in usable if share == shares[-1] and len(usable) > 1 and not game.quick else ():
            view = whole.reading(name)
            yield _row(game, view, question, f", {name}", baselines, from_interactions)


def _too_wide(game: Game, whole: Condensed, usable: list[str]) -> list[str]:
    """The readings that a quick audit leaves out for an attack that needs columns themselves.

    The narrowest is left in.
    """
    attack = game.attack
    if not (game.quick and isinstance(attack, LearningAttack) and attack.reads_columns):
        return []
    widths = {name: whole.inputs[name].width for name in usable}
    least = min(widths.values(), default=0)
    return [name for name, width in widths.items() if width > max(least, QUICK_WIDTH)]


def _beyond(game: Game, subjects: NDArray[np.int64]) -> str:
    """Why the attack is not made on the true interaction set, whose columns it sorts; or nothing.

    Attacks that read inner products alone are made on one of any size, some columns at a time.
    """
    size, attack = len(subjects) * game.interactions.n_items, game.attack
    if size <= NUMBERS or not (isinstance(attack, LearningAttack) and attack.reads_columns):
        return ""
    return (
        f"the true interaction set has {size:,} entries, of which {NUMBERS:,} at most are sorted. "
        "The rows have no figure from it."
    )


def _question(game: Game, subjects: NDArray[np.int64], key: str, share: float) -> _Question:
    """Draws of the known users; none if not one of them has users of two classes."""
    attribute, n = game.interactions.attributes[key], len(subjects)
    count = min(max(1, round(share * n)), n - 1)
    draws = QUICK_DRAWS if game.quick else DRAWS
    known = [np.sort(subjects[game.rng.permutation(n)[:count]]) for _ in range(draws)]
    side = _side(game.interactions, key)
    told = any(np.ptp(attribute.codes[each]) > 0 for each in known)
    return _Question(
        key=key,
        attribute=attribute,
        share=share,
        subjects=subjects,
        backgrounds=tuple(
            Background(
                known=each,
                labels=attribute.codes[each],
                n_classes=len(attribute.classes),
                side=side,
                subjects=subjects,
            )
            for each in (known if told else ())
        ),
    )


def _guesses(game: Game, view: View, question: _Question) -> tuple[Guesses, Counter[str]]:
    """What the attack guesses in every draw, and how often it read what."""
    attack, backgrounds, subjects = game.attack, question.backgrounds, question.subjects
    found: tuple[Labels, ...]
    if isinstance(attack, LearningAttack):
        found = attack.infer_each(view, backgrounds, game.rng)
    else:
        found = tuple(game.guess(Labels, background, view) for background in backgrounds)
    n, classes = len(subjects), len(question.attribute.classes)
    guessed = np.full((len(found), n), NOT_ASKED)
    scores = np.zeros((len(found), n, classes))
    for draw, labels in enumerate(found):
        places = np.searchsorted(subjects, labels.users)
        guessed[draw, places] = labels.codes
        if labels.scores is not None:
            scores[draw, places] = labels.scores
    return (
        Guesses(
            truth=question.attribute.codes[subjects],
            guessed=guessed,
            classes=classes,
            scores=scores if all(one.scores is not None for one in found) else None,
        ),
        Counter(one.read for one in found),
    )


def _baselines(game: Game, view: View, question: _Question) -> dict[str, Guesses]:
    """What is guessed without uploads."""
    blind, _ = _guesses(game, view.without_uploads(), question)
    labels = [background.labels for background in question.backgrounds]
    return _by_frequency(blind, [each for each in labels if each is not None]) | {
        "no upload": blind
    }


def _by_frequency(guesses: Guesses, labels: Sequence[NDArray[np.int64]]) -> dict[str, Guesses]:
    """What who knows only how frequent classes are among ``labels`` (k,) guesses, in each draw."""
    shares = np.stack([np.bincount(each, minlength=guesses.classes) / len(each) for each in labels])
    majority = np.eye(guesses.classes)[shares.argmax(axis=1)]
    return {
        "majority": replace(guesses, scores=None, shares=majority),
        "random": replace(guesses, scores=None, shares=shares),
    }


def _from_interactions(game: Game, view: View, question: _Question) -> float | None:
    """The attack's figure from the true interaction set; None where that is too large for it."""
    if not isinstance(game.attack, LearningAttack) or _beyond(game, question.subjects):
        return None
    kept = f"{_TRUE} {hash(question.subjects.tobytes())}"
    if kept not in game.condensed:
        truth = table_input(game.interactions.ratings, question.subjects)
        read = condense(view.without_uploads()).beside({ITEMS: truth})
        game.condensed[kept] = read.reading(ITEMS)
    return mean_of(_guesses(game, game.condensed[kept], question)[0])


def _row(
    game: Game,
    view: View,
    question: _Question,
    of: str,
    baselines: Mapping[str, Guesses],
    from_interactions: float | None,
) -> AttackRow:
    """The row of one question, from ``view``; ``of`` says which part of it that is."""
    guesses, read = _guesses(game, view, question)
    key, share, draws = question.key, question.share, len(question.backgrounds)
    others = "" if question.backgrounds[0].side is None else " and everybody's others"
    note = (
        f"Knows the attribute of {share:.0%} of users{others}; mean over {draws} draws of the "
        "known users, interval over users and draws."
    )
    if not of and any(read):
        said = ", ".join(f"{name} ({count})" for name, count in read.most_common())
        note += (
            " Of what the uploads give it weighs most what tells the known users apart best, each "
            "by the others; where cross-validation among them favours no upload, it guesses "
            f"classes without. In draws: {said}."
        )
        if game.quick:
            note += " An audit without --quick attacks each of these by itself as well."
    metric = f"{key} {MACRO} ({share:.0%} known{of})"
    row = _against(game, metric, guesses, baselines, note, from_interactions)
    return row.model_copy(update={} if of else {"users": _hit(game, guesses, question)})


def _against(
    game: Game,
    metric: str,
    guesses: Guesses,
    baselines: Mapping[str, Guesses],
    note: str,
    from_interactions: float | None = None,
) -> AttackRow:
    """The row of macro F1, with the gain over the best of ``baselines``."""
    means = {name: mean_of(one) for name, one in baselines.items()}
    best = baselines[max(means, key=lambda name: means[name])]
    found = estimates(guesses, confidence=game.confidence, rng=game.rng, beside=best)
    return game.row(
        metric,
        found.pop(MACRO),
        means,
        note,
        gain=found.pop(GAIN),
        from_interactions=from_interactions,
        further=found,
    )


def _hit(game: Game, guesses: Guesses, question: _Question) -> UsersRow:
    """Of how many of the draws in which it is not known each user's class is guessed rightly."""
    asked = guesses.guessed != NOT_ASKED
    right = np.count_nonzero(asked & (guesses.guessed == guesses.truth), axis=0)
    often = np.count_nonzero(asked, axis=0)
    share = np.divide(right, often, out=np.full(len(often), np.nan), where=often > 0)
    return who_is_hit(game, question.subjects, share, "share of right guesses of a user's class")


def _unlearned(game: Game, subjects: NDArray[np.int64], key: str) -> tuple[AttackRow, ...]:
    """The rows of attribute ``key`` of all ``subjects`` (n,), none of whom is known; or none."""
    attribute = game.interactions.attributes[key]
    codes, classes, rows = attribute.codes, len(attribute.classes), len(attribute.categories)
    nobody = np.zeros(0, dtype=np.int64)
    background = Background(known=nobody, labels=nobody, n_classes=rows, subjects=subjects)
    guess = game.guess(Labels, background, game.view)
    if not len(guess.users):
        return ()
    guessed = np.full((1, len(subjects)), NOT_ASKED)
    guessed[0, np.searchsorted(subjects, guess.users)] = guess.codes
    guesses = Guesses(truth=codes[subjects], guessed=guessed, classes=classes)
    row = _against(
        game,
        f"{key} {MACRO} (nobody known)",
        guesses,
        _by_frequency(guesses, [codes[guess.users]]),
        "Knows the attribute of no user, and the order of its categories in the model.",
    )
    return (row,) if guess.certain is None else (row, _settled(game, guess, subjects, key))


def _settled(game: Game, guess: Labels, subjects: NDArray[np.int64], key: str) -> AttackRow:
    """The share of ``subjects`` (n,) whose attribute is read for certain, and rightly.

    Nobody is certain of an attribute without messages. Where a reading is wrong, "certain" is only
    its word, and the baseline is the most frequent class among the users read.
    """
    assert guess.certain is not None
    users = guess.users[guess.certain]
    truth = game.interactions.attributes[key].codes[users]
    right = truth == guess.codes[guess.certain]
    return game.row(
        f"{key} {CERTAIN}",
        game.share(np.isin(subjects, users[right])),
        {"no upload": 0.0}
        if right.all()
        else {"majority": float(np.bincount(truth).max()) / len(subjects)},
        f"Read for certain: {len(users)} of {len(subjects)} users whose messages are read; "
        f"{int(right.sum())} rightly.",
    )


def _side(interactions: Interactions, key: str) -> NDArray[np.float64] | None:
    """All users' other attributes, one-hot: (n_users, number of their categories)."""
    parts = [
        np.eye(len(other.categories))[other.codes]
        for name, other in sorted(interactions.attributes.items())
        if name != key
    ]
    return np.concatenate(parts, axis=1) if parts else None
