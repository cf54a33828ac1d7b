"""Exact lower bounds on epsilon from known output probabilities: for the worst case that a
mechanism states, or for the worst pair of inputs that a search finds (exhaustive or with
Hypothesis).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses import tables
from fedrec_auditor.accountants.losses.divergences import bisect_threshold
from fedrec_auditor.accountants.statements import Bound, Scope, check_delta, check_epsilon
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact import candidates
from fedrec_auditor.auditor.exact.output_distribution import (
    OutputDistribution,
    is_single_precision,
    lift_underflow,
)
from fedrec_auditor.auditor.exact.pair_search import DivergenceSearch, LogRatioSearch, pick_witness
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.base import Mechanism, PrivacyCurve, WorstCase

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Largest number of inputs that are enumerated at delta > 0, where every pair is evaluated
# separately.
_MAX_PAIRED = 64
_MAX_ENTRIES = 1 << 22
# An epsilon above which a curve counts as infinite.
_MAX_EPSILON = 2.0**1022


def has_exact_bound(mechanism: Mechanism, delta: float) -> bool:
    """Whether ``find_exact_bound`` can compute a lower bound on the epsilon of ``mechanism`` at
    ``delta``.

    At delta 0 the result is always true. At delta > 0 the mechanism needs finitely many outputs or
    a privacy curve.
    """
    if delta == 0 or isinstance(mechanism, PrivacyCurve):
        return True
    worst_case = mechanism.worst_case()
    return worst_case is not None and worst_case.exhaustive


def find_exact_bound(mechanism: Mechanism, scope: Scope, delta: float = 0.0) -> Bound:
    """Computes a lower bound on the epsilon of ``mechanism`` at ``delta`` from its stated worst
    case or privacy curve, without sampling error.

    - At delta 0: the exact epsilon, which is the largest log-ratio of an output's probability
      under two inputs. It is infinite if an output is possible under one input only, or if
      log-ratios have no bound.
    - At delta > 0: the smallest epsilon at which the hockey-stick divergence of the worst pair is
      at most delta. It may be too small for several independent copies of a mechanism, and for a
      ``PrivacyCurve`` that is a lower bound itself.

    The witness of the bound names the pair of inputs and a distinguishing output or event.

    Raises InputError at delta > 0, unless the mechanism has finitely many outputs or is a
    ``PrivacyCurve``.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> scope = make_local_scope(Unit.BIT, Vantage.SERVER, Horizon.REPORT)
    >>> round(find_exact_bound(BitFlip(p=0.75, q=0.25), scope).epsilon, 4)  # ln 3
    1.0986
    >>> find_exact_bound(BitFlip(p=1.0, q=0.5), scope).epsilon
    inf
    """
    # At delta 0 the log-ratio is multiplied by the number of independent copies of the mechanism
    # whose inputs may differ by this pair at once. At delta > 0 the bound is not exact for several
    # copies in two cases, which its source states. If outputs of a copy have more than two
    # different probability ratios, the composition is computed as a lower bound, without a witness.
    # If copies may have different pairs of inputs, only equal pairs are tried; if there are only
    # two inputs, they are also exchanged in some of the copies.
    check_delta(delta)
    worst_case = mechanism.worst_case()
    if delta > 0:
        # A mechanism with finitely many outputs also has a witness.
        witnessed = worst_case is not None and worst_case.exhaustive and worst_case.n_copies == 1
        if isinstance(mechanism, PrivacyCurve) and not witnessed:
            source = "exact hockey-stick divergence: the privacy curve of the mechanism"
            return tables.make_exact_bound(_curve_epsilon(mechanism, delta), scope, delta, source)
        return _make_table(mechanism, _finite_worst_case(mechanism)).compute_bound(scope, delta)
    if worst_case is None:
        source = "exact log-ratio: the log-ratio of the outputs has no bound"
        return tables.make_exact_bound(math.inf, scope, 0.0, source)
    return _make_table(mechanism, worst_case).compute_bound(scope, 0.0)


def compute_delta(mechanism: Mechanism, epsilon: float) -> float:
    """Computes the smallest delta at which ``mechanism`` is (``epsilon``, delta)-DP, without
    sampling error.

    The result is the largest hockey-stick divergence sum(max(0, P - e^eps Q)) over ordered pairs of
    inputs, where P and Q are the output distributions of the two inputs. For a ``PrivacyCurve``,
    the result is that of its method ``delta``, which may be a lower bound only.

    Raises InputError for other mechanisms with infinitely many outputs, and for several independent
    copies of a mechanism that are too complex.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> compute_delta(BitFlip(p=0.75, q=0.25), 0.0)
    0.5
    """
    check_epsilon(epsilon)
    if isinstance(mechanism, PrivacyCurve):
        return mechanism.delta(epsilon)
    # Copies are too complex if their outputs have more than two different probability ratios. They
    # are also too complex if the inputs of different copies may change differently, and a copy has
    # more than two inputs, or there are too many copies to try all combinations.
    return _make_table(mechanism, _finite_worst_case(mechanism)).compute_delta(epsilon)


def _curve_epsilon(mechanism: PrivacyCurve, delta: float) -> float:
    """Lower bound on the epsilon at ``delta`` that follows from the mechanism's privacy curve
    (delta as a function of epsilon).
    """

    def holds(epsilon: float) -> bool:
        return mechanism.delta(epsilon) * (1.0 - tables.ROUNDING_ERROR) <= delta

    return 0.0 if holds(0.0) else bisect_threshold(holds, max_value=_MAX_EPSILON, precision=1e-12)


def _finite_worst_case(mechanism: Mechanism) -> WorstCase:
    worst_case = mechanism.worst_case()
    if worst_case is None or not worst_case.exhaustive:
        raise InputError(
            "Expected a mechanism with finitely many outputs or a method `delta`, got "
            f"{mechanism}. Add this method, or measure epsilon with an estimator."
        )
    return worst_case


def _make_table(mechanism: Mechanism, worst_case: WorstCase) -> tables.ProbabilityTable:
    """Table of the log-probabilities of one copy of the mechanism, for its worst-case inputs and
    outputs.
    """
    part = worst_case.inner_mechanism or mechanism
    return tables.ProbabilityTable(
        part.log_prob(worst_case.outputs[None], worst_case.inputs[:, None]),
        name_input=lambda i: worst_case.name_input(worst_case.inputs[i]),
        name_output=lambda j: worst_case.name_output(worst_case.outputs[j]),
        n_copies=worst_case.n_copies,
        n_groups=worst_case.n_groups,
    )


def search_exact_bound(
    mechanism: Any,
    *,
    epsilon: float,
    delta: float,
    inputs: Iterable[Any] | SearchStrategy[Any] | None,
    seed: np.random.SeedSequence,
    samples: int = candidates.MAX_RARE_OUTPUT_ENTRIES,
) -> Bound:
    """Searches the pair of inputs with the largest epsilon at ``delta``, by the output
    probabilities that a mechanism states, and returns this lower bound.

    - ``mechanism``: any object that ``OutputDistribution.wrap`` accepts.
    - ``epsilon``, ``delta``: the claim with which the bound is compared.
    - ``inputs``: list of inputs or Hypothesis strategy to which the search is restricted, or None
      for all inputs.
    - ``seed``: seed of draws and of Hypothesis.
    - ``samples``: maximum number of draws per input that search for rare outputs.

    The bound has no sampling error. It is exact if all inputs and outputs are known and few.
    Otherwise it is the largest epsilon that a search finds. If the bound exceeds the claim, its
    witness is the simplest pair of inputs that exceeds the claim.

    Raises InputError for inputs outside the domain, and if there are neither inputs nor a domain.
    Raises NoDivergenceError at delta > 0 if no divergence can be computed (``DivergenceSearch``).
    """
    dist, entropy = OutputDistribution.wrap(mechanism), int(seed.generate_state(1)[0])
    pool = candidates.CandidateInputs.collect(dist, inputs, entropy)
    outputs = candidates.CandidateOutputs.from_draws(dist, pool, entropy, samples)
    # All outputs are known if the mechanism lists them, or if the probabilities of drawn outputs
    # and similar ones sum to 1 within 1e-9. The search is then exhaustive, if ``log_prob`` has
    # double precision.
    every, listed = outputs.all_outputs, pool.all_inputs
    if every is not None and listed is not None:
        few = delta == 0 or len(listed) <= _MAX_PAIRED
        if few and len(listed) * len(every) <= _MAX_ENTRIES:
            log_probs = np.stack([dist.log_prob(every, value) for value in listed])
            if not is_single_precision(log_probs):
                log_probs = lift_underflow(log_probs, epsilon)
                return _search_all(dist, pool, every, log_probs, epsilon, delta)
    # Otherwise the bound is the larger of two: the one that follows from the mechanism's own
    # privacy curve or worst case, as far as ``log_prob`` confirms it, and the one that Hypothesis
    # finds.
    known = None if pool.is_user_given else _find_stated_bound(dist, delta)
    if delta > 0 and known is not None and outputs.shape and every is None:
        return known
    search = (DivergenceSearch if delta > 0 else LogRatioSearch)(
        dist=dist, inputs=pool, outputs=outputs, claimed_epsilon=epsilon, delta=delta, seed=entropy
    )
    return _pick_larger(known, search.find_epsilon_bound())


def _search_all(
    dist: OutputDistribution,
    inputs: candidates.CandidateInputs,
    every: NDArray[Any],
    log_probs: NDArray[np.float64],
    epsilon: float,
    delta: float,
) -> Bound:
    """Lower bound over all inputs and all outputs.

    - ``every``: all outputs.
    - ``log_probs``: their log-probabilities, (inputs, outputs).
    - ``epsilon``, ``delta``: the claim.

    The witness is the first pair of inputs that exceeds the claim, or the best pair.
    """
    listed = inputs.all_inputs or []

    def bound(rows: range | list[int]) -> Bound:
        return tables.ProbabilityTable(
            log_probs[rows],
            lambda i: dist.name_input(listed[rows[i]]),
            lambda j: dist.name_output(every[j]),
        ).compute_bound(REPORT_SCOPE, delta)

    best = bound(range(len(listed)))
    endless = math.isinf(best.epsilon)

    def breaks(rows: range | list[int]) -> bool:
        pair_epsilon = bound(rows).epsilon
        return math.isinf(pair_epsilon) if endless else exceeds(pair_epsilon, epsilon)

    witness = best.witness
    if exceeds(best.epsilon, epsilon):
        last = bisect_left(range(len(listed) - 1), True, lo=1, key=lambda j: breaks(range(j + 1)))
        first = next(i for i in range(last) if breaks([i, last]))
        measure = DivergenceSearch.score_name if delta else LogRatioSearch.score_name
        witness = pick_witness(bound([first, last]), best, measure)
    which = "inputs given" if inputs.is_user_given else "inputs"
    source = (
        f"exhaustive: all {len(listed)} {which}, all {len(every)} outputs{candidates.RARE_TEXT}"
    )
    return replace(best, source=source, witness=witness, tight=inputs.has_whole_domain)


def _find_stated_bound(dist: OutputDistribution, delta: float) -> Bound | None:
    """Lower bound on epsilon that the mechanism itself states; None if it does not state a bound.

    The bound follows from the mechanism's privacy curve, or from its worst-case inputs and outputs
    if ``log_prob`` confirms them.
    """
    is_known = dist.worst_case is not None and (delta == 0 or dist.worst_case.exhaustive)
    if delta > 0 and callable(getattr(dist.wrapped_object, "worst_case", None)):
        is_known |= isinstance(dist.wrapped_object, PrivacyCurve)
    return find_exact_bound(dist.wrapped_object, REPORT_SCOPE, delta) if is_known else None


def _pick_larger(first: Bound | None, second: Bound) -> Bound:
    """Returns the larger of two lower bounds; ``second`` if they are equal.

    - ``first``: the bound that the mechanism itself states, or None if it is unknown.
    - ``second``: the bound that a search found, with the simplest witness (inputs and output).
    """
    if first is None:
        return second
    if first.epsilon > second.epsilon * (1 + 1e-9) + 1e-9:
        prefix = "worst-case pair" if first.delta == 0 else first.source
        return replace(
            first,
            source=f"{prefix}; {second.source.replace('found', 'beyond', 1)}: {second.epsilon:.6g}",
            witness=first.witness or second.witness,
        )
    # If probabilities of the second witness are below the smallest double, the first witness is
    # used, which states the event for a single copy of the mechanism.
    vanished = second.witness is None or second.witness.probability_a == 0.0
    return replace(
        second,
        epsilon=max(first.epsilon, second.epsilon),
        witness=first.witness if vanished and first.witness else second.witness,
    )
