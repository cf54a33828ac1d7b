"""A randomizer proved from its code: traced, and held against real draws."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.auditor.exact.output_distribution import Density, OutputDistribution
from fedrec_auditor.auditor.tracing.trace import NotTraced, Trace
from fedrec_auditor.auditor.verification.budget import Budget
from fedrec_auditor.auditor.verification.check import Check, Status
from fedrec_auditor.auditor.verification.checks.fit import check_fit
from fedrec_auditor.auditor.worlds.sampler import Sampler

NAME = "proof from the code"
# The time of tracing: at most so many seconds, and this share of those that were given; the share
# after which no more real draws are made.
_SECONDS, _SHARE, _LATEST = 10.0, 0.2, 0.5
# Draws in all that are held against the distribution that was traced, and of an input at least.
_DRAWS, _FEWEST = 100_000, 5_000


@dataclass(frozen=True, slots=True)
class Proof:
    """The exact bound and the distribution, if the code was followed; ``check`` says how."""

    check: Check
    bound: Bound | None = None
    dist: OutputDistribution | None = None


def prove(
    sampler: Sampler,
    inputs: list[Any],
    budget: Budget,
    claim: Claim,
    *,
    whole: bool,
    samples: int,
    seed: np.random.SeedSequence,
) -> Proof:
    """Trace a callable for each of ``inputs``; the bound is tight if these are ``whole``.

    Real draws, ``samples`` of each input or 100,000 in all, must follow what was traced.
    """
    deadline = min(time.perf_counter() + _SECONDS, budget.until(_SHARE))
    try:
        trace = Trace.of(sampler.call, inputs, sized=sampler.sized, deadline=deadline)
        bound = trace.bound(claim.delta, enough=claim.epsilon)
    except NotTraced as refusal:
        return _sampled(str(refusal))
    density = Density(sample=sampler.call, log_prob=trace.log_prob)
    most = max(_FEWEST, _DRAWS // len(inputs))
    entropy = int(seed.generate_state(1)[0])
    try:
        dist = OutputDistribution.of(density).spelling(inputs, entropy)
        draws = budget.paced(dist.sampler, inputs, min(samples, most))[1]
        real = budget.within(_LATEST, dist.sampler)
        fit = check_fit(real, dist, inputs, samples=draws, seed=seed)
    except InputError as error:
        return _sampled(str(error))
    if fit.status is not Status.PASSED:
        return _sampled(f"real draws do not follow the distribution that was traced: {fit.reason}")
    said = f"Every path was run and replayed with plain numbers, and real draws agree: {fit.reason}"
    check = replace(Check.passed(said), name=NAME)
    return Proof(check, replace(bound, tight=bound.tight and whole), dist)


def _sampled(reason: str) -> Proof:
    return Proof(replace(Check.not_run(f"Sampled instead: {reason.removesuffix('.')}."), name=NAME))
