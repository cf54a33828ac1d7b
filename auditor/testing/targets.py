"""The contract of a target: a test class to extend, whose ``subject`` is a ``TargetCase``.

Trainings are those of the target's defaults, cut to two rounds. Laws that look at a training
without changing its data share one, which their ``TargetCase`` keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Adjacency, Bound, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.games.canary_game import Draws
from fedrec_auditor.auditor.games.local import LocalGame, designed
from fedrec_auditor.auditor.judging.accounting import (
    all_accountants,
    exact_bounds,
    least_of_event,
    least_upper_bound,
)
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import DesignedPair, Population, Run, Target
from fedrec_auditor.targets.transcript import Broadcast, Round, RoundView, Uploads

USERS, ITEMS = 30, 20
POPULATION = Population(n_users=USERS, n_items=ITEMS)
SCOPES = tuple(
    Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=horizon)
    for unit, adjacency, vantage, horizon in itertools.product(Unit, Adjacency, Vantage, Horizon)
)
_UPLOADS = 50_000


def data() -> Interactions:
    """30 users of 20 items with everything a system may ask for."""
    return Synthetic(n_users=USERS, n_items=ITEMS, profile=6.0, tastes=3).load()


def train(target: Target, interactions: Interactions, seed: int = 0) -> Run:
    """A run on the interactions, with a generator of this seed."""
    return target.run(interactions, np.random.default_rng(seed))


@dataclass(frozen=True)
class TargetCase:
    """A target, and one short training of it that laws share: they must not change it.

    ``steps`` are the calls of ``progress`` in this training, (rounds done, rounds in all).
    """

    target: Target
    steps: list[tuple[int, int]] = field(default_factory=list, init=False)

    @cached_property
    def short(self) -> Target:
        """The target with at most two rounds."""
        return self.target.shortened(2)

    @cached_property
    def interactions(self) -> Interactions:
        """The data of the shared training."""
        return data()

    @cached_property
    def run(self) -> Run:
        """The shared training."""
        rng = np.random.default_rng(0)
        return self.short.run(self.interactions, rng, lambda *step: self.steps.append(step))

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of the shared training; the test is skipped where nothing is sent in any."""
        return tuple(self.run.transcript.rounds) or pytest.skip("no round of it sends anything")

    def received(self, number: int = -1) -> tuple[Interactions, Broadcast | None]:
        """Profiles, and the broadcast of this round; the test is skipped where parties send."""
        if self.run.transcript.public.parties is not None:
            pytest.skip("its messages come from parties, not from users by themselves")
        return self.interactions, self.rounds[number].broadcast


class TargetContract:
    """Laws of a target, one per test. Extend the class, and set ``subject`` to a ``TargetCase``.

    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
    >>> class TestFcf(TargetContract):
    ...     subject = TargetCase(Fcf(rounds=2))
    """

    subject: TargetCase

    def test_scoped_claims(self) -> None:
        """The first scoped claim of every claim has the claim's own scope; others say why."""
        scoped_claims = self.subject.target.scoped_claims(POPULATION)
        assert scoped_claims, "no claim is stated"
        for claim in {id(q.claim): q.claim for q in scoped_claims}.values():
            first = next(q for q in scoped_claims if q.claim == claim)
            assert first.scope == claim.scope, f"first asked in [{first.scope}], not [{claim}]"
            for words in (claim.source, claim.statement):
                assert len(words) > 15, f"too short: {words!r}"
        for scoped in scoped_claims:
            assert scoped.scope == scoped.claim.scope or scoped.note, "say why a reader would ask"

    def test_exact_bounds_stay_below_proofs(self) -> None:
        """No exact lower bound exceeds the least proved upper bound."""
        target = self.subject.target
        for lower in exact_bounds(target, POPULATION):
            asked = (target, lower.scope, POPULATION, lower.delta, all_accountants())
            upper = least_upper_bound(*asked)
            assert upper is not None, f"no upper bound in [{lower.scope}]"
            assert lower.epsilon <= upper.epsilon * (1 + 1e-9), (
                f"{lower.epsilon} is shown and {upper.epsilon} proved in [{lower.scope}]"
            )

    def test_no_scope_is_charged_less_than_any_within_it_is_known_to_lose(self) -> None:
        """At delta 0, over all scopes, whether or not a scoped claim asks about them."""
        target = self.subject.target
        known = {scope: target.mechanism(scope, POPULATION) for scope in SCOPES}
        lost = {s: exact_lower_bound(m, s).epsilon for s, m in known.items() if m is not None}
        for event, scopes in _events(target) if lost else ():
            bound = least_of_event(event, scopes[0], 0.0, all_accountants())
            charged = math.inf if bound is None else bound.epsilon
            for wide, (scope, epsilon) in itertools.product(scopes, lost.items()):
                assert not wide.covers(scope) or epsilon <= charged * (1 + 1e-9), (
                    f"{charged} is charged in [{wide}], {epsilon} lost in [{scope}]"
                )

    def test_events_compose_in_every_scope(self) -> None:
        """Every scope has an event that some accountant reads, and twice of it costs no less.

        Every accountant that reads it says so of both ways to write it twice, at one price.
        """
        for event, (scope, *_) in _events(self.subject.target):
            readers = [a for a in all_accountants() if a.supports(event)]
            assert readers, f"no accountant reads {event} in [{scope}]"
            twice = (SelfComposedDpEvent(event, 2), ComposedDpEvent([event, event]))
            for accountant in readers:
                assert all(map(accountant.supports, twice)), f"{accountant} does not read {twice}"
                once, folded, listed = (
                    accountant.bound(each, delta=1e-6, scope=scope).epsilon
                    for each in (event, *twice)
                )
                prices = f"{accountant} charges {once} for {event} in [{scope}], twice {folded}"
                assert once <= folded * (1 + 1e-9), prices
                assert math.isclose(folded, listed, rel_tol=1e-6), f"{prices}, or {listed}"

    def test_sampled_uploads_agree_with_the_stated_distribution(self) -> None:
        """The client's code, sampled, agrees with the distribution that the target states for it.

        At confidence 1 - 1e-9 the bound must not exceed the stated distribution's; and with 50,000
        uploads a world it must reach at least 0.8 of it (or 6.0 where it is larger): else the code
        does not do what it says.
        """
        for pair in self.subject.target.designed_pairs():
            population = Population(n_users=USERS, n_items=pair.profiles.n_items)
            measured = sampled_bound(self.subject.target, population, pair).epsilon
            mechanism = pair.target.mechanism(pair.scope, population)
            assert mechanism is not None, f"no distribution is stated in [{pair.scope}]"
            exact = exact_lower_bound(mechanism, pair.scope).epsilon
            assert min(0.8 * exact, 6.0) <= measured <= exact, (
                f"{measured} measured, {exact} stated"
            )

    def test_equal_generators_give_equal_bytes(self) -> None:
        """Threads do not matter, nor whether messages are kept in memory or on disk."""
        short, shown = self.subject.short, view(self.subject.run, Vantage.SERVER)
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        again = short.run(data(), rng, compute=Compute(threads=2, memory=0))
        assert shown == view(again, Vantage.SERVER), "the same seed gave another transcript"
        if any(shown) and rng.bit_generator.state != before:
            other = view(train(short, data(), seed=1), Vantage.SERVER)
            assert shown != other, "another seed gave the same"

    def test_a_run_leaves_its_input_alone(self) -> None:
        """Neither training nor scoring changes the interactions."""
        case = self.subject
        case.target.score(case.run.model, case.interactions, np.arange(3))
        assert case.interactions.digest() == data().digest(), "the interactions were changed"

    def test_senders_and_progress(self) -> None:
        """Senders ascend and exist; progress is told at least once a round, in order."""
        transcript, steps = self.subject.run.transcript, self.subject.steps
        public, total = transcript.public, len(steps)
        assert steps == [(n + 1, total) for n in range(total)], f"progress: {steps}"
        assert total >= max(1, len(transcript.rounds)), f"{total} steps were told"
        assert (public.n_users, public.n_items) == (USERS, ITEMS), "another population is public"
        assert public.algorithm == self.subject.target.name, f"it is called {public.algorithm}"
        for one in transcript.rounds:
            for uploads in (one.uploads, one.clear):
                users = np.array([], int) if uploads is None else uploads.users
                assert (np.diff(users) > 0).all(), "senders do not ascend"
                assert np.isin(users, np.arange(public.parties or USERS)).all(), "an unknown sender"

    def test_a_batch_of_clients_uploads_what_they_would_one_by_one(self) -> None:
        """One generator, going on from client to client, gives each the messages of the batch.

        Several uploads a profile are of the first profile, then of the second, and so on.
        """
        profiles, broadcast = self.subject.received()
        assert_one_by_one(self.subject.target, profiles, broadcast)
        uploads = self.subject.target.upload(profiles, broadcast, np.random.default_rng(4), size=3)
        np.testing.assert_array_equal(uploads.users, np.repeat(np.arange(profiles.n_users), 3))

    def test_a_message_depends_on_its_sender_only(self) -> None:
        """A secret planted in all fields of one user changes nobody else's first message."""
        self.subject.received(0)
        one = self.subject.rounds[0]
        two = train(self.subject.short, plant(data(), 4)).transcript.rounds[0]
        np.testing.assert_array_equal(one.uploads.users, two.uploads.users)
        others = np.flatnonzero(one.uploads.users != 4)
        for name, component in one.uploads.components.items():
            planted = two.uploads.components[name].dense(others)
            _assert_equal_but_for_rounding(component.dense(others), planted, name)
        for name, part in (one.broadcast or {}).items():
            _assert_equal_but_for_rounding(part, (two.broadcast or {})[name], name)

    def test_what_no_system_reads_is_in_no_view(self) -> None:
        """Identifiers, titles and the times of interactions leave every view as it is."""
        planted = replace(
            data(),
            users=data().users + 4_611_686,
            titles=tuple(f"secret {n}" for n in range(ITEMS)),
            timestamps=None,
        )
        other = train(self.subject.short, planted)
        for vantage in Vantage:
            assert view(self.subject.run, vantage) == view(other, vantage), f"other at {vantage}"


def sampled_bound(target: Target, population: Population, pair: DesignedPair) -> Bound:
    """The local game's bound of 50,000 messages of either history, at 1 - 1e-9."""
    game = LocalGame()
    setting = designed(target, population, pair, np.random.default_rng(7))
    chunk = setting.chunk or game.chunk
    draws = Draws(simulation=setting.simulation, name=game.name, chunk=chunk)
    fitting, measuring = np.random.default_rng(7).spawn(2)
    worlds, _ = game.worlds(draws, setting, pair.scope, _UPLOADS, fitting)
    return AllThresholds().bound(
        worlds, delta=0.0, confidence=1 - 1e-9, samples=_UPLOADS, rng=measuring
    )


def assert_one_by_one(target: Target, profiles: Interactions, broadcast: Broadcast | None) -> None:
    """Raise AssertionError unless a batch of these profiles uploads what each would alone."""

    def sent(some: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return dict(messages(target.upload(some, broadcast, rng, size=2)))

    whole, rng = sent(profiles, np.random.default_rng(3)), np.random.default_rng(3)
    single = [sent(profiles.take(np.array([i])), rng) for i in range(profiles.n_users)]
    for name, values in whole.items():
        parts = np.concatenate([one[name] for one in single])
        # Single precision, summed in another order.
        np.testing.assert_allclose(parts, values, err_msg=name, rtol=1e-5, atol=1e-6)


def _assert_equal_but_for_rounding(one: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Raise AssertionError unless shapes and numbers are equal, but for their last bits.

    A processor's linear algebra sums in an order that depends on how many rows it is given.
    """
    last = np.finfo(one.dtype).eps if np.issubdtype(one.dtype, np.floating) else 0.0
    scale = np.abs(other).max(initial=0) if last else 0
    np.testing.assert_allclose(one, other, rtol=0.0, atol=16 * last * scale, err_msg=name)


def messages(uploads: Uploads) -> Iterator[tuple[str, np.ndarray]]:
    """Every component of one round as the wire carries it, (n, *shape)."""
    for name, component in uploads.components.items():
        yield name, component.dense(np.arange(len(component)))


def seen(one: RoundView) -> Iterator[tuple[str, np.ndarray]]:
    """All that the view of one round shows, by name."""
    for part in fields(one):
        shown = getattr(one, part.name)
        if isinstance(shown, np.ndarray):
            yield part.name, shown
        elif isinstance(shown, Uploads):
            yield f"senders of {part.name}", shown.users
            yield from ((f"{part.name} {name}", values) for name, values in messages(shown))
        for name, table in shown.items() if isinstance(shown, Mapping) else ():
            sent = isinstance(table, Component)
            yield f"{part.name} {name}", table.dense(np.arange(len(table))) if sent else table


def view(run: Run, vantage: Vantage) -> list[dict[str, tuple[tuple[int, ...], bytes]]]:
    """All that a run shows at a vantage, as shapes and bytes: one dictionary a round."""
    rounds = run.transcript.view(vantage, np.random.default_rng(5)).rounds
    return [{name: (part.shape, part.tobytes()) for name, part in seen(one)} for one in rounds]


def _events(target: Target) -> Iterator[tuple[DpEvent, list[Scope]]]:
    """Each event that is charged, with all its scopes of one adjacency."""
    events = {scope: target.event(scope, POPULATION) for scope in SCOPES}
    kinds = {scope: (repr(event), scope.adjacency) for scope, event in events.items()}
    for kind in dict.fromkeys(kinds.values()):
        scopes = [scope for scope in SCOPES if kinds[scope] == kind]
        yield events[scopes[0]], scopes


def plant(interactions: Interactions, user: int) -> Interactions:
    """Data with every field of one user changed."""
    ratings = interactions.ratings.toarray()
    ratings[user] = np.where(ratings[user] > 0, 0.0, 4.5)
    changed = shifted(interactions, np.arange(interactions.n_users) == user)
    genres: Any = {"genres": interactions.genres, "genre_names": interactions.genre_names}
    return Interactions.of(ratings, attributes=changed, **genres)


def shifted(interactions: Interactions, users: np.ndarray | bool = True) -> dict[str, Attribute]:
    """Attributes with those of the flagged ``users`` changed, to the next category."""
    return {
        key: replace(one, codes=(one.codes + users) % len(one.categories))
        for key, one in interactions.attributes.items()
    }
