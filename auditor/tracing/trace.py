"""Derives output distributions from a randomizer's code, and compares them with sampled outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus, check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.tracing.outputs import FormsByPartKey, check_output_forms, make_form_key
from fedrec_auditor.auditor.tracing.paths import NotTraced, StepBudget
from fedrec_auditor.auditor.tracing.proof import prove_bound
from fedrec_auditor.auditor.tracing.run import SingleOutputRandomizer, trace_paths
from fedrec_auditor.auditor.tracing.traced_distribution import TracedDist, make_distributions
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.mechanisms.base import format_value


@dataclass(frozen=True, slots=True)
class Trace:
    """The exact output distributions of a randomizer, traced from its code.

    - ``randomizer``: the callable whose code was traced.
    - ``inputs``: the inputs for which it was traced.
    - ``dists``: output distribution of each input.
    - ``names``: name of each input; the text of the input if empty.
    - ``is_replayed``: whether each execution path was checked by a replay, which calls the callable
      itself. If false, the tracing interpreter ran each path again.
    - ``output_forms``: observed forms (types, shapes, signs of zero) of each input's outputs; empty
      if forms are not compared.
    """

    randomizer: SingleOutputRandomizer
    inputs: Sequence[Any]
    dists: Sequence[TracedDist]
    names: Sequence[str] = ()
    is_replayed: bool = True
    # Forms are not compared if the inputs themselves differ in form or ``randomizer.is_flattened``.
    output_forms: Sequence[FormsByPartKey] = ()

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        *,
        takes_size: bool,
        names: Sequence[str] = (),
    ) -> Trace:
        """Traces the code of ``function`` for each input.

        ``takes_size``: whether the function takes the number of outputs as its third argument.
        ``names``: name of each input.

        Raises NotTraced with the reason if tracing is not possible.
        """
        randomizer = SingleOutputRandomizer(function, takes_size)
        try:
            ran = [trace_paths(randomizer, value, StepBudget()) for value in inputs]
            dists = make_distributions(ran)
        except NotTraced:
            raise
        except Exception as error:  # an error of the auditor
            raise NotTraced(f"tracing failed with {type(error).__name__}: {error}") from error
        kept = not randomizer.is_flattened and len({make_form_key(value) for value in inputs}) == 1
        forms = [each.output_forms for each in ran] if kept else ()
        return cls(randomizer, inputs, dists, names, all(each.is_replayed for each in ran), forms)

    def compute_bound(self, delta: float, stop_at: float = math.inf) -> Bound:
        """Returns the exact epsilon at ``delta``, the largest over all pairs of inputs.

        ``stop_at``: an epsilon, such as the claim. If the result is above it, the result may be a
            lower bound that is not exact.
        """
        try:
            return prove_bound(self.dists, self._names, delta, stop_at)
        except NotTraced:
            raise
        except Exception as error:  # numbers out of range
            raise NotTraced(f"the output distributions cannot be compared: {error}") from error

    def check_output_forms(self, delta: float) -> CheckResult | None:
        """Returns a failed check if the form of outputs reveals the input; else None.

        The form consists of types, shapes, order of keys and signs of zero.

        ``delta``: delta of the privacy bound.

        Raises NotTraced if forms differ between inputs at delta > 0, or if one value has several
        forms for both of two inputs.
        """
        return check_output_forms(self.output_forms, self._names, delta)

    @property
    def _names(self) -> Sequence[str]:
        return self.names or [format_value(value) for value in self.inputs]

    @property
    def atom_values(self) -> list[float]:
        """Atoms: numbers that have a positive probability among outputs with a density; sorted.

        The probability is positive under at least one of the inputs. The list is empty if no output
        distribution has a density, or if outputs are not single numbers.
        """
        return sorted({number for dist in self.dists for number in dist.atom_values})

    def log_prob(self, output: Any, value: Any) -> Any:
        """Returns the log-probability or log-density of ``output`` for the input ``value``.

        ``output``: one output, or an array of outputs along the first axis.
        ``value``: one of the inputs that were traced.
        """
        return self._find_dist(value).log_prob(output)

    def log_probs(self, outputs: Sequence[Any], value: Any) -> NDArray[np.float64]:
        """Returns the log-probability or log-density of each of ``outputs`` for an input, shape
        (n,).

        ``value``: the input, which must be one of the traced inputs.
        """
        return self._find_dist(value).log_probs(outputs)

    def _find_dist(self, value: Any) -> TracedDist:
        pairs = zip(self.inputs, self.dists, strict=True)
        return next(dist for known, dist in pairs if known is value)


__all__ = ["NotTraced", "Trace"]


# Name of the check in reports.
PROOF_CHECK_NAME = "proof from the code"
# Number of sampled outputs to compare with the traced distributions: in total, and minimum per
# input.
_DRAWS, _MIN_DRAWS = 20_000, 5_000


@dataclass(frozen=True, slots=True)
class TracingResult:
    """The result of tracing the code of a randomizer.

    - ``check``: whether the proof succeeded, and the reason.
    - ``bound``: the bound on epsilon (``Trace.compute_bound``); None if there is no proof.
    - ``dist``: the output distribution; None if there is no proof.
    - ``form_check``: a failed check if types, shapes or the order of keys reveal the input; None
      otherwise.
    - ``is_complete``: whether ``dist`` covers every possible output, without left-out rare paths or
      outputs.
    """

    check: CheckResult
    bound: Bound | None = None
    dist: OutputDistribution | None = None
    form_check: CheckResult | None = None
    is_complete: bool = True

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """The checks to report: ``check``, and also ``form_check`` if that one failed."""
        return (self.check,) if self.form_check is None else (self.check, self.form_check)


def prove_epsilon(
    sampler: Sampler,
    inputs: Sequence[Any],
    delta: float,
    *,
    stop_at: float,
    limit_draws: Callable[[Sampler, int], tuple[Sampler, int]],
    seed: np.random.SeedSequence,
    names: Sequence[str] = (),
) -> TracingResult:
    """Derives the exact epsilon of a randomizer from its code, and checks it by sampled outputs.

    - ``sampler``: calls the randomizer.
    - ``inputs``: the inputs to compare.
    - ``delta``: delta of the bound.
    - ``stop_at``: an epsilon, such as the claim. If the bound is above it, the bound need not be
      exact.
    - ``names``: name of each input.
    - ``limit_draws``: function that takes a sampler and a number of outputs per input, and returns
      both, with the number reduced to what the time allows.
    - ``seed``: seed of the sampled outputs.

    The sampled outputs must follow the traced distributions. If they do not, or if tracing is not
    possible, the result has no bound, and its check gives the reason.
    """
    try:
        size = sampler.takes_size
        trace = Trace.from_function(sampler.randomizer, inputs, takes_size=size, names=names)
        bound, forms = trace.compute_bound(delta, stop_at), trace.check_output_forms(delta)
        if sampler.takes_size:
            bound = replace(bound, source=f"{bound.source}, size=1")
    except NotTraced as refusal:
        return _make_failure(str(refusal))
    chosen, entropy = list(inputs), int(seed.generate_state(1)[0])
    try:
        dist = OutputDistribution(
            wrapped_object=trace,
            sampler=sampler,
            log_prob_function=trace.log_prob,
            batch_log_prob_function=trace.log_probs,
            atom_values=trace.atom_values,
        )
        dist = dist.with_encoding(chosen, entropy)
        real, samples = limit_draws(dist.sampler, max(_MIN_DRAWS, _DRAWS // len(chosen)))
        fit = check_fit(real, dist, chosen, samples=samples, seed=seed)
    except (InputError, NotTraced) as error:
        return _make_failure(str(error))
    if fit.status is not CheckStatus.PASSED:
        return _make_failure(f"real draws do not follow the traced distribution: {fit.reason}")
    left_out = any(dist.n_untraced_paths for dist in trace.dists)
    complete = not left_out and not any(dist.has_underflow for dist in trace.dists)
    counted = " of probability 2^-100 or more" if left_out else ""
    why = "because the code does not draw from our generator"
    how = "" if trace.is_replayed else f" by the same interpreter, {why}"
    reason = f"Every operation on every path{counted} depends on its operands alone, every path "
    reason += f"was replayed with plain numbers{how}, and real draws agree: {fit.reason}"
    check = replace(CheckResult.make_passed(reason), name=PROOF_CHECK_NAME)
    return TracingResult(check, bound, dist, forms, complete)


def _make_failure(reason: str) -> TracingResult:
    check = CheckResult.make_not_run(f"Tested by samples instead: {reason.removesuffix('.')}.")
    return TracingResult(replace(check, name=PROOF_CHECK_NAME))
