"""Tests that every target must pass, as a class whose subclass sets ``subject`` to a
``TargetCase``.

A target is a federated recommender under audit. Trainings use its default settings and at most two
rounds.
"""

# Tests that do not change the data share one training, which their ``TargetCase`` stores.

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
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.games.canary_game import RunSampler
from fedrec_auditor.auditor.games.local import LocalGame, make_designed_setup
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.judging.accounting import compute_exact_bounds, list_accountants
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import DesignedPair, Population, Target, TrainingRun
from fedrec_auditor.targets.transcript import Broadcast, Round, RoundView, Uploads

# Numbers of users and items in the data of the tests, and all scopes that a claim may have.
USERS, ITEMS = 30, 20
TEST_POPULATION = Population(n_users=USERS, n_items=ITEMS)
ALL_SCOPES = tuple(
    Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=horizon)
    for unit, adjacency, vantage, horizon in itertools.product(Unit, Adjacency, Vantage, Horizon)
)
_N_UPLOADS = 50_000


def make_interactions() -> Interactions:
    """Generates synthetic users' interactions and attributes for tests: 30 users and 20 items.

    All fields of data that a system may read are filled.
    """
    return Synthetic(n_users=USERS, n_items=ITEMS, profile=6.0, tastes=3).load()


def train(target: Target, interactions: Interactions, seed: int = 0) -> TrainingRun:
    """Trains ``target``, a system under audit, with a random generator seeded by ``seed``."""
    return target.run(interactions, np.random.default_rng(seed))


@dataclass(frozen=True)
class TargetCase:
    """A target (system under audit), and one short training of it that several tests share.

    ``target``: the target under test.
    ``reported_progress``: pairs (finished rounds, total rounds) that the training reported as its
        progress.

    No test may change the training.
    """

    target: Target
    reported_progress: list[tuple[int, int]] = field(default_factory=list, init=False)

    @cached_property
    def short_target(self) -> Target:
        """Copy of the target that trains for at most two rounds."""
        return self.target.limit_rounds(2)

    @cached_property
    def interactions(self) -> Interactions:
        """Users' interactions on which the target is trained."""
        return make_interactions()

    @cached_property
    def run(self) -> TrainingRun:
        """Result of the shared training: its transcript (all messages) and its model."""
        rng = np.random.default_rng(0)
        data = self.interactions
        return self.short_target.run(data, rng, lambda *step: self.reported_progress.append(step))

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Rounds, with their messages, of the training that several tests share.

        Skips the calling test if no client sends a message in any round.
        """
        return tuple(self.run.transcript.rounds) or pytest.skip("no round sends anything")

    def get_round_inputs(self, number: int = -1) -> tuple[Interactions, Broadcast | None]:
        """Returns the users' data, and the model that clients receive in one round of the shared
        training.

        ``number``: index of the round in ``rounds``.

        The model is None if nothing is broadcast. If messages come from silos and not from users,
        the calling test is skipped.
        """
        if self.run.transcript.public.n_silos is not None:
            pytest.skip("its messages come from silos, not from single users")
        return self.interactions, self.rounds[number].broadcast


class TargetContract:
    """Base class of tests that every target (system under audit) must pass; a subclass sets
    ``subject``.

    ``subject``: the target under test, as a ``TargetCase``.

    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
    >>> class TestFcf(TargetContract):
    ...     subject = TargetCase(Fcf(rounds=2))
    """

    subject: TargetCase

    def test_scoped_claims(self) -> None:
        """Checks the scopes (unit, adjacency, adversary, period) in which each claim is judged.

        - The first scope is the scope that the claim states.
        - For any other scope, a note explains why the claim is applied to it.
        - The source and the statement of a claim have more than 15 characters each.
        """
        get_claims = self.subject.target.get_claims(TEST_POPULATION)
        assert get_claims, "the target states no claim"
        for claim in {id(q.claim): q.claim for q in get_claims}.values():
            first = next(q for q in get_claims if q.claim == claim)
            assert first.scope == claim.scope, f"the first scope is [{first.scope}], not [{claim}]"
            for words in (claim.source, claim.statement):
                assert len(words) > 15, f"too short: {words!r}"
        for scoped in get_claims:
            assert scoped.scope == scoped.claim.scope or scoped.note, "Give a note for this scope."

    def test_exact_bounds_stay_below_proofs(self) -> None:
        """Checks that no exact lower bound on epsilon exceeds the smallest proved upper bound."""
        target = self.subject.target
        for lower in compute_exact_bounds(target, TEST_POPULATION):
            query = (target, lower.scope, TEST_POPULATION, lower.delta, list_accountants())
            upper = accounting.find_upper_bound(*query)
            assert upper is not None, f"no upper bound in [{lower.scope}]"
            assert lower.epsilon <= upper.epsilon * (1 + 1e-9), (
                f"exact {lower.epsilon} exceeds proved {upper.epsilon} in [{lower.scope}]"
            )

    def test_wider_scopes_prove_no_smaller_epsilon(self) -> None:
        """Checks that a scope's proved epsilon is at least the exact epsilon of every narrower
        scope.

        A scope is the protected unit, adjacency, adversary and period of a claim. The test is at
        delta 0, for all scopes.
        """
        target = self.subject.target
        known = {scope: target.get_mechanism(scope, TEST_POPULATION) for scope in ALL_SCOPES}
        lost = {s: find_exact_bound(m, s).epsilon for s, m in known.items() if m is not None}
        for event, scopes in _iter_events(target) if lost else ():
            bound = accounting.find_event_bound(event, scopes[0], 0.0, list_accountants())
            charged = math.inf if bound is None else bound.epsilon
            for wide, (scope, epsilon) in itertools.product(scopes, lost.items()):
                assert not wide.covers(scope) or epsilon <= charged * (1 + 1e-9), (
                    f"{charged} is charged in [{wide}], but {scope} loses {epsilon}"
                )

    def test_events_compose_in_every_scope(self) -> None:
        """Checks the epsilon that accountants compute for one and for two copies of the target's
        events.

        An event describes the target's mechanisms in one scope, in the form of dp-accounting.

        - At least one accountant supports each event.
        - The epsilon of two copies is not below the epsilon of one copy.
        - ``SelfComposedDpEvent`` and ``ComposedDpEvent``, two notations for two copies, give one
          epsilon.
        """
        for event, (scope, *_) in _iter_events(self.subject.target):
            readers = [a for a in list_accountants() if a.supports(event)]
            assert readers, f"no accountant reads {event} in [{scope}]"
            twice = (SelfComposedDpEvent(event, 2), ComposedDpEvent([event, event]))
            for reader in readers:
                assert all(map(reader.supports, twice)), f"{reader} does not read {twice}"
                once, folded, listed = (
                    reader.bound(each, delta=1e-6, scope=scope).epsilon for each in (event, *twice)
                )
                prices = f"{reader} charges {once} for {event} in [{scope}], twice {folded}"
                assert once <= folded * (1 + 1e-9), prices
                assert math.isclose(folded, listed, rel_tol=1e-6), f"{prices}, or {listed}"

    def test_sampled_uploads_agree_with_the_stated_distribution(self) -> None:
        """Checks that messages of the client's code follow the distribution that the target states.

        Let E be the epsilon of the stated distribution for two inputs. The lower bound from 50,000
        messages per input, at confidence 1 - 1e-9, must lie between min(0.8 E, 6.0) and E.
        """
        for pair in self.subject.target.design_pairs():
            population = Population(n_users=USERS, n_items=pair.profiles.n_items)
            measured = measure_bound(self.subject.target, population, pair).epsilon
            mechanism = pair.target.get_mechanism(pair.scope, population)
            assert mechanism is not None, f"no distribution is stated in [{pair.scope}]"
            exact = find_exact_bound(mechanism, pair.scope).epsilon
            epsilons = f"{measured} measured, {exact} stated"
            assert min(0.8 * exact, 6.0) <= measured <= exact, epsilons

    def test_equal_generators_give_equal_bytes(self) -> None:
        """Checks that equally seeded generators give byte-identical messages in all rounds.

        The number of threads and the place of storage must not matter. A different seed must give
        different messages if the training uses the generator.
        """
        short = self.subject.short_target
        transcript = get_view_bytes(self.subject.run, Vantage.SERVER)
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        run = short.run(make_interactions(), rng, compute=Machine(threads=2, memory=0))
        again = get_view_bytes(run, Vantage.SERVER)
        assert transcript == again, "the same seed gave another transcript"
        if any(transcript) and rng.bit_generator.state != before:
            other = get_view_bytes(train(short, make_interactions(), seed=1), Vantage.SERVER)
            assert transcript != other, "another seed gave the same transcript"

    def test_runs_do_not_change_their_input(self) -> None:
        """Checks that neither training nor scoring changes the users' interactions."""
        case = self.subject
        case.target.score(case.run.model, case.interactions, np.arange(3))
        digest = make_interactions().digest()
        assert case.interactions.digest() == digest, "the interactions were changed"

    def test_senders_and_progress(self) -> None:
        """Checks that senders are existing users in ascending order, and that progress is reported
        in order, at least once per round.

        The public numbers of users and items, and the name of the algorithm, must be those of the
        training.
        """
        transcript, steps = self.subject.run.transcript, self.subject.reported_progress
        public, total = transcript.public, len(steps)
        assert steps == [(n + 1, total) for n in range(total)], f"progress: {steps}"
        assert total >= max(1, len(transcript.rounds)), f"{total} steps were reported"
        assert (public.n_users, public.n_items) == (USERS, ITEMS), "another population is public"
        assert public.algorithm == self.subject.target.name, f"its name is {public.algorithm}"
        for one in transcript.rounds:
            for uploads in (one.uploads, one.cleartext):
                users = np.array([], int) if uploads is None else uploads.users
                assert (np.diff(users) > 0).all(), "senders do not ascend"
                assert np.isin(users, np.arange(public.n_silos or USERS)).all(), "an unknown sender"

    def test_batches_send_what_single_clients_send(self) -> None:
        """Checks that a batch of clients sends the messages that the clients send one by one, with
        equally seeded generators.

        If clients send several uploads, these are ordered by client.
        """
        target, (profiles, broadcast) = self.subject.target, self.subject.get_round_inputs()
        assert_batch_sends_same(target, profiles, broadcast)
        rng = np.random.default_rng(4)
        uploads = target.upload(profiles, broadcast, rng, messages_per_client=3)
        np.testing.assert_array_equal(uploads.users, np.repeat(np.arange(profiles.n_users), 3))

    def test_a_message_depends_on_its_sender_only(self) -> None:
        """Checks that a change of one user's data changes no other user's first-round message."""
        self.subject.get_round_inputs(0)
        first = self.subject.rounds[0]
        run = train(self.subject.short_target, change_all_user_data(make_interactions(), 4))
        second = run.transcript.rounds[0]
        np.testing.assert_array_equal(first.uploads.users, second.uploads.users)
        others = np.flatnonzero(first.uploads.users != 4)
        for name, component in first.uploads.components.items():
            planted = second.uploads.components[name].to_dense(others)
            _assert_equal_but_for_rounding(component.to_dense(others), planted, name)
        for name, part in (first.broadcast or {}).items():
            _assert_equal_but_for_rounding(part, (second.broadcast or {})[name], name)

    def test_unread_columns_change_no_view(self) -> None:
        """Checks that identifiers, titles and timestamps of the data do not change any message.

        The messages are compared as they appear to each adversary (server, other clients, ...).
        """
        planted = replace(
            make_interactions(),
            users=make_interactions().users + 4_611_686,
            titles=tuple(f"secret {n}" for n in range(ITEMS)),
            timestamps=None,
        )
        run, other = self.subject.run, train(self.subject.short_target, planted)
        for where in Vantage:
            assert get_view_bytes(run, where) == get_view_bytes(other, where), f"other at {where}"


def measure_bound(target: Target, population: Population, pair: DesignedPair) -> Bound:
    """Measures a lower bound on epsilon, at confidence 1 - 1e-9, from 50,000 messages for each of
    two histories.

    ``target``: the system that sends the messages.
    ``population``: numbers of users and items.
    ``pair``: two histories and a broadcast that are designed for the target.
    """
    game = LocalGame()
    setting = make_designed_setup(target, population, pair, np.random.default_rng(7))
    chunk = setting.chunk_size or game.chunk_size
    draws = RunSampler(simulation=setting.simulation, chunk_key=game.name, chunk_size=chunk)
    fitting, measuring = np.random.default_rng(7).spawn(2)
    worlds, _ = game.make_worlds(draws, setting, pair.scope, _N_UPLOADS, fitting)
    return AllThresholds().measure_bound(
        worlds, delta=0.0, confidence=1 - 1e-9, samples=_N_UPLOADS, rng=measuring
    )


def assert_batch_sends_same(
    target: Target, profiles: Interactions, broadcast: Broadcast | None
) -> None:
    """Raises AssertionError unless a batch of clients sends what each client sends alone.

    ``profiles``: data of the clients' users.
    ``broadcast``: model that the clients receive, or None.

    Messages must agree up to rounding of single precision.
    """

    def upload(group: Interactions, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Messages of all components, by name."""
        return dict(iter_messages(target.upload(group, broadcast, rng, messages_per_client=2)))

    batch, rng = upload(profiles, np.random.default_rng(3)), np.random.default_rng(3)
    single = [upload(profiles.take_users(np.array([i])), rng) for i in range(profiles.n_users)]
    for name, values in batch.items():
        parts = np.concatenate([one[name] for one in single])
        # The messages have single precision, and their sums may have another order.
        np.testing.assert_allclose(parts, values, err_msg=name, rtol=1e-5, atol=1e-6)


def _assert_equal_but_for_rounding(one: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Raises AssertionError unless two arrays are equal up to the last bits of numbers."""
    # The order of sums in linear algebra may depend on the number of rows.
    last = np.finfo(one.dtype).eps if np.issubdtype(one.dtype, np.floating) else 0.0
    scale = np.abs(other).max(initial=0) if last else 0
    np.testing.assert_allclose(one, other, rtol=0.0, atol=16 * last * scale, err_msg=name)


def iter_messages(uploads: Uploads) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and the messages (n, *shape) of every component of one round's uploads."""
    for name, component in uploads.components.items():
        yield name, component.to_dense(np.arange(len(component)))


def iter_arrays(view_of_round: RoundView) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and the values of every array that an adversary sees in one round."""
    for part in fields(view_of_round):
        value = getattr(view_of_round, part.name)
        if isinstance(value, np.ndarray):
            yield part.name, value
        elif isinstance(value, Uploads):
            yield f"senders of {part.name}", value.users
            yield from ((f"{part.name} {name}", values) for name, values in iter_messages(value))
        for name, table in value.items() if isinstance(value, Mapping) else ():
            is_sent = isinstance(table, Component)
            yield f"{part.name} {name}", table.to_dense(np.arange(len(table))) if is_sent else table


def get_view_bytes(
    run: TrainingRun, vantage: Vantage
) -> list[dict[str, tuple[tuple[int, ...], bytes]]]:
    """Returns shape and bytes of every array that an adversary sees in a run.

    ``vantage`` is the position of the adversary, such as the server. The result is one dictionary
    per round, by name of the array.
    """
    rounds = run.transcript.view(vantage, np.random.default_rng(5)).rounds
    return [{k: (array.shape, array.tobytes()) for k, array in iter_arrays(one)} for one in rounds]


def _iter_events(target: Target) -> Iterator[tuple[DpEvent, list[Scope]]]:
    """Yields each event for which epsilon is proved, with all scopes that share it."""
    # The scopes of one result have one adjacency.
    events = {scope: target.get_event(scope, TEST_POPULATION) for scope in ALL_SCOPES}
    kinds = {scope: (repr(event), scope.adjacency) for scope, event in events.items()}
    for kind in dict.fromkeys(kinds.values()):
        scopes = [scope for scope in ALL_SCOPES if kinds[scope] == kind]
        yield events[scopes[0]], scopes


def change_all_user_data(interactions: Interactions, user: int) -> Interactions:
    """Returns a copy of the data in which all ratings and attributes of one user are changed."""
    ratings = interactions.ratings.toarray()
    ratings[user] = np.where(ratings[user] > 0, 0.0, 4.5)
    changed = shift_categories(interactions, np.arange(interactions.n_users) == user)
    genres: Any = {"genres": interactions.genres, "genre_names": interactions.genre_names}
    return Interactions.create(ratings, attributes=changed, **genres)


def shift_categories(
    interactions: Interactions, users: np.ndarray | bool = True
) -> dict[str, Attribute]:
    """Returns users' attributes, by name, in which the selected users have the next category.

    ``users``: whether each user is changed (n,), or one flag for all users.
    """
    return {
        key: replace(one, codes=(one.codes + users) % len(one.categories))
        for key, one in interactions.attributes.items()
    }
