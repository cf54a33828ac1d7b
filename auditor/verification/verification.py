"""What was found out about a randomizer's privacy ratio, and the verdict on its claim."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, NoReturn

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import INCONCLUSIVE, Verdict, judge
from fedrec_auditor.auditor.sampler import ONE_REPORT


def ldp_claim(epsilon: float, delta: float) -> Claim:
    """The claim that a randomizer is (epsilon, delta)-LDP; InputError for a number that is none."""
    return Claim(
        epsilon=epsilon,
        delta=delta,
        scope=ONE_REPORT,
        statement="One output is private for every pair of inputs.",
        source="what was asked",
    )


class Status(StrEnum):
    """How a further check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


class CheckResult(NamedTuple):
    """How one check ended, and the evidence; see ``Check``."""

    status: Status
    reason: str
    bound: Bound | None = None

    @classmethod
    def passed(cls, reason: str) -> CheckResult:
        """Looked, and saw nothing wrong."""
        return cls(Status.PASSED, reason)

    @classmethod
    def failed(cls, reason: str, bound: Bound | None = None) -> CheckResult:
        """Looked, and saw a fault; ``reason`` says which, ``bound`` what epsilon it shows."""
        return cls(Status.FAILED, reason, bound)

    @classmethod
    def not_run(cls, reason: str) -> CheckResult:
        """Could not look, or could not tell."""
        return cls(Status.NOT_RUN, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that a ratio cannot see: what was looked at, and what was seen.

    ``reason`` is a sentence or two: the evidence and, if it failed, the remedy; if it was not run,
    why not. ``bound`` is the lower bound on epsilon that a failed check shows, where it counted an
    event of the output's values that tells inputs apart.
    """

    name: str
    status: Status
    reason: str
    bound: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A claim about a randomizer, judged by what was found.

    ``verdict`` is CONSISTENT only where all inputs and outputs were looked through: that is a
    proof, as far as the probabilities are the code's. ``epsilon_lower`` is the largest lower bound
    found, infinite allowed; ``exact`` says whether it is a calculation (confidence 1) or a
    measurement from ``samples`` draws in all, which could have shown ``largest`` at most: where
    that is not above the claim, the verdict is INCONCLUSIVE, and ``needed`` are the draws per input
    that could refute it, None if more than 10^12. ``witness`` is the pair of inputs, the event and
    its two probabilities. ``method`` says how the bound was found, and whether the search was
    exhaustive. ``checks`` look for faults that no ratio of probabilities shows; where one that
    failed shows a larger epsilon than the search or the measurement (whose bound is ``searched``),
    verdict and ``epsilon_lower`` are by that.

    >>> from fedrec_auditor.auditor.verification import verify_ldp
    >>> from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
    >>> found = verify_ldp(BitFlip.symmetric(1.0), epsilon=0.5)
    >>> found.verdict, round(found.epsilon_lower, 6), found.exact
    (<Verdict.VIOLATED: 'VIOLATED'>, 1.0, True)
    >>> found.witness.input_a, found.witness.input_b, found.witness.output
    ('true bit 0', 'true bit 1', 'uploaded bit 0')
    """

    verdict: Verdict
    epsilon: float
    delta: float
    epsilon_lower: float
    exact: bool
    confidence: float
    samples: int | None
    witness: Witness | None
    method: str
    searched: Bound
    largest: float = math.inf
    needed: int | None = None
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(
        cls,
        searched: Bound,
        claim: Claim,
        *,
        needed: int | None = None,
        checks: tuple[Check, ...] = (),
        allow: Collection[str] = (),
    ) -> Verification:
        """Judge ``claim`` by a lower bound, which is an upper one too where it is tight.

        A larger one that a failed check shows takes its place, unless ``allow`` names the check.
        What is proved of a distribution then says nothing of the code, which does not follow it.
        """
        shown = [
            check.bound
            for check in checks
            if check.status is Status.FAILED and check.bound and check.name not in allow
        ]
        bound = max([searched, *shown], key=lambda each: each.epsilon)
        proof = replace(bound, side=Side.UPPER, tight=False) if bound.tight else None
        judgement = judge(claim, scope=ONE_REPORT, accounted=proof, measured=bound)
        return cls(
            verdict=judgement.verdict,
            epsilon=claim.epsilon,
            delta=claim.delta,
            epsilon_lower=bound.epsilon,
            exact=bound.samples is None,
            confidence=bound.confidence,
            samples=bound.samples,
            witness=bound.witness,
            method=bound.source,
            searched=searched,
            largest=bound.largest,
            needed=needed,
            checks=checks,
        )

    def waiving(self, allow: Collection[str]) -> Verification:
        """The same findings, judged without what the checks named in ``allow`` show."""
        claim = ldp_claim(self.epsilon, self.delta)
        return Verification.of(
            self.searched, claim, needed=self.needed, checks=self.checks, allow=allow
        )

    @property
    def faults(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status is Status.FAILED)

    def unwaived(self, allow: Collection[str]) -> tuple[Check, ...]:
        """The checks that failed and are not named in ``allow``, which may name "inconclusive" too.

        InputError for an unknown name. No other verdict can be waived, save by waiving the check
        that shows it: see ``waiving``.
        """
        known = [check.name for check in self.checks] + [INCONCLUSIVE]
        for name in allow:
            if name not in known:
                raise InputError(
                    f"Expected the name of a check to allow, one of {', '.join(known)}, got "
                    f"{name!r}. Mend the name."
                )
        return tuple(check for check in self.faults if check.name not in allow)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A verification is neither true nor false: not refuted is not proved. "
            "Compare .verdict instead."
        )
