"""``verify_ldp``: one randomizer held against one claim."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    check_confidence,
    check_delta,
    check_epsilon,
)
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.divergence_search import NoCurve
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.exact.search import exact_search
from fedrec_auditor.auditor.machine.progress import Observer, shown_stages
from fedrec_auditor.auditor.verification.check import Check, Status
from fedrec_auditor.auditor.verification.checks.call_order import Clocks, clocks_of
from fedrec_auditor.auditor.verification.checks.claim import ClaimUnderTest
from fedrec_auditor.auditor.verification.checks.evidence import Evidence
from fedrec_auditor.auditor.verification.checks.fit import check_fit
from fedrec_auditor.auditor.verification.checks.run import run_checks
from fedrec_auditor.auditor.verification.pair import pair_from
from fedrec_auditor.auditor.verification.verification import UNREADABLE, Verification, ldp_claim
from fedrec_auditor.auditor.worlds.estimators.joint_binomial import JointBinomial
from fedrec_auditor.auditor.worlds.measure import measure
from fedrec_auditor.auditor.worlds.sampler import (
    LEAST_TOGETHER,
    ONE_REPORT,
    TOGETHER,
    Sampler,
    beginning_again,
)
from fedrec_auditor.auditor.worlds.worlds import UnevenOutputs, check_seed

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.auditor.exact.output_distribution import Density
    from fedrec_auditor.targets.mechanisms.base import Mechanism

Randomizer = Callable[..., Any]

MOST_INPUTS = 64
_MOST_SAMPLES = 10**10
SIZED_SAMPLES = 1_000_000
"""Default draws per input of a callable that draws many at once."""
SINGLE_SAMPLES = 100_000
"""Default draws per input of a callable that draws one at a time."""
# Calls by which draws are timed: so many, each for so many times as many outputs as the last, while
# the next one, at the last one's pace, ends within this share of the seconds; a call's own cost is
# negligible where an output of it takes so many times the least at most; turns there are at least.
_PILOTS, _LARGER, _PILOTED, _NEAR, _FEWEST_TURNS = 5, 8, 0.5, 1.25, 8
# Answers that are looked at for their form: so small a share of the draws.
_LOOKS = 50
# The share of the seconds in which a pair of inputs is looked for, and clocks are.
_SEARCH = 0.2
# The share of what is left that draws are planned to take, and that after which they are given up.
_PLANNED, _LATE = 0.85, 1.15
WIDE_NUMBERS, WIDE_SAMPLES = 1 << 28, 10_000
"""Most numbers per input by default, and the draws of outputs however wide."""


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
    progress: bool | Observer | None = None,
) -> Verification:
    """Test whether ``mechanism`` is (epsilon, delta)-LDP for every pair of inputs.

    Parameters
    ----------
    mechanism : something that knows its probabilities (a ``Mechanism``, a ``Density``, or anything
        with ``log_prob(output, value)``), whose sampler is first tested against them and whose
        ratio is then searched, exactly; or a callable ``f(x, rng)`` or ``f(x, rng, size)``, of
        which the answer is a lower bound that holds at ``confidence``, if its outputs, those of
        one call as well, are independent draws. One that exceeds the claim is measured twice: an
        honest one is accused with probability (1 - confidence)^2 at most.
    inputs : the inputs to pair up (at least two, at most 64), or a Hypothesis strategy for them.
        Default: the whole domain where there is one, else 0 and 1.
    samples : draws per input that is measured. Default 1,000,000, or 100,000 if they come one by
        one; fewer of a callable if that were more than 2^28 numbers, but 10,000 at least. They are
        streamed, so memory does not grow with them. The checks draw half as many more at most, and
        whoever looks for clocks some hundreds where a call gives many.
    seconds : what everything may take, about; fewer than ``samples`` are drawn if they would take
        longer. The first draws are timed and thrown away, and the number of those to come is fixed
        by that time, before any output is looked at: it does not depend on what will be counted,
        so a bound holds at its confidence as for a number fixed beforehand, and no error is spent
        on looks in between. Calls that cost much whatever number they are for are made for more
        outputs each, up to 512, and the method says so. A callable that slows down, so that they
        are not made in time, is given up: epsilon is at least 0, INCONCLUSIVE. Its outputs may have
        set the time, so those missing could only count as wrong guesses, which shows ln(made /
        missing) at most. Checks that are not done by then are not run. The same seed gives the same
        answer only where ``samples`` decide.

    progress : as for ``audit``: whether draws are counted where somebody looks on. It is called
        from the thread that draws.

    Where a check that failed shows more than the search or the measurement does, an output that
    rules an input out or noise that can be foretold, the verdict is by that.

    Raises InputError for a bad number, an input outside the domain, and a callable that raises or
    gives something else than ``size`` numbers or words.

    >>> def respond(bit, rng, size):
    ...     return np.where(rng.random(size) < 0.75, bit, 1 - bit)
    >>> found = verify_ldp(respond, epsilon=0.5, samples=1000)
    >>> print(f"{found.verdict}: at least {found.epsilon_lower:.1f}, and in truth {np.log(3):.1f}")
    VIOLATED: at least 1.0, and in truth 1.1
    """
    with shown_stages(progress, "verifying"):
        return _verified(mechanism, epsilon, delta, inputs, samples, seconds, confidence, seed)


def _verified(
    mechanism: Mechanism | Density | Randomizer,
    epsilon: float,
    delta: float,
    inputs: Sequence[Any] | SearchStrategy[Any] | None,
    samples: int | None,
    seconds: float | None,
    confidence: float,
    seed: int,
) -> Verification:
    """See ``verify_ldp``."""
    begun = time.perf_counter()
    samples, seed = _whole("samples", samples), cast("int", _whole("seed", seed))
    _check(mechanism, epsilon, delta, samples, confidence, seed)
    claim = ldp_claim(epsilon, delta)
    dist = OutputDistribution.of(mechanism) if hasattr(mechanism, "log_prob") else None
    sampler = Sampler.of(mechanism) if dist is None else dist.sampler
    draws = samples or (SIZED_SAMPLES if sampler.sized else SINGLE_SAMPLES)
    search, measuring, look, fit, reading, turning = np.random.SeedSequence(seed).spawn(6)

    given = _given(inputs)
    fits: tuple[Check, ...] = ()
    bound: Bound | None = None
    if dist is not None:
        chosen = CandidateInputs.of(dist, given, seed).shown
        dist = dist.spelling(chosen, seed)
        sampler = dist.sampler
        draws, *_ = _affordable(sampler, chosen, begun, seconds, draws)
        fitted = check_fit(sampler, dist, chosen, samples=draws, seed=fit)
        fits = (replace(fitted, name="fit to the claimed distribution"),)
        if fitted.status is Status.FAILED:  # then it says nothing of the code
            dist = None
    elif given is None or isinstance(given, list):
        chosen = _listed(given)
    else:
        searcher = sampler.allowed(math.inf, _until(begun, seconds, _SEARCH))
        chosen = pair_from(
            searcher, given, epsilon=epsilon, delta=delta, samples=draws, seed=search
        )
    if dist is not None:
        with suppress(NoCurve):
            bound = exact_search(
                dist, epsilon=epsilon, delta=delta, inputs=given, seed=search, samples=draws
            )

    def measured(unread: Sequence[Any]) -> _Run:
        looks = draws // _LOOKS if seconds is None else 0
        looking, counting = (reading, measuring) if not unread else measuring.spawn(2)
        together = sampler.reading(chosen, np.random.default_rng(looking), looks, unread)
        read, clocks, planned, slow = together, Clocks(), draws, ""
        with suppress(InputError):  # no columns, or no time
            if together.sized:
                timed = together.allowed(math.inf, _until(begun, seconds, _SEARCH))
                clocks = clocks_of(timed, chosen, turning, draws)
        if clocks.by_call:
            read = together.singly()
        if not fits:
            planned, least, call = _affordable(read, chosen, begun, seconds, planned)
            if least > LEAST_TOGETHER and planned < draws:
                read = replace(read, least=least)
                slow = f"; a call takes {call:.2g} s, so each was for {least} outputs of an input"
        if samples is None and (read.fields or not read.sized):
            planned = min(planned, SINGLE_SAMPLES)
        if samples is None and not fits:
            width = read.draw(chosen[0], np.random.default_rng(seed), 2)[0].size
            planned = min(planned, max(WIDE_SAMPLES, WIDE_NUMBERS // max(1, width)))
        limited = read.allowed(math.inf, _until(begun, seconds, _LATE))
        try:
            shown = _measured(
                limited, chosen, claim, samples=planned, confidence=confidence, seed=counting
            )
        except InputError:
            if not limited.used_up:
                raise
            shown = _nothing(limited, delta, confidence)
        else:
            shown = replace(shown, source=f"{shown.source}{slow}")
        if read.opaque and shown.epsilon == 0:
            shown = replace(shown, source=UNREADABLE, largest=0.0, witness=None)
        return _Run(shown, read, together, clocks, planned)

    run = _Run(bound, sampler, sampler, Clocks(), draws) if bound else beginning_again(measured)
    bound, sampler, together, clocks, draws = run
    needed = None
    if not exceeds(bound.largest, epsilon) and bound.source != UNREADABLE:
        needed = JointBinomial().needed(epsilon, delta=delta, confidence=confidence)
    evidence = Evidence(
        sampler=sampler,
        inputs=chosen,
        claim=ClaimUnderTest(epsilon=epsilon, delta=delta),
        seed=look,
        samples=draws,
        until=_until(begun, seconds),
        dist=None if sampler.fields else dist,
        together=together,
        clocks=clocks.columns,
    )
    checks = run_checks(evidence)
    return Verification.of(bound, claim, needed=needed, checks=(*fits, *checks))


class _Run(NamedTuple):
    """What is shown; how answers are read, one by one where ``together`` they share ``clocks``.

    ``draws`` of each input were planned.
    """

    bound: Bound
    sampler: Sampler
    together: Sampler
    clocks: Clocks
    draws: int


def _measured(
    sampler: Sampler,
    inputs: Sequence[Any],
    claim: Claim,
    *,
    samples: int,
    confidence: float,
    seed: np.random.SeedSequence,
) -> Bound:
    """The measured bound; outputs whose shape depends on the input are measured by their shape."""
    rng = np.random.default_rng(seed)
    for source in (sampler, sampler.shapes()):
        with suppress(UnevenOutputs):
            return measure(
                source.worlds(inputs),
                (claim,),
                JointBinomial(),
                delta=claim.delta,
                confidence=confidence,
                samples=samples,
                rng=rng,
            ).bound
    raise AssertionError("shapes are words, which have one shape")


def _nothing(sampler: Sampler, delta: float, confidence: float) -> Bound:
    """What holds of any randomizer: all that may be said where the planned draws were not made.

    To count those that were made would be to stop at a time that they themselves may have set.
    """
    return Bound(
        epsilon=0.0,
        delta=delta,
        side=Side.LOWER,
        scope=ONE_REPORT,
        source="nothing: the seconds were over before the draws that they were to allow",
        confidence=confidence,
        samples=int(sampler.drawn),
        largest=0.0,
    )


def _check(
    mechanism: Any, epsilon: float, delta: float, samples: int | None, confidence: float, seed: int
) -> None:
    """InputError for the first argument that is none."""
    if math.isinf(check_epsilon(epsilon)):
        raise InputError("Expected a finite epsilon, got epsilon=inf. Nothing can refute it.")
    check_delta(delta)
    check_confidence(confidence)
    check_seed(seed)
    if samples is not None and not 100 <= samples <= _MOST_SAMPLES:
        raise InputError(
            f"Expected 100 to {_MOST_SAMPLES:,} samples, got samples={samples!r}. Give another "
            "number, or --seconds."
        )
    if isinstance(mechanism, type):
        raise InputError(
            f"Expected a mechanism, got the class {mechanism.__name__}. Make one of it: "
            f"mechanism = {mechanism.__name__}(...), and name that."
        )


def _until(begun: float, seconds: float | None, share: float = 1.0) -> float:
    """When a share of the seconds is over; never where there is no limit.

    InputError for a number of seconds that is none.
    """
    if seconds is None:
        return math.inf
    if not 0 < seconds < math.inf:
        raise InputError(f"Expected seconds above 0, got seconds={seconds!r}. Give 60, say.")
    return begun + share * seconds


class _Affordable(NamedTuple):
    """Draws of each input that there is time for, in calls for ``least`` outputs at the least.

    ``call`` is the seconds of one such call, 0 where nothing was timed.
    """

    draws: int
    least: int = LEAST_TOGETHER
    call: float = 0.0


def _affordable(
    sampler: Sampler, inputs: Sequence[Any], begun: float, seconds: float | None, most: int
) -> _Affordable:
    """Draws of an input that take as long as is left of ``seconds``, by the time that some take.

    ``most`` at most, and that where ``seconds`` is None. Two measurements of two inputs each, their
    selection splits of all inputs, and the checks. The slower one of the first and the last input
    counts. Calls that cost much whatever they are for are made for more outputs: fewer turns.
    InputError if fewer than 100 draws are allowed, or than 8 turns.
    """
    if seconds is None:
        return _Affordable(most)
    left = _until(begun, seconds) - time.perf_counter()
    rng, size, spent, best = np.random.default_rng(0), 1, 0.0, math.inf
    costs: dict[int, float] = {}  # seconds of an output, by the outputs of a call
    for _ in range(_PILOTS):  # in larger and larger calls: the first ones warm up
        taken = []
        for value in (inputs[0], inputs[-1]):
            start = time.perf_counter()
            sampler.draw(value, rng, size)
            taken.append(time.perf_counter() - start)
        last, best = best, max(taken) / size
        costs[size] = best
        spent += sum(taken)
        flat = last < _NEAR * best and spent > left / 40
        if flat or spent + _LARGER * sum(taken) > _PILOTED * left:
            break
        size = min(_LARGER * size, TOGETHER)
    left = _until(begun, seconds) - time.perf_counter()

    def draws_at(each: float) -> int:
        return int(_PLANNED * left / max(each * (4.0 + len(inputs)), 1e-12))

    size, each = 1, best
    if sampler.sized:
        enough = (n for n in costs if draws_at(costs[n]) >= most or costs[n] <= _NEAR * best)
        each = costs[size := next(enough)]
    draws, least = draws_at(each), max(size, LEAST_TOGETHER)
    fewest = max(100, _FEWEST_TURNS * size)
    if draws < fewest:
        calls = f"a call for {size} takes {each * size:.3g} s"
        wanted = math.ceil(1.6 * fewest * each * (4 + len(inputs)))
        raise InputError(
            f"Expected seconds for {fewest} draws of an input at least, got seconds={seconds:g}, "
            f"where {f'one draw takes {each:.3g} s' if size == 1 else calls}. Give {wanted}, say."
        )
    return _Affordable(min(draws, most), least, each * least)


def _whole(name: str, number: Any) -> int | None:
    """``number`` as an int, also if it came as 1e5; None as it is. InputError for a fraction."""
    if number is None:
        return None
    try:
        found = operator.index(number)
    except TypeError:
        if not (isinstance(number, float) and number.is_integer()):
            raise InputError(
                f"Expected {name} as a whole number, got {name}={number!r}. Give 100_000, say."
            ) from None
        found = int(number)
    return found


def _given(
    inputs: Sequence[Any] | SearchStrategy[Any] | None,
) -> list[Any] | SearchStrategy[Any] | None:
    """A strategy as it is, without importing Hypothesis to see that something is none."""
    if inputs is None or hasattr(inputs, "example"):
        return cast("SearchStrategy[Any] | None", inputs)
    if not isinstance(inputs, Iterable):
        raise InputError(
            f"Expected a list of inputs or a Hypothesis strategy, got {inputs!r}. Name two inputs."
        )
    return list(inputs)


def _listed(inputs: list[Any] | None) -> list[Any]:
    chosen = [0, 1] if inputs is None else inputs
    if not 2 <= len(set(map(repr, chosen))) <= len(chosen) <= MOST_INPUTS:
        raise InputError(
            f"Expected 2 to {MOST_INPUTS} different inputs, got {len(set(map(repr, chosen)))} in "
            f"a list of {len(chosen)}. Name the extreme ones."
        )
    return chosen
