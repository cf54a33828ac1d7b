"""Conversion of accounting events to each adjacency and to groups of records, and lower bounds on
epsilon that two neighbouring data sets attain.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp, leaves
from fedrec_auditor.accountants.losses import pairs as loss_pairs
from fedrec_auditor.accountants.losses.composition import compute_lower_epsilon
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.losses.pure import amplify_epsilon, get_pure_epsilon
from fedrec_auditor.accountants.statements import Adjacency, check_delta

_NOISE = (dp.GaussianDpEvent, dp.LaplaceDpEvent)


def convert_event(event: dp.DpEvent, adjacency: Adjacency) -> dp.DpEvent | None:
    """Converts an event in the convention of dp-accounting to the event that is correct under
    ``adjacency``; None if unknown.

    In this convention, the noise multiplier is the noise divided by the norm of one record.

    - Noise on a sum, replacement: the multiplier is halved, because the sum changes by up to twice
      the norm.
    - Sample of fixed size: the multiplier is halved under both adjacencies. For adding or removing
      a record, the result is a Poisson sample at an equal rate.
    - Poisson sample, replacement: ``ReplacedSamplingDpEvent`` for Gaussian and Laplace noise,
      otherwise None.
    - Responses, pure epsilons, zCDP: unchanged.

    >>> convert_event(dp.GaussianDpEvent(1.0), Adjacency.REPLACE)
    GaussianDpEvent(noise_multiplier=0.5)
    """
    # A sample of fixed size: a sampled record always displaces another record (the proof is in
    # ``_to_poisson``).
    #
    # Fault of dp-accounting 0.6.0, which the tests show: its RDP accountant uses the multiplier
    # unchanged under replacement and so proves the epsilon of half the change (4.73 for z = 1 at
    # delta 1e-5, where the exact epsilon is 9.997). Its PLD accountant is correct.
    event, replaced = leaves.merge_sampling(event), adjacency is not Adjacency.ADD_REMOVE
    if isinstance(event, (dp.SelfComposedDpEvent, dp.ComposedDpEvent)):
        return _change_parts(event, lambda part: convert_event(part, adjacency))
    if isinstance(event, dp.RevealedSamplingDpEvent):
        one = convert_event(event.event, adjacency)
        return None if one is None else dp.RevealedSamplingDpEvent(event.sampling_probability, one)
    if isinstance(event, dp.SampledWithoutReplacementDpEvent):
        return _to_poisson(event, replaced)
    if isinstance(event, dp.ReplacedSamplingDpEvent) and not replaced:
        return dp.PoissonSampledDpEvent(event.sampling_probability, event.event)
    if isinstance(event, dp.PoissonSampledDpEvent) and replaced:
        if event.sampling_probability == 1:
            return convert_event(event.event, adjacency)
        if not isinstance(event.event, _NOISE):
            return None
        return dp.ReplacedSamplingDpEvent(event.sampling_probability, event.event)
    if isinstance(event, dp.MixtureOfGaussiansDpEvent) and replaced:
        return None
    return _widen(event, 2) if replaced and isinstance(event, _NOISE) else event


def convert_event_or_raise(event: dp.DpEvent, adjacency: Adjacency) -> dp.DpEvent:
    """Converts ``event``, in the convention of dp-accounting, to the event whose accounting is
    correct under ``adjacency``.

    Under replacement, for example, noise multipliers are halved (see ``convert_event``). Raises
    InputError if no such event is known, or if its sampling is not defined under ``adjacency``.
    """
    charged = convert_event(event, adjacency)
    kinds = [] if charged is None else [type(leaf) for leaf, _ in leaves.list_leaves(charged)]
    if charged is None or any(
        adjacency not in leaves.SAMPLING_ADJACENCIES.get(k, (adjacency,)) for k in kinds
    ):
        raise InputError(
            f"{explain_unsupported_event(event, adjacency)} Choose another adjacency, or account "
            "the parts separately."
        )
    return charged


def format_leaf_names(event: dp.DpEvent) -> str:
    """Returns the class names of all mechanisms in ``event``, and of the mechanisms inside sampling
    events, joined by commas.
    """
    parts = [(leaf, getattr(leaf, "event", None)) for leaf, _ in leaves.list_leaves(event)]
    names = dict.fromkeys(
        type(leaf).__name__ + (f" of {type(inner).__name__}" if inner is not None else "")
        for leaf, inner in parts
    )
    return ", ".join(names)


def explain_unsupported_event(event: dp.DpEvent, adjacency: Adjacency) -> str:
    """Returns a sentence for an error message on an ``event`` that cannot be accounted under
    ``adjacency``. The sentence names all mechanisms of the event.
    """
    return f"Under {adjacency} adjacency nothing is known of {format_leaf_names(event)}."


def make_group_event(event: dp.DpEvent, size: int) -> dp.DpEvent | None:
    """Returns the event for adding or removing ``size`` records together; None if unknown.

    ``event`` has a noise multiplier that is the noise divided by the norm of one record.

    - Noise on a sum of all records: the multiplier is divided by ``size``.
    - Gaussian noise on a Poisson sample: the result is a mixture of Gaussians
      (``losses.pairs.GaussianMixturePair``).

    The epsilon of the mixture is far below the bound by group privacy.

    >>> event = make_group_event(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)), 2)
    >>> event.sensitivities, [round(chance, 2) for chance in event.sampling_probs]
    ((0.0, 1.0, 2.0), [0.81, 0.18, 0.01])
    """
    # A Poisson sample contains a binomial number of the group's records. Group privacy multiplies
    # epsilon by ``size`` and delta by more.
    event = leaves.merge_sampling(event)
    if isinstance(event, (dp.SelfComposedDpEvent, dp.ComposedDpEvent)):
        return _change_parts(event, lambda part: make_group_event(part, size))
    if isinstance(event, _NOISE):
        return _widen(event, size)
    if isinstance(event, dp.PoissonSampledDpEvent) and isinstance(event.event, dp.GaussianDpEvent):
        drawn = np.arange(size + 1)
        chances = scipy.stats.binom.pmf(drawn, size, event.sampling_probability)
        return dp.MixtureOfGaussiansDpEvent(
            event.event.noise_multiplier,
            tuple(drawn.astype(float).tolist()),
            tuple(np.asarray(chances).tolist()),
        )
    return None


def _change_parts(
    event: dp.SelfComposedDpEvent | dp.ComposedDpEvent,
    change: Callable[[dp.DpEvent], dp.DpEvent | None],
) -> dp.DpEvent | None:
    """Applies ``change`` to every event of a composition, and composes the results; None if one of
    the results is None.
    """
    if isinstance(event, dp.SelfComposedDpEvent):
        one = change(event.event)
        return None if one is None else dp.SelfComposedDpEvent(one, event.count)
    parts = [change(part) for part in event.events]
    return None if None in parts else dp.ComposedDpEvent(parts)


def _widen(event: dp.DpEvent, times: int) -> dp.DpEvent:
    """Noise event for a sum whose sensitivity is ``times`` as large: the noise multiplier is
    divided by ``times``.
    """
    return type(event)(event.noise_multiplier / times)


def _to_poisson(event: dp.SampledWithoutReplacementDpEvent, replaced: bool) -> dp.DpEvent | None:
    """Event of a sample of fixed size: the same sampling under replacement (``replaced``),
    otherwise Poisson sampling at the same rate.

    A drawn record displaces another record, so the multiplier of Gaussian or Laplace noise is
    halved.
    """
    # Without the record, the sample is R + y, with R uniform of size m - 1 and y uniform among the
    # others. With the record it is the same with probability 1 - q, and R + x with probability q =
    # m/n, where n counts the larger set. So both distributions are averages, over R and y, of M(R +
    # y) and of (1 - q) M(R + y) + q M(R + x), and divergences are jointly convex. So the sample
    # costs as much as Poisson sampling at rate q, with the noise of a *replacement*, which is twice
    # the change from adding or removing a record of a clipped sum. A Poisson accountant with that
    # smaller sensitivity undercounts by a factor of two in the noise. The factor is attained if all
    # other records lie at one end of the ball, and the one at the opposite end.
    noise = isinstance(event.event, _NOISE)
    one = _widen(event.event, 2) if noise else event.event
    if replaced:
        n = event.source_dataset_size
        return dp.SampledWithoutReplacementDpEvent(n, event.sample_size, one)
    return dp.PoissonSampledDpEvent(leaves.get_sampling_rate(event), one)


# Largest mu for which the exact curve of normal noise is solved.
_MOST_MU = 1e4
_NEVER = 1e-300


def compute_attained_epsilon(event: dp.DpEvent, delta: float) -> float:
    """Computes an epsilon that two neighbouring inputs attain under ``event`` at ``delta``: a lower
    bound, so that no accountant can prove a smaller epsilon.

    Mechanisms without known output distributions are omitted. Raises InputError if the event or
    ``delta`` is invalid.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> round(compute_attained_epsilon(SelfComposedDpEvent(GaussianDpEvent(10.0), 100), 1e-5), 3)
    4.377
    """
    # Every mechanism of the event is applied to the same two neighbouring inputs, all in the same
    # order, and the privacy losses are composed into a lower bound
    # (``losses.pairs.find_lower_bound_pairs``, ``losses.composition``). With omitted mechanisms the
    # result is still a lower bound, because seeing more outputs never reduces epsilon.
    check_delta(delta)
    uses = leaves.list_leaves(event)
    for leaf, _ in uses:
        leaves.check_parameters(leaf)
    if any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in uses):
        return math.inf
    if delta == 0.0:
        return max(math.fsum(n * _max_losses(leaf)[way] for leaf, n in uses) for way in (0, 1))
    mu, known = 0.0, []
    for leaf, count in uses:
        if isinstance(leaf, dp.GaussianDpEvent):
            noise = leaf.noise_multiplier
            mu = math.hypot(mu, math.sqrt(count) / noise if noise > 0 else math.inf)
        elif (pairs := loss_pairs.find_lower_bound_pairs(leaf)) is not None:
            known.append((pairs, count))
    if mu < math.inf:
        mu = min(mu, loss_pairs.MAX_LOSS)  # more noise reveals less
    if not known:
        return _gaussian_epsilon(mu, delta)
    noisy: list[tuple[loss_pairs.Pair, int]] = (
        [(loss_pairs.make_gaussian_pair(mu), 1)] if mu > 0 else []
    )
    orders = {tuple(noisy + [(pairs[way], n) for pairs, n in known]) for way in (0, 1)}
    return max(compute_lower_epsilon(order, delta) for order in orders)


def compute_lower_shuffle_epsilon(
    miss: float, false_alarm: float, n_users: int, rounds: int, delta: float
) -> float:
    """Computes a lower bound on the epsilon of ``rounds`` shuffles of one bit per user, at
    ``delta``.

    - ``miss``: probability that a user sends 0 on the first of two inputs.
    - ``false_alarm``: probability of sending 1 on the second input, which all other users have.
    - ``n_users``: number of users in a shuffle.
    - ``rounds``: number of shuffles.

    For other reports, choose a set of reports. The bit then states whether a report is in the set,
    and the bound also holds for the reports.
    """
    check_delta(delta)
    if delta == 0.0:
        both = math.log((1.0 - miss) / false_alarm), math.log((1.0 - false_alarm) / miss)
        return rounds * max(both)
    pairs = loss_pairs.make_shuffled_pairs(miss, false_alarm, n_users)
    return max(compute_lower_epsilon(((pair, rounds),), delta) for pair in pairs)


def list_attainment_assumptions(event: dp.DpEvent) -> tuple[str, ...]:
    """Lists the assumptions of the lower bound ``compute_attained_epsilon`` about the mechanisms of
    ``event``, as sentences.

    There are two kinds:

    - A mechanism of which only an epsilon is known is treated as randomized response on a bit.
    - A mechanism without known output distributions is omitted.
    """
    sentences: dict[str, None] = {}
    for leaf, _ in leaves.list_leaves(event):
        name = type(leaf).__name__
        if isinstance(leaf, (dp.PureDpEvent, dp.ShuffledDpEvent)):
            sentences[f"{name} stands for randomized response on a bit"] = None
        elif (
            not isinstance(leaf, dp.NonPrivateDpEvent)
            and loss_pairs.find_lower_bound_pairs(leaf) is None
        ):
            sentences[f"the leakage of {name} is left out"] = None
    return tuple(sentences)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Lower bound on the epsilon at ``delta`` of a Gaussian mechanism with sensitivity over
    standard deviation ``mu``.
    """
    if mu > _MOST_MU:
        return compute_lower_epsilon(((loss_pairs.make_gaussian_pair(mu), 1),), delta)
    return max(0.0, (find_gaussian_epsilon(delta, mu) - 1e-12 * (1.0 + mu)) * (1.0 - 1e-14))


def _max_losses(leaf: dp.DpEvent) -> tuple[float, float]:
    """Largest privacy losses of one use of a mechanism, for the two orders of the inputs; 0 if they
    are unknown.
    """
    inner = getattr(leaf, "event", leaf)
    if isinstance(inner, (dp.GaussianDpEvent, dp.MixtureOfGaussiansDpEvent)):
        return (0.0 if _hides_all(leaf, inner) else math.inf,) * 2
    if isinstance(leaf, dp.ShuffledDpEvent):
        return (leaf.epsilon,) * 2
    if isinstance(leaf, dp.ReplacedSamplingDpEvent) and isinstance(inner, dp.LaplaceDpEvent):
        rate = leaves.get_sampling_rate(leaf)
        return (amplify_epsilon(get_pure_epsilon(inner), rate, replaced=True) * (1.0 - 1e-15),) * 2
    pairs = loss_pairs.find_lower_bound_pairs(leaf)
    if pairs is None:
        return 0.0, 0.0
    far = [math.inf if p.infinite_mass > 0 else p.find_loss_range(_NEVER)[1] for p in pairs]
    return far[0], far[1]


def _hides_all(leaf: dp.DpEvent, inner: dp.DpEvent) -> bool:
    """Whether the mechanism reveals nothing: no record is drawn, or the noise is infinite."""
    if isinstance(inner, dp.MixtureOfGaussiansDpEvent):
        return math.isinf(inner.standard_deviation) or not any(
            shift * chance > 0
            for shift, chance in zip(inner.sensitivities, inner.sampling_probs, strict=True)
        )
    return math.isinf(inner.noise_multiplier) or leaves.get_sampling_rate(leaf) == 0


def count_anonymity_set(n_users: int, colluding: float = 0.0) -> int:
    """Returns the number of users among whom a report is hidden: all users who do not collude,
    including the sender of the report.

    ``colluding`` is the fraction of ``n_users`` (rounded up) who reveal their reports to the
    adversary.

    >>> count_anonymity_set(1000, colluding=0.1)
    900
    """
    # The adversary can remove these reports, and what remains is a shuffle of the other reports. If
    # the shuffler itself colludes, the adversary sees the unshuffled local reports, whose epsilons
    # add up.
    if n_users < 1 or not 0.0 <= colluding < 1.0:
        raise InputError(
            f"Expected n_users >= 1 and colluding in [0, 1), got n_users={n_users!r}, "
            f"colluding={colluding!r}. Give n_users, and the fraction of them who collude."
        )
    return max(1, n_users - math.ceil(colluding * n_users - 1e-9))
