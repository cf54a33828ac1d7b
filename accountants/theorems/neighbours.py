"""What an event of dp-accounting costs under an adjacency: whose record changes, and how far."""

from __future__ import annotations

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from fedrec_auditor.accountants.events.leaves import (
    ReplacedSamplingDpEvent,
    RevealedSamplingDpEvent,
    sampling_rate,
)
from fedrec_auditor.accountants.statements.scope import Adjacency

_NOISE = (GaussianDpEvent, LaplaceDpEvent)


def under(event: DpEvent, adjacency: Adjacency) -> DpEvent | None:
    """``event``, as dp-accounting documents it, for accountants of ``adjacency``; None if unknown.

    Its noise multiplier is the noise over the norm of one record. A record that comes or goes moves
    a sum of them by this norm, and a record that is replaced by twice that, so accountants are
    asked for half the multiplier there. In a sample of fixed size a record always makes room for
    another one: there it is half under either adjacency, and where a record comes or goes that
    costs what Poisson sampling of the same rate costs (``theorems.fixed_size``). Poisson sampling
    of a record that is replaced is known for normal noise (``ReplacedSamplingDpEvent``). What is no
    noise on a sum (responses, pure epsilons, zCDP) is the same under either.

    dp-accounting's own accountants take the multiplier as it is under replacement too, and so
    prove the epsilon of half the change.

    >>> under(GaussianDpEvent(1.0), Adjacency.REPLACE)
    GaussianDpEvent(noise_multiplier=0.5)
    """
    replaced = adjacency is not Adjacency.ADD_REMOVE
    if isinstance(event, SelfComposedDpEvent):
        one = under(event.event, adjacency)
        return None if one is None else SelfComposedDpEvent(one, event.count)
    if isinstance(event, ComposedDpEvent):
        parts = [under(part, adjacency) for part in event.events]
        return None if None in parts else ComposedDpEvent(parts)
    if isinstance(event, RevealedSamplingDpEvent):
        one = under(event.event, adjacency)
        return None if one is None else RevealedSamplingDpEvent(event.sampling_probability, one)
    if isinstance(event, SampledWithoutReplacementDpEvent):
        return _fixed(event, replaced)
    if isinstance(event, ReplacedSamplingDpEvent) and not replaced:
        return PoissonSampledDpEvent(event.sampling_probability, event.event)
    if isinstance(event, PoissonSampledDpEvent) and replaced:
        if event.sampling_probability == 1:
            return under(event.event, adjacency)
        normal = isinstance(event.event, GaussianDpEvent)
        return ReplacedSamplingDpEvent(event.sampling_probability, event.event) if normal else None
    return widened(event, 2.0) if replaced and isinstance(event, _NOISE) else event


def widened(event: DpEvent, times: float) -> DpEvent | None:
    """``event`` where what changes is ``times`` as large; None if that is not known.

    Known of noise on a sum, composed or not, that is not sampled.
    """
    if isinstance(event, _NOISE):
        return type(event)(event.noise_multiplier / times)
    if isinstance(event, SelfComposedDpEvent):
        one = widened(event.event, times)
        return None if one is None else SelfComposedDpEvent(one, event.count)
    if isinstance(event, ComposedDpEvent):
        parts = [widened(part, times) for part in event.events]
        return None if None in parts else ComposedDpEvent(parts)
    return None


def _fixed(event: SampledWithoutReplacementDpEvent, replaced: bool) -> DpEvent | None:
    """A sample of fixed size, of which a record that is drawn displaces another one."""
    noise = isinstance(event.event, _NOISE)
    one = widened(event.event, 2.0) if noise else event.event
    if replaced:
        return SampledWithoutReplacementDpEvent(event.source_dataset_size, event.sample_size, one)
    return PoissonSampledDpEvent(sampling_rate(event), one)
