"""``trace`` and ``prove``: the distributions of a randomizer, held against real draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.exact.fit import Check, Status, check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.tracing.answers import Forms, check_forms, form_of
from fedrec_auditor.auditor.tracing.law import Law, laws_of
from fedrec_auditor.auditor.tracing.paths import NotTraced, StepBudget
from fedrec_auditor.auditor.tracing.proof import proved
from fedrec_auditor.auditor.tracing.run import OneOutput, run_all
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.mechanisms.base import plainly


@dataclass(frozen=True, slots=True)
class Trace:
    """The laws of a randomizer, one for each of ``inputs``.

    ``steered`` says that the callable itself was run with the coins of every path, ``forms`` are
    those of its answers to each input, where inputs are of one form.
    """

    randomizer: OneOutput
    inputs: Sequence[Any]
    laws: Sequence[Law]
    names: Sequence[str] = ()
    steered: bool = True
    forms: Sequence[Forms] = ()

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        *,
        sized: bool,
        names: Sequence[str] = (),
    ) -> Trace:
        """Run every path of ``function`` for each input; NotTraced with the reason."""
        randomizer = OneOutput(function, sized)
        try:
            ran = [run_all(randomizer, value, StepBudget()) for value in inputs]
            laws = laws_of(ran)
        except NotTraced:
            raise
        except Exception as error:  # of ours
            raise NotTraced(f"tracing failed: {type(error).__name__}: {error}") from error
        kept = not randomizer.flat and len({form_of(value) for value in inputs}) == 1
        forms = [each.forms for each in ran] if kept else ()
        return cls(randomizer, inputs, laws, names, all(each.steered for each in ran), forms)

    def bound(self, delta: float, enough: float = math.inf) -> Bound:
        """The exact epsilon over all pairs of the inputs, tight from below; see ``proved``."""
        try:
            return proved(self.laws, self._names, delta, enough)
        except NotTraced:
            raise
        except Exception as error:  # of numbers beyond what is compared
            raise NotTraced(f"laws are not compared: {error}") from error

    def check_forms(self, delta: float) -> Check | None:
        """A failed check where the forms of answers tell inputs apart; see ``check_forms``."""
        return check_forms(self.forms, self._names, delta)

    @property
    def _names(self) -> Sequence[str]:
        return self.names or [plainly(value) for value in self.inputs]

    @property
    def atoms(self) -> list[float]:
        """The numbers that have a probability for any input, where others have densities."""
        return sorted({number for law in self.laws for number in law.atoms})

    def log_prob(self, output: Any, value: Any) -> Any:
        """The log-probability, or log-density, of outputs for one of the inputs."""
        return self._law(value).log_prob(output)

    def log_probs(self, answers: Sequence[Any], value: Any) -> NDArray[np.float64]:
        """The log-probabilities, or log-densities, of answers that are no arrays."""
        return self._law(value).log_probs(answers)

    def _law(self, value: Any) -> Law:
        return next(
            law for known, law in zip(self.inputs, self.laws, strict=True) if known is value
        )


__all__ = ["NotTraced", "Trace"]


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
