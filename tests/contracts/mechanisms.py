"""What every mechanism must keep. Each check raises AssertionError naming what is broken.

A member runs them on its ``Case``: the mechanism, and inputs of its domain to try. Outsiders can
run ``check_mechanism`` on their own; ``tests/specimens/`` holds mechanisms that must fail.

Statistical checks use one fixed seed and refuse at p < 1e-9 divided by the number of inputs
compared (Bonferroni): a sound mechanism fails one suite in a thousand million.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from accountants.errors import InputError
from accountants.scope import Adjacency, Horizon, Scope, Unit, Vantage
from auditor.accounting import all_accountants
from auditor.exact import exact_lower_bound, has_curve
from targets.mechanisms.base import Divergent, Mechanism
from targets.mechanisms.bit_flip import BitFlip
from targets.mechanisms.clipped import Clipped
from targets.mechanisms.component_laplace import Component, ComponentLaplace
from targets.mechanisms.discrete_gaussian import DiscreteGaussian
from targets.mechanisms.discrete_laplace import DiscreteLaplace
from targets.mechanisms.duchi import Duchi
from targets.mechanisms.embedding_gaussian import EmbeddingGaussian
from targets.mechanisms.gaussian import Gaussian
from targets.mechanisms.hybrid import Hybrid
from targets.mechanisms.identity import Identity
from targets.mechanisms.k_ary import KAry
from targets.mechanisms.laplace import Laplace
from targets.mechanisms.noise_replacement import NoiseReplacement
from targets.mechanisms.objective_perturbation import ObjectivePerturbation
from targets.mechanisms.one_coordinate import OneCoordinate
from targets.mechanisms.optimal_unary import OptimalUnary
from targets.mechanisms.piecewise import Piecewise
from targets.mechanisms.post_processed import PostProcessed
from targets.mechanisms.private_average import PrivateAverage
from targets.mechanisms.product import Product
from targets.mechanisms.repeated import Repeated
from targets.mechanisms.shuffled import Shuffled
from targets.mechanisms.shuffled_reports import ShuffledReports
from targets.mechanisms.snapped_laplace import SnappedLaplace
from targets.mechanisms.symmetric_unary import SymmetricUnary
from targets.mechanisms.vector_gaussian import VectorGaussian

SCOPE = Scope(
    unit=Unit.REPORT,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.REPORT,
)
SAMPLES = 60_000
P_VALUE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism with inputs to try, (n, *domain shape), and all its outputs if they are few.

    For densities, ``cdf(outputs, value)`` makes every output uniform on the unit cube, of the
    outputs' shape: entry by entry the cumulative law given the entries before it, worked out
    without ``log_prob``. The inputs of a ``Divergent`` mechanism hold its worst pair.

    Where the law is constant on pieces of the line for all ``inputs``, ``outputs`` has one of each
    piece: ``edges`` are the pieces' ends, and ``sizes`` their lengths, or 1 for an atom.
    """

    mechanism: Mechanism
    inputs: NDArray[Any]
    outputs: NDArray[Any] | None
    cdf: Callable[[NDArray[Any], float], NDArray[Any]] | None = None
    edges: NDArray[Any] | None = None
    sizes: NDArray[Any] | float = 1.0


def _tuples(length: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product([0, 1], repeat=length)))


_BITS = np.array([0, 1])
_NUMBERS = np.array([-1.0, -0.3, 0.5, 2.0])
_VECTORS = np.array([[1.0, 1, 1], [-1, -1, -1], [0.25, -0.75, 1], [0, 0, 0]])
_REPORTS = np.array([[c, b] for c in range(3) for b in (0, 1)])

_PLANE = np.array([[3.0, 4.0], [-3.0, -4.0], [0.1, -0.2], [0.0, 0.0]])
_RATINGS = np.array([-1.0, 0.0, 1.3, 2.0])


def _joint_normal(mechanism: NoiseReplacement) -> Callable[[NDArray[Any], Any], NDArray[Any]]:
    """Outputs made uniform by the covariance of everybody's noises, built noise by noise."""
    m, k = mechanism.masked, mechanism.replaced
    # Rows: S, R_1 ... R_k. Columns: the first noises of all m, then what stands in for k of them.
    rows = np.zeros((1 + k, m + k))
    rows[0, :m] = 1.0
    first = np.r_[np.full(m, mechanism.zeta1), np.full(k, mechanism.zeta2)]
    if mechanism.repaired:
        first[:k] -= mechanism.zeta2
        rows[0, m:] = 1.0
        rows[1:, :k] = -np.eye(k)
    else:
        rows[1:] = np.hstack([-np.eye(k), np.zeros((k, m - k)), np.eye(k)])
    noises = mechanism.sigma * rows * np.sqrt(first)
    root = np.linalg.cholesky(noises @ noises.T)

    def cdf(outputs: NDArray[Any], value: Any) -> NDArray[Any]:
        mean = np.r_[value, np.zeros(k)]
        return stats.norm.cdf(np.linalg.solve(root, (outputs - mean)[..., None])[..., 0])

    return cdf


def _replacements() -> tuple[Case, ...]:
    kinds = (
        NoiseReplacement(
            sigma=0.8,
            sensitivity=1.5,
            n_users=6,
            omega=0.5,
            masked=masked,
            replaced=replaced,
            repaired=repaired,
        )
        for masked, replaced, repaired in (
            (6, 6, False),
            (5, 3, False),
            (4, 0, False),
            (5, 3, True),
        )
    )
    return tuple(Case(kind, np.array([0.0, 0.4, 1.5]), None, _joint_normal(kind)) for kind in kinds)


_UNIT = np.array([-1.0, -0.3, 0.0, 0.5, 1.0])


def _on_pieces(mechanism: Piecewise | Hybrid, atoms: tuple[float, ...] = ()) -> Case:
    """The pieces between the ends of the intervals of all inputs, by the paper's formulas."""
    half = math.exp(mechanism.epsilon / 2.0)
    reach = (half + 1.0) / (half - 1.0)
    ends = np.sort(np.add.outer([1.0 - reach, reach - 1.0], (reach + 1.0) * _UNIT).ravel() / 2.0)
    atoms = np.array(atoms)
    ends = ends[np.diff(ends, prepend=-np.inf) > 1e-9]
    edges = np.sort(np.concatenate([ends, atoms, np.nextafter(atoms, np.inf)]))
    is_atom = np.isin(edges[:-1], atoms)
    outputs = np.where(is_atom, edges[:-1], (edges[1:] + edges[:-1]) / 2.0)
    return Case(
        mechanism, _UNIT, outputs, edges=edges, sizes=np.where(is_atom, 1.0, np.diff(edges))
    )


def _sum(bits: NDArray[Any]) -> NDArray[Any]:
    return bits.sum(axis=-1)


def _parity(category: NDArray[Any]) -> NDArray[Any]:
    return np.stack([category % 2, np.ones_like(category)], axis=-1)


def _counts(kinds: int, n_users: int) -> NDArray[Any]:
    """All ways to share users out over kinds."""
    ways = itertools.product(range(n_users + 1), repeat=kinds)
    return np.array([way for way in ways if sum(way) == n_users])


# Beyond the papers: categories, bounded numbers, noise on grids, combinators.
_FURTHER: dict[str, tuple[Case, ...]] = {
    "k-ary": (
        Case(KAry(1.0, 5), np.arange(5), np.arange(5)),
        Case(KAry(4.0, 2), _BITS, _BITS),
    ),
    "symmetric-unary": (Case(SymmetricUnary(1.5, 4), np.arange(4), _tuples(4)),),
    "optimal-unary": (Case(OptimalUnary(1.5, 4), np.arange(4), _tuples(4)),),
    "duchi": tuple(
        Case(Duchi(epsilon), _UNIT, np.array([1.0, -1.0]) * Duchi(epsilon).magnitude)
        for epsilon in (0.3, 4.0)
    ),
    "piecewise": (_on_pieces(Piecewise(0.3)), _on_pieces(Piecewise(4.0))),
    "hybrid": (
        Case(Hybrid(0.5), _UNIT, np.array([1.0, -1.0]) * Duchi(0.5).magnitude),
        _on_pieces(Hybrid(2.0), (-Duchi(2.0).magnitude, Duchi(2.0).magnitude)),
    ),
    "discrete-laplace": (
        Case(DiscreteLaplace(scale=1.3, low=-1, high=2), _NUMBERS, np.arange(-60.0, 61)),
        Case(
            DiscreteLaplace(scale=0.7, low=-1, high=2, step=0.25),
            _NUMBERS,
            np.arange(-120, 121) / 4,
        ),
    ),
    "discrete-gaussian": (
        Case(DiscreteGaussian(sigma=1.5, low=-1, high=2), _NUMBERS, np.arange(-40.0, 41)),
        Case(
            DiscreteGaussian(sigma=0.9, low=-1, high=2, step=0.25), _NUMBERS, np.arange(-80, 81) / 4
        ),
    ),
    "snapped-laplace": tuple(
        Case(
            SnappedLaplace(scale=scale, low=-1, high=2, bound=bound),
            _NUMBERS,
            np.arange(-64, 65) * grid,
        )
        for scale, bound, grid in ((0.7, 20.0, 1.0), (0.25, 2.0, 0.25), (2.5, 4.0, 4.0))
    ),
    "post-processed": (
        Case(PostProcessed(Product(BitFlip(0.8, 0.3), 3), _sum), _tuples(3), np.arange(4)),
        Case(PostProcessed(KAry(1.5, 5), _parity), np.arange(5), np.array([[0, 1], [1, 1]])),
        Case(PostProcessed(OptimalUnary(1.0, 3), _sum), np.arange(3), np.arange(4)),
    ),
    "shuffled-reports": (
        Case(ShuffledReports(KAry(1.5, 3), (0, 2, 2)), np.arange(3), _counts(3, 4)),
        Case(ShuffledReports(BitFlip(0.8, 0.3), (0, 0, 1)), _BITS, _counts(2, 4)),
        Case(ShuffledReports(Product(BitFlip(0.8, 0.3), 2), ((0, 1),)), _tuples(2), _counts(4, 2)),
        Case(ShuffledReports(KAry(1.5, 3), ()), np.arange(3), _counts(3, 1)),
    ),
}

# At least one case a member of the family; test_mechanisms.py checks that none is forgotten.
CASES: dict[str, tuple[Case, ...]] = _FURTHER | {
    "bit-flip": tuple(
        Case(flip, _BITS, _BITS)
        for flip in (
            BitFlip.symmetric(1.0),
            BitFlip.asymmetric(1.0),
            BitFlip(0.7, 0.2),
            BitFlip(0.1, 0.4),
            BitFlip(1.0, 0.0),
            BitFlip(0.003, 0.001),
        )
    ),
    "one-coordinate": (
        Case(OneCoordinate(2.5, 3), _VECTORS, _REPORTS),
        Case(OneCoordinate(0.1, 3), _VECTORS, _REPORTS),
    ),
    "laplace": (
        Case(
            Laplace(scale=0.7, low=-1, high=2),
            _NUMBERS,
            None,
            lambda x, v: stats.laplace.cdf(x, v, 0.7),
        ),
    ),
    "gaussian": (
        Case(
            Gaussian(sigma=1.5, low=-1, high=2),
            _NUMBERS,
            None,
            lambda x, v: stats.norm.cdf(x, v, 1.5),
        ),
    ),
    "vector-gaussian": (
        Case(
            VectorGaussian(sigma=1.5, clip=2.5, dimension=2),
            _PLANE,
            None,
            lambda y, x: stats.norm.cdf(y, x * min(1.0, 2.5 / max(math.hypot(*x), 0.1)), 1.5),
        ),
    ),
    "clipped": (
        Case(
            Clipped(Laplace(scale=0.7, low=-1, high=2)),
            np.array([-4.0, -0.3, 2.0, 3.0]),
            None,
            lambda x, v: stats.laplace.cdf(x, min(max(v, -1.0), 2.0), 0.7),
        ),
        Case(
            Clipped(Product(Laplace(scale=0.7, low=-1, high=2), 3)),
            np.array([[-3.0, 5.0, 0.0], [1.0, -1.0, -2.0], [0.3, 0.2, 9.0]]),
            None,
            lambda y, x: stats.laplace.cdf(y, np.clip(x, -1, 2), 0.7),
        ),
    ),
    "component-laplace": (
        Case(
            ComponentLaplace((Component("user", 1, 0.5), Component("item", 2, 2.0)), clip=0.5),
            np.array([[-3.0, 0.5, 0.0], [1.0, -0.7, -2.0], [0.3, 0.2, 0.1]]),
            None,
            lambda y, x: stats.laplace.cdf(y, np.clip(x, -0.5, 0.5), [2.0, 0.5, 0.5]),
        ),
    ),
    "private-average": tuple(
        Case(
            PrivateAverage(
                multiplier=0.9,
                clip=2.0,
                batch=3,
                dimension=2,
                balance=0.4,
                step=step,
                counts_clipped=clipped,
            ),
            np.array([[0.0, 2.0], [0.0, -2.5], [3.0, -4.0], [0.1, 0.0]]),
            None,
            lambda y, x, step=step, clipped=clipped: stats.norm.cdf(
                y,
                np.r_[
                    step * x * min(1.0, 2.0 / math.hypot(*x)) / 3.0,
                    1.0 if clipped or math.hypot(*x) <= 2.0 else 2.0 / 3.0,
                ],
                np.r_[[1.2 / math.sqrt(0.6)] * 2, 0.6 / math.sqrt(0.4)],
            ),
        )
        for step, clipped in ((1.0, False), (1.7, False), (1.0, True))
    ),
    "embedding-gaussian": (
        Case(
            EmbeddingGaussian.worst(sigma=4.0, bound=2.0),
            _RATINGS,
            None,
            lambda y, x: stats.norm.cdf(y, [-2.0 * max(x, 0.0) * math.sqrt(2.0), 0.0], 4.0),
        ),
        Case(
            EmbeddingGaussian(sigma=3.0, bound=2.0, user=(3.0, -1.0), item=(0.6, 0.8), joint=True),
            _RATINGS,
            None,
            lambda y, x: stats.norm.cdf(
                y,
                -2.0
                * (0.0 if x < 0 else x - 0.6 * math.sqrt(2.0))
                * np.array([0.6, 0.8, math.sqrt(2.0), 0.0]),
                3.0,
            ),
        ),
    ),
    "noise-replacement": _replacements(),
    "objective-perturbation": (
        Case(
            ObjectivePerturbation.logistic(budget=1.5, dimension=2),
            np.array([[1.0, 3.0], [-1.0, -1.0], [0.3, -0.6]]),
            None,
            lambda y, x: stats.laplace.cdf(
                y,
                np.r_[
                    -np.clip(x, -1, 1) / 2,
                    np.array([1, 2, 1])
                    * np.clip(x, -1, 1)[[0, 0, 1]]
                    * np.clip(x, -1, 1)[[0, 1, 1]]
                    / 8,
                ],
                (2 + 1) / 1.5,
            ),
        ),
    ),
    "identity": (Case(Identity(), _BITS, _BITS),),
    "product": (
        Case(Product(BitFlip(0.8, 0.3), 3), _tuples(3), _tuples(3)),
        Case(
            Product(OneCoordinate(1.0, 2), 2),
            np.array([[[1.0, -1], [0.5, 0]], [[-1, 1], [-0.5, 0.25]]]),
            np.array(
                list(itertools.product([[0, 0], [0, 1], [1, 0], [1, 1]], repeat=2)),
            ),
        ),
    ),
    "shuffled": (
        Case(Shuffled(1.0, 4), np.array([-1.0, 0.25, 1.0]), np.arange(5)),
        Case(Shuffled(2.5, 1), np.array([-1.0, 0.25, 1.0]), np.arange(2)),
    ),
    "repeated": (
        Case(Repeated(BitFlip.symmetric(1.0), 3), _BITS, _tuples(3)),
        Case(Repeated(Product(BitFlip(0.8, 0.3), 2), 2), _tuples(2), _tuples(4).reshape(-1, 2, 2)),
    ),
}


def check_shapes(case: Case) -> None:
    """Outputs have shape (*size, *output_shape), and the batch broadcasts to size."""
    mechanism, rng = case.mechanism, np.random.default_rng(1)
    one, shape = case.inputs[0], mechanism.output_shape
    assert mechanism.randomize(one, rng).shape == shape
    assert mechanism.randomize(one, rng, (4, 5)).shape == (4, 5, *shape)
    assert mechanism.randomize(one, rng, (0,)).shape == (0, *shape)
    assert mechanism.randomize(case.inputs, rng).shape == (len(case.inputs), *shape)
    assert mechanism.randomize(case.inputs, rng, (3, len(case.inputs))).shape[2:] == shape
    outputs = mechanism.randomize(case.inputs, rng)
    assert mechanism.log_prob(outputs, case.inputs).shape == (len(case.inputs),)
    table = mechanism.log_prob(outputs[None], case.inputs[:, None])
    assert table.shape == (len(case.inputs), len(outputs))


def check_determinism(case: Case) -> None:
    """Equal generators give equal outputs; different ones differ where anything is drawn."""
    mechanism = case.mechanism
    size = (200, len(case.inputs))
    first, again, other = (
        mechanism.randomize(case.inputs, np.random.default_rng(seed), size) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again), "equal generators gave different outputs"
    certain = (mechanism.log_prob(first, case.inputs) == 0).all()
    assert np.array_equal(first, other) == bool(certain), "the generator is not what is drawn from"


def check_domain(case: Case) -> None:
    """Inputs outside the domain are refused, NaN too, by sampling and by log_prob."""
    mechanism, rng = case.mechanism, np.random.default_rng(1)
    output = mechanism.randomize(case.inputs[0], rng)
    for bad in (mechanism.domain.high + 0.5, mechanism.domain.low - 0.5, math.nan):
        value = np.array(case.inputs[0], dtype=float)
        value.flat[0] = bad
        for call in (
            lambda v=value: mechanism.randomize(v, rng),
            lambda v=value: mechanism.log_prob(output, v),
        ):
            try:
                call()
            except InputError:
                continue
            raise AssertionError(f"an input of {bad} was accepted")


def check_probabilities(case: Case) -> None:
    """Probabilities over all outputs sum to 1, none is NaN, and nothing else is possible."""
    if case.outputs is None:
        return
    table = case.mechanism.log_prob(case.outputs[None], case.inputs[:, None])
    assert not np.isnan(table).any(), "log_prob gave NaN"
    np.testing.assert_allclose((np.exp(table) * case.sizes).sum(axis=1), 1.0, rtol=1e-12)


def check_density(case: Case) -> None:
    """A density is the derivative of the cumulative law, and so has total mass 1."""
    if case.cdf is None:
        return
    for value in case.inputs:
        if case.mechanism.output_shape:
            _check_joint_density(case, value)
            continue
        x = np.linspace(value - 8.0, value + 8.0, 4001)
        mass = np.diff(case.cdf(x, value))
        middle = np.exp(case.mechanism.log_prob((x[1:] + x[:-1]) / 2, value)) * np.diff(x)
        np.testing.assert_allclose(middle, mass, atol=1e-5 * mass.max() + 2e-6)


def _check_joint_density(case: Case, value: Any) -> None:
    """Entry k depends on the entries up to k only, so the Jacobian is its diagonal's product."""
    assert case.cdf is not None
    drawn = case.mechanism.randomize(value, np.random.default_rng(7), (50,))
    slopes = np.zeros(len(drawn))
    for index in np.ndindex(case.mechanism.output_shape):
        step = np.zeros(case.mechanism.output_shape)
        step[index] = 1e-4 * drawn[(slice(None), *index)].std()
        rise = case.cdf(drawn + step, value) - case.cdf(drawn - step, value)
        slopes += np.log(rise[(slice(None), *index)] / (2.0 * step[index]))
    # A kink of the density within a step leaves a few of the outputs off by that step's share.
    found = np.abs(case.mechanism.log_prob(drawn, value) - slopes)
    np.testing.assert_allclose(np.sort(found)[: -len(found) // 10], 0.0, atol=1e-5)


def check_frequencies(case: Case) -> None:
    """Samples follow log_prob: chi-square over outputs, Kolmogorov-Smirnov for densities."""
    mechanism = case.mechanism
    level = P_VALUE / len(case.inputs)
    for batch in (False, True):
        rng = np.random.default_rng(20261121)
        if batch:
            drawn = mechanism.randomize(case.inputs, rng, (SAMPLES, len(case.inputs)))
        for position, value in enumerate(case.inputs):
            sample = drawn[:, position] if batch else mechanism.randomize(value, rng, (SAMPLES,))
            p = _fit(case, value, sample)
            assert p > level, f"samples of input {value} do not follow log_prob (p = {p:.1e})"


def _fit(case: Case, value: Any, sample: NDArray[Any]) -> float:
    if case.outputs is None:
        assert case.cdf is not None
        uniform = case.cdf(sample, value).reshape(len(sample), -1)
        columns = list(uniform.T)
        if uniform.shape[1] > 1:
            signs = np.random.default_rng(8).choice([-1.0, 1.0], (uniform.shape[1], 3))
            columns += list(stats.norm.cdf(stats.norm.ppf(uniform) @ signs / len(signs) ** 0.5).T)
        return min(1.0, len(columns) * min(stats.kstest(c, "uniform").pvalue for c in columns))
    codes, seen = _codes(case, sample)
    assert np.isin(seen, codes).all(), f"an impossible output was drawn for input {value}"
    counts = np.array([(seen == code).sum() for code in codes])
    law = np.exp(case.mechanism.log_prob(case.outputs, value)) * case.sizes
    expected = law * len(sample)
    assert not counts[expected == 0].any(), f"an impossible output was drawn for input {value}"
    rare = expected < 5.0
    if rare.any():
        counts, expected = (np.r_[kept[~rare], kept[rare].sum()] for kept in (counts, expected))
    possible = expected > 0
    if possible.sum() < 2:
        return 1.0
    counts, expected = counts[possible], expected[possible]
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def _codes(case: Case, sample: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A number for each output of the case, and for each of the sample."""
    assert case.outputs is not None
    if case.edges is not None:
        return np.arange(len(case.outputs)), np.searchsorted(case.edges, sample, side="right") - 1
    flat, drawn = case.outputs.reshape(len(case.outputs), -1), sample.reshape(len(sample), -1)
    if flat.shape[1] == 1:
        return flat[:, 0], drawn[:, 0]
    weights = (int(flat.max()) + 1) ** np.arange(flat.shape[1])
    return flat.astype(np.int64) @ weights, drawn.astype(np.int64) @ weights


def check_critical(case: Case) -> None:
    """No pair of inputs of the domain, and no output, beats the critical set."""
    critical = case.mechanism.critical()
    rng = np.random.default_rng(5)
    outputs = case.outputs
    if outputs is None:
        outputs = _afar(case, rng)
    table = case.mechanism.log_prob(outputs[None], _inputs(case, rng)[:, None])
    with np.errstate(invalid="ignore"):
        ratios = table[:, None] - table[None]
    worst = np.max(np.where(np.isnan(ratios), 0.0, ratios))
    bound = exact_lower_bound(case.mechanism, SCOPE)
    if critical is None:
        assert worst > 30.0, "critical() is None, but the log-ratio seems bounded"
    else:
        assert bound.epsilon >= worst - 1e-9, f"a log-ratio of {worst} beats {bound.epsilon}"


def _afar(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    """Outputs from near to far beyond where any is likely, in drawn directions."""
    if not case.mechanism.output_shape and math.isfinite(case.mechanism.domain.low):
        far = 40.0 * (case.mechanism.domain.high - case.mechanism.domain.low)
        return np.linspace(-far, far, 2001)
    drawn = case.mechanism.randomize(case.inputs, rng, (20, len(case.inputs)))
    drawn = drawn.reshape(-1, *case.mechanism.output_shape)
    return np.concatenate([drawn * far for far in (0.0, 0.1, 1.0, 10.0, 1e3, 1e4)])


def _inputs(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    domain = case.mechanism.domain
    shape = (60, *domain.shape)
    if domain.values is not None:
        more = rng.choice(np.array(domain.values), shape)
    else:
        low, high = max(domain.low, case.inputs.min()), min(domain.high, case.inputs.max())
        more = np.clip(rng.uniform(2 * low, 2 * high, shape), domain.low, domain.high)
    return np.concatenate([case.inputs, more])


def check_curve(case: Case) -> None:
    """The curve of a mechanism that is ``Divergent`` is that of sampled losses, never below it."""
    mechanism = case.mechanism
    if not isinstance(mechanism, Divergent):
        return
    rng, n = np.random.default_rng(9), len(case.inputs)
    drawn = mechanism.randomize(case.inputs, rng, (SAMPLES, n))
    own = mechanism.log_prob(drawn, case.inputs)
    before = 1.0
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        said = mechanism.divergence(epsilon)
        assert 0.0 <= said <= before, f"a curve of {said} at {epsilon}, {before} before"
        before, shown = said, 0.0
        for value in case.inputs:
            loss = own - mechanism.log_prob(drawn, value)
            shown = max(shown, (-np.expm1(np.minimum(epsilon - loss, 0.0))).mean(axis=0).max())
        # Means of numbers in [0, 1]: Hoeffding's inequality, for every pair and epsilon.
        error = math.sqrt(math.log(4 * n**2 / P_VALUE) / (2 * SAMPLES))
        assert abs(shown - said) <= error, f"at {epsilon} the curve says {said}, samples {shown}"


def check_event(case: Case) -> None:
    """Some accountant reads the event, and none charges less than the exact lower bound."""
    event = case.mechanism.event()
    readers = [accountant for accountant in all_accountants() if accountant.supports(event)]
    assert readers, f"no accountant reads {event}"
    for delta in (0.0, 1e-6, 0.01, 0.3):
        if not has_curve(case.mechanism, delta):
            continue
        shown = exact_lower_bound(case.mechanism, SCOPE, delta).epsilon
        for accountant in readers:
            owed = accountant.bound(event, delta=delta, scope=SCOPE).epsilon
            assert owed >= shown - 1e-9, (
                f"at delta {delta}, {accountant} charges {owed} and {shown} is shown"
            )


CHECKS = (
    check_shapes,
    check_determinism,
    check_domain,
    check_probabilities,
    check_density,
    check_frequencies,
    check_critical,
    check_curve,
    check_event,
)


def check_mechanism(case: Case) -> None:
    """Run every check."""
    for check in CHECKS:
        check(case)
