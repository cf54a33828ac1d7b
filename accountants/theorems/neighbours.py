"""Costs of an event for one record or several: by kind of neighbour, sampling and shuffling."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import (
    SAMPLED_UNDER,
    check_parameters,
    leaves,
    one_use,
    sampling_rate,
)
from fedrec_auditor.accountants.losses.composition import epsilon_above, epsilon_below
from fedrec_auditor.accountants.losses.divergences import gaussian_epsilon
from fedrec_auditor.accountants.losses.pairs import (
    LARGEST_LOSS,
    REVEALED,
    FixedSize,
    GaussianPair,
    Pair,
    Poisson,
    Reversed,
    attained_pairs,
    gaussian_pair,
    shuffled_pairs,
)
from fedrec_auditor.accountants.losses.pure import pure_epsilon, sampled_epsilon
from fedrec_auditor.accountants.statements import Adjacency, check_delta

_NOISE = (dp.GaussianDpEvent, dp.LaplaceDpEvent)


def under(event: dp.DpEvent, adjacency: Adjacency) -> dp.DpEvent | None:
    """``event``, as dp-accounting documents it, for accountants of ``adjacency``; None if unknown.

    Its noise multiplier is the noise over the norm of one record. A record that comes or goes moves
    a sum of them by this norm, and a record that is replaced by twice that, so accountants are
    asked for half the multiplier there. In a sample of fixed size a record always makes room for
    another one: there it is half under either adjacency, and where a record comes or goes that
    costs what Poisson sampling of the same rate costs (``theorems.fixed_size``). Poisson sampling
    of a record that is replaced is known for these noises (``ReplacedSamplingDpEvent``). What is no
    noise on a sum (responses, pure epsilons, zCDP) is the same under either.

    Fault of dp-accounting 0.6.0, which the tests show: its RDP accountant takes the multiplier as
    it is under replacement and so proves the epsilon of half the change (4.73 for z = 1 at delta
    1e-5, where 9.997 is exact); its PLD accountant is right.

    >>> under(dp.GaussianDpEvent(1.0), Adjacency.REPLACE)
    GaussianDpEvent(noise_multiplier=0.5)
    """
    event, replaced = one_use(event), adjacency is not Adjacency.ADD_REMOVE
    if isinstance(event, (dp.SelfComposedDpEvent, dp.ComposedDpEvent)):
        return _of_parts(event, lambda part: under(part, adjacency))
    if isinstance(event, dp.RevealedSamplingDpEvent):
        one = under(event.event, adjacency)
        return None if one is None else dp.RevealedSamplingDpEvent(event.sampling_probability, one)
    if isinstance(event, dp.SampledWithoutReplacementDpEvent):
        return _fixed(event, replaced)
    if isinstance(event, dp.ReplacedSamplingDpEvent) and not replaced:
        return dp.PoissonSampledDpEvent(event.sampling_probability, event.event)
    if isinstance(event, dp.PoissonSampledDpEvent) and replaced:
        if event.sampling_probability == 1:
            return under(event.event, adjacency)
        noise = isinstance(event.event, _NOISE)
        return (
            dp.ReplacedSamplingDpEvent(event.sampling_probability, event.event) if noise else None
        )
    if isinstance(event, dp.MixtureOfGaussiansDpEvent) and replaced:
        return None
    return _wider(event, 2) if replaced and isinstance(event, _NOISE) else event


def charge(event: dp.DpEvent, adjacency: Adjacency) -> dp.DpEvent:
    """``under``, by which ``account`` and a caller's proof are read; InputError if unknown."""
    charged = under(event, adjacency)
    kinds = [] if charged is None else [type(leaf) for leaf, _ in leaves(charged)]
    if charged is None or any(adjacency not in SAMPLED_UNDER.get(k, (adjacency,)) for k in kinds):
        raise InputError(
            f"{unknown(event, adjacency)} Ask for the other adjacency, or account it in parts."
        )
    return charged


def leaf_names(event: dp.DpEvent) -> str:
    """The kinds of an event's parts, and of what they sample, for a sentence."""
    parts = [(leaf, getattr(leaf, "event", None)) for leaf, _ in leaves(event)]
    names = dict.fromkeys(
        type(leaf).__name__ + (f" of {type(inner).__name__}" if inner is not None else "")
        for leaf, inner in parts
    )
    return ", ".join(names)


def unknown(event: dp.DpEvent, adjacency: Adjacency) -> str:
    """A sentence that names the parts of an event that ``under`` cannot read."""
    return f"Under {adjacency} adjacency nothing is known of {leaf_names(event)}."


def of_group(event: dp.DpEvent, size: int) -> dp.DpEvent | None:
    """``event``, as dp-accounting documents it, for ``size`` records that come or go together.

    None if it is not known. Noise on a sum of all is as if the sum moved ``size`` times as far. Of
    a Poisson sample the group is in with as many records as are drawn, a binomial number of them,
    and normal noise is then a mixture of Gaussians (``losses.gaussian_mixture``). That is far below
    group privacy, which multiplies epsilon, and delta by more.

    >>> event = of_group(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)), 2)
    >>> event.sensitivities, [round(chance, 2) for chance in event.sampling_probs]
    ((0.0, 1.0, 2.0), [0.81, 0.18, 0.01])
    """
    event = one_use(event)
    if isinstance(event, (dp.SelfComposedDpEvent, dp.ComposedDpEvent)):
        return _of_parts(event, lambda part: of_group(part, size))
    if isinstance(event, _NOISE):
        return _wider(event, size)
    if isinstance(event, dp.PoissonSampledDpEvent) and isinstance(event.event, dp.GaussianDpEvent):
        drawn = np.arange(size + 1)
        chances = stats.binom.pmf(drawn, size, event.sampling_probability)
        return dp.MixtureOfGaussiansDpEvent(
            event.event.noise_multiplier,
            tuple(drawn.astype(float).tolist()),
            tuple(np.asarray(chances).tolist()),
        )
    return None


def _of_parts(
    event: dp.SelfComposedDpEvent | dp.ComposedDpEvent,
    change: Callable[[dp.DpEvent], dp.DpEvent | None],
) -> dp.DpEvent | None:
    """The composition of its parts' events after a change; None if one of them is not known."""
    if isinstance(event, dp.SelfComposedDpEvent):
        one = change(event.event)
        return None if one is None else dp.SelfComposedDpEvent(one, event.count)
    parts = [change(part) for part in event.events]
    return None if None in parts else dp.ComposedDpEvent(parts)


def _wider(event: dp.DpEvent, times: int) -> dp.DpEvent:
    """Noise on a sum that moves ``times`` as far."""
    return type(event)(event.noise_multiplier / times)


def _fixed(event: dp.SampledWithoutReplacementDpEvent, replaced: bool) -> dp.DpEvent | None:
    """A sample of fixed size, of which a record that is drawn displaces another one."""
    noise = isinstance(event.event, _NOISE)
    one = _wider(event.event, 2) if noise else event.event
    if replaced:
        return dp.SampledWithoutReplacementDpEvent(
            event.source_dataset_size, event.sample_size, one
        )
    return dp.PoissonSampledDpEvent(sampling_rate(event), one)


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


# Gaussian noise on a sample of fixed size: what is proved, and what two data sets reach.
#
# Under replacement the truth lies between the two, and no closed form is known for it. Under
# add-remove they meet: a record of n is present or absent, and m are drawn all the same. Without it
# the sample is R + y, R uniform of size m - 1 and y uniform of the others, with it the same at
# 1 - m/n and R + x at m/n. So both distributions are averages, over R and y, of M(R + y) and of
# (1 - q) M(R + y) + q M(R + x), q = m/n with n counting the larger set, and divergences are jointly
# convex: it costs what Poisson sampling at rate m/n costs, with the noise of a *replacement*. For a
# sum of records clipped to C that is twice the move of a record that comes or goes, so a Poisson
# accountant with sensitivity C undercounts fixed-size batches, by a factor of two in the noise, and
# not only in theory: all others at one end of the ball, and the one at the other, reach it.

# Noise below which doubles have no room for the loss.
_LEAST = 1e-7


def fixed_size_above(
    *,
    n_users: int,
    sample: int,
    rounds: int,
    multiplier: float,
    delta: float,
    adjacency: Adjacency = Adjacency.REPLACE,
) -> float:
    """The least epsilon that is proved: ``rounds`` samples of ``sample`` of ``n_users``, composed.

    ``multiplier`` is the noise over what replacing one record of a sample moves at most (2S/M for
    an average of M records clipped to S), under either adjacency, and the sample stays unknown. The
    rounds may depend on each other. See ``FixedSize`` for the proof under replacement.
    """
    known = _without_loss(n_users, sample, rounds, multiplier, delta, adjacency)
    if known is not None:
        return known
    rate = sample / n_users
    # With less, all is revealed.
    noise: Pair = GaussianPair(1 / multiplier) if multiplier > _LEAST else REVEALED
    if adjacency is Adjacency.ADD_REMOVE:
        both = (Poisson(noise, rate), Reversed(Poisson(noise, rate)))
        return max(epsilon_above(((pair, rounds),), delta) for pair in both)
    return epsilon_above(((FixedSize(noise, rate), rounds),), delta)


def fixed_size_below(
    *,
    n_users: int,
    sample: int,
    rounds: int,
    multiplier: float,
    delta: float,
    adjacency: Adjacency = Adjacency.REPLACE,
) -> float:
    """An epsilon that two neighbouring data sets show not to be kept, of the same rounds.

    All records but one lie at one end of the clipping ball, and the one lies at the same end, or is
    absent, in one data set, and in the other lies at the other end. So a round releases N(0, z^2),
    or where the one is sampled N(1, z^2): the pair of Poisson sampling.
    """
    known = _without_loss(n_users, sample, rounds, multiplier, delta, adjacency)
    if known is not None:
        return known
    # More noise tells less; without any, the one is seen or not.
    noise: Pair = GaussianPair(1 / max(multiplier, _LEAST)) if multiplier > 0 else REVEALED
    if sample == n_users:
        return epsilon_below(((noise, rounds),), delta)
    one = Poisson(noise, sample / n_users)
    # Under replacement either order of the two is allowed; this one tells more in all we tried.
    pairs = (one, Reversed(one)) if adjacency is Adjacency.ADD_REMOVE else (one,)
    return max(epsilon_below(((pair, rounds),), delta) for pair in pairs)


def _without_loss(
    n_users: int, sample: int, rounds: int, multiplier: float, delta: float, adjacency: Adjacency
) -> float | None:
    """Epsilon where no loss need be composed, else None; InputError for senseless arguments."""
    check_parameters(SampledWithoutReplacementDpEvent(n_users, sample, GaussianDpEvent(multiplier)))
    if rounds < 1 or rounds != int(rounds):
        raise InputError(f"Expected rounds >= 1, got rounds={rounds!r}. Count the samples.")
    check_delta(delta)
    if adjacency is Adjacency.ANY_PAIR:
        raise InputError(
            f"Expected replace or add-remove adjacency, got {adjacency}. A sample hides nothing of "
            "a record from whoever may change all the others."
        )
    if math.isinf(multiplier):
        return 0.0
    return math.inf if delta == 0 else None


def anonymity_set_size(n_users: int, colluding: float = 0.0) -> int:
    """How many of ``n_users`` a report hides among, itself included: those who keep silent.

    >>> anonymity_set_size(1000, colluding=0.1)
    900

    A share ``colluding`` of them tells the adversary what it sent (rounded up). Taking their
    reports out of the pool leaves a shuffle of the others', exactly: who colludes is no clone, but
    costs no more than that. If the proxy itself colludes nothing is left but the local reports,
    whose epsilons add up: that is the server's vantage.
    """
    if n_users < 1 or not 0.0 <= colluding < 1.0:
        raise InputError(
            f"Expected n_users >= 1 and a share of them in [0, 1), got n_users={n_users!r}, "
            f"colluding={colluding!r}. The one asked about does not collude."
        )
    return max(1, n_users - math.ceil(colluding * n_users - 1e-9))
