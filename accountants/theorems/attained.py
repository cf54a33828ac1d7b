"""What an event gives away at least: two neighbours, told apart as well as its proof allows."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import check_parameters, leaves, sampling_rate
from fedrec_auditor.accountants.losses.composition import epsilon_below
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.accountants.losses.leaf_pairs import (
    LARGEST_LOSS,
    attained_pairs,
    gaussian_pair,
    shuffled_pairs,
)
from fedrec_auditor.accountants.losses.pairs import Pair
from fedrec_auditor.accountants.losses.pure import pure_epsilon, sampled_epsilon
from fedrec_auditor.accountants.statements.bound import check_delta

# Above, the exact curve of normal noise is not solved for.
_MOST_MU = 1e4
_NEVER = 1e-300


def epsilon_attained(event: dp.DpEvent, delta: float) -> float:
    """An epsilon that ``event`` does not keep at ``delta``: no epsilon below it can be proved.

    Every leaf is used on the same two neighbours, each in the same order, and the losses are
    composed from below (``losses.leaf_pairs``, ``losses.composition``). Leaves of which no pair is
    known are left out, for whoever sees them too can tell no less. InputError for a senseless event
    or delta.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> round(epsilon_attained(SelfComposedDpEvent(GaussianDpEvent(10.0), 100), 1e-5), 3)
    4.377
    """
    check_delta(delta)
    uses = leaves(event)
    for leaf, _ in uses:
        check_parameters(leaf)
    if any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in uses):
        return math.inf
    if delta == 0.0:
        return max(math.fsum(n * _largest(leaf)[way] for leaf, n in uses) for way in (0, 1))
    mu, known = 0.0, []
    for leaf, count in uses:
        if isinstance(leaf, dp.GaussianDpEvent):
            noise = leaf.noise_multiplier
            mu = math.hypot(mu, math.sqrt(count) / noise if noise > 0 else math.inf)
        elif (pairs := attained_pairs(leaf)) is not None:
            known.append((pairs, count))
    if mu < math.inf:
        mu = min(mu, LARGEST_LOSS)  # more noise tells less
    if not known:
        return _normal(mu, delta)
    noisy: list[tuple[Pair, int]] = [(gaussian_pair(mu), 1)] if mu > 0 else []
    orders = {tuple(noisy + [(pairs[way], n) for pairs, n in known]) for way in (0, 1)}
    return max(epsilon_below(order, delta) for order in orders)


def shuffled_attained(
    missed: float, unlikely: float, n_users: int, rounds: int, delta: float
) -> float:
    """An epsilon that ``rounds`` shuffles of bits do not keep at ``delta``.

    Of any reports: whether one is in a certain set is a bit, and post-processing tells no more.
    ``missed`` and ``unlikely`` are the probabilities of 0 under the one input and of 1 under the
    other (``losses.leaf_pairs.shuffled_pairs``).
    """
    check_delta(delta)
    if delta == 0.0:
        both = math.log((1.0 - missed) / unlikely), math.log((1.0 - unlikely) / missed)
        return rounds * max(both)
    pairs = shuffled_pairs(missed, unlikely, n_users)
    return max(epsilon_below(((pair, rounds),), delta) for pair in pairs)


def supposed(event: dp.DpEvent) -> tuple[str, ...]:
    """What ``epsilon_attained`` supposes of leaves that name an epsilon only, or leaves out."""
    found: dict[str, None] = {}
    for leaf, _ in leaves(event):
        name = type(leaf).__name__
        if isinstance(leaf, (dp.PureDpEvent, dp.ShuffledDpEvent)):
            found[f"what {name} stands for is randomized response on a bit"] = None
        elif not isinstance(leaf, dp.NonPrivateDpEvent) and attained_pairs(leaf) is None:
            found[f"what {name} tells is left out"] = None
    return tuple(found)


def _normal(mu: float, delta: float) -> float:
    """On the lower side of the exact curve."""
    if mu > _MOST_MU:
        return epsilon_below(((gaussian_pair(mu), 1),), delta)
    return max(0.0, (gaussian_epsilon(delta, mu) - 1e-12 * (1.0 + mu)) * (1.0 - 1e-14))


def _largest(leaf: dp.DpEvent) -> tuple[float, float]:
    """The largest loss of one use in either order, 0 where it is not known."""
    inner = getattr(leaf, "event", leaf)
    if isinstance(inner, (dp.GaussianDpEvent, dp.MixtureOfGaussiansDpEvent)):
        return (0.0 if _hidden(leaf, inner) else math.inf,) * 2
    if isinstance(leaf, dp.ShuffledDpEvent):
        return (leaf.epsilon,) * 2
    if isinstance(leaf, dp.ReplacedSamplingDpEvent) and isinstance(inner, dp.LaplaceDpEvent):
        rate = sampling_rate(leaf)
        return (sampled_epsilon(pure_epsilon(inner), rate, replaced=True) * (1.0 - 1e-15),) * 2
    pairs = attained_pairs(leaf)
    if pairs is None:
        return 0.0, 0.0
    first, second = (math.inf if p.infinite > 0 else p.span(_NEVER)[1] for p in pairs)
    return first, second


def _hidden(leaf: dp.DpEvent, inner: dp.DpEvent) -> bool:
    """Whether nothing at all is told: nobody is drawn, or noise without end."""
    if isinstance(inner, dp.MixtureOfGaussiansDpEvent):
        return math.isinf(inner.standard_deviation) or not any(
            shift * chance > 0
            for shift, chance in zip(inner.sensitivities, inner.sampling_probs, strict=True)
        )
    return math.isinf(inner.noise_multiplier) or sampling_rate(leaf) == 0
