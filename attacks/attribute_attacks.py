"""Attribute inference: guesses a user's class, such as gender, from the device's uploads.

Six attacks are classifiers of the uploads, trained on users whose class is known. One attack needs
no known users: the embedding row of a user's own category is the only row of its group that
changes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import AttackFamily, Background, GuessedLabels
from fedrec_auditor.attacks.parts import supervised
from fedrec_auditor.attacks.parts.inputs import InputTable
from fedrec_auditor.attacks.parts.supervised import AttributeProblem, ClassGuess, SupervisedAttack
from fedrec_auditor.attacks.parts.uploads import ChangedRows, find_changed_rows, make_refusal
from fedrec_auditor.targets.transcript import View

_ALIKE = 6  # number of decimals of scores that are equal on all processors
_MIN_COUNT = 1e-9  # number of users of a class, below which the number is a rounding error
_HIDDEN = (100, 30)
_ZHANG = (
    "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
    "Attribute Inference Attacks, section"
)


@dataclass(frozen=True, kw_only=True)
class AttributeKnn(SupervisedAttack):
    """Attribute inference by the majority class of the users with the most similar uploads.

    The method is KNN in Table IV of Zhang et al. Ties are resolved in favour of the first users and
    the first class.

    neighbours: number of nearest users, among those with known class, who vote; the default is that
        of scikit-learn
    """

    reference = f"{_ZHANG} 5.8 (KNN)"
    neighbours: int = 5

    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Returns guessed classes; scores (m users, C classes) are shares of the neighbours' votes.

        The users to guess are ``problem.unknown_users``; ``table`` and ``seed`` are not used.
        """
        _, far = problem.gram_blocks.compute_squared_distances()
        nearest = np.argsort(far, axis=1, kind="stable")[:, : self.neighbours]
        votes = np.eye(problem.n_classes)[problem.class_codes[nearest]].mean(axis=1)
        return ClassGuess(votes.argmax(axis=1), votes)


@dataclass(frozen=True, kw_only=True)
class AttributeBayes(SupervisedAttack):
    """Attribute inference with naive Bayes, which learns from users of known and unknown class.

    Columns of the uploads are assumed normal with variance 1. Class means are estimated in two
    ways:

    - from the known users alone;
    - from all users, by expectation maximisation, which guesses the unknown classes.

    The second estimate is used only if its guesses separate the known users better.

    steps: number of iterations of expectation maximisation
    """

    # Under the normal assumption, inner products with the class means are a sufficient statistic.
    # For bits this is close to Bernoulli naive Bayes if classes differ little. A user's own uploads
    # are left out of the means with which that user's class is guessed.

    reference = (
        "Nigam, McCallum, Thrun and Mitchell, Text Classification from Labeled and Unlabeled "
        "Documents using EM, 2000"
    )
    steps: int = 3

    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Returns guessed classes; scores (m users, C classes) are normalised log-likelihoods.

        The users to guess are ``problem.unknown_users``; ``table`` and ``seed`` are not used.
        """
        from scipy.special import log_softmax, softmax

        k, codes = len(problem.known_users), problem.class_codes
        everybody = np.concatenate([problem.known_users, problem.unknown_users])
        inner = problem.get_inner_products(everybody, everybody)
        inner *= _compute_scale(inner)
        truth = np.eye(problem.n_classes)[codes]
        known_only = _log_likelihood(inner, np.pad(truth, ((0, len(inner) - k), (0, 0))))
        updated = known_only
        for _ in range(self.steps):
            shares = softmax(updated + np.log(truth.mean(axis=0)), axis=1)
            shares[:k] = truth
            updated = _log_likelihood(inner, shares)
        both = [np.round(log_softmax(found, axis=1), _ALIKE) for found in (known_only, updated)]
        scores = max(both, key=lambda found: supervised.get_macro_auc(codes, found[:k]))[k:]
        return ClassGuess(scores.argmax(axis=1), scores)


@dataclass(frozen=True, kw_only=True)
class AttributeLogistic(SupervisedAttack):
    """Attribute inference with logistic regression on the uploads.

    The penalty is on the squared weights. Classes are weighted by their inverse frequency.

    inverse_penalty: scikit-learn's C, the weight of the loss relative to the penalty; None to
        choose it by leave-one-out accuracy on the users of known class
    """

    # The weights that minimise the loss lie in the span of the k known users' rows (representer
    # theorem). Therefore k coordinates in that span give the same decisions as all columns.

    reference = (
        "scikit-learn's logistic regression (Pedregosa et al. 2011); not in the paper on attribute "
        "inference (Zhang et al.)"
    )
    inverse_penalty: float | None = None

    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Returns guessed classes; scores (m users, C classes) are log-probabilities.

        The users to guess are ``problem.unknown_users``; ``table`` and ``seed`` are not used.
        """
        from sklearn.linear_model import LogisticRegression

        known, others = problem.gram_blocks.compute_span_coordinates()
        size = float(np.mean(np.square(known).sum(axis=1))) or 1.0  # 1 suits the optimiser
        # By default, the penalty is that of the ridge regression with the best leave-one-out
        # accuracy (``choose_ridge_penalty``), scaled to the curvature of the logistic loss.
        # With n equally likely classes the logistic loss has curvature (n - 1) / n^2, and a squared
        # error, whose penalty is estimated, has curvature 1.
        n = problem.n_classes
        inverse = self.inverse_penalty or n**2 / ((n - 1) * size * problem.choose_ridge_penalty())
        model = LogisticRegression(
            C=inverse * size, class_weight="balanced", solver="newton-cg", tol=1e-5, max_iter=1000
        )
        root = np.sqrt(size)
        return _classify(model, known / root, problem.class_codes, others / root)


@dataclass(frozen=True, kw_only=True)
class AttributeMlp(SupervisedAttack):
    """Attribute inference with a multi-layer perceptron on the uploads.

    The network is that of Zhang et al., built with scikit-learn: hidden layers of 100 and 30 units,
    trained by Adam at the default learning rate. Training ends when the loss on the users of known
    class stops falling.

    The paper's input is the columns of an upload. Here the input is the upload's coordinates in the
    span of the known users' uploads, divided by their root mean square over the known users.

    epochs: maximum number of passes over the users of known class
    """

    # Gradients of the first layer lie in that span. Adam is not invariant under rotations, so the
    # trained weights differ from the paper's. On MovieLens 100K coordinates are 10 to 60 times as
    # fast as columns. Over four random choices of the known users, the macro F1 of gender on all
    # other users was .98 with coordinates and .87 with columns, from FedRec's uploads. From FCF's
    # uploads it was .64 with both inputs.

    reference = f"{_ZHANG} 3.3 (MLP 100-30)"
    slow = True
    epochs: int = 200

    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Returns guessed classes; scores (m users, C classes) are log-probabilities.

        The users to guess are ``problem.unknown_users``. ``seed`` determines the random choices of
        the training; ``table`` is not used.
        """
        from sklearn.neural_network import MLPClassifier

        known, others = problem.gram_blocks.compute_span_coordinates()
        scale = float(np.sqrt(np.mean(known**2))) or 1.0
        network = MLPClassifier(_HIDDEN, max_iter=self.epochs, random_state=seed)
        rows, asked = ((part / scale).astype(np.float32) for part in (known, others))
        return _classify(network, rows, problem.class_codes, asked)


@dataclass(frozen=True, kw_only=True)
class AttributeSvc(SupervisedAttack):
    """Attribute inference with a support vector machine on the uploads.

    The classifier is that of Zhang et al., Table IV (SVC): scikit-learn's defaults, with classes
    weighted by their inverse frequency. The kernel of two uploads x and y is exp(-gamma |x - y|^2)
    with gamma = 1 / (d Var x) for d columns.

    penalty: scikit-learn's C, the penalty on classification errors
    """

    # If the classes differ little, a classifier without weights guesses the larger class for nearly
    # all users. For gender from FCF on MovieLens 100K, the macro F1 is .42 without weights, and .61
    # with weights.

    reference = f"{_ZHANG} 5.8 (SVC)"
    penalty: float = 1.0

    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Returns guessed classes; scores (m users, C classes) are SVM decision values.

        The users to guess are ``problem.unknown_users``; ``table`` and ``seed`` are not used.
        """
        from sklearn.svm import SVC

        products = problem.gram_blocks
        spread = products.width * products.entry_variance
        gamma = 1.0 / spread if spread > 0 else 1.0
        near, far = products.compute_squared_distances()
        machine = SVC(C=self.penalty, kernel="precomputed", class_weight="balanced")
        machine.fit(np.exp(-gamma * near), problem.class_codes)
        kernel = np.exp(-gamma * far)
        scores = machine.decision_function(kernel)
        if scores.ndim == 1:  # of two classes, the score of the second one
            scores = np.stack([-scores, scores], axis=1)
        return ClassGuess(machine.predict(kernel).astype(np.int64), scores)


@dataclass(frozen=True, kw_only=True)
class AttributeTree(SupervisedAttack):
    """Attribute inference with a decision tree on the uploads.

    The tree is that of Zhang et al., Table IV, as scikit-learn grows it, until each leaf holds
    users of one class only.
    """

    reference = f"{_ZHANG} 5.8 (decision tree)"
    needs_columns = True

    def prepare_columns(self, table: InputTable) -> NDArray[np.floating[Any]]:
        """Returns all columns of the input table, shape (users, columns)."""
        return table.compute_values()

    def guess(self, problem: AttributeProblem, table: object, seed: int) -> ClassGuess:
        """Returns the guessed class of each of m users, and scores of all C classes, (m, C).

        The users to guess are ``problem.unknown_users``. A user's score of a class is the share of
        the class among the known users in the same leaf of the tree.

        table: the result of ``prepare_columns``, or None without uploads
        seed: determines scikit-learn's random choices
        """
        from sklearn.tree import DecisionTreeClassifier

        assert table is None or isinstance(table, np.ndarray)
        known, others = problem.make_train_and_test_rows(table)
        tree = DecisionTreeClassifier(random_state=seed).fit(known, problem.class_codes)
        shares = tree.predict_proba(others)
        return ClassGuess(shares.argmax(axis=1), shares)


def _compute_scale(inner: NDArray[np.float64]) -> float:
    """Returns the factor that scales inner products (n, n) to those of columns of variance 1."""
    # With d independent columns of variance 1, the product of two different rows has variance d,
    # and the product of a row with itself is d. Correlated columns therefore count as the number of
    # directions in which rows differ.
    n, own = len(inner), np.diag(inner)
    square = (float(np.vdot(inner, inner)) - float(own @ own)) / max(1, n - 1)
    return float(own.sum()) / square if square > 0 else 1.0


def _log_likelihood(inner: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns log-likelihoods (n, C) of the classes for each row, from the means of other rows.

    inner: inner products of users' rows of uploads (n, n)
    shares: probability that each row belongs to each class (n, C)
    """
    # Noise lengthens the mean of a small class more than that of a large class. Therefore the
    # squared length of a class mean is estimated by the mean product of two different rows of the
    # class.
    own, squared = np.diag(inner)[:, None], shares**2
    sums, others = inner @ shares, shares.sum(axis=0) - shares
    pairs = others**2 - (squared.sum(axis=0) - squared)
    products = (shares * sums - squared * own).sum(axis=0) - 2 * shares * (sums - shares * own)
    return _divide(sums - shares * own, others) - _divide(products, pairs) / 2


def _divide(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns part / whole, or 0 where ``whole`` is 0."""
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > _MIN_COUNT)


def _classify(
    model: Any, known: NDArray[Any], codes: NDArray[np.int64], others: NDArray[Any]
) -> ClassGuess:
    """Trains a classifier of scikit-learn, and guesses classes with their log-probabilities.

    model: the classifier
    known, codes: rows of the users of known class (k, r), and their classes (k,)
    others: rows of the users to guess (m, r)

    A probability of 0 is raised to the least normal float32.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # not converged, or few users per class
        model.fit(known, codes)
    chances = model.predict_proba(others).astype(np.float64)
    scores = np.log(np.maximum(chances, np.finfo(np.float32).tiny))
    return ClassGuess(scores.argmax(axis=1), scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeRows:
    """Attribute inference from the embedding rows that a device changes, without a classifier.

    An attribute of c categories has c adjacent rows in an embedding matrix, in public order. A
    device changes exactly one of these rows: the row of its user's category. Users who changed none
    of them get the most frequent category. If one-hot features are multiplied by a matrix, c
    adjacent columns are read in place of rows.

    Among several such groups of rows or columns, the attack reads the group that is right for the
    most users of known class. It guesses nothing without such a group, or if several are equally
    good, as they are without users of known class.

    family: family of the attack, which is the kind of secret that it infers
    reference: description of the method, with its source
    needs_known: whether the attack cannot run without users of known class; always False
    """

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str] = (
        "a device changes only the row of its user's category (attacks/attribute_attacks.py)"
    )
    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs a model matrix of which some devices leave some rows or columns unchanged.
        """
        needed = "a matrix in which some rows do not change"
        return "" if find_changed_rows(view) else make_refusal(view, needed)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        """Guesses the class (category of the attribute) of each user whose class is unknown.

        The result is empty if no group of rows or columns encodes the categories, or if several
        groups are equally good (class docstring). ``view`` is the messages that the adversary sees;
        ``rng`` is not used.
        """
        pair = (background.known_users, background.known_classes)
        known, labels = (np.zeros(0, dtype=np.int64) if each is None else each for each in pair)
        places = list(_find_groups(find_changed_rows(view), background.n_classes))
        right = [_count_right(users, codes, known, labels) for users, codes, _ in places]
        best = [place for place, share in zip(places, right, strict=True) if share == max(right)]
        if len(best) != 1:
            return GuessedLabels(users=known[:0], classes=labels[:0])
        users, codes, certain = best[0]
        subjects = users if background.subjects is None else background.subjects
        rows = np.isin(users, subjects) & ~np.isin(users, known)
        return GuessedLabels(users=users[rows], classes=codes[rows], is_proved=certain[rows])


def _find_groups(
    patterns: dict[str, ChangedRows], classes: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
    """Yields groups of ``classes`` adjacent rows or columns that may encode an attribute.

    Each group is three arrays (n,): user indices, the category of each user, and whether the user
    changed any part of the matrix. Users who changed nothing get the most frequent category.
    """
    for pattern in patterns.values():
        active: NDArray[np.bool_] = np.asarray(pattern.is_changed.any(axis=1))
        for side in pattern.row_and_column_masks:
            sums: NDArray[np.int64] = np.cumsum(np.pad(side, ((0, 0), (1, 0))), axis=1)
            within: NDArray[np.int64] = sums[active, classes:] - sums[active, :-classes]
            for start in np.flatnonzero((within == 1).all(axis=0)):
                codes = side[:, start : start + classes].argmax(axis=1)
                codes[~active] = np.bincount(codes[active], minlength=1).argmax()
                if np.ptp(codes) > 0:
                    yield pattern.users.astype(np.int64), codes.astype(np.int64), active


def _count_right(
    users: NDArray[Any], codes: NDArray[Any], known: NDArray[Any], labels: NDArray[Any]
) -> int:
    """Counts the users of known class whose inferred category is right.

    users: indices of users with an inferred category (n,)
    codes: the inferred categories (n,)
    known: indices of users of known class (k,)
    labels: the known classes (k,)
    """
    _, of_users, of_known = np.intersect1d(users, known, return_indices=True)
    return int(np.count_nonzero(codes[of_users] == labels[of_known]))
