"""What an event of dp-accounting costs one record, or several, that come, go or change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import (
    SAMPLED_UNDER,
    leaves,
    one_use,
    sampling_rate,
)
from fedrec_auditor.accountants.statements.scope import Adjacency

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
