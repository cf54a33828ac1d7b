"""Every check on one randomizer, in one order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.verification.check import Check, CheckResult, Status
from fedrec_auditor.auditor.verification.checks import (
    clipping,
    determinism,
    floating_point,
    output_type,
    shared_noise,
    support,
)
from fedrec_auditor.auditor.verification.checks.evidence import ClaimUnderTest
from fedrec_auditor.auditor.worlds.sampler import Sampler, turns

MOST_INPUTS = 8
# Numbers drawn for all inputs together: what bounds time and memory.
_NUMBERS = 1 << 18
# Calls for all inputs together where a call gives one output and costs a microsecond or more.
_CALLS = 1 << 15
_REPEATED = 4096
SHARE = 0.5
"""Outputs that the checks draw, at most, over those that ``samples`` allow the measurement."""
# How the checks share them: outputs that several look at, and each of the others by itself; and the
# fewest outputs of an input that are worth a look.
_DRAWN, _FOR_EACH, _LOOK, _FEWEST = 0.35, 0.1, 0.01, 32
# The fewest outputs of a call that are compared with those of another.
_FEWEST_IN_CALL = 4


def run_checks(
    sampler: Sampler,
    inputs: list[Any],
    *,
    epsilon: float,
    delta: float,
    seed: np.random.SeedSequence,
    samples: int,
    until: float = math.inf,
    dist: OutputDistribution | None = None,
    together: Sampler | None = None,
    clocks: tuple[int, ...] = (),
) -> tuple[Check, ...]:
    """Look for what no ratio of probabilities shows; the same names in the same order always.

    ``dist`` are the output probabilities that the randomizer claims, if it claims any. ``together``
    draws many outputs a call where ``sampler`` draws them singly, as they share ``clocks``. At most
    ``MOST_INPUTS`` of the inputs are tried: the first, the last and some between. A check that
    cannot look is "not run" and says why. ``SHARE`` times ``samples`` outputs are drawn for each of
    the inputs tried at most, and none after ``until`` (``time.perf_counter``): what a check did not
    finish by then is not run, whatever it saw. Each accuses a randomizer that keeps its claim with
    probability ``FALSE_ALARM`` at most. Determinism, shared noise and support count events of the
    values put out: where one tells inputs apart, the check says what epsilon that shows. Types and
    the low-order bits of doubles are judged apart from the ratio of values, and say none.
    """
    places = np.linspace(0, len(inputs) - 1, min(len(inputs), MOST_INPUTS)).round().astype(int)
    tried = [inputs[place] for place in places]
    one, two, three, four, five, six = seed.spawn(6)

    @functools.cache
    def entries() -> int:
        return max(1, int(within(_LOOK).draw(tried[0], np.random.default_rng(one), 2)[0].size))

    @functools.cache
    def shared() -> CheckResult | None:
        many = together or sampler
        size = min(shared_noise.SIZE, int(_FOR_EACH * allowance / len(tried)) // shared_noise.CALLS)
        if many.sized and size < _FEWEST_IN_CALL:
            return CheckResult.not_run(
                f"{shared_noise.CALLS} calls for so few outputs as are its share cannot tell. "
                "Raise samples, or seconds."
            )
        return shared_noise.shared_in_call(
            within(_FOR_EACH, many), tried, size=size, seed=three, clocks=clocks
        )

    @functools.cache
    def drawn() -> list[NDArray[Any]]:
        if not within(_LOOK).draw(tried[0], np.random.default_rng(one), 2)[0].size:
            raise InputError("Expected outputs with entries, got empty ones: nothing is sent.")
        if (found := shared()) and found.status is Status.FAILED:
            raise InputError(
                "Expected independent outputs, but those of one call, or of several, share noise."
            )
        most = _NUMBERS // entries() if sampler.sized else min(_CALLS, _NUMBERS // entries())
        size = int(min(max(128, most // len(tried)), _DRAWN * allowance / len(tried)))
        if size < _FEWEST:
            raise InputError(
                f"Expected {_FEWEST} draws of an input at the least, got {size} as the share of "
                "the checks. Raise samples, or seconds."
            )
        return within(_DRAWN).draws(tried, one.spawn(len(tried)), size)

    repeated = _REPEATED if sampler.sized else _REPEATED // 4
    allowance = SHARE * samples * len(tried)

    def within(share: float, source: Sampler = sampler) -> Sampler:
        return source.allowed(max(2, int(share * allowance)), until)

    claim = ClaimUnderTest(epsilon=epsilon, delta=delta)
    checks: dict[str, Callable[[], CheckResult]] = {
        "determinism": lambda: determinism.determinism(
            within(_FOR_EACH),
            tried,
            claim,
            draws=int(
                min(
                    max(64, min(repeated, _NUMBERS // entries() // 4)),
                    max(16.0, _FOR_EACH * allowance / len(tried) / 3),
                )
            ),
            seed=two,
        ),
        "shared noise": lambda: (
            shared()
            or shared_noise.shared_noise(
                drawn(),
                tried,
                claim,
                order=None if sampler.sized else turns(len(tried), len(drawn()[0])),
                fields=sampler.fields,
            )
        ),
        "support": lambda: support.support(drawn(), tried, claim, dist),
        "output type": lambda: output_type.output_type(
            within(2 * _FOR_EACH), tried, claim, seed=four
        ),
        "clipping": lambda: clipping.clipping(within(_FOR_EACH), tried, claim, seed=six),
        "floating point": lambda: floating_point.floating_point(
            within(_FOR_EACH), drawn(), tried, claim, seed=five
        ),
    }
    found = []
    for name, check in checks.items():
        try:
            status, reason, bound = check()
        except InputError as error:
            status, reason, bound = CheckResult.not_run(str(error))
        if bound is not None:
            bound = replace(bound, source=f"the check of {name}: {bound.source}")
        found.append(Check(name=name, status=status, reason=reason, bound=bound))
    return tuple(found)
