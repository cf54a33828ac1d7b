"""Epsilon per round and in total: proved at most and shown at least, for each adjacency."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from dp_accounting import DpEvent

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.events.leaves import leaves
from fedrec_auditor.accountants.losses.infinite import why_infinite
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.accountants.theorems.attained import (
    epsilon_attained,
    shuffled_attained,
    supposed,
)
from fedrec_auditor.accountants.theorems.neighbours import of_group, under
from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_of_event
from fedrec_auditor.auditor.plan.families import brief
from fedrec_auditor.auditor.spending.account import Account, Epsilon, Spending
from fedrec_auditor.auditor.spending.deployment import Deployment, Sampling, composed, rounds_of
from fedrec_auditor.auditor.spending.noise import Noise, NoiseKind, Stated
from fedrec_auditor.auditor.spending.solve import solve

_Name = TypeVar("_Name", bound=StrEnum)


def account(
    *,
    gaussian: Stated | None = None,
    laplace: Stated | None = None,
    randomized_response: Stated | None = None,
    event: DpEvent | str | None = None,
    rate: float | None = None,
    rounds: int | None = None,
    delta: float = 0.0,
    sampling: str = "poisson",
    users: int | None = None,
    unit: str = "user",
    adjacency: str | None = None,
    shuffle: int | None = None,
    interactions_per_user: int | None = None,
    target_epsilon: float | None = None,
) -> Account:
    """Epsilon per round and in total at ``delta``, from above and from below.

    One of four says what hides the data. ``gaussian`` is the noise multiplier z, deviation over
    clipping norm, of noise on the sum of what each ``unit`` adds; ``laplace`` the same for scale
    and L1 norm; ``randomized_response`` the epsilon of local reports, or text such as "p=0.75,k=4";
    ``event`` an event of dp-accounting, or its JSON. ``rate`` is the share that a round draws: each
    by itself (``sampling`` "poisson"), or rate x ``users`` of them ("fixed"). ``shuffle`` is the
    number of users whose local reports are shuffled. With ``interactions_per_user`` and unit
    "interaction" users of so many interactions are accounted too. ``adjacency`` says which comes
    first: a unit "add-remove", as is usual, or "replace", as is usual for fixed sampling.

    With ``target_epsilon`` the number that is left out is found, such that all rounds together
    keep that epsilon: the least noise (say ``gaussian="z"``), else the most rounds, else the
    largest rate. InputError for what makes no sense; AuditError if two accountants disagree.

    >>> found = account(gaussian=1.1, rate=0.01, rounds=1000, delta=1e-6)
    >>> f"{found.per_round.upper.epsilon:.3f} per round, {found.total.upper.epsilon:.3f} in total"
    '0.254 per round, 1.753 in total'
    >>> found.total.adjacency, f"no less than {found.total.lower.epsilon:.3f}"
    (<Adjacency.ADD_REMOVE: 'add-remove'>, 'no less than 1.753')
    """
    stated = {
        NoiseKind.GAUSSIAN: gaussian,
        NoiseKind.LAPLACE: laplace,
        NoiseKind.RESPONSE: randomized_response,
    }
    given = [(kind, value) for kind, value in stated.items() if value is not None]
    if len(given) + (event is not None) != 1:
        raise InputError(
            "Expected one of gaussian, laplace, randomized_response and event, got "
            f"{len(given) + (event is not None)} of them. Say what hides the data."
        )
    noise: Noise | DpEvent
    if event is not None:
        noise, rounds = _event(event, rounds, rate, shuffle, users)
    else:
        noise = Noise.of(*given[0])
    # With a target, what is left out is found: the noise's size, else the rounds, else the rate.
    found = target_epsilon is not None and (not isinstance(noise, Noise) or noise.size is not None)
    local = shuffle is not None or randomized_response is not None
    deployment = Deployment(
        noise=noise,
        rounds=1 if rounds is None and not found else rounds,
        rate=1.0 if rate is None and (not found or rounds is None or local or event) else rate,
        delta=delta,
        sampling=_named(Sampling, "sampling", sampling),
        users=users,
        unit=_named(Unit, "unit", unit),
        adjacency=None if adjacency is None else _named(Adjacency, "adjacency", adjacency),
        shuffle=shuffle,
        group=interactions_per_user,
    )
    unknowns = deployment.unknowns
    if target_epsilon is None and unknowns:
        raise InputError(
            f"Expected a number for {unknowns[0]}, got none. Give it, or target_epsilon to find it."
        )
    if target_epsilon is None:
        return _account(deployment)
    if not unknowns:
        raise InputError(
            "Expected one number left out with target_epsilon, got all of them. Leave out what "
            "should be found: the noise (its name alone, such as z), rounds or rate."
        )
    solved = solve(deployment, target_epsilon, _total_above)
    return replace(_account(solved), target_epsilon=target_epsilon, solved=unknowns[0])


def _event(
    event: DpEvent | str,
    rounds: int | None,
    rate: float | None,
    shuffle: int | None,
    users: int | None,
) -> tuple[DpEvent, int | None]:
    """One round of an event, and the rounds: those that it repeats, unless they are given."""
    from fedrec_auditor.accountants.events.documents import read_event

    if any(value is not None for value in (rate, shuffle, users)):
        raise InputError(
            "Expected an event without rate, users and shuffle, got one of them too. The event "
            "says how it samples."
        )
    read = read_event(event) if isinstance(event, str) else event
    if rounds is not None:
        return read, rounds
    return rounds_of(read)


def _named(kind: type[_Name], name: str, value: str) -> _Name:
    try:
        return kind(value)
    except ValueError:
        raise InputError(
            f"Expected {name} among {', '.join(kind)}, got {brief(value)}. Give one of them."
        ) from None


@functools.cache
def _accountants() -> tuple[Accountant, ...]:
    return all_accountants()


def _prove(event: DpEvent, delta: float, scope: Scope) -> Bound:
    """The least upper bound; InputError where no accountant reads the event."""
    found, _ = least_of_event(event, scope, delta, _accountants())
    if found is None:
        kinds = ", ".join(dict.fromkeys(type(leaf).__name__ for leaf, _ in leaves(event)))
        raise InputError(
            f"Expected events that one accountant reads together, got {kinds}. Account them "
            "by themselves, or put a PureDpEvent for what has a pure epsilon."
        )
    return found


def _total_above(deployment: Deployment) -> float:
    """The proved epsilon of all rounds together, of the adjacency that is asked for."""
    assert deployment.rounds is not None
    adjacency = deployment.adjacencies[0]
    event = under(deployment.one_round, adjacency)
    if event is None:
        raise InputError(f"{_unknown(deployment, adjacency)} Ask for the other adjacency.")
    scope = deployment.scope(adjacency, total=True)
    return _prove(composed(event, deployment.rounds), deployment.delta, scope).epsilon


def _account(deployment: Deployment) -> Account:
    spendings, notes = [], []
    for adjacency in deployment.adjacencies:
        event = under(deployment.one_round, adjacency)
        if event is None:
            notes.append(_unknown(deployment, adjacency))
            continue
        scopes = [deployment.scope(adjacency, total=total) for total in (False, True)]
        spendings.append(_spending(deployment, event, *scopes))
    if not spendings:
        raise InputError(" ".join((*notes, "Account it in parts.")))
    if deployment.group is not None:
        event = of_group(deployment.one_round, deployment.group)
        if event is None:
            notes.append("Of a user with several interactions nothing is known for this sampling.")
        else:
            wide = replace(deployment, unit=Unit.USER, group=None)
            scopes = [wide.scope(Adjacency.ADD_REMOVE, total=total) for total in (False, True)]
            spendings.append(_of_users(_spending(deployment, event, *scopes), deployment.group))
    first = spendings[0]
    if math.isinf(first.total.upper.epsilon):
        event = under(deployment.one_round, first.total.adjacency)
        assert event is not None
        assert deployment.rounds is not None
        notes.append(why_infinite(composed(event, deployment.rounds), deployment.delta))
    return Account(deployment, tuple(spendings), notes=tuple(filter(None, notes)))


def _spending(deployment: Deployment, event: DpEvent, one: Scope, every: Scope) -> Spending:
    assert deployment.rounds is not None
    per_round = _between(deployment, event, 1, one)
    if deployment.rounds == 1:
        bounds = (replace(b, scope=every) for b in (per_round.lower, per_round.upper))
        return Spending(per_round, Epsilon(*bounds))
    return Spending(per_round, _between(deployment, event, deployment.rounds, every))


def _of_users(spending: Spending, group: int) -> Spending:
    """With what is assumed of users."""
    assumed = f"no user has more than {group:,} interactions"
    one, every = (
        Epsilon(e.lower, replace(e.upper, assumptions=(*e.upper.assumptions, assumed)))
        for e in (spending.per_round, spending.total)
    )
    return Spending(one, every)


def _between(deployment: Deployment, event: DpEvent, rounds: int, scope: Scope) -> Epsilon:
    """Both bounds on so many rounds; AuditError if the lower one is above the upper one."""
    delta, every = deployment.delta, composed(event, rounds)
    upper = _prove(every, delta, scope)
    if isinstance(deployment.noise, Noise) and deployment.shuffle is not None:
        shown = shuffled_attained(*deployment.noise.bit, deployment.shuffle, rounds, delta)
        source = "the number of shuffled reports of one kind, all others' inputs known"
        supposing: tuple[str, ...] = ()
    else:
        shown, supposing = epsilon_attained(every, delta), supposed(event)
        source = "two neighbours that reach the losses, composed from below"
    lower = Bound(
        epsilon=shown,
        side=Side.LOWER,
        scope=scope,
        delta=delta,
        source=source,
        assumptions=supposing,
    )
    if refutes(lower, upper):
        raise AuditError(
            f"Expected nothing above the proved {upper.epsilon:.9g} at delta={delta:.3g} for "
            f"{every}, got {lower.epsilon:.9g} from below. One of the two is wrong: report it, and "
            "trust neither."
        )
    # They may meet, and then differ by what doubles lose.
    return Epsilon(replace(lower, epsilon=min(shown, upper.epsilon)), upper)


def _unknown(deployment: Deployment, adjacency: Adjacency) -> str:
    found = [(leaf, getattr(leaf, "event", None)) for leaf, _ in leaves(deployment.one_round)]
    kinds = dict.fromkeys(
        type(leaf).__name__ + (f" of {type(inner).__name__}" if inner is not None else "")
        for leaf, inner in found
    )
    return f"Under {adjacency} adjacency nothing is known of {', '.join(kinds)}."
