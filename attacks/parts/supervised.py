"""Attribute inference as supervised learning with any classifier, and its accuracy measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.base import AttackFamily, Background, GuessedLabels
from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.parts.inputs import GramBlocks, InputTable, JointTable, add_input_tables
from fedrec_auditor.targets.transcript import View


def count_guesses_by_class(
    truth: NDArray[np.int64], guesses: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    """Counts, for each class, right guesses, users of the class, and guesses of the class.

    truth: true classes, integers (n,)
    guesses: guessed classes (..., n)
    n_classes: number of classes C

    The result is (..., 3, C), with the three counts in this order.
    """
    eye = np.eye(n_classes)
    true, guess = np.broadcast_arrays(eye[truth], eye[guesses])
    return np.stack([(true * guess).sum(axis=-2), true.sum(axis=-2), guess.sum(axis=-2)], axis=-2)


def get_class_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the F1 of each class, (..., C), from its counts (..., 3, C).

    The counts are those of ``count_guesses_by_class``: right guesses, users of the class, and
    guesses of the class.
    """
    hits, truth, guessed = np.moveaxis(counts, -2, 0)
    return uploads.divide_or_zero(2.0 * hits, truth + guessed)


def get_macro_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean F1 over classes, from the counts (..., 3, C) of each class.

    The counts are those of ``count_guesses_by_class``: right guesses, users of the class, and
    guesses of the class. The F1 of a class without users or guesses is 0.
    """
    return np.asarray(get_class_f1(counts).mean(axis=-1))


def get_macro_auc(truth: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the area under the ROC curve of a class against all others, averaged over classes.

    truth: true classes, integers (n,)
    scores: larger for more likely classes (n, ..., C)

    The result has one area for each index of the middle axes of ``scores``. Classes with no member
    or with all members are omitted. If all classes are omitted, the result is 1/2.
    """
    from scipy.stats import rankdata

    n, classes = len(truth), np.arange(scores.shape[-1])
    members = truth[:, None] == classes
    k = members.sum(axis=0)
    usable = (k > 0) & (k < n)
    if not usable.any():
        return np.full(scores.shape[1:-1], 0.5)
    sums = np.einsum("n...c,nc->...c", rankdata(scores[..., usable], axis=0), members[:, usable])
    k = k[usable]
    return np.asarray(((sums - k * (k + 1) / 2) / (k * (n - k))).mean(axis=-1))


def get_auc_influences(
    truth: NDArray[np.int64], scores: NDArray[np.float64]
) -> list[tuple[float, NDArray[np.float64]]]:
    """Returns for each class its area under the ROC curve, and each user's influence on it (n,).

    truth: true classes of n users, integers (n,)
    scores: larger for more likely classes (n, C)

    The class is compared with all other classes. Classes with no member or with all members are
    omitted. The sum of the squared influences is an unbiased estimate of the variance of the area
    (DeLong, DeLong and Clarke-Pearson 1988).
    """
    from scipy.stats import rankdata

    classes, n = [], len(truth)
    for code in range(scores.shape[1]):
        members = truth == code
        k = int(np.count_nonzero(members))
        if not 0 < k < n:
            continue
        ranks = rankdata(scores[:, code])
        within = np.empty(n)
        within[members] = rankdata(scores[members, code])
        within[~members] = rankdata(scores[~members, code])
        beaten = ranks - within  # rows of the opposite kind, ties by half
        area = float(beaten[members].sum()) / (k * (n - k))
        share = np.where(members, beaten / (n - k), 1 - beaten / k)
        sizes = np.where(members, k, n - k)
        # The influence of a member uses the share of non-members that it outranks, and vice versa.
        # For the single member of a class, or the single non-member, the deviation of this share
        # from the area is unknown. It is set to the largest possible value, sqrt(area (1 - area)).
        off = (share - area) * np.sqrt(sizes / np.maximum(sizes - 1, 1))
        off = np.where(sizes == 1, np.sqrt(area * (1 - area)), off)
        classes.append((area, off / sizes))
    return classes


# Attribute inference as supervised learning with any classifier.
#
# Zhang et al., "Comprehensive Privacy Analysis on Federated Recommender System against Attribute
# Inference Attacks", section 3.3: the server knows the attribute of some users, learns the map from
# uploads to attribute on them, and applies it to all other users. It also has the users' other
# attributes (``Background.attributes``); without any upload it learns from these alone.

# Ways to guess without uploads: from the other attributes, or by the frequencies of classes.
NO_UPLOAD, MAJORITY, FREQUENCIES = "no upload", "most frequent class", "class frequencies"
_FOLDS = 3
_GUESSES = 32  # number of repetitions of random guesses, which are compared by their mean
_CHECKED = 600
_PENALTY = 1.0  # multiple of the mean squared length of the known rows
_PENALTIES = np.geomspace(0.1, 300.0, 8)
_TELLING = 0.02  # difference in area under the ROC that multiplies an input's weight by e
_ALIKE = 9  # number of decimals of a guess of size 1 that are equal on all processors


@dataclass(frozen=True)
class AttributeProblem:
    """A problem of attribute inference: learn from users of known class, guess all others.

    A classifier's input is one row per user: the columns of ``table``, followed by the attributes.
    Columns have mean 0, and are 0 for a user who sent nothing.

    table: input table of the uploads, one row per sender; None without uploads
    known_users: indices of users with known class (k,)
    unknown_users: indices of users to guess (m,)
    class_codes: classes of the known users, numbered from 0 without gaps (k,)
    attributes: other attributes of all users, or None (n_users, s)
    """

    # The attributes are scaled to the total variance of the uploads, because unscaled they would
    # have little weight among thousands of columns of uploads.

    table: InputTable | JointTable | None
    known_users: NDArray[np.int64]
    unknown_users: NDArray[np.int64]
    class_codes: NDArray[np.int64]
    attributes: NDArray[np.float64] | None

    @property
    def n_classes(self) -> int:
        """Number of classes among the users of known class."""
        return int(self.class_codes.max()) + 1

    @cached_property
    def gram_blocks(self) -> GramBlocks:
        """Inner products of all users' input rows with the rows of users whose class is known.

        An input row is the user's columns of uploads, followed by the scaled attributes.
        """
        total, width, sizes = 0.0, 0, np.zeros(len(self.unknown_users))
        if self.table is not None:
            read = self.table.inner_products
            rows, width = self.find_senders_and_rows(self.known_users)[1], read.width
            total = float(read.row_sums[rows].sum())
            answered, others = self.find_senders_and_rows(self.unknown_users)
            sizes[answered] = np.diag(read.gram_matrix)[others]
        if self.scaled_attributes is not None:
            total += float(self.scaled_attributes[self.known_users].sum())
            width += self.scaled_attributes.shape[1]
            sizes += np.square(self.scaled_attributes[self.unknown_users]).sum(axis=1)
        among = self.get_inner_products(self.known_users, self.known_users)
        across = self.get_inner_products(self.unknown_users, self.known_users)
        return GramBlocks(
            known_gram=among, cross_gram=across, squared_norms=sizes, known_sum=total, width=width
        )

    def get_inner_products(
        self, users: NDArray[np.int64], others: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Returns inner products (a, b) of the input rows of ``users`` (a,) and ``others`` (b,)."""
        out = np.zeros((len(users), len(others)))
        if self.table is not None:
            (sent, rows), (asked, columns) = map(self.find_senders_and_rows, (users, others))
            out[np.ix_(sent, asked)] = self.table.inner_products.gram_matrix[np.ix_(rows, columns)]
        if self.scaled_attributes is not None:
            out += self.scaled_attributes[users] @ self.scaled_attributes[others].T
        return out

    def make_train_and_test_rows(
        self, values: NDArray[np.floating[Any]] | None
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        """Returns the input rows of users with known class (k, d), and of users to guess (m, d).

        A row is the user's columns of uploads, followed by the scaled attributes.

        values: columns of the uploads, one row per user of ``table``; None without uploads
        """
        columns: list[NDArray[np.floating[Any]]] = []
        kind = np.dtype(np.float32) if values is None else values.dtype
        for users in (self.known_users, self.unknown_users):
            parts: list[NDArray[np.floating[Any]]] = []
            if self.table is not None and values is not None:
                rows, places = self.find_senders_and_rows(users)
                parts.append(np.zeros((len(users), self.table.width), dtype=kind))
                parts[0][rows] = values[places]
            if self.scaled_attributes is not None:
                parts.append(self.scaled_attributes[users].astype(kind))
            columns.append(np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0])
        return columns[0], columns[1]

    def score_ridge(self) -> float:
        """Returns the leave-one-out score of ridge regression on the users of known class.

        The score is the area under the ROC curve, averaged over classes. At most 600 users of known
        class, evenly spaced, are used.
        """
        # The class of each user is guessed by a model that is fitted to all other users of known
        # class. The guesses have a closed form (Allen 1974), with a single matrix inverse for all
        # users.
        return float(self._score_penalties(np.array([_PENALTY]))[0])

    def choose_ridge_penalty(self) -> float:
        """Returns the ridge penalty with the best leave-one-out score (``score_ridge``).

        If several penalties have the best score, the largest one is returned.
        """
        areas = self._score_penalties(_PENALTIES[::-1])
        return float(_PENALTIES[::-1][int(np.argmax(areas))])

    def _score_penalties(self, penalties: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the value of ``score_ridge`` for each penalty, from one eigendecomposition."""
        every = -(-len(self.known_users) // _CHECKED)
        among, codes = self.gram_blocks.known_gram[::every, ::every], self.class_codes[::every]
        size = float(np.trace(among)) / len(among)
        if not size > 0:
            return np.full(len(penalties), 0.5)
        truth = np.eye(self.n_classes)[codes]
        values, vectors = np.linalg.eigh(among / size + 1.0)
        along, squares = vectors.T @ truth, vectors**2
        shares = 1.0 / (values.clip(min=0) + penalties[:, None])
        off = vectors @ (shares[:, :, None] * along) / (shares @ squares.T)[:, :, None]
        return get_macro_auc(codes, np.round(truth - off, _ALIKE).transpose(1, 0, 2))

    @cached_property
    def scaled_attributes(self) -> NDArray[np.float64] | None:
        """Each user's s attributes, scaled to the total variance of the input table (n_users, s).

        Without an input table, the attributes are not scaled. None if they are constant or missing.
        """
        spread = 0.0 if self.attributes is None else float(self.attributes.var(axis=0).sum())
        if self.attributes is None or not spread > 0:
            return None
        if self.table is None:
            return self.attributes
        inner = self.table.inner_products.gram_matrix
        return np.asarray(np.sqrt(np.trace(inner) / len(inner) / spread) * self.attributes)

    def find_senders_and_rows(
        self, users: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Finds which of ``users`` sent uploads, and their rows in the input table.

        Returns two arrays in the same order: positions in ``users``, and row indices of ``table``.
        """
        if self.table is None:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        sent = np.flatnonzero(np.isin(users, self.table.users))
        return sent, np.searchsorted(self.table.users, users[sent])


@dataclass(frozen=True, slots=True)
class ClassGuess:
    """Classes that a classifier guesses for the m users of unknown class (``AttributeProblem``).

    classes: guessed class of each user (m,)
    scores: larger for more likely classes, one column for each of C classes (m, C)

    Raises ArithmeticError unless all scores are finite.
    """

    classes: NDArray[np.int64]
    scores: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not np.isfinite(self.scores).all():
            raise ArithmeticError("Expected finite scores, got inf or NaN. Rescale the features.")


@dataclass(frozen=True, kw_only=True)
class SupervisedAttack(ABC):
    """Attribute inference by a classifier of the uploads; a subclass provides the classifier.

    Each input table of the uploads (``inputs.add_input_tables``) has an accuracy: that of
    leave-one-out guesses of the users of known class. The classifier uses all tables, weighted by
    accuracy. A classifier that needs columns uses only the best table. Classes are guessed without
    uploads if cross-validation on the users of known class rates such guesses better.

    family: family of the attack, which is the kind of secret that it infers
    reference: description of the method, with its source
    needs_known: whether the attack needs users of known class; always True
    needs_columns: whether the classifier needs the columns of the uploads, not only inner products
    slow: whether a quick audit omits the attack, unless the audit plan names it
    """

    # On few known users, the accuracies are too uncertain to choose one table. Uploads that are
    # mostly noise mislead a classifier, so that guesses without uploads may be better. The scores
    # of both are then added. True classes of the users to guess are never used.

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str]
    needs_known: ClassVar[bool] = True
    needs_columns: ClassVar[bool] = False
    slow: ClassVar[bool] = False

    @abstractmethod
    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Guesses the classes of the users of unknown class.

        problem: users, known classes, and inner products of the users' input rows
        table: result of ``prepare_columns``; None if inner products are sufficient
        seed: seed of the classifier's random choices
        """

    def prepare_columns(self, table: InputTable) -> object:
        """Returns the data that ``guess`` needs from an input table's columns; None by default.

        The data are computed once for all tasks on the same input table.
        """
        return None

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs messages that are linked to their users.
        """
        is_linked = uploads.list_linked_components(view)
        return "" if is_linked else uploads.make_refusal(view, "messages of known users")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        """Learns from users of known class, and guesses the attribute of all other users.

        Raises InputError unless the background has at least one known user, and one class for each.
        """
        return self.infer_per_background(view, (background,), rng)[0]

    def infer_per_background(
        self, view: View, backgrounds: Sequence[Background], rng: np.random.Generator
    ) -> tuple[GuessedLabels, ...]:
        """Returns the guesses for each background (known users and their classes), in order.

        The adversary's view is read only once.
        """
        seeds = [int(seed) for seed in rng.integers(2**31, size=len(backgrounds))]
        whole = add_input_tables(view)
        inputs = {n: read for n, read in whole.inputs.items() if not read.defect}
        problems = [self._make_problem(view, inputs, background) for background in backgrounds]
        labels: dict[int, GuessedLabels] = {}
        for name in dict.fromkeys(name for name, _ in problems):  # one table of columns at a time
            table = self.prepare_columns(inputs[name]) if name in inputs else None
            for place, (best, problem) in enumerate(problems):
                if best != name:
                    continue
                seed, way = seeds[place], name
                if inputs and not whole.has_mandatory_input:
                    way = self._choose_way(problem, table, name, seed)
                guess = self._guess(way, problem, table, seed)
                if way != name:
                    read = self._guess(name, problem, table, seed)
                    guess = replace(guess, scores=_scale_scores(guess) + _scale_scores(read))
                labels[place] = _make_labels(problem, guess, backgrounds[place], way)
        return tuple(labels[place] for place in range(len(backgrounds)))

    def _make_problem(
        self, view: View, inputs: dict[str, InputTable], background: Background
    ) -> tuple[str, AttributeProblem]:
        """Returns the name of the input table with the best accuracy, and the task to solve.

        The accuracy is that of leave-one-out guesses of users of known class. The name is empty
        without tables. Unless the classifier needs columns, the task's table combines all tables.
        """
        known, labels = background.known_users, background.known_classes
        if known is None or labels is None or len(known) == 0 or len(known) != len(labels):
            raise InputError(
                "Expected background.known_users and one class for each in known_classes, got "
                f"{known!s:.40} and {labels!s:.40}. Give one class per user, for 1 user or more."
            )
        among = background.subjects
        unknown = np.setdiff1d(np.arange(view.public.n_users) if among is None else among, known)
        codes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        problem = AttributeProblem(None, known, unknown, codes, background.attributes)
        problems = {name: replace(problem, table=read) for name, read in inputs.items()}
        if not problems:
            return "", problem
        if len(problems) == 1:
            return next(iter(problems.items()))
        areas = {name: each.score_ridge() for name, each in problems.items()}
        best = max(areas, key=lambda name: areas[name])
        if self.needs_columns:
            return best, problems[best]
        weights = {name: np.exp((area - areas[best]) / _TELLING) for name, area in areas.items()}
        return best, replace(problem, table=JointTable.combine(inputs, weights))

    def _choose_way(self, problem: AttributeProblem, table: object, name: str, seed: int) -> str:
        """Returns the best source of guesses: ``name`` for the uploads, or a guess without them.

        The criterion is the macro F1 of ``_FOLDS``-fold cross-validation among users of known
        class, of whom at most 600, evenly spaced, are used.
        """
        every = -(-len(problem.known_users) // _CHECKED)
        known, codes = problem.known_users[::every], problem.class_codes[::every]
        dice = np.random.default_rng(seed)
        mixed = dice.permutation(len(known))
        fold_of = np.empty(len(known), dtype=np.int64)  # stratified by class
        fold_of[mixed[np.argsort(codes[mixed], kind="stable")]] = np.arange(len(known)) % _FOLDS
        ways = [name, NO_UPLOAD, MAJORITY, FREQUENCIES]
        tallies: dict[str, NDArray[np.float64]] = dict.fromkeys(ways, np.zeros((1, 3, 1)))
        for fold in range(min(_FOLDS, len(known)) if len(known) > 1 else 0):
            out = fold_of == fold
            classes, numbered = np.unique(codes[~out], return_inverse=True)
            part = replace(
                problem,
                known_users=known[~out],
                unknown_users=known[out],
                class_codes=numbered.astype(np.int64),
            )
            guessed = {way: self._guess(way, part, table, seed).classes for way in ways}
            guessed[FREQUENCIES] = _draw_classes(part, dice, times=_GUESSES)
            for way, guess_of_way in guessed.items():
                tally = count_guesses_by_class(codes[out], classes[guess_of_way], problem.n_classes)
                tallies[way] = tallies[way] + tally
        return max(ways, key=lambda way: float(get_macro_f1(tallies[way]).mean()))

    def _guess(self, way: str, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Guesses classes in the given ``way``: by the classifier, or by class frequencies.

        The way ``NO_UPLOAD`` uses the classifier on the other attributes alone.
        """
        m = len(problem.unknown_users)
        if way == NO_UPLOAD:
            problem, table = replace(problem, table=None), None
        blind = problem.table is None and problem.attributes is None
        if m and problem.n_classes > 1 and not blind and way not in (MAJORITY, FREQUENCIES):
            return self.guess(problem, table, seed)
        rates = np.bincount(problem.class_codes) / len(problem.class_codes)
        if way == FREQUENCIES:
            codes = _draw_classes(problem, np.random.default_rng(seed))[0]
        else:
            codes = np.full(m, rates.argmax())
        return ClassGuess(codes, np.tile(rates, (m, 1)))


def _draw_classes(
    problem: AttributeProblem, rng: np.random.Generator, *, times: int = 1
) -> NDArray[np.int64]:
    """Draws classes of users of unknown class with the known frequencies, (times, m)."""
    rates = np.bincount(problem.class_codes) / len(problem.class_codes)
    return rng.choice(len(rates), size=(times, len(problem.unknown_users)), p=rates)


def _make_labels(
    problem: AttributeProblem, guess: ClassGuess, background: Background, way: str
) -> GuessedLabels:
    """Converts a guess to ``GuessedLabels``: classes are numbered as in the background, not from 0.

    ``way`` is the name of the input table, or of a guess without uploads.
    """
    assert background.known_classes is not None
    classes = np.unique(background.known_classes)
    users, codes = problem.unknown_users, classes[guess.classes].astype(np.int64)
    scores = np.full((len(users), max(background.n_classes, int(classes[-1]) + 1)), -np.inf)
    scores[:, classes] = guess.scores
    return GuessedLabels(users=users, classes=codes, scores=scores, input_name=way)


def _scale_scores(guess: ClassGuess) -> NDArray[np.float64]:
    """Returns the scores (m, C), divided by their standard deviation."""
    return np.asarray(guess.scores / (guess.scores.std() or 1.0))
