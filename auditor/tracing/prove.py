"""A randomizer proved from its code: traced, and held against real draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.exact.check import Check, Status
from fedrec_auditor.auditor.exact.fit import check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.state import State
from fedrec_auditor.auditor.tracing.trace import Trace
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.wrapped.client import own_randomness

NAME = "proof from the code"
SECONDS = 20.0
"""Of tracing, at most."""
# Real draws in all that are held against what was traced, and of an input at least.
_DRAWS, _FEWEST = 100_000, 5_000


@dataclass(frozen=True, slots=True)
class Proof:
    """The exact bound and the distribution, if the code was followed; ``check`` says how."""

    check: Check
    bound: Bound | None = None
    dist: OutputDistribution | None = None


def prove(
    sampler: Sampler,
    inputs: Sequence[Any],
    delta: float,
    *,
    enough: float,
    until: float,
    paced: Callable[[Sampler, int], tuple[Sampler, int]],
    seed: np.random.SeedSequence,
    names: Sequence[str] = (),
) -> Proof:
    """Trace what ``sampler`` calls for each of ``inputs``, ``until`` then; see ``Trace.bound``.

    Real draws, 100,000 in all or as many as ``paced`` allows, must follow what was traced.
    """
    try:
        # A trace that ends within an import would leave half a module behind.
        before = State(sampler.call)
        with suppress(Exception), own_randomness():
            sampler.draw(inputs[0], np.random.default_rng(seed), 1)
        before.check()
        trace = Trace.of(
            sampler.call,
            inputs,
            sized=sampler.sized,
            deadline=min(until, perf_counter() + SECONDS),
            names=names,
        )
        bound = trace.bound(delta, enough)
    except NotTraced as refusal:
        return _sampled(str(refusal))
    chosen, entropy = list(inputs), int(seed.generate_state(1)[0])
    try:
        dist = OutputDistribution(
            origin=trace,
            sampler=sampler,
            density=trace.log_prob,
            densities=trace.log_probs,
            atoms=trace.atoms,
        )
        dist = dist.spelling(chosen, entropy)
        real, samples = paced(dist.sampler, max(_FEWEST, _DRAWS // len(chosen)))
        fit = check_fit(real, dist, chosen, samples=samples, seed=seed)
    except (InputError, NotTraced) as error:
        return _sampled(str(error))
    if fit.status is not Status.PASSED:
        return _sampled(f"real draws do not follow the distribution that was traced: {fit.reason}")
    counted = " of 2^-100 at least" if any(law.left_out for law in trace.laws) else ""
    said = f"Every path{counted} was run and replayed with plain numbers, and real draws agree: "
    said += fit.reason
    return Proof(replace(Check.passed(said), name=NAME), bound, dist)


def _sampled(reason: str) -> Proof:
    return Proof(replace(Check.not_run(f"Sampled instead: {reason.removesuffix('.')}."), name=NAME))
