"""Defines ``verify_ldp``, which tests whether a randomizer satisfies a claim of local differential
privacy.

The test is exact if the randomizer's probabilities are known, and otherwise uses drawn outputs.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Claim, check_confidence, check_delta
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidates import CandidateInputs, search_with_hypothesis
from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus, check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, make_input_key
from fedrec_auditor.auditor.exact.pair_search import NoDivergenceError
from fedrec_auditor.auditor.exact.search import search_exact_bound
from fedrec_auditor.auditor.machine.progress import ProgressObserver, show_task_progress
from fedrec_auditor.auditor.tracing.trace import prove_epsilon
from fedrec_auditor.auditor.verification.checks import repeated_calls, shared_evidence
from fedrec_auditor.auditor.verification.checks.repeated_calls import N_COMPARED_OUTPUTS
from fedrec_auditor.auditor.verification.checks.run import run_checks
from fedrec_auditor.auditor.verification.checks.shared_evidence import CheckEvidence
from fedrec_auditor.auditor.verification.verification import UNTESTED_TEXT, Verification, make_claim
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.measure import measure_bounds
from fedrec_auditor.auditor.worlds.sampler import (
    MAX_PER_CALL,
    MIN_PER_CALL,
    Sampler,
    retry_on_new_form,
)
from fedrec_auditor.auditor.worlds.worlds import OutputShapeError, check_seed
from fedrec_auditor.targets.settings import Checked, Range

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.auditor.exact.output_distribution import Density
    from fedrec_auditor.targets.mechanisms.base import Mechanism

    # Inputs to compare: a list, a strategy of Hypothesis that is searched, or None for the default.
    Inputs = list[Any] | SearchStrategy[Any] | None


# Maximum number of draws per input.
MAX_SAMPLES = 10**10
# Default draws per input of a callable that returns many outputs per call.
DEFAULT_BATCH_SAMPLES = 1_000_000
# Default draws per input if a call returns one output, or if outputs are not arrays.
DEFAULT_SINGLE_SAMPLES = 100_000
# Minimum number of draws per input for a measurement.
MIN_SAMPLES = 100
# Default maximum of numbers in all outputs per input, and draws that are always allowed.
MAX_WIDE_NUMBERS, MIN_WIDE_SAMPLES = 1 << 28, 10_000
# Timing of draws: at most `_PILOTS` calls per input are timed, each for `_LARGER` times as many
# outputs as the previous one, while the next call is expected to end within the share `_PILOTED` of
# the seconds. The fixed cost of a call is negligible if the time per output is at most `_NEAR`
# times the smallest time per output. A measurement makes `_MIN_TURNS` calls per input or more.
_PILOTS, _LARGER, _PILOTED, _NEAR, _MIN_TURNS = 5, 8, 0.5, 1.25, 8
# Calls per input that compare the places in a call: the minimum, and the maximum.
_CALL_LIMITS = 64, 1024
# Share of the seconds that is planned for draws. Decision rules take the rest of the time.
_DRAW_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class DrawBudget(Checked):
    """Requested size of a verification: the number of draws, or the time for them.

    ``samples``: number of draws per input; None for the default.
    ``seconds``: total time for draws, in seconds; None for no limit.
    """

    samples: Annotated[int | None, Range("[100, 1e10]", "from 100 to 10,000,000,000")] = None
    seconds: Annotated[float | None, Range("(0, inf)", "above 0")] = None

    def get_max_samples(self, sampler: Sampler) -> int:
        """Returns the maximum number of draws per input: the requested number, or the default for
        ``sampler``.
        """
        many = sampler.takes_size and not sampler.field_encoder
        return self.samples or (DEFAULT_BATCH_SAMPLES if many else DEFAULT_SINGLE_SAMPLES)

    def plan_draws(
        self,
        sampler: Sampler,
        inputs: Sequence[Any],
        limit: int,
        *,
        share: float = 1.0,
        min_draws: int = MIN_SAMPLES,
    ) -> tuple[Sampler, int, str]:
        """Plans the number of draws per input, so that they fit into the requested time.

        ``sampler``, ``inputs``: the randomizer and the inputs for which it is called.
        ``limit``: maximum number of draws per input, which is the result if no time limit is set.
        ``share``: share of the requested time that the planned draws may take.
        ``min_draws``: minimum number of draws per input.

        Returns three values:

        - The sampler for the draws. If calls have a large fixed cost, it makes fewer calls for more
          outputs each.
        - The number of draws per input.
        - A remark for the report on the number of draws and calls; "" if ``limit`` draws are made.

        Raises InputError if the time suffices for fewer than ``min_draws`` draws, or for fewer than
        8 calls per input.
        """
        # A few calls for the first and the last input are timed, and the slower input determines
        # the plan. The planned time covers draws for all inputs, by which two inputs are selected,
        # two measurements of the selected inputs, and the checks. The clock is not read again after
        # planning, so that a busy machine may reduce the number of draws, but does not change the
        # distribution of outputs.
        if self.seconds is None:
            return sampler, limit, ""
        seconds = share * self.seconds
        rng, size, spent, best = np.random.default_rng(0), 1, 0.0, math.inf
        costs: dict[int, float] = {}  # seconds per output, by the number of outputs of a call
        for _ in range(_PILOTS):  # calls grow; the first calls warm up caches
            taken = []
            for value in (inputs[0], inputs[-1]):
                start = time.perf_counter()
                sampler.draw(value, rng, size)
                taken.append(time.perf_counter() - start)
            last, best = best, max(taken) / size
            costs[size] = best
            spent += sum(taken)
            flat = last < _NEAR * best and spent > seconds / 40
            if flat or spent + _LARGER * sum(taken) > _PILOTED * seconds:
                break
            size = min(_LARGER * size, MAX_PER_CALL)

        def draws_at(cost: float) -> int:
            """Returns the number of draws per input that time allows, at ``cost`` s per output."""
            return int(_DRAW_SHARE * seconds / max(cost * (4.0 + len(inputs)), 1e-12))

        size, cost = 1, best
        if sampler.takes_size:
            enough = (n for n in costs if draws_at(costs[n]) >= limit or costs[n] <= _NEAR * best)
            cost = costs[size := next(enough)]
        draws, together = draws_at(cost), max(size, MIN_PER_CALL)
        min_draws = max(min_draws, _MIN_TURNS * size)
        if draws < min_draws:
            call = f"a call for {size}" if size > 1 else "one draw"
            wanted = math.ceil(2.0 / share * min_draws * cost * (4 + len(inputs)))
            raise InputError(
                f"Expected seconds to allow at least {min_draws} draws per input, got "
                f"seconds={self.seconds:g}, while {call} takes {cost * size:.3g} s. Set seconds to "
                f"{wanted} or more."
            )
        if draws >= limit:
            return sampler, limit, ""
        paced = f"; {self.seconds:g} seconds became {draws:,} draws per input, by the time of a few"
        if together <= MIN_PER_CALL:
            return sampler, draws, paced
        slow = f"; a call takes {together * cost:.2g} s, so each call was for {together} outputs"
        return replace(sampler, min_call_size=together), draws, f"{paced}{slow}"


# Limits of the search of a pair: draws per input, examples of Hypothesis, and measured pairs.
_MAX_DRAWS, _EXAMPLES, _MAX_PAIRS = 4000, 60, 120
_MIN_DRAWS, _MIN_PAIRS = 100, 8


def search_pair(
    sampler: Sampler,
    strategy: SearchStrategy[Any],
    *,
    claim: Claim,
    samples: int,
    seed: np.random.SeedSequence,
    limit_draws: Callable[[Sampler, Sequence[Any]], int] = lambda sampler, inputs: MAX_SAMPLES,
) -> list[Any]:
    """Searches for the two inputs whose outputs show the largest epsilon.

    ``sampler``: the randomizer.
    ``strategy``: Hypothesis strategy of inputs.
    ``claim``: claim under test.
    ``samples``: maximum number of draws per input.
    ``seed``: seed of the search.
    ``limit_draws``: function of a sampler and inputs that returns the number of draws per input
        that time allows.

    The draws of the search only select a pair and must not be used for the final bound. Raises
    InputError if the strategy does not give two different inputs.
    """
    # Each pair is scored by a lower bound on epsilon from at most 4,000 draws per input, and
    # Hypothesis is guided towards larger bounds. The result is the pair with the largest bound. If
    # this bound exceeds the claim, the result is the simplest pair whose bound lies above the
    # middle between the claim and the largest bound. The search measures at most 120 pairs, within
    # ``samples`` and ``limit_draws``, but at least 8 pairs with 100 draws per input.
    from hypothesis import strategies as st

    entropy = int(seed.generate_state(1)[0])
    allowed: list[int] = []
    scores: dict[Hashable, float] = {}

    def count_draws() -> int:
        """Returns the number of draws per input with which each pair is measured."""
        return min(_MAX_DRAWS, max(_MIN_DRAWS, allowed[0] // _MAX_PAIRS))

    def score(pair: tuple[Any, Any]) -> float:
        """Returns a lower bound on the epsilon of a pair.

        The result is -1 if the inputs are equal or if no more pairs may be measured.
        """
        key = make_input_key(pair[0]), make_input_key(pair[1])
        if key[0] == key[1]:
            return -1.0
        if key not in scores:
            affordable = max(_MIN_PAIRS, allowed[0] // count_draws()) if allowed else _MAX_PAIRS
            if allowed and len(scores) >= min(_MAX_PAIRS, affordable):
                return -1.0

            def measure_bound(unread: list[Any]) -> float:
                """Measures the bound; ``unread``: outputs that earlier encoders could not read."""
                rng = np.random.default_rng([entropy, len(unread)])
                read = sampler.with_encoder(pair, rng, unread=unread)
                if not allowed:
                    allowed.append(min(samples, limit_draws(read, pair)))
                worlds, delta = read.make_worlds(pair), claim.delta
                bound = JointBinomial().measure_bound(
                    worlds, delta=delta, confidence=0.95, samples=count_draws(), rng=rng
                )
                return bound.epsilon

            scores[key] = retry_on_new_form(measure_bound)
        return scores[key]

    pairs = st.tuples(strategy, strategy)
    search = partial(search_with_hypothesis, pairs, score, seed=entropy, max_examples=_EXAMPLES)
    best, pair = search()
    if best < 0:
        raise InputError(
            "Expected inputs as a strategy of 2 or more values, got fewer. Use a wider strategy."
        )
    if exceeds(best, claim.epsilon):
        _, pair = search(stop_above=(claim.epsilon + best) / 2.0)
    return list(pair)


# Callable f(x, rng) or f(x, rng, size) that returns one output, or ``size`` outputs, for input x.
Randomizer = Callable[..., Any]
# Maximum number of inputs in a list.
MAX_INPUTS = 64
# One in this number of draws is examined for the type and structure of outputs.
_DRAWS_PER_LOOK = 50
# Share of the seconds for the search of a pair of inputs.
_SEARCH_SHARE = 0.2


def verify_ldp(
    mechanism: Mechanism | Density | Randomizer,
    *,
    epsilon: float,
    delta: float = 0.0,
    inputs: Sequence[Any] | SearchStrategy[Any] | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    trace: bool = True,
    progress: bool | ProgressObserver | None = None,
) -> Verification:
    """Tests the claim that ``mechanism`` is (epsilon, delta)-LDP for every pair of inputs.

    Parameters
    ----------
    mechanism : the randomizer, in one of two forms:

        - An object that states its probabilities: a ``Mechanism``, a ``Density``, or any object
          with ``log_prob(output, value)``. Its epsilon is computed from these probabilities, if
          drawn outputs fit them.
        - A callable ``f(x, rng)`` or ``f(x, rng, size)``. Its epsilon is bounded from below, at
          ``confidence`` if all outputs are independent. A true claim is refuted with probability
          at most (1 - confidence)^2.
    epsilon, delta : the claimed numbers of local differential privacy (LDP).
    inputs : the inputs to compare, at least 2 and at most 64, or a Hypothesis strategy of inputs.
        The default is the whole domain if the mechanism states one, otherwise 0 and 1.
    samples : number of draws per measured input. The default is 1,000,000, or 100,000 if a call
        returns one output, and fewer for wide outputs. The checks draw at most half as many
        outputs in addition, and a few hundred to compare calls that return many outputs.
    seconds : approximate time limit for draws, in seconds; None for no limit. If ``samples`` draws
        would take longer, fewer are made, depending on the load of the machine. To repeat a result,
        give the number in its field ``method`` as ``samples``.
    confidence : confidence of a measured bound.
    seed : seed of the draws.
    trace : whether to trace a callable first, by running every path of its random draws, which
        gives an exact epsilon. If this fails, outputs are sampled, and the check "proof from the
        code" states the reason.
    progress : whether progress is displayed, or a function that receives it, as for ``audit``. The
        function is called from the thread that draws.

    If a failed check shows a larger epsilon than the search or the measurement, the verdict is
    based on the check.

    Raises InputError for an invalid number, for an input outside the domain, and for a callable
    that raises an exception or does not return ``size`` numbers or words.

    >>> def respond(bit, rng, size):
    ...     return np.where(rng.random(size) < 0.75, bit, 1 - bit)
    >>> found = verify_ldp(respond, epsilon=0.5, samples=1000)
    >>> print(f"{found.verdict}: {found.epsilon_lower:.4f}, which is ln 3 = {np.log(3):.4f}")
    VIOLATED: 1.0986, which is ln 3 = 1.0986
    """
    # A bound of a callable that exceeds the claim is measured a second time, so that a callable
    # that satisfies the claim is refuted with probability at most (1 - confidence)^2. For wide
    # outputs the default of ``samples`` is at most 2^28 numbers, but at least 10,000 draws. Memory
    # does not grow with this number. With ``seconds``, a few timed draws, which are discarded,
    # determine the number of draws before any output is counted, so that ``confidence`` holds. All
    # planned draws are made, however long they take. If a call has a large fixed cost, each call is
    # for more outputs, up to 512, which ``method`` states.
    samples, seed = _to_int("samples", samples), cast("int", _to_int("seed", seed))
    budget = DrawBudget(samples, seconds)
    claim = make_claim(epsilon, delta)
    _check_arguments(mechanism, claim, confidence, seed)
    with show_task_progress(progress, "verifying"):
        seeds = np.random.SeedSequence(seed).spawn(7)
        trial, given = _Trial(claim, budget, confidence, seed, *seeds), _list_inputs(inputs)
        if hasattr(mechanism, "log_prob"):
            return trial.judge_mechanism(OutputDistribution.wrap(mechanism), given)
        return trial.judge_callable(Sampler.wrap(mechanism), given, trace=trace)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A verification in progress: the claim, the budget of draws, and one seed for each purpose.

    ``claim``: claim under test.
    ``budget``: requested number of draws, or time for them.
    ``confidence``: confidence of a measured bound.
    ``seed``: seed from which all other seeds are derived.
    ``search``, ``measuring``, ``look``, ``fit``, ``reading``, ``turning``, ``places``: seeds for
        the search of inputs, the measurement, the checks, the test of fit or proof, the structure
        of outputs, clocks, and places in a call.
    """

    claim: Claim
    budget: DrawBudget
    confidence: float
    seed: int
    search: np.random.SeedSequence
    measuring: np.random.SeedSequence
    look: np.random.SeedSequence
    fit: np.random.SeedSequence
    reading: np.random.SeedSequence
    turning: np.random.SeedSequence
    places: np.random.SeedSequence

    def judge_mechanism(self, dist: OutputDistribution, given: Inputs) -> Verification:
        """Judges a randomizer that states its probabilities.

        Epsilon is computed from the probabilities if drawn outputs fit them, otherwise it is
        measured.
        """
        most = self.budget.get_max_samples(dist.sampler)
        inputs = CandidateInputs.collect(dist, given, self.seed).probe_inputs
        dist = dist.with_encoding(inputs, self.seed)
        if (odd := self._judge_place(dist.sampler, inputs, most)) is not None:
            return odd
        draws = self.budget.plan_draws(dist.sampler, inputs, most)[1]
        fitted = check_fit(dist.sampler, dist, inputs, samples=draws, seed=self.fit)
        checks = (replace(fitted, name="fit to the claimed distribution"),)
        if fitted.status is CheckStatus.FAILED:  # the stated distribution is not that of the code
            return self._conclude(*self._measure(dist.sampler, inputs, draws), checks)
        try:
            exact = search_exact_bound(
                dist,
                epsilon=self.claim.epsilon,
                delta=self.claim.delta,
                inputs=given,
                seed=self.search,
                samples=draws,
            )
        except NoDivergenceError:
            return self._conclude(*self._measure(dist.sampler, inputs, draws, dist), checks)
        return self._conclude(exact, self._gather(dist.sampler, inputs, draws, dist), checks)

    def judge_callable(self, sampler: Sampler, given: Inputs, *, trace: bool) -> Verification:
        """Judges a callable by its exact epsilon, if its code can be traced, otherwise by drawn
        outputs.

        ``given``: inputs to compare, a strategy of inputs, or None.
        ``trace``: whether to trace the code.
        """
        draws = self.budget.get_max_samples(sampler)
        listed = given is None or isinstance(given, list)
        inputs = self._choose_inputs(sampler, given, draws)
        if (odd := self._judge_place(sampler, inputs, draws)) is not None:
            return odd
        checks: tuple[CheckResult, ...] = ()
        if trace:
            proof = prove_epsilon(
                sampler,
                inputs,
                delta=self.claim.delta,
                stop_at=self.claim.epsilon,
                limit_draws=lambda real, most: (
                    real,
                    self.budget.plan_draws(real, inputs, min(draws, most))[1],
                ),
                seed=self.fit,
            )
            checks = proof.checks
            if proof.dist is not None and proof.bound is not None:
                bound = replace(proof.bound, tight=proof.bound.tight and listed)
                traced = proof.dist.sampler
                draws = self.budget.plan_draws(traced, inputs, draws)[1]
                stated = proof.dist if proof.is_complete else None
                return self._conclude(bound, self._gather(traced, inputs, draws, stated), checks)
        return self._conclude(*self._measure(sampler, inputs, draws), checks)

    def _judge_place(self, sampler: Sampler, inputs: list[Any], draws: int) -> Verification | None:
        """Judges the outputs at one place of a call, if they differ from others and refute the
        claim.

        Otherwise the result is None: the place alone, such as a row number, is not a fault.
        """
        calls = min(_CALL_LIMITS[1], draws // 100)
        if not sampler.takes_size or calls < _CALL_LIMITS[0] or self.budget.seconds is not None:
            return None
        with suppress(InputError):
            place = repeated_calls.find_deviating_position(sampler, inputs, self.places, calls)
            if place is None:
                return None
            row = sampler.unbatch(N_COMPARED_OUTPUTS, place)
            bound, _ = self._measure(row, inputs, min(draws, DEFAULT_SINGLE_SAMPLES))
            if exceeds(bound.epsilon, self.claim.epsilon):
                reason = (
                    f"Output number {place} of each call for {N_COMPARED_OUTPUTS} outputs differs "
                    "from the others and is measured here: whose output comes there is told apart. "
                    "Treat all outputs of a call alike."
                )
                check = replace(CheckResult.make_failed(reason), name="places in a call")
                return self._conclude(bound, self._gather(sampler, inputs, draws, None), (check,))
        return None

    def _choose_inputs(self, sampler: Sampler, given: Inputs, draws: int) -> list[Any]:
        """Returns the inputs of a list, or the pair of inputs found by a search in a strategy."""
        if given is None or isinstance(given, list):
            return _check_inputs(given)
        return search_pair(
            sampler,
            given,
            claim=self.claim,
            samples=draws,
            seed=self.search,
            limit_draws=lambda read, pair: self.budget.plan_draws(
                read, pair, draws, share=_SEARCH_SHARE, min_draws=1
            )[1],
        )

    def _measure(
        self,
        sampler: Sampler,
        inputs: list[Any],
        draws: int,
        dist: OutputDistribution | None = None,
    ) -> tuple[Bound, CheckEvidence]:
        """Measures a lower bound on epsilon; returns the bound, and the outputs for checks.

        The measurement starts again if an output has a new structure. ``dist`` is the stated
        distribution of outputs, if any.
        """

        # Bound and evidence, with an encoder that knows the outputs ``unread``.
        def measured(unread: Sequence[Any]) -> tuple[Bound, CheckEvidence]:
            looks = draws // _DRAWS_PER_LOOK if self.budget.seconds is None else 0
            looking, counting = self.reading, self.measuring
            if unread:
                looking, counting = self.measuring.spawn(2)
            together = sampler.with_encoder(inputs, np.random.default_rng(looking), looks, unread)
            read, planned, paced = together, draws, ""
            if dist is None:
                read, planned, paced = self.budget.plan_draws(together, inputs, draws)
            most = planned * MIN_PER_CALL // read.min_call_size
            clocks = _find_clocks(together, inputs, self.turning, most)
            if clocks.has_clocks:
                read = together.unbatch()
                if dist is None:
                    read, planned, paced = self.budget.plan_draws(read, inputs, draws)
            if dist is None and self.budget.samples is None:
                width = read.draw(inputs[0], np.random.default_rng(self.seed), 2)[0].size
                planned = min(planned, max(MIN_WIDE_SAMPLES, MAX_WIDE_NUMBERS // max(1, width)))
            planned = min(planned, self.budget.get_max_samples(read))
            bound = _measure_bound(
                read, inputs, self.claim, samples=planned, confidence=self.confidence, seed=counting
            )
            bound = replace(bound, source=f"{bound.source}{paced}")
            if read.has_unique_texts and bound.epsilon == 0:
                bound = replace(bound, source=UNTESTED_TEXT, largest=0.0, witness=None)
            stated = None if read.field_encoder else dist
            return bound, self._gather(
                read, inputs, planned, stated, batch_sampler=together, clock_columns=clocks.columns
            )

        return retry_on_new_form(measured)

    def _gather(
        self,
        sampler: Sampler,
        inputs: list[Any],
        samples: int,
        dist: OutputDistribution | None,
        **read: Any,
    ) -> CheckEvidence:
        claim = shared_evidence.ClaimUnderTest(epsilon=self.claim.epsilon, delta=self.claim.delta)
        return CheckEvidence(
            sampler=sampler,
            inputs=inputs,
            claim=claim,
            seed=self.look,
            n_measurement_draws=samples,
            dist=dist,
            **read,
        )

    def _conclude(
        self, bound: Bound, evidence: CheckEvidence, checks: tuple[CheckResult, ...]
    ) -> Verification:
        """Runs the checks on ``evidence``; returns the verification by ``bound`` and all checks."""
        needed = None
        if not exceeds(bound.largest, self.claim.epsilon) and bound.source != UNTESTED_TEXT:
            needed = JointBinomial().find_min_samples(
                self.claim.epsilon, delta=self.claim.delta, confidence=self.confidence
            )
        every = (*checks, *run_checks(evidence))
        return Verification.of(bound, self.claim, needed=needed, checks=every)


def _find_clocks(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, draws: int
) -> repeated_calls.ColumnsWithoutNoise:
    """Finds output columns that follow the order of calls; none if outputs are incomparable."""
    with suppress(InputError):
        if sampler.takes_size:
            return repeated_calls.find_noiseless_columns(sampler, inputs, seed, draws)
    return repeated_calls.ColumnsWithoutNoise()


def _measure_bound(
    sampler: Sampler,
    inputs: Sequence[Any],
    claim: Claim,
    *,
    samples: int,
    confidence: float,
    seed: np.random.SeedSequence,
) -> Bound:
    """Measures a lower bound on epsilon with ``samples`` draws per input.

    If the shape of outputs depends on the input, only the shapes are measured.
    """
    rng = np.random.default_rng(seed)
    for source in (sampler, sampler.make_output_shape_sampler()):
        with suppress(OutputShapeError):
            return measure_bounds(
                source.make_worlds(inputs),
                (claim,),
                JointBinomial(),
                delta=claim.delta,
                confidence=confidence,
                samples=samples,
                rng=rng,
            ).bound
    raise AssertionError("Expected a bound from outputs or shapes, got none. Report this bug.")


def _check_arguments(mechanism: Any, claim: Claim, confidence: float, seed: int) -> None:
    """Raises InputError for the first invalid argument of ``verify_ldp``."""
    if math.isinf(claim.epsilon):
        raise InputError("Expected a finite epsilon, got epsilon=inf. Give a finite number.")
    check_delta(claim.delta)
    check_confidence(confidence)
    check_seed(seed)
    if isinstance(mechanism, type):
        raise InputError(
            f"Expected an instance as mechanism, got the class {mechanism.__name__}. Construct it: "
            f"mechanism = {mechanism.__name__}(...)."
        )


def _to_int(name: str, number: Any) -> int | None:
    """Converts a whole ``number``, also a float such as 1e5, to an int; None remains None.

    Raises InputError for a number that is not whole.
    """
    if number is None:
        return None
    try:
        number_as_int = operator.index(number)
    except TypeError:
        if not (isinstance(number, float) and number.is_integer()):
            raise InputError(
                f"Expected {name} as a whole number, got {name}={number!r}. Give, e.g., 100_000."
            ) from None
        number_as_int = int(number)
    return number_as_int


def _list_inputs(inputs: Sequence[Any] | SearchStrategy[Any] | None) -> Inputs:
    """Converts the inputs to a list; a Hypothesis strategy and None are returned unchanged.

    Hypothesis is not imported for that.
    """
    if inputs is None or hasattr(inputs, "example"):
        return cast("SearchStrategy[Any] | None", inputs)
    if not isinstance(inputs, Iterable):
        raise InputError(
            f"Expected inputs as a list or a Hypothesis strategy, got {inputs!r}. Give a list."
        )
    return list(inputs)


def _check_inputs(inputs: list[Any] | None) -> list[Any]:
    chosen = [0, 1] if inputs is None else inputs
    different = len(set(map(make_input_key, chosen)))
    if not 2 <= different <= len(chosen) <= MAX_INPUTS:
        raise InputError(
            f"Expected inputs to list 2 to {MAX_INPUTS} values, at least 2 of them distinct, got "
            f"{len(chosen)} ({different} distinct). Give 2 to {MAX_INPUTS} distinct values."
        )
    return chosen
