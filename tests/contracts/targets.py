"""What every target must keep. Each check raises AssertionError naming what is broken.

``tests/specimens/targets.py`` holds targets that must fail. Trainings are those of the target's
defaults, cut to two rounds where a check needs several of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.attacks.likelihood_ratio import LikelihoodRatio
from fedrec_auditor.auditor.accounting import all_accountants, exact_bounds, least_upper_bound
from fedrec_auditor.auditor.estimators.clopper_pearson import ClopperPearson
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.games import local
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Population, Run, Target
from fedrec_auditor.targets.transcript import Broadcast, RoundView, Uploads

USERS, ITEMS = 30, 20
POPULATION = Population(n_users=USERS, n_items=ITEMS)
SCOPES = tuple(
    Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=horizon)
    for unit, adjacency, vantage, horizon in itertools.product(Unit, Adjacency, Vantage, Horizon)
)
_TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}  # one by one against a batch, single precision


def data() -> Interactions:
    """30 users of 20 items with everything a system may ask for."""
    return Synthetic(n_users=USERS, n_items=ITEMS, profile=6.0, tastes=3).load()


def brief(target: Target, rounds: int = 2) -> Target:
    """The same target with a training of at most so many rounds."""
    if not any(f.name == "rounds" for f in fields(target)):  # type: ignore[arg-type]
        return target
    return replace(target, rounds=min(rounds, target.rounds))  # type: ignore[attr-defined, type-var]


def train(target: Target, interactions: Interactions, seed: int = 0) -> Run:
    return target.run(interactions, np.random.default_rng(seed))


def messages(uploads: Uploads | None) -> Iterator[tuple[str, np.ndarray]]:
    """Every component of one round as the wire carries it, (n, *shape)."""
    if uploads is not None:
        for name, component in uploads.components.items():
            yield name, component.dense(np.arange(len(component)))


def seen(glimpse: RoundView) -> Iterator[tuple[str, np.ndarray]]:
    """All that one glimpse shows, by name."""
    for name, part in (glimpse.broadcast or {}).items():
        yield f"broadcast {name}", part
    if glimpse.uploads is not None:
        yield "senders", glimpse.uploads.users
    for name, values in messages(glimpse.uploads):
        yield f"upload {name}", values
    for name, component in (glimpse.shuffled or {}).items():
        yield f"pool {name}", component.dense(np.arange(len(component)))
    for name, total in (glimpse.aggregate or {}).items():
        yield f"sum {name}", total
    for name, values in messages(glimpse.clear):
        yield f"clear {name}", values


def view(run: Run, vantage: Vantage) -> list[dict[str, np.ndarray]]:
    glimpses = run.transcript.view(vantage, np.random.default_rng(5)).rounds
    return [dict(seen(glimpse)) for glimpse in glimpses]


def same(one: list[dict[str, np.ndarray]], two: list[dict[str, np.ndarray]]) -> bool:
    return len(one) == len(two) and all(
        a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)
        for a, b in zip(one, two, strict=True)
    )


def check_equal_generators_give_equal_bytes(target: Target) -> None:
    """Whatever the number of threads, and whether messages are kept in memory or on disk."""
    short, interactions = brief(target), data()
    first, other = (view(train(short, interactions, seed), Vantage.SERVER) for seed in (1, 2))
    otherwise = Compute(threads=2, memory=0)
    run = short.run(interactions, np.random.default_rng(1), compute=otherwise)
    assert same(first, view(run, Vantage.SERVER)), "the same seed gave another transcript"
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    short.run(interactions, rng)
    draws = rng.bit_generator.state != before
    assert not (draws and any(first) and same(first, other)), "another seed gave the same"


def check_a_run_leaves_its_input_alone(target: Target) -> None:
    interactions = data()
    before = interactions.digest()
    model = train(brief(target), interactions).model
    target.score(model, interactions, np.arange(3))
    assert interactions.digest() == before


def check_senders_and_progress(target: Target) -> None:
    """Senders ascend and exist; progress is told once a round, in order."""
    steps: list[tuple[int, int]] = []
    short = brief(target)
    run = short.run(data(), np.random.default_rng(0), lambda done, of: steps.append((done, of)))
    rounds, public = run.transcript.rounds, run.transcript.public
    assert steps == [(n + 1, len(steps)) for n in range(len(steps))]
    assert len(steps) == max(1, len(rounds)) or len(steps) >= len(rounds)
    assert (public.n_users, public.n_items) == (USERS, ITEMS)
    assert public.algorithm == target.name
    for one in rounds:
        for uploads in (one.uploads, one.clear):
            if uploads is not None:
                assert (np.diff(uploads.users) > 0).all()
                assert len(uploads.users) == 0 or uploads.users[0] >= 0
                assert uploads.users.max(initial=-1) < (public.parties or USERS)


def check_components(target: Target) -> None:
    """Shapes, sums and parts of every component agree with what the wire carries."""
    for one in train(brief(target), data()).transcript.rounds:
        for name, component in one.uploads.components.items():
            whole = component.dense(np.arange(len(component)))
            assert whole.shape == (len(component), *component.shape), name
            total = whole.sum(axis=0, dtype=np.float64)
            scale = np.abs(whole).sum(axis=0, dtype=np.float64).max(initial=0.0)
            np.testing.assert_allclose(component.total(), total, rtol=1e-5, atol=1e-6 * scale)
            some = np.arange(len(component))[::-2]
            np.testing.assert_array_equal(component.dense(some), whole[some])
            taken: Component = component.take(some)
            np.testing.assert_array_equal(taken.dense(np.arange(len(taken))), whole[some])


def check_scores(target: Target) -> None:
    short, interactions = brief(target), data()
    model = train(short, interactions).model
    every = target.score(model, interactions, np.arange(USERS))
    assert every.shape == (USERS, ITEMS)
    assert np.isfinite(every).all()
    some = np.array([5, 2])
    np.testing.assert_allclose(
        target.score(model, interactions, some), every[some], rtol=1e-4, atol=1e-5
    )


def check_questions(target: Target) -> None:
    """The first question of every claim stands in the claim's own scope; others say why."""
    questions = target.questions(POPULATION)
    assert questions
    for claim in {id(q.claim): q.claim for q in questions}.values():
        first = next(q for q in questions if q.claim == claim)
        assert first.scope == claim.scope
        assert len(claim.source) > 15
        assert len(claim.statement) > 15
    for question in questions:
        if question.scope != question.claim.scope:
            assert question.note, "say why a reader would ask this"


def check_exact_bounds_stay_below_proofs(target: Target) -> None:
    accountants = all_accountants()
    for lower in exact_bounds(target, POPULATION):
        upper = least_upper_bound(target, lower.scope, POPULATION, lower.delta, accountants)
        assert upper is not None
        assert lower.epsilon <= upper.epsilon * (1 + 1e-9)


def check_no_scope_is_charged_less_than_any_within_it_is_known_to_lose(target: Target) -> None:
    """At delta 0, over all scopes, whether or not a question asks about them."""
    lost: dict[Scope, float] = {}
    for scope in SCOPES:
        mechanism = target.mechanism(scope, POPULATION)
        if mechanism is not None:
            lost[scope] = exact_lower_bound(mechanism, scope).epsilon
    accountants, found = all_accountants(), dict[tuple[str, Adjacency], float]()
    for wide in SCOPES if lost else ():
        event = target.event(wide, POPULATION)
        key = (repr(event), wide.adjacency)
        if key not in found:
            readers = [a for a in accountants if a.supports(event)]
            epsilons = (a.bound(event, delta=0.0, scope=wide).epsilon for a in readers)
            found[key] = min(epsilons, default=math.inf)
        for scope, epsilon in lost.items():
            assert not wide.covers(scope) or epsilon <= found[key] * (1 + 1e-9), (wide, scope)


def check_exact_bounds_are_of_what_is_sent(target: Target) -> None:
    """Nothing is known to be lost of an attribute, or of a rating's value, that changes no message.

    Changed for all users, with all coins as they were, in the first round.
    """
    received = _received(target, 0)
    if received is None:
        return
    profiles, broadcast = received
    values = profiles.ratings.copy()
    values.data[:] = np.where(values.data > 2, 1.0, 5.0)
    attributes = {
        key: Attribute(codes=(one.codes + 1) % len(one.categories), categories=one.categories)
        for key, one in profiles.attributes.items()
    }
    before = dict(messages(target.upload(profiles, broadcast, np.random.default_rng(3))))
    for changed, unit in (
        (replace(profiles, attributes=attributes), Unit.ATTRIBUTE),
        (replace(profiles, ratings=values), Unit.RATING),
    ):
        after = dict(messages(target.upload(changed, broadcast, np.random.default_rng(3))))
        if all(np.array_equal(before[name], after[name]) for name in before):
            for scope in SCOPES:
                if scope.unit is unit and scope.adjacency is Adjacency.REPLACE:
                    assert target.mechanism(scope, POPULATION) is None, scope


def check_weaker_vantages_are_never_proved_worse(target: Target) -> None:
    accountants = all_accountants()
    for question in target.questions(POPULATION):
        epsilons = []
        for vantage in (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE, Vantage.RELEASE):
            scope = replace(question.scope, vantage=vantage)
            bound = least_upper_bound(target, scope, POPULATION, 1e-6, accountants)
            assert bound is not None
            epsilons.append(bound.epsilon)
        assert all(
            after <= before * (1 + 1e-9)
            for before, after in itertools.pairwise(epsilons)
            if not math.isinf(before)
        )


def check_events_compose_in_every_scope(target: Target) -> None:
    """Every scope has an event, and no accountant that reads it fails on twice of it."""
    accountants = all_accountants()
    for scope in SCOPES:
        event = target.event(scope, POPULATION)
        for twice in (SelfComposedDpEvent(event, 2), ComposedDpEvent([event, event])):
            for accountant in accountants:
                accountant.supports(twice)


def check_sampled_uploads_agree_with_the_stated_law(target: Target) -> None:
    """The client's code, sampled, agrees with the law that the target states for it.

    At confidence 1 - 1e-9 the bound must not exceed the stated law's; and with 50,000 uploads a
    world it must reach at least 0.8 of it (or 6.0 where it is larger): else the code does not do
    what it says.
    """
    for challenge in target.challenges():
        game = local.play(
            challenge,
            LikelihoodRatio(),
            ClopperPearson(),
            name="likelihood-ratio",
            samples=50_000,
            delta=0.0,
            confidence=1 - 1e-9,
            row_confidence=0.95,
            rng=np.random.default_rng(7),
        )
        small = Population(n_users=USERS, n_items=challenge.profiles.n_items)
        mechanism = challenge.target.mechanism(challenge.scope, small)
        assert mechanism is not None
        exact = exact_lower_bound(mechanism, challenge.scope).epsilon
        assert game.bound.epsilon <= exact
        assert game.bound.epsilon >= min(0.8 * exact, 6.0)


def check_a_batch_of_clients_uploads_what_they_would_one_by_one(target: Target) -> None:
    """The same generator, going on from client to client, gives the same messages."""
    received = _received(target)
    if received is None:
        return
    profiles, broadcast = received
    rng = np.random.default_rng(3)
    whole = dict(messages(target.upload(profiles, broadcast, rng)))
    rng = np.random.default_rng(3)
    single = [
        dict(messages(target.upload(profiles.take(np.array([i])), broadcast, rng)))
        for i in range(profiles.n_users)
    ]
    for name, values in whole.items():
        parts = np.concatenate([one[name] for one in single])
        np.testing.assert_allclose(parts, values, err_msg=name, **_TOLERANCE)


def check_repeated_uploads_follow_profile_by_profile(target: Target) -> None:
    received = _received(target)
    if received is None:
        return
    profiles, broadcast = received
    uploads = target.upload(profiles, broadcast, np.random.default_rng(4), size=3)
    np.testing.assert_array_equal(uploads.users, np.repeat(np.arange(profiles.n_users), 3))


def check_a_message_depends_on_its_sender_only(target: Target) -> None:
    """A secret planted in all fields of one user changes nobody else's first message."""
    short, interactions = brief(target), data()
    before = train(short, interactions).transcript
    after = train(short, plant(interactions, 4)).transcript
    if before.public.parties is not None or not before.rounds:
        return
    one, two = before.rounds[0], after.rounds[0]
    np.testing.assert_array_equal(one.uploads.users, two.uploads.users)
    others = np.flatnonzero(one.uploads.users != 4)
    for name, component in one.uploads.components.items():
        np.testing.assert_array_equal(
            component.dense(others), two.uploads.components[name].dense(others), err_msg=name
        )
    for name, part in (one.broadcast or {}).items():
        np.testing.assert_array_equal(part, (two.broadcast or {})[name])


def check_what_no_system_reads_is_in_no_view(target: Target) -> None:
    """Identifiers, titles and the times of interactions leave every view as it is."""
    short, interactions = brief(target), data()
    planted = replace(
        interactions,
        users=interactions.users + 4_611_686,
        titles=tuple(f"secret {n}" for n in range(ITEMS)),
        timestamps=None,
    )
    one, two = train(short, interactions), train(short, planted)
    for vantage in Vantage:
        assert same(view(one, vantage), view(two, vantage)), vantage


def check_views_hold_what_their_vantage_sees_and_no_more(target: Target) -> None:
    """Messages linked for the server, unlinked in the shuffle, summed in the aggregate."""
    transcript = train(brief(target), data()).transcript
    for vantage in Vantage:
        shown = transcript.view(vantage, np.random.default_rng(0))
        for glimpse in shown.rounds:
            linked, pooled = vantage is Vantage.SERVER, vantage is Vantage.SHUFFLED
            assert (glimpse.uploads is None) or linked
            assert (glimpse.shuffled is None) or pooled
            assert (glimpse.aggregate is None) or vantage is Vantage.AGGREGATE
            assert (glimpse.clear is None) or vantage in (Vantage.SERVER, Vantage.AGGREGATE)
        if vantage is Vantage.RELEASE:
            assert [g.broadcast for g in shown.rounds] == [transcript.release]


def check_the_shuffle_hides_who_sent_what(target: Target) -> None:
    """The pool holds the messages that were sent, in an order that the senders do not set."""
    transcript = train(brief(target), data()).transcript
    pools = [transcript.view(Vantage.SHUFFLED, np.random.default_rng(s)).rounds for s in (1, 2)]
    for number, one in enumerate(transcript.rounds):
        first, second = (glimpses[number].shuffled or {} for glimpses in pools)
        moved = []
        for name, component in one.uploads.components.items():
            whole = component.total()
            a, b = first[name], second[name]
            np.testing.assert_allclose(
                a.dense(np.arange(len(a))).mean(axis=0, dtype=np.float64),
                whole / max(len(component), 1),
                rtol=1e-5,
                atol=1e-6 * np.abs(whole).max(initial=0.0) + 1e-12,
            )
            x, y = (c.dense(np.arange(len(c))) for c in (a, b))
            distinct = len(np.unique(x.reshape(len(x), -1), axis=0))
            moved.append(distinct < 8 or not np.array_equal(x, y))
        assert all(moved), "two shuffles left the messages in the same order"


def check_odd_data_are_handled_or_refused(target: Target) -> None:
    """Strange shapes end in a training or in one InputError that says what was expected."""
    short, full = brief(target), data()
    for name, interactions in odd(full).items():
        refusal, run = "", None
        try:
            run = train(short, interactions)
        except InputError as error:
            refusal = str(error)
        if run is None:
            assert refusal.startswith("Expected"), f"{name}: {refusal}"
            assert ". " in refusal, f"{name}: no remedy in: {refusal}"
            assert name not in _PLAIN, f"{name} must be handled, got: {refusal}"
            continue
        scores = target.score(run.model, interactions, np.arange(interactions.n_users))
        assert scores.shape == interactions.ratings.shape, name
        assert np.isfinite(scores).all(), name
        for glimpse in run.transcript.view(Vantage.SERVER).rounds:
            for part, values in seen(glimpse):
                assert np.isfinite(values).all(), f"{name}: {part} is not finite"


_PLAIN = ("an idle user", "a user with all items", "implicit", "explicit")


def odd(full: Interactions) -> dict[str, Interactions]:
    """Data at the borders of what a system may meet."""
    ratings = full.ratings.toarray()
    idle, busy = ratings.copy(), ratings.copy()
    idle[3] = 0
    busy[3] = np.maximum(busy[3], 3)
    rest = {"attributes": full.attributes, "genres": full.genres, "genre_names": full.genre_names}
    return {
        "an idle user": Interactions.of(idle, **rest),
        "a user with all items": Interactions.of(busy, **rest),
        "implicit": Interactions.of((ratings > 0) * 1.0, **rest),
        "explicit": full,
        "no attributes": Interactions.of(ratings),
        "one user": full.take(np.array([2])),
        "one item": Interactions.of(ratings[:, :1] + 1.0, attributes=full.attributes),
        "nothing": Interactions.of(np.zeros((4, 5))),
        "everything": Interactions.of(np.full((4, 5), 2.0)),
    }


def plant(interactions: Interactions, user: int) -> Interactions:
    """The same data with every field of one user changed."""
    ratings = interactions.ratings.toarray()
    ratings[user] = np.where(ratings[user] > 0, 0.0, 4.5)
    attributes = {
        key: Attribute(
            codes=np.where(
                np.arange(interactions.n_users) == user,
                (attribute.codes + 1) % len(attribute.categories),
                attribute.codes,
            ),
            categories=attribute.categories,
        )
        for key, attribute in interactions.attributes.items()
    }
    return Interactions.of(
        ratings,
        attributes=attributes,
        genres=interactions.genres,
        genre_names=interactions.genre_names,
    )


def _received(target: Target, number: int = -1) -> tuple[Interactions, Broadcast | None] | None:
    """Profiles and a broadcast of the target's own; None where users send nothing by themselves."""
    interactions = data()
    transcript = train(brief(target), interactions).transcript
    if transcript.public.parties is not None or not transcript.rounds:
        return None
    return interactions, transcript.rounds[number].broadcast


CHECKS: tuple[Callable[[Target], Any], ...] = tuple(
    check for name, check in sorted(globals().items()) if name.startswith("check_")
)


def check_target(target: Target) -> None:
    """All of the contract; for outsiders, on a target of their own."""
    for check in CHECKS:
        check(target)
