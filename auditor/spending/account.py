"""What a deployment spends, with its scopes and methods, and in words."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedrec_auditor.accountants.statements.bound import Bound, rounded
from fedrec_auditor.accountants.statements.scope import Adjacency, Unit, Vantage
from fedrec_auditor.auditor.spending.deployment import Deployment, Sampling
from fedrec_auditor.auditor.spending.noise import Noise
from fedrec_auditor.reports.words import VANTAGES, printable

_WIDTH = 80
_LABEL = 14
_DIGITS = 4
_SUMS = "by whoever sees every noisy sum, and so every model, but no upload and not who was drawn"


@dataclass(frozen=True, slots=True)
class Epsilon:
    """An epsilon between a lower and an upper bound, both of one scope and delta."""

    lower: Bound
    upper: Bound

    @property
    def delta(self) -> float:
        """The delta of both."""
        return self.upper.delta

    @property
    def unit(self) -> Unit:
        """Whose data, or how much of it."""
        return self.upper.scope.unit

    @property
    def adjacency(self) -> Adjacency:
        """Which change of the unit."""
        return self.upper.scope.adjacency

    @property
    def method(self) -> str:
        """What the upper bound rests on."""
        return self.upper.source

    def as_data(self) -> dict[str, Any]:
        """Both bounds with all that makes them statements."""
        return {
            "proved_at_most": dataclasses.asdict(self.upper),
            "shown_at_least": dataclasses.asdict(self.lower),
        }


@dataclass(frozen=True, slots=True)
class Spending:
    """What one round spends by itself, and all of them together, of one unit and adjacency."""

    per_round: Epsilon
    total: Epsilon


@dataclass(frozen=True, slots=True)
class Account:
    """What a deployment spends: the spending that is asked for, and others beside it.

    ``solved`` is the name of the number that ``target_epsilon`` left to be found (in
    ``deployment``), "" if none was; ``notes`` say what is not accounted, and why.
    """

    deployment: Deployment
    spendings: tuple[Spending, ...]
    target_epsilon: float | None = None
    solved: str = ""
    notes: tuple[str, ...] = ()

    @property
    def per_round(self) -> Epsilon:
        """One round by itself, of the first adjacency."""
        return self.spendings[0].per_round

    @property
    def total(self) -> Epsilon:
        """All rounds together, of the first adjacency."""
        return self.spendings[0].total

    def __str__(self) -> str:
        return "\n".join(_described(self))

    def as_data(self) -> dict[str, Any]:
        """What JSON holds but for infinities: numbers, text, lists and dictionaries."""
        deployment = self.deployment
        return {
            "finding": _finding(self),
            "noise": str(deployment.noise),
            "rounds": deployment.rounds,
            "rate": deployment.rate,
            "sampling": str(deployment.sampling),
            "users": deployment.users,
            "shuffle": deployment.shuffle,
            "delta": deployment.delta,
            "target_epsilon": self.target_epsilon,
            "solved": self.solved or None,
            "spendings": [
                {
                    "unit": str(s.total.unit),
                    "adjacency": str(s.total.adjacency),
                    "per_round": s.per_round.as_data(),
                    "total": s.total.as_data(),
                }
                for s in self.spendings
            ],
            "notes": [*self.notes, *_notes(self)],
        }


def _described(account: Account) -> Iterator[str]:
    """The finding first, then the numbers with their scope, then the method: 80 columns."""
    yield from textwrap.wrap(_finding(account), _WIDTH, break_on_hyphens=False)
    yield ""
    yield from _table(account)
    yield ""
    for label, text in _facts(account):
        yield from _entry(label, text)
    for method in dict.fromkeys(s.total.method for s in account.spendings):
        yield from _entry("proved by", method)
    for source in dict.fromkeys(s.total.lower.source for s in account.spendings):
        yield from _entry("shown by", source)
    for label, bounds in (
        ("if", [s.total.upper for s in account.spendings]),
        ("shown if", [s.total.lower for s in account.spendings]),
    ):
        for assumption in dict.fromkeys(a for bound in bounds for a in bound.assumptions):
            yield from _entry(label, assumption)
    for note in (*account.notes, *_notes(account)):
        yield from _entry("note", note)


def _entry(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        printable(text),
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL - 2}}",
        subsequent_indent=" " * _LABEL,
        break_on_hyphens=False,
    )


def _finding(account: Account) -> str:
    deployment, total = account.deployment, account.total
    one, every = _one(account), _every(account)
    at = f"at delta {deployment.delta:g}"
    found = f"epsilon {_up(total.upper.epsilon)} {at}"
    if account.solved:
        found = f"{_solved(account)} keeps epsilon {account.target_epsilon:g} {at} over {every}"
        if deployment.rounds == 1:
            return f"{found}."
        return f"{found} together; {one} spends {_up(account.per_round.upper.epsilon)} by itself."
    if math.isinf(total.lower.epsilon):
        return f"No epsilon holds {at}, neither for {one} nor for {every}."
    if math.isinf(total.upper.epsilon):
        return f"No epsilon is proved {at} for {every}; none below {_down(total.lower.epsilon)}."
    if deployment.rounds == 1:
        return f"{one.capitalize()} spends {found} at most, and nothing else is counted."
    return (
        f"{every[0].upper()}{every[1:]} together spend {found} at most, {one} by itself "
        f"{_up(account.per_round.upper.epsilon)}. The total, {_up(total.upper.epsilon)}, is the "
        "figure to state."
    )


def _solved(account: Account) -> str:
    deployment = account.deployment
    if account.solved == "rounds":
        return f"Stopping after {deployment.rounds:,} rounds"
    if account.solved == "rate":
        if deployment.users is not None and deployment.rate is not None:
            drawn = round(deployment.rate * deployment.users)
            return f"A sample of up to {drawn:,} of {deployment.users:,}"
        return f"A rate of up to {deployment.rate:.6g}"
    assert isinstance(deployment.noise, Noise)
    return f"Noise of {account.solved} = {deployment.noise.size:.6g}"


def _one(account: Account) -> str:
    if not account.deployment.is_local:
        return "one round"
    return "one shuffle" if account.total.upper.scope.vantage is Vantage.SHUFFLED else "one report"


def _every(account: Account) -> str:
    rounds, one = account.deployment.rounds, _one(account)
    if rounds == 1:
        return one
    return (
        f"all {rounds:,} {one.removeprefix('one ')}s{' of a user' if one == 'one report' else ''}"
    )


def _table(account: Account) -> Iterator[str]:
    """Bounds are rounded to the side on which they hold."""
    rounds = account.deployment.rounds
    yield f"  {'unit, adjacency':<26}{'rounds':>12}{'shown at least':>18}{'proved at most':>18}"
    for spending in account.spendings:
        name = f"{spending.total.unit}, {spending.total.adjacency}"
        rows = [(1, spending.per_round)] + ([(rounds, spending.total)] if rounds != 1 else [])
        for count, epsilon in rows:
            low, high = _down(epsilon.lower.epsilon), _up(epsilon.upper.epsilon)
            yield f"  {name:<26}{count:>12,}{low:>18}{high:>18}"


def _facts(account: Account) -> Iterator[tuple[str, str]]:
    deployment = account.deployment
    yield "delta", f"{deployment.delta:g} in every row: one round's and all rounds' alike"
    yield "noise", str(deployment.noise)
    unit = deployment.unit
    if deployment.shuffle is not None:
        yield "shuffle", f"a report from each of {deployment.shuffle:,} users, without their names"
    elif deployment.users is not None and deployment.rate is not None:
        drawn = round(deployment.rate * deployment.users)
        yield "sampling", f"{drawn:,} of {deployment.users:,} {unit}s a round, without replacement"
    elif deployment.rate != 1.0:
        yield "sampling", f"Poisson: each {unit} by itself, with probability {deployment.rate:.6g}"
    elif not deployment.is_local and isinstance(deployment.noise, Noise):
        yield "sampling", f"none: every {unit} is in every round"
    for spending in account.spendings:
        yield _change(account, spending.total)
    vantage = account.total.upper.scope.vantage
    seen = _SUMS if vantage is Vantage.AGGREGATE else VANTAGES[vantage]
    yield "seen", seen.removeprefix("seen ")


def _change(account: Account, epsilon: Epsilon) -> tuple[str, str]:
    deployment, adjacency, unit = account.deployment, epsilon.adjacency, epsilon.unit
    if adjacency is Adjacency.ANY_PAIR:
        return "any pair", f"any input of a {unit} against any other"
    if unit is not deployment.unit:
        return (
            f"{unit}",
            f"one with up to {deployment.group} interactions, present against absent: as many as "
            "are drawn pull one way (less than group privacy, which multiplies epsilon and delta)",
        )
    one = f"an {unit}" if str(unit)[0] in "aeio" else f"a {unit}"
    fixed = deployment.sampling is Sampling.FIXED
    if adjacency is Adjacency.REPLACE:
        return "replace", f"{one} against another one: the sum moves by twice the clipping norm"
    displaced = " and displaces another one: by twice the clipping norm" if fixed else ""
    moves = "" if fixed else ": the sum moves by the clipping norm"
    return "add-remove", f"{one} present against absent{moves}{displaced}"


def _notes(account: Account) -> Iterator[str]:
    """What is often mistaken."""
    deployment, one, total = account.deployment, account.per_round.upper, account.total.upper
    rounds = deployment.rounds or 1
    finite = math.isfinite(one.epsilon) and math.isfinite(total.epsilon)
    if rounds > 1 and finite and rounds * one.epsilon > 1.01 * total.epsilon:
        yield (
            f"Adding up the rounds, {rounds:,} x {_up(one.epsilon)} = "
            f"{_up(rounds * one.epsilon)}, counts more than they spend, and its delta is "
            f"{min(1.0, rounds * deployment.delta):g}."
        )
    noisy = isinstance(deployment.noise, Noise) and not deployment.is_local
    if noisy and deployment.rate == 1.0:
        yield (
            "If each device adds this noise to its own upload (local noise), read the row of "
            "replace: any two clipped uploads are up to twice the norm apart."
        )
    if deployment.unit is Unit.INTERACTION and deployment.group is None and not deployment.is_local:
        yield "A user with several interactions spends more: give interactions per user."


def _up(epsilon: float) -> str:
    return _told(rounded(epsilon, math.ceil, _DIGITS))


def _down(epsilon: float) -> str:
    return _told(rounded(epsilon, math.floor, _DIGITS))


def _told(epsilon: float) -> str:
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    return f"{epsilon:#.{_DIGITS}g}".removesuffix(".")
