"""Numbers that the DPLCF paper states or relies on, each paired with the value computed here.

Every public function yields pairs (claimed, computed). The paper's ``claims.toml`` names the
function and describes its pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.declarations.entry import ClaimedAndComputed
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.jaccard import (
    estimate_jaccard,
    invert_flip_matrix,
    make_flip_matrix,
    make_printed_inverse,
    make_printed_matrix,
)
from fedrec_auditor.targets.papers.dplcf.systems import DplcfAp, DplcfSp
from fedrec_auditor.targets.systems.base import Population

_BIT = make_local_scope(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)
_MOVIELENS = Population(n_users=943, n_items=1682)

# Type of a two-dimensional array of numbers.
Matrix = NDArray[np.float64]


def _get_symmetric_flip() -> BitFlip:
    """Returns the symmetric flip of one bit by the default settings of DPLCF-SP."""
    flip = DplcfSp().randomizer
    assert flip is not None
    return flip


def _tabulate_probs(flip: BitFlip) -> Matrix:
    """Returns the probabilities of an uploaded 0 and 1 (columns) given a true 0 and 1 (rows), shape
    (2, 2).
    """
    return np.exp(flip.log_prob([[0, 1], [0, 1]], [[0, 0], [1, 1]]))


def _compare(no: int, flip: BitFlip, paper: Matrix, right: Matrix) -> Iterator[ClaimedAndComputed]:
    """Yields one pair per entry of a 4 x 4 matrix: the printed entry, and the right entry.

    ``no``: number of the printed equation.
    ``flip``: the flip of a bit, for which both matrices are computed.
    ``paper``, ``right``: the matrix as printed, and the right matrix.
    """
    names = {"equation": no, "p": flip.p, "q": flip.q}
    for (i, j), value in np.ndenumerate(right):
        yield float(paper[i, j]), float(value), {**names, "row": i + 1, "column": j + 1}


def compare_equation_6_entries() -> Iterator[ClaimedAndComputed]:
    """Yields a pair per entry of matrix A: the value printed in equation 6, and the right value.

    A (4 x 4) maps counts of true bit pairs (00, 01, 10, 11) to expected uploaded counts.
    """
    flip = _get_symmetric_flip()
    return _compare(6, flip, make_printed_matrix(flip.p, flip.q), make_flip_matrix(flip.p, flip.q))


def compare_equation_11_entries() -> Iterator[ClaimedAndComputed]:
    """Yields a pair per entry of A^-1: the value printed in equation 11, and the right value.

    Matrix A (4 x 4) maps counts of true bit pairs to expected uploaded counts. A true 1 is always
    uploaded as a 1.
    """
    flip = DplcfAp().randomizer
    return _compare(11, flip, make_printed_inverse(flip.q), invert_flip_matrix(flip.p, flip.q))


def compare_zero_probabilities() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs: a probability that is 0 by the claim of DPLCF-AP, and its true value.

    - First pair: the smallest delta at which the claimed epsilon holds for one bit.
    - Second pair: the probability that the upload of a true 0 reveals it.
    """
    # Delta is the larger of the two hockey-stick divergences between the uploads of a true 0 and of
    # a true 1. An upload of a 0 reveals the bit if a true 1 is never uploaded as a 0.
    laws, epsilon = _tabulate_probs(DplcfAp().randomizer), DplcfAp().epsilon
    excess = [np.maximum(laws[i] - math.exp(epsilon) * laws[1 - i], 0.0).sum() for i in (0, 1)]
    yield 0.0, float(max(excess))
    yield 0.0, float(laws[0, 0]) if laws[1, 0] == 0.0 else 0.0


def compare_epsilon_of_uploaded_one() -> Iterator[ClaimedAndComputed]:
    """Yields a pair: the claimed epsilon of DPLCF-AP, and the log-ratio ln(p/q) of an uploaded 1.

    p and q are the probabilities of uploading a 1 for a true 1 and for a true 0.
    """
    laws = _tabulate_probs(DplcfAp().randomizer)
    yield DplcfAp().epsilon, float(np.log(laws[1, 1] / laws[0, 1]))


def compare_table_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair: the epsilon of DPLCF-AP in Tables 2 and 3, and its proved epsilon.

    Both are epsilons of one interaction. The tables compare all methods at epsilon 1. DPLCF-AP
    flips bits asymmetrically.
    """
    event = DplcfAp().get_event(_BIT, _MOVIELENS)
    yield 1.0, Pure().bound(event, delta=0.0, scope=_BIT).epsilon


def compare_local_epsilon() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons of one bit against the server: infinite by the paper, and computed.

    The paper claims no local differential privacy, which corresponds to an infinite epsilon against
    the server. The bit is flipped symmetrically.
    """
    laws = _tabulate_probs(_get_symmetric_flip())
    yield math.inf, float(np.abs(np.log(laws[0] / laws[1])).max())


def compare_similarity_epsilon() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of differences of two epsilons: claimed (0, with a tolerance of 1e-9), and
    computed.

    The difference is the epsilon of the item similarities, minus that of one bit. All uploads of
    two users with two items are enumerated.
    """
    # All 16 uploads are grouped by the similarities that the server computes from them. The epsilon
    # is the largest log-ratio of a group's probabilities for the two values of the first user's
    # first bit.
    flip = _get_symmetric_flip()
    p, q = flip.p, flip.q
    sent: dict[bytes, NDArray[np.float64]] = {}
    for bits in itertools.product((0, 1), repeat=4):
        table = np.reshape(bits, (2, 2)).astype(float)
        told = np.round(estimate_jaccard(table.T @ table, 2, p, q), 9).tobytes()
        rates = [
            math.prod(
                (p if true else q) if bit else (1 - p if true else 1 - q)
                for bit, true in zip(bits, (first, 1, 0, 1), strict=True)
            )
            for first in (0, 1)
        ]
        sent[told] = sent.get(told, np.zeros(2)) + rates
    ratio = max(abs(math.log(rates[0] / rates[1])) for rates in sent.values())
    yield 1e-9, ratio - flip.epsilon
