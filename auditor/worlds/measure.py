"""Measurement of a lower bound on epsilon, and its power: how many draws refute a false claim.

A bound that refutes a claim is measured a second time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import special

from fedrec_auditor.accountants.losses.divergences import find_gaussian_mu
from fedrec_auditor.accountants.statements import Bound, Claim, Horizon
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE, exceeds, refutes
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, EventRates, search_min_samples
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBounds:
    """Lower bounds on epsilon that were measured on outputs of neighbouring inputs.

    bound: bound that holds at the requested confidence.
    high_confidence_bound: bound from the first measurement, at the higher confidence
        (``ALARM_CONFIDENCE``) at which a measurement may contradict a proof.
    is_measured_twice: whether ``bound`` is the smaller bound of two measurements.
    """

    bound: Bound
    high_confidence_bound: Bound
    is_measured_twice: bool


def measure_bounds(
    worlds: Worlds,
    claims: Sequence[Claim],
    estimator: Estimator,
    *,
    delta: float,
    confidence: float,
    samples: int,
    rng: np.random.Generator,
) -> MeasuredBounds:
    """Measures a lower bound on epsilon, and measures it again if the first bound refutes a claim.

    worlds: the neighbouring inputs and functions that draw their outputs.
    claims: claims with which the first bound is compared.
    estimator: method of the measurement.
    delta, confidence: delta and confidence of the bound.
    samples: number of draws per input.
    rng: random generator of all draws.

    The second measurement uses new outputs, and the smaller bound is returned. This bound holds at
    ``confidence`` too, and refutes a true claim with probability (1 - confidence)^2 at most.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
    >>> worlds = Worlds(
    ...     names=("a fair coin", "a biased coin"),
    ...     scope=scope,
    ...     draw=lambda world, size, rng: rng.random(size) < (0.5, 0.9)[world],
    ... )
    >>> claim = Claim(epsilon=0.5, scope=scope, statement="A toss is 0.5-LDP.", source="Theorem 1")
    >>> measured = measure_bounds(
    ...     worlds,
    ...     (claim,),
    ...     JointBinomial(),
    ...     delta=0.0,
    ...     confidence=0.95,
    ...     samples=1000,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> refutes(measured.bound, claim), measured.is_measured_twice, measured.bound.samples
    (True, True, 4000)
    """

    first, again = rng.spawn(2)
    bound, alarm = estimator.measure_bounds(
        worlds, delta=delta, confidences=(confidence, ALARM_CONFIDENCE), samples=samples, rng=first
    )
    if not any(refutes(bound, claim) for claim in claims):
        return MeasuredBounds(bound=bound, high_confidence_bound=alarm, is_measured_twice=False)
    second = estimator.measure_bound(
        worlds, delta=delta, confidence=confidence, samples=samples, rng=again
    )
    smaller = replace(
        min(bound, second, key=lambda each: each.epsilon),
        samples=(bound.samples or 0) + (second.samples or 0),
        source=f"{bound.source}; of two measured bounds, the smaller is given",
    )
    return MeasuredBounds(bound=smaller, high_confidence_bound=alarm, is_measured_twice=True)


_DEFAULT = JointBinomial()
# Ratio of the system's true epsilon to the claimed epsilon, at which power is stated.
TRUE_TO_CLAIMED_EPSILON = 2.0
# Delta at which Gaussian noise has the stated epsilon if the claim has delta 0; at delta 0 the
# epsilon of Gaussian noise is infinite.
_REFERENCE_DELTA = 1e-5
_MAX_DRAWS = 10**9
# Half-widths, in standard deviations, of the middle range in which a guesser abstains.
_HALF_WIDTHS = np.linspace(0.0, 8.0, 161)


def _response_rates(epsilon: float, delta: float) -> EventRates:
    """Returns the probabilities of an answer of randomized response under two inputs.

    The answer is the true one under the first input, and false under the second.
    """
    right = special.expit(epsilon)
    return np.array([right]), np.array([1.0 - right])


def _gaussian_rates(epsilon: float, delta: float) -> EventRates:
    """Returns probabilities of right and of wrong guesses between two normal distributions.

    A Gaussian mechanism with (epsilon, delta) has these distributions under two inputs. Each array
    has one entry per width of the range in which the guesser abstains.
    """
    mu = find_gaussian_mu(epsilon, delta or _REFERENCE_DELTA)
    return special.ndtr(mu / 2 - _HALF_WIDTHS), special.ndtr(-mu / 2 - _HALF_WIDTHS)


@dataclass(frozen=True, slots=True)
class RefutationDraws:
    """Approximate numbers of draws per input that refute a claim of half the true epsilon.

    A number above 10^9 is None. The numbers hold for the best rule, if counts equal their
    expectation.

    n_draws_randomized_response: number for randomized response, for which a false claim is refuted
        most easily.
    n_draws_gaussian: number for Gaussian noise. A training, which sums many small privacy losses,
        is similar to it.
    """

    n_draws_randomized_response: int | None
    n_draws_gaussian: int | None

    @classmethod
    @cache
    def count(
        cls, epsilon: float, *, delta: float, confidence: float, estimator: Estimator = _DEFAULT
    ) -> RefutationDraws:
        """Computes how many draws refute a claimed epsilon if the true epsilon is twice as large.

        epsilon: the claimed epsilon, positive and finite.
        delta: delta of the claim.
        confidence: confidence of the measured bound.
        estimator: the estimator that measures the bound.
        """

        def find_min(rates: EventRates) -> int | None:
            """Finds the smallest number of draws that refutes the claim, at these event rates."""

            def enough(samples: int) -> bool:
                """Checks whether the predicted bound of ``samples`` draws exceeds the claim."""
                limit = estimator.predict_bound(samples, rates, delta=delta, alpha=1.0 - confidence)
                return exceeds(limit, epsilon)

            return search_min_samples(enough, _MAX_DRAWS)

        pairs = (_response_rates, _gaussian_rates)
        return cls(*(find_min(pair(TRUE_TO_CLAIMED_EPSILON * epsilon, delta)) for pair in pairs))

    @classmethod
    def from_bound(
        cls, epsilon: float, measured_bound: Bound | None, estimator: Estimator | None = None
    ) -> RefutationDraws | None:
        """Returns how many draws would refute a claim, if they are measured like
        ``measured_bound``.

        epsilon: the claimed epsilon; the true epsilon is assumed to be twice as large.
        measured_bound: the measured bound, which gives delta and confidence.
        estimator: the estimator that measured the bound; ``JointBinomial`` if it is None, or if the
            bound has assumptions.

        The result is None in these cases:

        - the bound is None or exact (of confidence 1);
        - the claimed epsilon is 0 or infinite.
        """
        if measured_bound is None or not 0.0 < epsilon < math.inf:
            return None
        delta, confidence = measured_bound.delta, measured_bound.confidence
        if confidence == 1.0:
            return None
        member = _DEFAULT if estimator is None or measured_bound.assumptions else estimator
        return cls.count(epsilon, delta=delta, confidence=confidence, estimator=member)

    def __str__(self) -> str:
        return self.describe("draws of each world")

    def describe(self, draws: str) -> str:
        """Describes in words how many draws refute a claim that is half the true epsilon.

        ``draws``: noun for the draws in the text, such as "draws of each world".
        """
        return (
            f"a system with twice the claimed epsilon is refuted by about "
            f"{_format(self.n_draws_randomized_response)} {draws} if it is randomized response, by "
            f"{_format(self.n_draws_gaussian)} if it is Gaussian noise"
        )


def explain_too_few_trainings(claim: Claim, measured: Sequence[Bound]) -> str:
    """Explains why the measured trainings are too few to refute even a claim of half the true
    epsilon.

    ``measured``: measured lower bounds. Only bounds on whole trainings count, not bounds on a
        message or a round.

    The text is empty in these cases:

    - a bound comes from at least ``RefutationDraws.n_draws_gaussian`` trainings per world (input);
    - there are no bounds on trainings;
    - ``RefutationDraws`` are not defined for a bound (``from_bound``).
    """
    why = ""
    for bound in measured:
        if bound.scope.horizon is not Horizon.TRAINING:
            continue
        power, draws = RefutationDraws.from_bound(claim.epsilon, bound), bound.samples or 0
        # The privacy losses of many rounds add up to a nearly Gaussian loss.
        if power is None or (power.n_draws_gaussian or math.inf) <= draws // 2:
            return ""
        why = f"{draws:,} draws of trainings are too few: in about half of all cases, {power}."
    return why


def _format(draws: int | None) -> str:
    """Formats a number of draws, rounded up to two significant digits."""
    if draws is None:
        return "more than 10^9"
    unit = 10 ** max(0, len(str(draws)) - 2)
    return f"{math.ceil(draws / unit) * unit:,}"
