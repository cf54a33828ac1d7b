"""A randomizer proved from its code: traced, and held against real draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.exact.fit import Check, Status, check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.trace import Trace
from fedrec_auditor.auditor.worlds.sampler import Sampler

NAME = "proof from the code"
# Real draws in all that are held against what was traced, and of an input at least.
_DRAWS, _FEWEST = 20_000, 5_000


@dataclass(frozen=True, slots=True)
class Proof:
    """The exact bound and the distribution, if the code was followed; ``check`` says how.

    ``forms`` is another check, where types, shapes or the order of keys tell the input.
    ``complete`` says that no rare path or answer was left out: then an output without a probability
    is impossible.
    """

    check: Check
    bound: Bound | None = None
    dist: OutputDistribution | None = None
    forms: Check | None = None
    complete: bool = True

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks that were run."""
        return (self.check,) if self.forms is None else (self.check, self.forms)


def prove(
    sampler: Sampler,
    inputs: Sequence[Any],
    delta: float,
    *,
    enough: float,
    paced: Callable[[Sampler, int], tuple[Sampler, int]],
    seed: np.random.SeedSequence,
    names: Sequence[str] = (),
) -> Proof:
    """Follow what ``sampler`` calls for each of ``inputs``; see ``Trace.bound``.

    Real draws, 20,000 in all or as many as ``paced`` allows, must follow what was traced. No
    clock is looked at.
    """
    try:
        trace = Trace.of(sampler.call, inputs, sized=sampler.sized, names=names)
        bound, forms = trace.bound(delta, enough), trace.check_forms(delta)
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
    complete = not any(law.left_out or law.cut for law in trace.laws)
    counted = " of 2^-100 at least" if any(law.left_out for law in trace.laws) else ""
    how = (
        ""
        if trace.steered
        else " by the same interpreter, since it draws from no generator of ours"
    )
    reason = (
        f"Every operation on every path{counted} depends on its operands alone, every path was "
    )
    reason += f"replayed with plain numbers{how}, and real draws agree: {fit.reason}"
    return Proof(replace(Check.passed(reason), name=NAME), bound, dist, forms, complete)


def _sampled(reason: str) -> Proof:
    return Proof(replace(Check.not_run(f"Sampled instead: {reason.removesuffix('.')}."), name=NAME))
