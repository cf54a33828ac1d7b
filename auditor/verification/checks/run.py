"""Every check on one randomizer, in one order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification.checks import (
    clipping,
    determinism,
    floating_point,
    output_type,
    shared_noise,
    support,
)
from fedrec_auditor.auditor.verification.checks.evidence import ClaimUnderTest, not_run
from fedrec_auditor.auditor.verification.exact.law import Law
from fedrec_auditor.auditor.verification.subject import Subject
from fedrec_auditor.auditor.verification.verification import Check

MOST_INPUTS = 8
# Numbers drawn for all inputs together: what bounds time and memory.
_NUMBERS = 1 << 18
# Calls for all inputs together where a call gives one output and costs a microsecond or more.
_CALLS = 1 << 15
_REPEATED = 4096


def run_checks(
    subject: Subject,
    inputs: list[Any],
    *,
    epsilon: float,
    delta: float,
    seed: np.random.SeedSequence,
    mechanism: Any = None,
) -> tuple[Check, ...]:
    """Look for what no ratio of probabilities shows; the same names in the same order always.

    ``mechanism`` is what the subject was made of, where that knows its law (see ``Law.of``). At
    most ``MOST_INPUTS`` of the inputs are tried: the first, the last and some between. A check that
    a randomizer gives no chance to look is "not run" and says why. Each accuses a
    randomizer that keeps its claim with a chance of at most ``FALSE_ALARM``.
    """
    places = np.linspace(0, len(inputs) - 1, min(len(inputs), MOST_INPUTS)).round().astype(int)
    tried = [inputs[place] for place in places]
    one, two, three, four, five, six = seed.spawn(6)

    @functools.cache
    def entries() -> int:
        return max(1, int(subject.draw(tried[0], np.random.default_rng(one), 2)[0].size))

    @functools.cache
    def shared() -> Check | None:
        return shared_noise.shared_in_call(subject, tried, seed=three)

    @functools.cache
    def drawn() -> list[NDArray[Any]]:
        if shared():
            raise InputError("Expected independent outputs, but those of one call share noise.")
        most = _NUMBERS // entries() if subject.sized else min(_CALLS, _NUMBERS // entries())
        size = max(128, most // len(tried))
        return subject.draws(tried, one.spawn(len(tried)), size)

    repeated = _REPEATED if subject.sized else _REPEATED // 4
    law = None if mechanism is None else Law.of(mechanism)
    claim = ClaimUnderTest(epsilon=epsilon, delta=delta)
    checks: dict[str, Callable[[], Check]] = {
        determinism.NAME: lambda: determinism.determinism(
            subject,
            tried,
            claim,
            draws=max(64, min(repeated, _NUMBERS // entries() // 4)),
            seed=two,
        ),
        shared_noise.NAME: lambda: (
            shared() or shared_noise.shared_noise(drawn(), tried, claim, sized=subject.sized)
        ),
        support.NAME: lambda: support.support(drawn(), tried, claim, law),
        output_type.NAME: lambda: output_type.output_type(subject, tried, claim, seed=four),
        clipping.NAME: lambda: clipping.clipping(subject, tried, seed=six),
        floating_point.NAME: lambda: floating_point.floating_point(
            subject, drawn(), tried, claim, seed=five
        ),
    }
    found = []
    for name, check in checks.items():
        try:
            found.append(check())
        except InputError as error:
            found.append(not_run(name, str(error)))
    return tuple(found)
