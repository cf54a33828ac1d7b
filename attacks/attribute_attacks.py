"""Attribute inference by classifiers of the uploads, and by the embedding rows that moved."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import AttackFamily, Background, Labels
from fedrec_auditor.attacks.parts.inputs import Input
from fedrec_auditor.attacks.parts.supervised import Guess, Problem, SupervisedAttack, auc_of_classes
from fedrec_auditor.attacks.parts.uploads import MoveMask, find_moves, refusal_text
from fedrec_auditor.targets.transcript import View

_ALIKE = 6  # number of decimals of scores that are equal on all processors
_LEAST = 1e-9  # number of users of a class, below which the number is a rounding error
_HIDDEN = (100, 30)
_ZHANG = (
    "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
    "Attribute Inference Attacks, section"
)


@dataclass(frozen=True, kw_only=True)
class AttributeKnn(SupervisedAttack):
    """Attribute inference from the users with the most similar uploads.

    The guess is the majority class among the nearest ``neighbours`` known users (KNN in Table IV of
    the paper). Ties are resolved in favour of the first users and the first class. The default of
    five neighbours is that of scikit-learn.
    """

    reference = f"{_ZHANG} 5.8 (KNN)"
    neighbours: int = 5

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Guesses the class of each unknown user; scores are vote shares of nearest known users."""
        _, far = problem.products.distances()
        nearest = np.argsort(far, axis=1, kind="stable")[:, : self.neighbours]
        votes = np.eye(problem.n_classes)[problem.class_codes[nearest]].mean(axis=1)
        return Guess(votes.argmax(axis=1), votes)


@dataclass(frozen=True, kw_only=True)
class AttributeBayes(SupervisedAttack):
    """Attribute inference with semi-supervised naive Bayes.

    Columns are assumed normal with variance 1, so that inner products with the class means are a
    sufficient statistic. For bits this is close to Bernoulli naive Bayes if classes differ little.
    The known users give the first means. Then ``steps`` iterations of expectation maximisation
    guess the classes of unknown users and estimate the means from all users. The guess for a user
    does not use that user's own uploads in the means. The result replaces the supervised result if
    it separates the known users better.
    """

    reference = (
        "Nigam, McCallum, Thrun and Mitchell, Text Classification from Labeled and Unlabeled "
        "Documents using EM, 2000"
    )
    steps: int = 3

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Guesses the class of each unknown user; scores are log-likelihoods of the classes."""
        from scipy.special import log_softmax, softmax

        k, everybody = (
            len(problem.known_users),
            np.concatenate([problem.known_users, problem.unknown_users]),
        )
        inner = problem.inner(everybody, everybody)
        inner *= _variance_1(inner)
        truth = np.eye(problem.n_classes)[problem.class_codes]
        supervised = _bayes(inner, np.pad(truth, ((0, len(inner) - k), (0, 0))))
        updated = supervised
        for _ in range(self.steps):
            shares = softmax(updated + np.log(truth.mean(axis=0)), axis=1)
            shares[:k] = truth
            updated = _bayes(inner, shares)
        both = [np.round(log_softmax(found, axis=1), _ALIKE) for found in (supervised, updated)]
        scores = max(both, key=lambda found: auc_of_classes(problem.class_codes, found[:k]))[k:]
        return Guess(scores.argmax(axis=1), scores)


@dataclass(frozen=True, kw_only=True)
class AttributeLogistic(SupervisedAttack):
    """Attribute inference with logistic regression on the uploads.

    The penalty is squared, and classes are weighted by their inverse frequency. The size of the
    penalty is that of the ridge regression with the best leave-one-out accuracy on the known users
    (``Problem.best_penalty``), scaled to the curvature of the logistic loss. The weights that
    minimise the loss lie in the span of the known users' rows (representer theorem), so k
    coordinates in that span give the same decisions as all columns.
    """

    reference = (
        "scikit-learn's logistic regression (Pedregosa et al. 2011); not in the paper on attribute "
        "inference (Zhang et al.)"
    )
    inverse_penalty: float | None = None

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Guesses the class of each unknown user; scores are log-probabilities of the classes."""
        from sklearn.linear_model import LogisticRegression

        known, others = problem.products.coordinates()
        size = float(np.mean(np.square(known).sum(axis=1))) or 1.0  # 1 suits the optimiser
        inverse = self.inverse_penalty or _inverse_penalty(problem, size)
        model = LogisticRegression(
            C=inverse * size, class_weight="balanced", solver="newton-cg", tol=1e-5, max_iter=1000
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # not converged, or few users per class
            model.fit(known / np.sqrt(size), problem.class_codes)
        scores = _logarithm(model.predict_proba(others / np.sqrt(size)))
        return Guess(scores.argmax(axis=1), scores)


@dataclass(frozen=True, kw_only=True)
class AttributeMlp(SupervisedAttack):
    """Attribute inference with a multi-layer perceptron on the uploads.

    The network is that of the paper, built with scikit-learn: hidden layers of 100 and 30 units,
    trained by Adam at the default rate until the loss on the known users stops falling, for at most
    ``epochs`` passes. Its input is the coordinates of an upload in the span of the known users'
    uploads, at most one coordinate per known user, with one common scale. Gradients of the first
    layer lie in that span. Adam is not invariant under rotations, so these are not the paper's
    weights. On MovieLens 100K this is 10 to 60 times as fast as using the columns. On the guessed
    users of four draws, the macro F1 of gender was .98 instead of .87 from FedRec's uploads, and
    .64 both ways from FCF's.
    """

    reference = f"{_ZHANG} 3.3 (MLP 100-30)"
    slow = True
    epochs: int = 200

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Guesses the class of each unknown user; scores are log-probabilities of the classes."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        known, others = problem.products.coordinates()
        scale = float(np.sqrt(np.mean(known**2))) or 1.0
        network = MLPClassifier(_HIDDEN, max_iter=self.epochs, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit((known / scale).astype(np.float32), problem.class_codes)
        scores = _logarithm(network.predict_proba((others / scale).astype(np.float32)))
        return Guess(scores.argmax(axis=1), scores)


@dataclass(frozen=True, kw_only=True)
class AttributeSvc(SupervisedAttack):
    """Attribute inference with a support vector machine on the uploads.

    The classifier is that of the paper's Table IV (SVC): scikit-learn's defaults, with classes
    weighted by their inverse frequency. Without weights it guesses the larger class for nearly all
    users if the classes differ little: a macro F1 of .42 instead of .61 for gender from FCF on
    MovieLens 100K. The kernel is exp(-gamma |x - y|^2) with gamma = 1 / (d Var x), computed from
    inner products.
    """

    reference = f"{_ZHANG} 5.8 (SVC)"
    penalty: float = 1.0

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Guesses the class of each unknown user; scores are scikit-learn's decision values."""
        from sklearn.svm import SVC

        products = problem.products
        spread = products.width * products.variance
        gamma = 1.0 / spread if spread > 0 else 1.0
        near, far = products.distances()
        machine = SVC(C=self.penalty, kernel="precomputed", class_weight="balanced")
        machine.fit(np.exp(-gamma * near), problem.class_codes)
        kernel = np.exp(-gamma * far)
        scores = _by_class(machine.decision_function(kernel))
        return Guess(machine.predict(kernel).astype(np.int64), scores)


@dataclass(frozen=True, kw_only=True)
class AttributeTree(SupervisedAttack):
    """Attribute inference with a decision tree on the uploads.

    The tree is that of the paper's Table IV, as scikit-learn grows it, until its leaves are pure.
    """

    reference = f"{_ZHANG} 5.8 (decision tree)"
    needs_columns = True

    def column_data(self, read: Input) -> NDArray[np.floating[Any]]:
        """Returns all columns of the input ``read``."""
        return read.values()

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Guesses the class of each unknown user; scores are the class shares in a leaf."""
        from sklearn.tree import DecisionTreeClassifier

        assert table is None or isinstance(table, np.ndarray)
        known, others = problem.columns(table)
        tree = DecisionTreeClassifier(random_state=seed).fit(known, problem.class_codes)
        shares = tree.predict_proba(others)
        return Guess(shares.argmax(axis=1), shares)


def _variance_1(inner: NDArray[np.float64]) -> float:
    """Returns the factor that scales inner products (n, n) to those of columns of variance 1.

    With d independent columns of variance 1, the products of two rows have variance d, and the
    product of a row with itself is d. Correlated columns therefore count as the number of
    directions in which rows differ.
    """
    n, own = len(inner), np.diag(inner)
    square = (float(np.vdot(inner, inner)) - float(own @ own)) / max(1, n - 1)
    return float(own.sum()) / square if square > 0 else 1.0


def _bayes(inner: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns log-likelihoods (n, C) of the classes for each row, from the means of all other rows.

    ``inner`` (n, n) are the inner products of rows, ``shares`` (n, C) the membership of each row in
    each class. Noise lengthens the mean of a small class more than that of a large class. Therefore
    the squared mean is estimated by the mean product of two different members.
    """
    own, squared = np.diag(inner)[:, None], shares**2
    sums, others = inner @ shares, shares.sum(axis=0) - shares
    pairs = others**2 - (squared.sum(axis=0) - squared)
    products = (shares * sums - squared * own).sum(axis=0) - 2 * shares * (sums - shares * own)
    return _ratio(sums - shares * own, others) - _ratio(products, pairs) / 2


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns part / whole, or 0 where ``whole`` is 0."""
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > _LEAST)


def _logarithm(chances: NDArray[Any]) -> NDArray[np.float64]:
    """Returns logarithms of probabilities, which are finite also for probabilities rounded to 0."""
    return np.log(np.maximum(chances.astype(np.float64), np.finfo(np.float32).tiny))


def _inverse_penalty(problem: Problem, size: float) -> float:
    """Returns parameter ``C`` of scikit-learn's logistic regression.

    ``size`` is the mean square of the rows. With C equally likely classes the logistic loss has
    curvature (C - 1) / C^2, and a squared error has curvature 1.
    """
    return problem.n_classes**2 / ((problem.n_classes - 1) * size * problem.best_penalty())


def _by_class(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns scores per class (m, C); for two classes scikit-learn gives only the second (m,)."""
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeRows:
    """Attribute inference from the rows of an embedding that moved, without known users.

    The embedding row of a category moves only on the devices of users of that category.

    An attribute of c categories has c adjacent rows, in public order, and every device moves
    exactly one of them, which is certainly the row of its user's category. Users who moved none of
    the rows get the most frequent category. If one-hot features are multiplied by a matrix, columns
    take the place of rows. If several groups of rows have this form, known users decide between
    them. Nothing is guessed without known users in that case, or if no group has this form.
    """

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str] = (
        "categories whose rows moved; derived in attacks/attribute_attacks.py from the chain rule"
    )
    needs_known: ClassVar[bool] = False

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run; an empty string if it can.

        The attack needs a matrix of which some rows or columns do not move.
        """
        return (
            ""
            if find_moves(view)
            else refusal_text(view, "matrices in which some rows do not change")
        )

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Labels:
        """Guesses the category of every unknown user, or of no user if no row group qualifies."""
        known = (
            np.zeros(0, dtype=np.int64)
            if background.known_users is None
            else background.known_users
        )
        labels = np.zeros(0, dtype=np.int64) if background.classes is None else background.classes
        places = list(_places(find_moves(view), background.n_classes))
        right = [_agreement(users, codes, known, labels) for users, codes, _ in places]
        best = [place for place, share in zip(places, right, strict=True) if share == max(right)]
        if len(best) != 1:
            return Labels(users=known[:0], classes=labels[:0])
        users, codes, certain = best[0]
        subjects = users if background.subjects is None else background.subjects
        unknown = np.isin(users, subjects) & ~np.isin(users, known)
        return Labels(users=users[unknown], classes=codes[unknown], is_proved=certain[unknown])


def _places(
    patterns: dict[str, MoveMask], classes: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
    """Yields the groups of ``classes`` adjacent rows, or columns, that may encode categories.

    Each group is three arrays (n,): users, their categories, and whether they moved one of the
    rows. Users who moved nothing at all get the most frequent category.
    """
    for pattern in patterns.values():
        active: NDArray[np.bool_] = np.asarray(pattern.is_moved.any(axis=1))
        for side in pattern.axis_masks:
            sums: NDArray[np.int64] = np.cumsum(np.pad(side, ((0, 0), (1, 0))), axis=1)
            within: NDArray[np.int64] = sums[active, classes:] - sums[active, :-classes]
            for start in np.flatnonzero((within == 1).all(axis=0)):
                codes = side[:, start : start + classes].argmax(axis=1)
                codes[~active] = np.bincount(codes[active], minlength=1).argmax()
                if np.ptp(codes) > 0:
                    yield pattern.users.astype(np.int64), codes.astype(np.int64), active


def _agreement(
    users: NDArray[Any], codes: NDArray[Any], known: NDArray[Any], labels: NDArray[Any]
) -> int:
    """Counts the known users whose inferred category is right."""
    _, of_users, of_known = np.intersect1d(users, known, return_indices=True)
    return int(np.count_nonzero(codes[of_users] == labels[of_known]))
