"""What every target must keep. Each check raises AssertionError naming what is broken.

Trainings are those of the target's defaults, cut to two rounds. Checks that look at a training
without changing its data share one, which their ``TargetCase`` keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from unittest import SkipTest

import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.games.draws import Draws
from fedrec_auditor.auditor.games.local import LocalGame, designed
from fedrec_auditor.auditor.judging.accounting import (
    all_accountants,
    exact_bounds,
    least_of_event,
    least_upper_bound,
)
from fedrec_auditor.auditor.testing.parts.checks import Contract, check_ranges
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.targets.components import Component, Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import DesignedPair, Population, Run, Target
from fedrec_auditor.targets.transcript import Broadcast, Round, RoundView, Uploads

USERS, ITEMS = 30, 20
POPULATION = Population(n_users=USERS, n_items=ITEMS)
_UPLOADS = 50_000
SCOPES = tuple(
    Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=horizon)
    for unit, adjacency, vantage, horizon in itertools.product(Unit, Adjacency, Vantage, Horizon)
)


def data() -> Interactions:
    """30 users of 20 items with everything a system may ask for."""
    return Synthetic(n_users=USERS, n_items=ITEMS, profile=6.0, tastes=3).load()


def train(target: Target, interactions: Interactions, seed: int = 0) -> Run:
    """A run on the interactions, with a generator of this seed."""
    return target.run(interactions, np.random.default_rng(seed))


@dataclass(frozen=True)
class TargetCase:
    """A target, and one short training of it that checks share: they must not change it.

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
        """What the shared training is given."""
        return data()

    @cached_property
    def run(self) -> Run:
        """The shared training."""

        def progress(done: int, of: int) -> None:
            self.steps.append((done, of))

        return self.short.run(self.interactions, np.random.default_rng(0), progress)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of the shared training. Raises SkipTest where nothing is sent in any."""
        rounds = tuple(self.run.transcript.rounds)
        if not rounds:
            raise SkipTest("no round of it sends anything")
        return rounds

    def received(self, number: int = -1) -> tuple[Interactions, Broadcast | None]:
        """Profiles, and the broadcast of this round. Raises SkipTest where parties send."""
        if self.run.transcript.public.parties is not None:
            raise SkipTest("its messages come from parties, not from users by themselves")
        return self.interactions, self.rounds[number].broadcast


def messages(uploads: Uploads | None) -> Iterator[tuple[str, np.ndarray]]:
    """Every component of one round as the wire carries it, (n, *shape)."""
    if uploads is not None:
        for name, component in uploads.components.items():
            yield name, component.dense(np.arange(len(component)))


def seen(one: RoundView) -> Iterator[tuple[str, np.ndarray]]:
    """All that the view of one round shows, by name."""
    for name, part in (one.broadcast or {}).items():
        yield f"broadcast {name}", part
    if one.uploads is not None:
        yield "senders", one.uploads.users
    for name, values in messages(one.uploads):
        yield f"upload {name}", values
    for name, component in (one.shuffled or {}).items():
        yield f"shuffled {name}", component.dense(np.arange(len(component)))
    for name, total in (one.aggregate or {}).items():
        yield f"sum {name}", total
    if one.senders is not None:
        yield "senders of the sum", one.senders
    for name, values in messages(one.clear):
        yield f"clear {name}", values


def view(run: Run, vantage: Vantage) -> list[dict[str, tuple[tuple[int, ...], bytes]]]:
    """All that a run shows at a vantage, as shapes and bytes: one dictionary a round."""
    rounds = run.transcript.view(vantage, np.random.default_rng(5)).rounds
    return [{name: (part.shape, part.tobytes()) for name, part in seen(one)} for one in rounds]


def check_settings(case: TargetCase) -> None:
    """No setting is taken outside its declared range."""
    check_ranges(case.target)


def check_equal_generators_give_equal_bytes(case: TargetCase) -> None:
    """Whatever the number of threads, and whether messages are kept in memory or on disk."""
    shown = view(case.run, Vantage.SERVER)
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    again = case.short.run(data(), rng, compute=Compute(threads=2, memory=0))
    assert shown == view(again, Vantage.SERVER), "the same seed gave another transcript"
    draws = rng.bit_generator.state != before
    if draws and any(shown):
        other = view(train(case.short, data(), seed=1), Vantage.SERVER)
        assert shown != other, "another seed gave the same"


def check_a_run_leaves_its_input_alone(case: TargetCase) -> None:
    """Neither training nor scoring changes the interactions."""
    case.target.score(case.run.model, case.interactions, np.arange(3))
    assert case.interactions.digest() == data().digest(), "the interactions were changed"


def check_senders_and_progress(case: TargetCase) -> None:
    """Senders ascend and exist; progress is told at least once a round, in order."""
    transcript = case.run.transcript
    public, total = transcript.public, len(case.steps)
    assert case.steps == [(n + 1, total) for n in range(total)], f"progress: {case.steps}"
    assert total >= max(1, len(transcript.rounds)), f"{total} steps were told"
    assert (public.n_users, public.n_items) == (USERS, ITEMS), "another population is public"
    assert public.algorithm == case.target.name, f"it is called {public.algorithm}"
    for one in transcript.rounds:
        for uploads in (one.uploads, one.clear):
            if uploads is not None:
                assert (np.diff(uploads.users) > 0).all(), "senders do not ascend"
                assert len(uploads.users) == 0 or uploads.users[0] >= 0, "a sender below 0"
                last = uploads.users.max(initial=-1)
                assert last < (public.parties or USERS), f"a sender {last} who does not exist"


_OF_THE_MODEL = (Kind.GRADIENT, Kind.CHANGE, Kind.MODEL)


def _assert_equal_but_for_rounding(one: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Equal shapes and numbers, but for their last bits, which the order of a sum decides.

    A processor's linear algebra sums in an order that depends on how many rows it is given.
    """
    last = np.finfo(one.dtype).eps if np.issubdtype(one.dtype, np.floating) else 0.0
    scale = np.abs(other).max(initial=0) if last else 0
    np.testing.assert_allclose(one, other, rtol=0.0, atol=16 * last * scale, err_msg=name)


def check_components(case: TargetCase) -> None:
    """Shapes, sums and parts of every component agree with what the wire carries.

    What says that it is a model, a change or a gradient of the broadcast has the shape of a part.
    """
    for one in case.rounds:
        shapes = [np.shape(part) for part in (one.broadcast or {}).values()]
        for name, component in one.uploads.components.items():
            if component.kind in _OF_THE_MODEL and one.broadcast is not None:
                assert component.shape in shapes, f"{name} is a {component.kind} of no part"
            whole = component.dense(np.arange(len(component)))
            assert whole.shape == (len(component), *component.shape), name
            total = whole.sum(axis=0, dtype=np.float64)
            scale = np.abs(whole).sum(axis=0, dtype=np.float64).max(initial=0.0)
            np.testing.assert_allclose(component.total(), total, rtol=1e-5, atol=1e-6 * scale)
            some = np.arange(len(component))[::-2]
            _assert_equal_but_for_rounding(component.dense(some), whole[some], name)
            taken: Component = component.take(some)
            _assert_equal_but_for_rounding(taken.dense(np.arange(len(taken))), whole[some], name)
            meant = (component.kind, component.rate)
            assert (taken.kind, taken.rate) == meant, f"a part of {name} says another thing"


def check_scores(case: TargetCase) -> None:
    """Scores are finite, cover all items, and do not depend on who else is asked for."""
    every = case.target.score(case.run.model, case.interactions, np.arange(USERS))
    assert every.shape == (USERS, ITEMS), f"scores of shape {every.shape}"
    assert np.isfinite(every).all(), "scores are not finite"
    some = np.array([5, 2])
    alone = case.target.score(case.run.model, case.interactions, some)
    np.testing.assert_allclose(alone, every[some], rtol=1e-4, atol=1e-5)


def check_scoped_claims(case: TargetCase) -> None:
    """The first scoped claim of every claim stands in the claim's own scope; others say why."""
    scoped_claims = case.target.scoped_claims(POPULATION)
    assert scoped_claims, "no claim is stated"
    for claim in {id(q.claim): q.claim for q in scoped_claims}.values():
        first = next(q for q in scoped_claims if q.claim == claim)
        assert first.scope == claim.scope, f"first asked in [{first.scope}], not [{claim.scope}]"
        assert len(claim.source) > 15, f"too short a source: {claim.source!r}"
        assert len(claim.statement) > 15, f"too short a statement: {claim.statement!r}"
    for scoped in scoped_claims:
        if scoped.scope != scoped.claim.scope:
            assert scoped.note, "say why a reader would ask this"


def check_exact_bounds_stay_below_proofs(case: TargetCase) -> None:
    """No exact lower bound exceeds the least proved upper bound."""
    accountants = all_accountants()
    lowers = list(exact_bounds(case.target, POPULATION))
    if not lowers:
        raise SkipTest("no exact lower bound is known in the scope of any scoped claim")
    for lower in lowers:
        upper = least_upper_bound(case.target, lower.scope, POPULATION, lower.delta, accountants)
        assert upper is not None, f"no upper bound in [{lower.scope}]"
        assert lower.epsilon <= upper.epsilon * (1 + 1e-9), (
            f"{lower.epsilon} is shown and {upper.epsilon} proved in [{lower.scope}]"
        )


def check_no_scope_is_charged_less_than_any_within_it_is_known_to_lose(case: TargetCase) -> None:
    """At delta 0, over all scopes, whether or not a scoped claim asks about them."""
    lost: dict[Scope, float] = {}
    for scope in SCOPES:
        mechanism = case.target.mechanism(scope, POPULATION)
        if mechanism is not None:
            lost[scope] = exact_lower_bound(mechanism, scope).epsilon
    if not lost:
        raise SkipTest("no mechanism is known in any scope")
    for event, (first, *others) in _events(case.target):
        bound = least_of_event(event, first, 0.0, all_accountants())
        charged = math.inf if bound is None else bound.epsilon
        for wide, (scope, epsilon) in itertools.product((first, *others), lost.items()):
            assert not wide.covers(scope) or epsilon <= charged * (1 + 1e-9), (
                f"{charged} is charged in [{wide}], {epsilon} lost in [{scope}]"
            )


def check_exact_bounds_are_of_what_is_sent(case: TargetCase) -> None:
    """Nothing is known to be lost of an attribute, or of a rating's value, that changes no message.

    Changed for all users, with all randomness as it was, in the first round.
    """
    target = case.target
    profiles, broadcast = case.received(0)
    values = profiles.ratings.copy()
    values.data[:] = np.where(values.data > 2, 1.0, 5.0)
    before = dict(messages(target.upload(profiles, broadcast, np.random.default_rng(3))))
    unsent = []
    for changed, unit in (
        (replace(profiles, attributes=_shifted(profiles)), Unit.ATTRIBUTE),
        (replace(profiles, ratings=values), Unit.RATING),
    ):
        after = dict(messages(target.upload(changed, broadcast, np.random.default_rng(3))))
        if all(np.array_equal(before[name], after[name]) for name in before):
            unsent.append(unit)
    if not unsent:
        raise SkipTest("attributes and values of ratings both change its messages")
    for scope in SCOPES:
        if scope.unit in unsent and scope.adjacency is Adjacency.REPLACE:
            mechanism = target.mechanism(scope, POPULATION)
            assert mechanism is None, f"{mechanism} is stated in [{scope}], which is not sent"


def check_events_compose_in_every_scope(case: TargetCase) -> None:
    """Every scope has an event that some accountant reads, and twice of it costs no less.

    Every accountant that reads it says so of both ways to write it twice, at one price.
    """
    accountants = all_accountants()
    for event, (scope, *_) in _events(case.target):
        readers = [a for a in accountants if a.supports(event)]
        assert readers, f"no accountant reads {event} in [{scope}]"
        for accountant in readers:
            prices = []
            for priced in (event, SelfComposedDpEvent(event, 2), ComposedDpEvent([event, event])):
                assert accountant.supports(priced), f"{accountant} does not read {priced}"
                prices.append(accountant.bound(priced, delta=1e-6, scope=scope).epsilon)
            once, twice, both = prices
            said = f"{accountant} charges {once} for {event} in [{scope}], and twice {twice}"
            assert once <= twice * (1 + 1e-9), said
            assert math.isclose(twice, both, rel_tol=1e-6), f"{said}, or {both}"


def _events(target: Target) -> Iterator[tuple[DpEvent, list[Scope]]]:
    """What is charged, with all scopes of one adjacency in which that is."""
    events = {scope: target.event(scope, POPULATION) for scope in SCOPES}
    kinds = {scope: (repr(event), scope.adjacency) for scope, event in events.items()}
    for kind in dict.fromkeys(kinds.values()):
        scopes = [scope for scope in SCOPES if kinds[scope] == kind]
        yield events[scopes[0]], scopes


def sampled_bound(target: Target, population: Population, pair: DesignedPair) -> Bound:
    """What the local game reads of 50,000 messages of either history, at 1 - 1e-9."""
    game = LocalGame()
    setting = designed(target, population, pair, np.random.default_rng(7))
    chunk = setting.chunk or game.chunk
    draws = Draws(simulation=setting.simulation, name=game.name, chunk=chunk)
    fitting, measuring = np.random.default_rng(7).spawn(2)
    worlds, _ = game.worlds(draws, setting, pair.scope, _UPLOADS, fitting)
    return AllThresholds().bound(
        worlds, delta=0.0, confidence=1 - 1e-9, samples=_UPLOADS, rng=measuring
    )


def check_sampled_uploads_agree_with_the_stated_distribution(case: TargetCase) -> None:
    """The client's code, sampled, agrees with the distribution that the target states for it.

    At confidence 1 - 1e-9 the bound must not exceed the stated distribution's; and with 50,000
    uploads a world it must reach at least 0.8 of it (or 6.0 where it is larger): else the code does
    not do what it says.
    """
    pairs = case.target.designed_pairs()
    if not pairs:
        raise SkipTest("it designs no pair of histories")
    for pair in pairs:
        population = Population(n_users=USERS, n_items=pair.profiles.n_items)
        found = sampled_bound(case.target, population, pair)
        mechanism = pair.target.mechanism(pair.scope, population)
        assert mechanism is not None, f"no distribution is stated in [{pair.scope}]"
        exact = exact_lower_bound(mechanism, pair.scope).epsilon
        least = min(0.8 * exact, 6.0)
        assert least <= found.epsilon <= exact, f"{found.epsilon} measured, {exact} stated"


def check_a_batch_of_clients_uploads_what_they_would_one_by_one(case: TargetCase) -> None:
    """The same generator, going on from client to client, gives the same two messages of each."""
    assert_one_by_one(case.target, *case.received())


def assert_one_by_one(target: Target, profiles: Interactions, broadcast: Broadcast | None) -> None:
    """Raise AssertionError unless a batch of these profiles uploads what each would alone."""
    rng = np.random.default_rng(3)
    whole = dict(messages(target.upload(profiles, broadcast, rng, size=2)))
    rng = np.random.default_rng(3)
    single = [
        dict(messages(target.upload(profiles.take(np.array([i])), broadcast, rng, size=2)))
        for i in range(profiles.n_users)
    ]
    for name, values in whole.items():
        parts = np.concatenate([one[name] for one in single])
        # Single precision, summed in another order.
        np.testing.assert_allclose(parts, values, err_msg=name, rtol=1e-5, atol=1e-6)


def check_repeated_uploads_follow_profile_by_profile(case: TargetCase) -> None:
    """Several uploads a profile are of the first profile, then of the second, and so on."""
    profiles, broadcast = case.received()
    uploads = case.target.upload(profiles, broadcast, np.random.default_rng(4), size=3)
    np.testing.assert_array_equal(uploads.users, np.repeat(np.arange(profiles.n_users), 3))


def check_a_message_depends_on_its_sender_only(case: TargetCase) -> None:
    """A secret planted in all fields of one user changes nobody else's first message."""
    _, broadcast = case.received(0)
    one = case.rounds[0]
    two = train(case.short, plant(data(), 4)).transcript.rounds[0]
    np.testing.assert_array_equal(one.uploads.users, two.uploads.users)
    others = np.flatnonzero(one.uploads.users != 4)
    for name, component in one.uploads.components.items():
        _assert_equal_but_for_rounding(
            component.dense(others), two.uploads.components[name].dense(others), name
        )
    for name, part in (broadcast or {}).items():
        _assert_equal_but_for_rounding(part, (two.broadcast or {})[name], name)


def check_what_no_system_reads_is_in_no_view(case: TargetCase) -> None:
    """Identifiers, titles and the times of interactions leave every view as it is."""
    interactions = data()
    planted = replace(
        interactions,
        users=interactions.users + 4_611_686,
        titles=tuple(f"secret {n}" for n in range(ITEMS)),
        timestamps=None,
    )
    other = train(case.short, planted)
    for vantage in Vantage:
        assert view(case.run, vantage) == view(other, vantage), f"other at {vantage}"


_SEEN_BY = {
    "uploads": (Vantage.SERVER,),
    "shuffled": (Vantage.SHUFFLED,),
    "aggregate": (Vantage.AGGREGATE,),
    "clear": (Vantage.SERVER, Vantage.AGGREGATE),
}


def check_views_hold_what_their_vantage_sees_and_no_more(case: TargetCase) -> None:
    """Messages linked for the server, unlinked in the shuffle, summed in the aggregate."""
    transcript = case.run.transcript
    for vantage in Vantage:
        shown = transcript.view(vantage, np.random.default_rng(0))
        for one in shown.rounds:
            for part, vantages in _SEEN_BY.items():
                assert getattr(one, part) is None or vantage in vantages, f"{part} at {vantage}"
            summed = vantage is Vantage.AGGREGATE
            assert (one.senders is not None) == summed, f"who took part in a sum, at {vantage}"
        if vantage is Vantage.RELEASE:
            models = [one.broadcast for one in shown.rounds]
            assert models == [transcript.release], "the release shows more than its model"


def check_the_shuffle_hides_who_sent_what(case: TargetCase) -> None:
    """The batch holds the messages that were sent, in an order that the senders do not set."""
    rounds, transcript = case.rounds, case.run.transcript
    batches = [transcript.view(Vantage.SHUFFLED, np.random.default_rng(s)).rounds for s in (1, 2)]
    for number, one in enumerate(rounds):
        first, second = (batch[number].shuffled or {} for batch in batches)
        moved = []
        for name, component in one.uploads.components.items():
            x, y = (part[name].dense(np.arange(len(part[name]))) for part in (first, second))
            whole, mean = component.total(), x.mean(axis=0, dtype=np.float64)
            slack = 1e-6 * np.abs(whole).max(initial=0.0) + 1e-12
            np.testing.assert_allclose(mean, whole / max(len(component), 1), rtol=1e-5, atol=slack)
            distinct = len(np.unique(x.reshape(len(x), -1), axis=0))
            moved.append(distinct < 8 or not np.array_equal(x, y))
        assert all(moved), "two shuffles left the messages in the same order"


def check_odd_data_are_handled_or_refused(case: TargetCase) -> None:
    """Strange shapes end in a training or in one InputError that says what was expected."""
    for name, interactions in odd(data()).items():
        refusal, run = "", None
        try:
            run = train(case.short, interactions)
        except InputError as error:
            refusal = str(error)
        if run is None:
            assert refusal.startswith("Expected"), f"{name}: {refusal}"
            assert ". " in refusal, f"{name}: no remedy in: {refusal}"
            assert name not in _PLAIN, f"{name} must be handled, got: {refusal}"
        else:
            _check_finite(case.target, run, interactions, name)
    _check_finite(case.target, case.run, case.interactions, "explicit")


def _check_finite(target: Target, run: Run, interactions: Interactions, name: str) -> None:
    scores = target.score(run.model, interactions, np.arange(interactions.n_users))
    assert scores.shape == interactions.ratings.shape, f"{name}: scores of {scores.shape}"
    assert np.isfinite(scores).all(), f"{name}: scores are not finite"
    for one in run.transcript.view(Vantage.SERVER).rounds:
        for part, values in seen(one):
            assert np.isfinite(values).all(), f"{name}: {part} is not finite"


_PLAIN = ("an idle user", "a user with all items", "implicit")


def odd(full: Interactions) -> dict[str, Interactions]:
    """Data at the borders of what a system may meet."""
    ratings = full.ratings.toarray()
    idle, busy = ratings.copy(), ratings.copy()
    idle[3] = 0
    busy[3] = np.maximum(busy[3], 3)
    of = partial(_rated, full, full.attributes)
    return {
        "an idle user": of(idle),
        "a user with all items": of(busy),
        "implicit": of((ratings > 0) * 1.0),
        "no attributes": Interactions.of(ratings),
        "one user": full.take(np.array([2])),
        "one item": Interactions.of(ratings[:, :1] + 1.0, attributes=full.attributes),
        "nothing": Interactions.of(np.zeros((4, 5))),
        "everything": Interactions.of(np.full((4, 5), 2.0)),
    }


def _rated(full: Interactions, attributes: Mapping[str, Attribute], ratings: Any) -> Interactions:
    return Interactions.of(
        ratings, attributes=attributes, genres=full.genres, genre_names=full.genre_names
    )


def plant(interactions: Interactions, user: int) -> Interactions:
    """The same data with every field of one user changed."""
    ratings = interactions.ratings.toarray()
    ratings[user] = np.where(ratings[user] > 0, 0.0, 4.5)
    shifted = _shifted(interactions, np.arange(interactions.n_users) == user)
    return _rated(interactions, shifted, ratings)


def _shifted(interactions: Interactions, users: np.ndarray | bool = True) -> dict[str, Attribute]:
    """Attributes with those of the flagged ``users`` changed, to the next category."""
    return {
        key: replace(one, codes=(one.codes + users) % len(one.categories))
        for key, one in interactions.attributes.items()
    }


class TargetContract(Contract, suite=__name__):
    """What every target must keep; a subject is a ``TargetCase``.

    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems.fcf import Fcf
    >>> TargetContract.check(TargetCase(Fcf(rounds=2)))
    ('check_sampled_uploads_agree_with_the_stated_distribution: it designs no pair of histories',)
    """
