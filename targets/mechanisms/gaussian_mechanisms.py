"""Mechanisms with Gaussian noise: on numbers, vectors, sampled sums and sums of several clients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.composition import LowerCurve, compute_lower_curve
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta, find_gaussian_mu
from fedrec_auditor.accountants.losses.pairs import ArrayPair, compute_normal_log_masses
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.mechanisms.base import Domain, Shape
from fedrec_auditor.targets.mechanisms.parts import bases
from fedrec_auditor.targets.mechanisms.parts.bases import NormalNoise, check_mu, clip_norm
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import TwoRoundNoise
from fedrec_auditor.targets.settings import Checked, Count, PositiveFloat, Share, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(bases.IntervalMechanism, NormalNoise):
    """Adds independent Gaussian noise N(0, sigma^2) to every entry.

    ``sigma``: standard deviation of the noise.
    ``low``, ``high``: ends of the range of an entry.

    No epsilon holds at delta 0. The privacy curve is exact, with mu = (high - low)/sigma, the
    sensitivity in standard deviations (Balle and Wang 2018, Theorem 8).

    The mechanism acts elementwise on arrays of any shape: every entry is a separate input.
    """

    # The privacy loss grows without bound towards large outputs.

    sigma: PositiveFloat
    low: settings.FiniteFloat
    high: settings.FiniteFloat

    def __post_init__(self) -> None:
        check_settings(self)
        bases.check_range(self.low, self.high)
        check_mu(self.mu, "sigma")

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, low: float, high: float) -> Self:
        """Creates the mechanism with the smallest sigma at which one entry has (epsilon, delta)-DP.

        low, high: ends of the range of an entry.

        The exact privacy curve is inverted, so that ``epsilon`` may also be above 1.
        """
        bases.check_range(low, high)
        return cls(sigma=(high - low) / find_gaussian_mu(epsilon, delta), low=low, high=high)

    @property
    def mu(self) -> float:
        """Parameter mu of mu-Gaussian differential privacy: (high - low)/sigma.

        This is the sensitivity in standard deviations of the noise.
        """
        return (self.high - self.low) / self.sigma


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorGaussian(bases.VectorMechanism, NormalNoise):
    """Clips the L2 norm of a vector and adds Gaussian noise to every entry.

    ``sigma``: standard deviation of the noise.
    ``clip``: clipping norm C.
    ``dimension``: length of the vector.

    The output is x min(1, C/|x|) + N(0, sigma^2 I). The neighbouring inputs are any two vectors.
    The sensitivity is 2C, or mu = 2C/sigma in standard deviations. No epsilon holds at delta 0.

    Source: Dwork et al. 2006 and, for the exact curve, Balle and Wang 2018, Theorem 8; FedRec-GN of
    the FedRec paper (Zhang, Yuan and Yin, section 5), which prints neither C, sigma nor delta.
    """

    # Two vectors of norm C may be opposite, so that their distance is 2C. The sensitivity is C only
    # if a vector is added or removed, that is, compared with 0. mu does not depend on the length of
    # the vector, in contrast to noise that is calibrated to one entry. The noise must cover every
    # entry, also entries that are 0. An entry without noise distinguishes 0 from all other values
    # with certainty, and so reveals on which rows of an item table a user trained.

    sigma: PositiveFloat
    clip: PositiveFloat
    dimension: Count

    def __post_init__(self) -> None:
        check_settings(self)
        check_mu(self.mu, "sigma")

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, clip: float, dimension: int) -> Self:
        """Creates the mechanism with the smallest sigma at which a vector has (epsilon, delta)-DP.

        clip: bound on the norm of the vector.
        dimension: length of the vector.

        ``epsilon`` may be above 1.
        """
        # The exact privacy curve is inverted.
        one = cls(sigma=1.0, clip=clip, dimension=dimension)
        return replace(one, sigma=one.mu / find_gaussian_mu(epsilon, delta))

    @property
    def mu(self) -> float:
        """Parameter mu of mu-Gaussian differential privacy: 2 clip/sigma.

        This is the sensitivity in standard deviations, which opposite vectors of norm clip attain.
        """
        return 2.0 * self.clip / self.sigma

    def compute_noiseless(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the vectors before noise: scaled down to an L2 norm of at most ``clip``."""
        return clip_norm(value, self.clip)


# Numbers of draws with a smaller probability are left out, which lowers the curve by at most their
# total probability.
_RARE = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealedGaussian(Checked):
    """Sampled Gaussian mechanism whose adversary sees in which sums the data row is drawn.

    ``noise_multiplier``: standard deviation z of the noise on a sum, in units of the sensitivity.
    ``sampling_probability``: probability q with which the data row is drawn for one sum.
    ``count``: number of noisy sums that are released.

    The input is one of several values in a data row: a number in [0, 1], in units of the
    sensitivity. A sum is noise N(0, z^2), plus the input if the row is drawn.

    The sums of the row's other values reveal when the row is drawn. Sampling therefore does not
    amplify privacy. For a row of one value, or for whole rows, see ``SampledGaussian``.

    An output has one pair [mark, sum] per sum, shape (count, 2). The mark is N(0, 1), and is below
    its q-quantile if the row is drawn.

    Source: the sampling of Li et al. 2021, section 4.1.2. The paper's accountant treats the privacy
    per rating (section 2.2.1) as amplified.
    """

    # The sums of the row's other values, which are of the same size, reveal whether the row is
    # drawn. The adversary adds up the K sums for which it is drawn. Together they equal one
    # Gaussian with the sensitivity mu = sqrt(K)/z in standard deviations. K ~ Binomial(count, q)
    # does not depend on the input. The delta at an epsilon is therefore exactly the mean, over K,
    # of the delta of this Gaussian.

    noise_multiplier: PositiveFloat
    sampling_probability: Share
    count: Count

    def __post_init__(self) -> None:
        check_settings(self)
        check_mu(math.sqrt(self.count) / self.noise_multiplier, "noise_multiplier")

    @property
    def domain(self) -> Domain:
        """Set of inputs: the interval [0, 1], in units of the sensitivity."""
        return Domain(low=0.0, high=1.0)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (count, 2): one pair [mark, sum] per noisy sum.

        The mark shows whether the sum contains the input.
        """
        return (self.count, 2)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws ``count`` pairs [mark, sum] per input, float64 of shape (*size, count, 2).

        Each noisy sum contains the input with probability q = ``sampling_probability``. The mark is
        a standard normal number, below its q-quantile if the sum contains the input.
        """
        values = self.domain.expand_batch(value, size)
        marks, noise = rng.standard_normal((2, *values.shape, self.count))
        sums = noise * self.noise_multiplier + values[..., None] * self._is_drawn(marks)
        return np.stack([marks, sums], axis=-1)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of ``output`` (..., count, 2) given the input ``value`` (...).

        ``output`` has one pair [mark, sum] per noisy sum. The mark shows whether the sum contains
        the input. The leading axes of both arguments broadcast.
        """
        outputs, values = np.asarray(output, dtype=np.float64), self.domain.check(value)
        marks, sums = outputs[..., 0], outputs[..., 1]
        center = values[..., None] * self._is_drawn(marks)
        normal = scipy.stats.norm
        each = normal.logpdf(sums, center, self.noise_multiplier) + normal.logpdf(marks)
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> None:
        """Returns None, because the privacy loss is unbounded."""
        return

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon``.

        Delta is the mean, over the number K of sums for which the data row is drawn, of

            Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu),

        with mu = sqrt(K)/noise_multiplier and the normal distribution function Phi.
        """
        counts = np.arange(1, self.count + 1)
        weights = scipy.stats.binom.pmf(counts, self.count, self.sampling_probability)
        kept = weights > _RARE
        mus = (math.sqrt(k) / self.noise_multiplier for k in counts[kept])
        curve = [compute_gaussian_delta(mu, epsilon) for mu in mus]
        return float(weights[kept] @ np.array(curve))

    def event(self) -> dp.DpEvent:
        """Returns the accounting event: sampled Gaussian noise, without amplification by sampling.

        The adversary knows which sums contain the input.
        """
        noise = dp.GaussianDpEvent(self.noise_multiplier)
        step = dp.RevealedSamplingDpEvent(self.sampling_probability, noise)
        return dp.SelfComposedDpEvent(step, self.count)

    def _is_drawn(self, marks: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(marks < scipy.stats.norm.ppf(self.sampling_probability))


# Number of cells per sum, and their range beyond the outer centers, in standard deviations.
_CELLS, _REACH = 1 << 15, 9.5
# Log-probability below which a cell is left out.
_RARE_LOG = -92.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian(Checked):
    """Sampled Gaussian mechanism whose adversary sees only one sum of noisy steps per round.

    The protected unit is a user or a row. The adversary does not see in which steps it is drawn.

    ``noise_multiplier``: standard deviation z of the noise of one step.
    ``sampling_probability``: probability q with which the unit is drawn in one step.
    ``rounds``: number of sums that the adversary sees, one per round.
    ``local_steps``: number of noisy steps per sum.
    ``opposite``: amount that a step subtracts with probability q if the unit is absent: 0 for a
        unit that is added or removed, and above 0 if the remaining data then lower the sum.

    Let K ~ Binomial(local_steps, q) be the number of drawn steps. The sum of a round is distributed
    as

    - N(K, local_steps z^2) if the unit is present;
    - N(-K opposite, local_steps z^2) if the unit is absent.

    Rounds are independent. One step per round and ``opposite`` 0 give the Poisson-sampled Gaussian.

    The method ``delta`` returns a lower bound. The bound also holds for every system in which a
    drawn unit shifts the sum at least as far.

    The input is 1 if the unit is present, else 0. Outputs are sums divided by sqrt(local_steps) z,
    shape (rounds,). Source: Abadi et al. 2016, section 3.2, for the pair of mixtures.
    """

    # The Poisson-sampled Gaussian has the same pair for an added and for a removed unit. One unit
    # is drawn with the same distribution if each step draws a fixed number of rows. For the lower
    # bound, sums are grouped in cells, and their privacy losses are rounded to a grid
    # (``compute_lower_curve``). The ratio of the two densities increases with the sum, so that the
    # bound also holds for larger shifts.

    noise_multiplier: settings.Positive
    sampling_probability: Share
    rounds: Count
    local_steps: Count = 1
    opposite: settings.NonNegative = 0.0

    @property
    def domain(self) -> Domain:
        """Set of inputs: 0 (the unit is absent) and 1 (the unit is present)."""
        return Domain(low=0.0, high=1.0, values=(0.0, 1.0))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (rounds,): one noisy sum per round, in standard deviations of its noise."""
        return (self.rounds,)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws one noisy sum per round, float64 of shape (*size, rounds).

        The sums are in standard deviations of their noise.
        """
        values = self.domain.expand_batch(value, size)
        shape = (*values.shape, self.rounds)
        drawn = rng.binomial(self.local_steps, self.sampling_probability, shape)
        return np.asarray(rng.standard_normal(shape) + drawn * self._get_shift(values)[..., None])

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of the sums in ``output`` given ``value``.

        ``value`` is 1 if the unit is present, else 0. The two arguments broadcast.
        """
        outputs = np.asarray(output, dtype=np.float64)
        shift = self._get_shift(self.domain.check(value))[..., None]
        return np.asarray(_log_mixture(outputs, shift, *self._draw_counts).sum(axis=-1))

    def worst_case(self) -> None:
        """Returns None, because the privacy loss is unbounded."""
        return

    def delta(self, epsilon: float) -> float:
        """Returns a lower bound of the delta at ``epsilon`` for all rounds together.

        Delta compares the presence and the absence of the protected unit (a user or a row).
        """
        up, down, rate = 1.0 / self._sigma, self.opposite / self._sigma, self.sampling_probability
        return _compose_rounds(up, down, rate, self.local_steps, self.rounds).compute_delta(epsilon)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event for an adversary who also sees in which steps the unit is
        drawn.

        Its epsilon is an upper bound of the mechanism's epsilon.
        """
        # In the mechanism itself these steps are secret.
        noise = dp.GaussianDpEvent(self.noise_multiplier / (1.0 + self.opposite))
        step = dp.RevealedSamplingDpEvent(self.sampling_probability, noise)
        return dp.SelfComposedDpEvent(step, self.rounds * self.local_steps)

    @property
    def _sigma(self) -> float:
        return self.noise_multiplier * math.sqrt(self.local_steps)

    @property
    def _draw_counts(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return _tabulate_draws(self.local_steps, self.sampling_probability)

    def _get_shift(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.where(values > 0, 1.0, -self.opposite) / self._sigma)


def _tabulate_draws(steps: int, rate: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the possible numbers of draws of the unit in a round, and their log-probabilities."""
    counts = np.arange(steps + 1)
    return counts, scipy.stats.binom.logpmf(counts, steps, rate)


def _log_mixture(
    x: NDArray[np.float64], shift: Any, counts: NDArray[Any], log_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the log-density at ``x`` of a mixture of unit normals.

    The centers are ``counts * shift``, and ``log_weights`` are the logarithms of the weights.
    """
    found = np.full(np.broadcast_shapes(x.shape, np.shape(shift)), -np.inf)
    for count, log_p in zip(counts, log_weights, strict=True):
        z = x - count * shift
        found = np.logaddexp(found, log_p - bases.LOG_SQRT_2PI - 0.5 * z * z)
    return np.asarray(found)


@lru_cache(maxsize=8)
def _compose_rounds(up: float, down: float, rate: float, steps: int, rounds: int) -> LowerCurve:
    """Computes a lower bound of the privacy curve of all rounds, with one output per cell of sums.

    The two inputs are the presence of the unit, which shifts a sum by ``up`` per draw, and its
    absence, which shifts the sum by -``down``.
    """
    counts, log_weights = _tabulate_draws(steps, rate)
    inner = np.linspace(-down * steps - _REACH, up * steps + _REACH, _CELLS)
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    there = _log_masses(edges, up, counts, log_weights)
    gone = compute_normal_log_masses(edges)
    if down:
        gone = _log_masses(edges, -down, counts, log_weights)
    seen = (there > _RARE_LOG) & (gone > -np.inf)
    one = ArrayPair.from_losses((there - gone)[seen], there[seen])
    return compute_lower_curve(((one, rounds),))


def _log_masses(
    edges: NDArray[np.float64], shift: float, counts: NDArray[Any], log_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the log-probabilities of the cells between ``edges`` under a mixture of unit normals.

    The centers are ``counts * shift``, and ``log_weights`` are the logarithms of the weights.
    """
    found = np.full(len(edges) - 1, -np.inf)
    for count, log_p in zip(counts, log_weights, strict=True):
        found = np.logaddexp(found, log_p + compute_normal_log_masses(edges - count * shift))
    return found


def clip_embedding(embedding: ArrayLike, max_squared_norm: float) -> NDArray[np.float64]:
    """Replaces negative entries of embeddings by 0, then scales embeddings down to a maximum norm.

    embedding: one or more embeddings, along the last axis.
    max_squared_norm: maximum of the squared L2 norm of an embedding.
    """
    positive = np.maximum(np.asarray(embedding, dtype=np.float64), 0.0)
    return clip_norm(positive, math.sqrt(max_squared_norm))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingGaussian(NormalNoise):
    """Adds Gaussian noise to the gradient of one rating's squared error with respect to embeddings.

    ``sigma``: standard deviation of the noise.
    ``bound``: best rating R of the scale, which bounds the ratings and the sensitivity.
    ``user``: embedding vector u of the user, of length p.
    ``item``: embedding vector v of the item, of length p.
    ``joint``: whether the output is the gradient with respect to u and v together, instead of v
        alone.

    The input is a rating x in [0, R], or -1 (any negative number) for no rating. The output is the
    gradient of (x - u.v)^2 plus noise N(0, sigma^2 I):

    - the gradient for v, -2u (x - u.v), of norm at most 2 R^(3/2);
    - if ``joint`` is true, first the gradient for u, -2v (x - u.v), then that for v. The norm of
      both together is at most 2 sqrt(2) R^(3/2).

    Embeddings are first projected (``clip_embedding``), so that 0 <= u.v <= R. The privacy curve is
    for the given embeddings, and ``event`` is for the worst ones. The event assumes that embeddings
    do not depend on the rating, and that every row of the item table has noise.

    Source: Li et al. 2021, section 4.1.1, eq. 6, and section 4.2 (Delta_2v, Delta_rating).
    """

    # ``event`` uses the worst embeddings, because embeddings change from step to step.
    # Neighbouring inputs in the paper differ by one added rating. Orthogonal u and v of norm
    # sqrt(R) attain both bounds at x = R (``create_worst_case``).
    # At given embeddings a rating may also be replaced by another rating. The outputs without noise
    # are then at most 2R |w| apart, with w = u or, if ``joint`` is true, w = (u, v). An added
    # rating moves the output equally far if u and v are orthogonal, so that no pair of inputs
    # exceeds the paper's sensitivity.
    # Noisy, published embeddings do not depend on the rating. User embeddings that were pre-trained
    # without noise do: one rating changes u, and with u the gradients of all rows that the user
    # rated. Without noise, the gradient of a row without a rating would be exactly 0.

    sigma: PositiveFloat
    bound: PositiveFloat
    user: tuple[float, ...]
    item: tuple[float, ...]
    joint: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        if not len(self.user) == len(self.item) > 0:
            raise InputError(
                f"Expected user and item to have the same length above 0, got {len(self.user)} "
                f"and {len(self.item)}. Give two embeddings of the same model."
            )
        if not self._factors.any():
            raise InputError(
                "Expected a positive entry in user (or in item if joint=True), got none. Negative "
                "entries become 0, and so does the gradient. Give user a positive entry."
            )
        check_mu(self.mu, "sigma")

    @classmethod
    def create_worst_case(cls, *, sigma: float, bound: float, joint: bool = False) -> Self:
        """Creates the mechanism for user and item embeddings that attain the largest sensitivity.

        sigma: standard deviation of the noise.
        bound: best rating R of the scale.
        joint: whether the output is both embeddings' gradient, not only the item's.
        """
        root = math.sqrt(bound)
        return cls(sigma=sigma, bound=bound, user=(root, 0.0), item=(0.0, root), joint=joint)

    @property
    def sensitivity(self) -> float:
        """Largest norm of the gradient over all clipped embeddings.

        For best rating R, it is 2 R^(3/2), or 2 sqrt(2) R^(3/2) if ``joint`` is true.
        """
        return 2.0 * self.bound * math.sqrt(self.bound * (2.0 if self.joint else 1.0))

    @property
    def mu(self) -> float:
        """Sensitivity for the given embeddings, in standard deviations of the noise.

        The sensitivity is the distance between the noiseless gradients of the lowest and the
        highest rating.
        """
        # No added or removed rating moves the gradient farther for these embeddings.
        return 2.0 * self.bound * math.hypot(*self._factors) / self.sigma

    @property
    def domain(self) -> Domain:
        """Set of inputs: a rating in [0, bound], or -1 for no rating."""
        return Domain(low=-1.0, high=self.bound)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of a gradient for embeddings of length p: (p,), or (2p,) if ``joint`` is true."""
        return self._factors.shape

    def compute_noiseless(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the gradient before noise; 0 for negative inputs, which stand for no rating."""
        u, v = clip_embedding(self.user, self.bound), clip_embedding(self.item, self.bound)
        error = np.where(value < 0, 0.0, value - u @ v)
        return np.asarray(-2.0 * error[..., None] * self._factors)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event for the clipped embeddings with the largest sensitivity."""
        return dp.GaussianDpEvent(self.sigma / self.sensitivity)

    @property
    def _factors(self) -> NDArray[np.float64]:
        """Vector that multiplies the rating's error: u or, if ``joint`` is true, (v, u)."""
        u, v = clip_embedding(self.user, self.bound), clip_embedding(self.item, self.bound)
        return np.concatenate([v, u]) if self.joint else u


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseReplacement(TwoRoundNoise, bases.GaussianDpMechanism):
    """Secure aggregation whose clients replace their Gaussian noise by smaller noise in round 2.

    ``sigma``: scale of the noise, which has the variance ``round_1_variance`` sigma^2 in round 1,
        and ``round_2_variance`` sigma^2 in round 2.
    ``sensitivity``: largest value of the input, a user's gradient along one direction.

    The base class ``TwoRoundNoise`` describes the other fields, and the messages S and R_i.

    The input is one user's gradient along the direction in which it can change, in [0,
    sensitivity]. The value 0 stands for a missing rating. The gradients of the other users are 0.
    An output is all messages that the server sees: the sum S of round 1, and R_i of every honest
    user in round 2.

    The privacy curve is that of a Gaussian with mu = sensitivity/(sigma sqrt(v)), the sensitivity
    in standard deviations. v is ``variance``:

    - Without dropouts, and if all are honest, v is 1/(2 - omega) < 1.
    - In the ``repaired`` protocol, v is ``claimed_variance``, at least 1 if all are honest.

    The paper claims v = 1, because it considers the final sum S + sum of R_i alone.

    Source: LFL-SGDMF of Li et al. 2021, section 6.1, Theorem 5 and its proof.
    """

    # In round 1, each client adds noise to its gradient; R_i exchanges this noise for smaller
    # noise. The variance of the final sum is at least sigma^2 (``claimed_variance``). v is even
    # smaller than 1/(2 - omega) if the server announces too many survivors, or if users reveal
    # their noise. The paper's neighbouring inputs add or remove one rating, so that the sensitivity
    # is 2 R^(3/2) for ratings up to R. Messages are projected on the direction of the gradient,
    # because noise at right angles to it is independent of the input.

    sigma: PositiveFloat
    sensitivity: PositiveFloat

    def __post_init__(self) -> None:
        TwoRoundNoise.__post_init__(self)
        if self.variance <= 0.0:
            raise InputError(
                f"Expected colluding < replaced, because honest users must add noise, got "
                f"colluding={self.colluding!r}, replaced={self.replaced!r}. Lower colluding."
            )
        check_mu(self.mu, "sigma")

    @property
    def mu(self) -> float:
        """Largest input (a user's gradient), in standard deviations of the noise that hides it."""
        return self.sensitivity / (self.sigma * math.sqrt(self.variance))

    @property
    def domain(self) -> Domain:
        """Set of inputs: a user's gradient along one direction, a number in [0, ``sensitivity``].

        The gradient can change only in this direction.
        """
        return Domain(low=0.0, high=self.sensitivity)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (1 + h,): the sum S of round 1, then the messages R_i of the h honest users in
        round 2.
        """
        return (1 + self.replaced - self.colluding,)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws all numbers that the server sees, float64 of shape (*size, *output_shape).

        These are the sum of all users' messages of round 1, and the message of each honest user in
        round 2.
        """
        values = self.domain.expand_batch(value, size)
        shape = (*values.shape, self.replaced - self.colluding)
        before, after = self.round_1_variance, self.round_2_variance
        stays = rng.normal(0.0, self.sigma * math.sqrt(after), shape)
        if self.repaired:
            goes = rng.normal(0.0, self.sigma * math.sqrt(before - after), shape)
            first, messages = goes + stays, -goes
        else:
            first = rng.normal(0.0, self.sigma * math.sqrt(before), shape)
            messages = stays - first
        dropped = self.sigma * math.sqrt((self.masked - self.replaced) * before)
        total = values + first.sum(axis=-1) + rng.normal(0.0, dropped, values.shape)
        return np.concatenate([total[..., None], messages], axis=-1)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of all numbers in ``output`` given the gradient ``value``.

        The two arguments broadcast.
        """
        out, gradient = np.asarray(output, dtype=np.float64), self.domain.check(value)
        messages = out[..., 1:]
        before, after = self.round_1_variance, self.round_2_variance
        spread = before - after if self.repaired else before + after
        sent = scipy.stats.norm.logpdf(messages, 0.0, self.sigma * math.sqrt(spread)).sum(axis=-1)
        center = gradient - self.round_2_weight * messages.sum(axis=-1)
        left = self.sigma * math.sqrt(self.variance)
        return np.asarray(sent + scipy.stats.norm.logpdf(out[..., 0], center, left))
