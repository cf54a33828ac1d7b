"""Scores attribute inference: the adversary knows the attribute (such as gender) of some users, and
guesses the attribute of all other users from their uploads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Background, GuessedLabels, LearningAttack
from fedrec_auditor.attacks.parts import inputs
from fedrec_auditor.attacks.parts.uploads import find_senders
from fedrec_auditor.auditor.games.game import Trial, summarize_users
from fedrec_auditor.auditor.games.metrics import (
    CERTAIN,
    GAIN_METRIC,
    MACRO_F1,
    NOT_GUESSED_CODE,
    Guesses,
    estimate_metrics,
    get_mean_f1,
)
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow, UsersRow
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.transcript import View

# Shares of users whose class the adversary knows, in a full and in a quick audit.
KNOWN_SHARES, QUICK_KNOWN_SHARES = (0.1, 0.2, 0.3), (0.3,)
# Number of draws of the known users, in a full and in a quick audit.
N_DRAWS, QUICK_N_DRAWS = 10, 3
# Maximum number of columns of a table that an attack sorts in a quick audit.
MAX_QUICK_COLUMNS = 20_000
_MAX_SHARED = 1024  # maximum number of senders whose tables are stored for the next attack
_N_TABLES = 14  # number of tables of the uploads for which memory is estimated
_FIRST_KEYS = ("gender", "age_group")  # attributes that Zhang et al. infer; their rows come first
_ALL_UPLOADS, _TRUE_SET = "all uploads", "true interaction set"
_NO_READING = (
    "Inferring {} was not attempted: no group, or more than one, of rows or columns can encode it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One attribute to infer, and random draws of the users whose class the adversary knows.

    ``share``: share of ``subjects`` whose class is known, in (0, 1).
    ``subjects``: indices of the users whose class is known or guessed (n,).
    ``backgrounds``: knowledge of the adversary in each draw.
    """

    key: str
    attribute: Attribute
    share: float
    subjects: NDArray[np.int64]
    backgrounds: tuple[Background, ...]


def score_attack(trial: Trial) -> tuple[AttackRow | SkippedRow, ...]:
    """Scores an attack that guesses an attribute of users; returns rows of the report.

    The adversary knows the class (value of the attribute) of some users, drawn at random. The
    attack guesses the class of all other users whose messages it reads. The metric is macro F1 over
    these other users, averaged over several draws.

    - Attack that learns from known users: one row per attribute and share of known users. At the
      largest share, there are also rows for single tables of the uploads, unless the audit is
      quick.
    - Attack that does not learn: one row per attribute, without known users. A second row may count
      the users whose attribute is certain.
    - Attribute that cannot be attacked: a row with the reason.

    A row states the gain over the best of these baselines:

    - ``majority``: the most frequent class among the known users.
    - ``random``: random classes with the frequencies of the known users (exact expectation).
    - ``no upload``: the same attack without uploads, if it learns.

    The result is empty if the attack cannot read the messages.
    """
    # Zhang et al., who published these attacks, do not say how they average F1 over classes. Macro
    # F1 is the main metric, because an adversary who has learned nothing gets other averages close
    # to the share of the largest class. These averages are further metrics of a row.
    if trial.attack.refusal(trial.view):
        return ()
    attributes = trial.interactions.attributes
    if not attributes:
        reason = "The data have no attributes of users. Bring them with --users."
        return (trial.make_skipped_row(reason),)
    learns = trial.attack.needs_known
    whole = _condense_uploads(trial) if learns else None
    subjects = find_senders(trial.view).astype(np.int64)
    if whole is not None and whole.inputs:
        subjects = whole.inputs[inputs.SUMMARY].users.astype(np.int64)
    rows: list[AttackRow | SkippedRow] = []
    not_readable = list[str]()
    readable = subjects
    keys = attributes if trial.attributes is None else trial.attributes
    if not keys:
        reason = "No attribute was asked for. Name some, or leave them out for all."
        return (trial.make_skipped_row(reason),)
    for key in sorted(keys, key=lambda key: (key not in _FIRST_KEYS, key != _FIRST_KEYS[0], key)):
        subjects = readable[attributes[key].has_value[readable]]
        if why := _explain_no_guess(attributes[key], subjects):
            rows.append(trial.make_skipped_row(f"Inferring {key} was not attempted: {why}"))
        elif whole is None:
            new_rows = _score_nonlearner(trial, subjects, key)
            rows += new_rows
            not_readable += [] if new_rows else [key]
        else:
            rows += _score_learner(trial, whole, subjects, key)
    if not_readable:
        rows.append(trial.make_skipped_row(_NO_READING.format(" or ".join(not_readable))))
    return tuple(rows)


def get_max_attack_bytes(n_users: int, n_numbers: int) -> float:
    """Returns the maximum memory of an attribute attack, in bytes.

    ``n_users``: number of users who send messages.
    ``n_numbers``: count of numbers that each user sends.
    """
    # The attack reads several tables of the uploads, one at a time, with one row per user. In
    # memory are at most two tables, a copy of the rows of known users, and, per table, the inner
    # products of its rows.
    numbers, max_users = inputs.get_max_entries_and_rows(n_users)
    size = 4.0 * (2 + max(KNOWN_SHARES)) * min(numbers, n_users * n_numbers)
    return size + (4.0 * _N_TABLES + 12.0) * min(n_users, max_users) ** 2


def _explain_no_guess(attribute: Attribute, subjects: NDArray[np.int64]) -> str:
    """Reason why the attribute cannot be guessed, as text; empty if it can be guessed.

    ``subjects``: indices of the users whose messages the attack reads (n,).
    """
    n = len(subjects)
    if n < 2:
        return f"the attack reads messages of {n} users, and needs two."
    if np.ptp(attribute.codes[subjects]) == 0:
        return f"all {n} users whose messages the attack reads are of one class."
    return ""


def _condense_uploads(trial: Trial) -> inputs.ViewWithInputs:
    """The view with tables of the uploads (one row per user), from which classifiers learn.

    Tables of at most ``_MAX_SHARED`` rows are stored in ``trial.table_views``, so that the next
    attack on the same training does not compute them again.
    """
    if _ALL_UPLOADS not in trial.table_views:
        readings = inputs.add_input_tables(trial.view)
        if readings.inputs and len(readings.inputs[inputs.SUMMARY].users) > _MAX_SHARED:
            return readings
        trial.table_views[_ALL_UPLOADS] = readings
    for note in trial.table_views[_ALL_UPLOADS].notes:
        trial.view.add_note(note)
    return trial.table_views[_ALL_UPLOADS]


def _score_learner(
    trial: Trial, whole: inputs.ViewWithInputs, subjects: NDArray[np.int64], key: str
) -> Iterator[AttackRow | SkippedRow]:
    """Yields the rows of one attribute for an attack that learns from users whose class the
    adversary knows.

    ``subjects``: indices of the users who have a value of the attribute (n,).
    """
    defects = {name: each.defect for name, each in whole.inputs.items() if each.defect}
    usable = [name for name in whole.inputs if name not in defects]
    for name in _list_wide_tables(trial, whole, usable):
        width = f"{whole.inputs[name].width:,} numbers per user"
        defects[name] = f"{width} are too many in a quick audit. Audit without --quick."
    usable = [name for name in usable if name not in defects]
    if usable and (why := _explain_no_truth(trial, subjects)):
        defects[_TRUE_SET] = why
    for name, why in defects.items():
        what = f"Inferring {key} from the features “{name}” was not attempted"
        yield trial.make_skipped_row(f"{what}: {why}")
    if not usable:
        return
    whole = whole.with_inputs({name: whole.inputs[name] for name in usable})
    tried = QUICK_KNOWN_SHARES if trial.is_quick else KNOWN_SHARES
    for share in tried:
        question = _make_question(trial, subjects, key, share)
        if not question.backgrounds:
            yield trial.make_skipped_row(
                f"Inferring {key} with {share:.0%} of users known was not attempted: in every "
                f"draw, all known users among {len(subjects)} are of one class."
            )
            continue
        baselines = _guess_baselines(trial, whole, question)
        from_interactions = _score_on_truth(trial, whole, question)
        yield _make_row(trial, whole, question, "", baselines, from_interactions)
        for name in usable if share == tried[-1] and len(usable) > 1 and not trial.is_quick else ():
            view = whole.with_only_input(name)
            yield _make_row(trial, view, question, f", {name}", baselines, from_interactions)


def _list_wide_tables(trial: Trial, whole: inputs.ViewWithInputs, usable: list[str]) -> list[str]:
    """Names of the tables that a quick audit leaves out, because the attack would sort too many
    columns.

    ``usable``: names of the tables of ``whole`` that can be attacked.

    The narrowest table is never left out.
    """
    attack = trial.attack
    if not (trial.is_quick and isinstance(attack, LearningAttack) and attack.needs_columns):
        return []
    widths = {name: whole.inputs[name].width for name in usable}
    narrowest = min(widths.values(), default=0)
    return [name for name, width in widths.items() if width > max(narrowest, MAX_QUICK_COLUMNS)]


def _explain_no_truth(trial: Trial, subjects: NDArray[np.int64]) -> str:
    """Reason why the attack does not run on the true interactions, as text; empty if it does.

    Only attacks that sort columns are refused, if the table is too large for them.
    """
    # Other attacks read inner products only, which are computed for any number of columns, one
    # block at a time.
    size, attack = len(subjects) * trial.interactions.n_items, trial.attack
    needs_columns = isinstance(attack, LearningAttack) and attack.needs_columns
    if size <= inputs.MAX_TABLE_ENTRIES or not needs_columns:
        return ""
    return (
        f"the true interaction set has {size:,} entries, and the attack sorts "
        f"{inputs.MAX_TABLE_ENTRIES:,} at most. The rows have no result from it."
    )


def _make_question(trial: Trial, subjects: NDArray[np.int64], key: str, share: float) -> _Question:
    """Draws a ``share`` of the users ``subjects``, whose class the adversary knows, several times.

    ``backgrounds`` of the result is empty if, in every draw, all known users are of one class.
    """
    attribute, n = trial.interactions.attributes[key], len(subjects)
    count = min(max(1, round(share * n)), n - 1)
    draws = QUICK_N_DRAWS if trial.is_quick else N_DRAWS
    known = [np.sort(subjects[trial.rng.permutation(n)[:count]]) for _ in range(draws)]
    side = _encode_others(trial.interactions, key)
    has_classes = any(np.ptp(attribute.codes[each]) > 0 for each in known)
    return _Question(
        key=key,
        attribute=attribute,
        share=share,
        subjects=subjects,
        backgrounds=tuple(
            Background(
                known_users=users,
                known_classes=attribute.codes[users],
                n_classes=len(attribute.classes),
                attributes=side,
                subjects=subjects,
            )
            for users in (known if has_classes else ())
        ),
    )


def _guess_all(trial: Trial, view: View, question: _Question) -> tuple[Guesses, Counter[str]]:
    """The attack's guesses in every draw of the users whose class the adversary knows, and how
    often it used each table of the uploads.

    The counts are numbers of draws, by name of the table.
    """
    attack, backgrounds, subjects = trial.attack, question.backgrounds, question.subjects
    draws: tuple[GuessedLabels, ...]
    if isinstance(attack, LearningAttack):
        draws = attack.infer_per_background(view, backgrounds, trial.rng)
    else:
        draws = tuple(trial.run_attack(GuessedLabels, each, view) for each in backgrounds)
    n, classes = len(subjects), len(question.attribute.classes)
    guessed = np.full((len(draws), n), NOT_GUESSED_CODE)
    scores = np.zeros((len(draws), n, classes))
    for draw, labels in enumerate(draws):
        places = np.searchsorted(subjects, labels.users)
        guessed[draw, places] = labels.classes
        if labels.scores is not None:
            scores[draw, places] = labels.scores
    return (
        Guesses(
            true_classes=question.attribute.codes[subjects],
            class_guesses=guessed,
            n_classes=classes,
            scores=scores if all(one.scores is not None for one in draws) else None,
        ),
        Counter(one.input_name for one in draws),
    )


def _guess_baselines(trial: Trial, view: View, question: _Question) -> dict[str, Guesses]:
    """Guesses of every baseline, by name. Baselines use no uploads."""
    blind, _ = _guess_all(trial, view.drop_uploads(), question)
    labels = [background.known_classes for background in question.backgrounds]
    return _frequency_guesses(blind, [x for x in labels if x is not None]) | {"no upload": blind}


def _frequency_guesses(guesses: Guesses, labels: Sequence[NDArray[np.int64]]) -> dict[str, Guesses]:
    """Guesses of the baselines ``majority`` (most frequent class) and ``random`` (class drawn by
    frequency), by name.

    ``guesses``: guesses of an attack for the same users and draws.
    ``labels``: for each draw, class codes (k,) whose frequencies the baselines use.
    """
    n = guesses.n_classes
    shares = np.stack([np.bincount(each, minlength=n) / len(each) for each in labels])
    majority = np.eye(n)[shares.argmax(axis=1)]
    return {
        "majority": replace(guesses, scores=None, guess_probs=majority),
        "random": replace(guesses, scores=None, guess_probs=shares),
    }


def _score_on_truth(trial: Trial, view: View, question: _Question) -> float | None:
    """Mean macro F1 of the attack on the true interactions in place of uploads; None if it cannot
    run on interactions.
    """
    if not isinstance(trial.attack, LearningAttack) or _explain_no_truth(trial, question.subjects):
        return None
    name = f"{_TRUE_SET} {hash(question.subjects.tobytes())}"
    if name not in trial.table_views:
        truth = inputs.make_input_table(trial.interactions.ratings, question.subjects)
        read = inputs.add_input_tables(view.drop_uploads()).with_inputs({inputs.ITEMS: truth})
        trial.table_views[name] = read.with_only_input(inputs.ITEMS)
    return get_mean_f1(_guess_all(trial, trial.table_views[name], question)[0])


def _make_row(
    trial: Trial,
    view: View,
    question: _Question,
    part: str,
    baselines: Mapping[str, Guesses],
    from_interactions: float | None,
) -> AttackRow:
    """Makes the row of the report for one attribute and share of users whose class the adversary
    knows.

    ``part``: text that names the single table of ``view``; empty if ``view`` has all tables.
    """
    guesses, read = _guess_all(trial, view, question)
    key, share, draws = question.key, question.share, len(question.backgrounds)
    is_alone = question.backgrounds[0].attributes is None
    others = "" if is_alone else " and all users' other attributes"
    note = (
        f"The adversary knows the attribute of {share:.0%} of users{others}. The result is a mean "
        f"over {draws} repetitions with random known users. The confidence interval accounts for "
        "this randomness and for the sample of users."
    )
    if not part and any(read):
        used = " and ".join(f"“{name}” in {count}" for name, count in read.most_common())
        note += (
            " In each repetition, the attack uses the features of uploads that classify the known "
            "users best in cross-validation; if no features help, it guesses without uploads. To "
            f"guess {key}, the attack used the features {used} of {draws} repetitions."
        )
        if trial.is_quick:
            note += " An audit without --quick also attacks with each set of features alone."
    metric = f"{key} {MACRO_F1} ({share:.0%} known{part})"
    row = _make_gain_row(trial, metric, guesses, baselines, note, from_interactions)
    return row.model_copy(update={} if part else {"users": _rate_users(trial, guesses, question)})


def _make_gain_row(
    trial: Trial,
    metric: str,
    guesses: Guesses,
    baselines: Mapping[str, Guesses],
    note: str,
    from_interactions: float | None = None,
) -> AttackRow:
    """Makes the row of macro F1, with the gain over the best of ``baselines``."""
    means = {name: get_mean_f1(one) for name, one in baselines.items()}
    best = baselines[max(means, key=lambda name: means[name])]
    figures = estimate_metrics(guesses, confidence=trial.confidence, rng=trial.rng, baseline=best)
    return trial.make_row(
        metric,
        figures.pop(MACRO_F1),
        means,
        note,
        gain=figures.pop(GAIN_METRIC),
        from_interactions=from_interactions,
        further=figures,
    )


def _rate_users(trial: Trial, guesses: Guesses, question: _Question) -> UsersRow:
    """Summary of the attack's success over users.

    A user's success is the share of right guesses, among the draws in which the user's class is not
    known.
    """
    is_unknown = guesses.class_guesses != NOT_GUESSED_CODE
    right = np.count_nonzero(is_unknown & (guesses.class_guesses == guesses.true_classes), axis=0)
    count = np.count_nonzero(is_unknown, axis=0)
    share = np.divide(right, count, out=np.full(len(count), np.nan), where=count > 0)
    return summarize_users(trial, question.subjects, share, "share of right guesses per user")


def _score_nonlearner(trial: Trial, subjects: NDArray[np.int64], key: str) -> tuple[AttackRow, ...]:
    """Rows of one attribute for an adversary who knows no user's class; empty if the attack guesses
    nothing.

    ``subjects``: indices of the users whose attribute is guessed (n,).
    ``key``: name of the attribute.
    """
    attribute = trial.interactions.attributes[key]
    codes, classes, rows = attribute.codes, len(attribute.classes), len(attribute.categories)
    none = np.zeros(0, dtype=np.int64)
    background = Background(known_users=none, known_classes=none, n_classes=rows, subjects=subjects)
    guess = trial.run_attack(GuessedLabels, background, trial.view)
    if not len(guess.users):
        return ()
    guessed = np.full((1, len(subjects)), NOT_GUESSED_CODE)
    guessed[0, np.searchsorted(subjects, guess.users)] = guess.classes
    guesses = Guesses(true_classes=codes[subjects], class_guesses=guessed, n_classes=classes)
    row = _make_gain_row(
        trial,
        f"{key} {MACRO_F1} (nobody known)",
        guesses,
        # Frequencies of the users whose attribute is guessed, because no user is known.
        _frequency_guesses(guesses, [codes[guess.users]]),
        "The adversary knows which part of the model encodes a category, but no user's category.",
    )
    return (row,) if guess.is_proved is None else (row, _score_certain(trial, guess, subjects, key))


def _score_certain(
    trial: Trial, guess: GuessedLabels, subjects: NDArray[np.int64], key: str
) -> AttackRow:
    """Makes the row of the share of users whose attribute is inferred with certainty and correctly.

    ``subjects``: indices of the attacked users (n,).
    """
    assert guess.is_proved is not None
    users = guess.users[guess.is_proved]
    truth = trial.interactions.attributes[key].codes[users]
    right = truth == guess.classes[guess.is_proved]
    return trial.make_row(
        f"{key} {CERTAIN}",
        trial.estimate_share(np.isin(subjects, users[right])),
        # Without messages no inference is certain. If a certain inference is wrong, the baseline
        # guesses the most frequent class for the users with a certain inference, and nothing for
        # other users.
        {"no upload": 0.0}
        if right.all()
        else {"majority": float(np.bincount(truth).max()) / len(subjects)},
        f"The attack reads the messages of {len(subjects)} users. For {len(users)} of these users, "
        f"the attack is certain of the attribute, and it is right for {int(right.sum())} users.",
    )


def _encode_others(interactions: Interactions, key: str) -> NDArray[np.float64] | None:
    """One-hot codes of all attributes except ``key``, as floats (n_users, number of categories);
    None if there is no other attribute.
    """
    parts = [
        np.eye(len(other.categories))[other.codes]
        for name, other in sorted(interactions.attributes.items())
        if name != key
    ]
    return np.concatenate(parts, axis=1) if parts else None
