"""Checks that every attack must pass on one training.

An attack may read only visible messages, and must not beat guessing if uploads carry nothing.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Attack, AttackFamily, AttackResult, Background
from fedrec_auditor.auditor.games import membership
from fedrec_auditor.auditor.games.attack_games import ATTACK_GAMES
from fedrec_auditor.auditor.games.game import HalfTrainings, Trial
from fedrec_auditor.auditor.testing.targets import iter_arrays
from fedrec_auditor.reports.record.rows import AttackRow
from fedrec_auditor.targets.components import Component, Dense
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.systems.base import TrainingRun
from fedrec_auditor.targets.transcript import (
    ComponentView,
    Payload,
    PublicInfo,
    Round,
    RoundView,
    Transcript,
    Uploads,
    View,
)
from tests.contracts.trainings import as_arrays, data, rewritten

PLAYS = 4
P_VALUE = 1e-4


@dataclass(frozen=True, eq=False)
class AttackCase:
    """An attack, and a training on ``data()`` that it attacks at a ``vantage``.

    ``trainings``: trainings on random halves of the users, for attacks on the membership of users.
    ``plays``: number of games on uploads that carry nothing; fewer than 3 cannot show a fault.
    """

    attack: Attack
    run: TrainingRun
    vantage: Vantage = Vantage.SERVER
    trainings: HalfTrainings | None = None
    plays: int = PLAYS

    def view(self, of_round: Callable[..., RoundView] = RoundView) -> View:
        """Returns the attack's view: visible messages and public parameters of the training."""
        rng = np.random.default_rng(0)
        return self.run.transcript.view(self.vantage, rng, make_round_view=of_round)

    @property
    def is_read(self) -> bool:
        """Whether the attack can run on its view of the training."""
        return not self.attack.refusal(self.view())

    @cached_property
    def background(self) -> Background:
        """Knowledge of the attack besides its view.

        Every third user's gender, all users' ages, some items of each user, and one candidate item
        per user; with ``trainings`` also all profiles, and the coins of each training.
        """
        halved = self.trainings
        codes = data().attributes["gender"].codes
        ages = data().attributes["age_group"]
        known, users = np.arange(0, len(codes), 3), np.arange(len(codes))
        return Background(
            known_users=known,
            known_classes=codes[known],
            n_classes=2,
            attributes=np.eye(len(ages.categories))[ages.codes],
            candidate_pairs=np.stack([users, users % data().n_items], axis=1),
            profiles=None if halved is None else data().ratings,
            reference_views=() if halved is None else halved.views.get(self.vantage, ()),
            is_in_training=None if halved is None else halved.is_included,
            known_items=membership.split_known_items(data(), np.random.default_rng(2))[0],
        )

    def guess(self, view: View) -> AttackResult:
        """Returns the attack's result on a view, with an equally seeded generator each time.

        Raises AssertionError if the attack reads what messages do not show, such as their storage.
        """
        try:
            return self.attack.infer(view, self.background, np.random.default_rng(4))
        except AttributeError as error:
            if isinstance(error.obj, ComponentView):
                raise AssertionError(f"it reads what no wire shows: {error}") from error
            raise


def arrays(value: Any) -> dict[str, NDArray[Any]]:
    """Fields of a dataclass that are arrays, by name."""
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    return {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}


class AsStored(RoundView):
    """A round with messages in their stored form, on which no attack may depend."""

    def __post_init__(self) -> None:
        pass


def check_statement(attack: Attack) -> None:
    """Checks that an attack has a scored family and a reference, and is not given the truth."""
    assert attack.family in ATTACK_GAMES, f"no game scores {attack.family!r}"
    assert len(attack.reference) > 10, f"a reference that says nothing, {attack.reference!r}"
    asked = list(inspect.signature(attack.infer).parameters)
    assert asked == ["view", "background", "rng"], f"infer asks for {asked}"


def check_some_uploads_are_read(attack: Attack, views: Sequence[View]) -> None:
    """Checks that an attack runs on one of the views, and on none whose server got no upload."""
    assert not all(map(attack.refusal, views)), "no training has what it reads"
    for view in views:
        blind = view.vantage is not Vantage.SERVER or attack.refusal(view.drop_uploads())
        assert blind, "it runs on a view without uploads"


def check_only_the_wire_is_read(case: AttackCase) -> None:
    """Checks that guesses do not depend on the form in which messages are stored.

    Forms are the system's own and plain arrays; floats may differ by rounding. The attack must
    change neither view nor background.
    """
    view = case.view()

    def given() -> Any:
        return [dict(iter_arrays(one)) for one in view.rounds], arrays(case.background)

    before, expected = copy.deepcopy(given()), arrays(case.guess(view))
    np.testing.assert_equal(given(), before, "it changed the view or the background")
    ways = {"as they are stored": case.view(AsStored), "as arrays": as_arrays(view)}
    for how, stored in ways.items():
        found = arrays(case.guess(stored))
        assert found.keys() == expected.keys(), f"{list(found)} from messages {how}"
        for name, values in expected.items():
            what = f"other {name} from messages {how}"
            if values.dtype.kind == "f":
                scale = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
                np.testing.assert_allclose(
                    found[name], values, rtol=1e-6, atol=1e-9 * scale, err_msg=what
                )
            else:
                assert np.array_equal(found[name], values), what


def emptied(view: View, rng: np.random.Generator, *, always: bool = True) -> View:
    """Returns a view whose uploads carry nothing about their senders.

    Each sender gets the messages of another user, in all rounds the same if ``always``, or fair
    coins if bits are flipped in the training. If no upload is linked to a user, users and items are
    permuted in everything that is visible.
    """
    if any(first.uploads is None for first in view.rounds):
        return _renamed(view, rng)
    coins = view.public.noise_channel is not None
    rounds = []
    order = _others(view.public.n_users, rng)
    for first in view.rounds:
        assert first.uploads is not None
        order = order if always else _others(view.public.n_users, rng)
        sent: dict[str, Component] = {
            name: Dense(
                rng.integers(2, size=(len(part), *part.shape), dtype=np.int8)
                if coins
                else part.to_dense(np.arange(len(part))),
                part.kind,
                part.learning_rate,
            )
            for name, part in first.uploads.components.items()
        }
        rounds.append(replace(first, uploads=Uploads(order[first.uploads.users], sent)))
    public = replace(view.public, noise_channel=BitFlip(0.5, 0.5)) if coins else view.public
    return replace(view, public=public, rounds=tuple(rounds))


def _others(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Returns a permutation of ``n`` user indices without a fixed point."""
    cycle = rng.permutation(n)
    order = np.empty_like(cycle)
    order[cycle] = np.roll(cycle, 1)
    return order


def _renamed(view: View, rng: np.random.Generator) -> View:
    n, m = view.public.n_users, view.public.n_items
    orders = {n: rng.permutation(n), m: rng.permutation(m)}

    def mixed(values: NDArray[Any], first: int = 0) -> NDArray[Any]:
        for axis in range(first, np.ndim(values)):
            size = np.shape(values)[axis]
            values = np.take(values, orders[size], axis=axis) if size in orders else values
        return values

    def renamed(part: Component) -> Component:
        return Dense(mixed(part.to_dense(np.arange(len(part))), 1), part.kind, part.learning_rate)

    rounds = (
        replace(
            one,
            broadcast=one.broadcast and {k: mixed(v) for k, v in one.broadcast.items()},
            aggregate=one.aggregate and {k: mixed(v) for k, v in one.aggregate.items()},
            senders_in_sum=None
            if one.senders_in_sum is None
            else np.sort(rng.permutation(n)[: len(one.senders_in_sum)]),
            cleartext=None,
        )
        for one in rewritten(view, renamed).rounds
    )
    return replace(view, rounds=tuple(rounds))


def rows_of(attack: Attack, view: View, rng: np.random.Generator, **more: Any) -> list[AttackRow]:
    """Plays the attack's game on the view quickly, and returns its results at confidence 95%."""
    name = type(attack).__name__
    settings = {"target_name": view.public.algorithm, "is_quick": True, "confidence": 0.95, **more}
    game = Trial(attack_name=name, attack=attack, view=view, rng=rng, **settings)
    return [row for row in ATTACK_GAMES[attack.family](game) if isinstance(row, AttackRow)]


def alarms(case: AttackCase) -> Counter[str]:
    """Counts the plays in which an attack beats its baseline although uploads carry nothing.

    The result maps a metric to the number of plays whose gain has a 95% interval above 0.
    """
    # An attack on whole users sees the true models, with random coins of membership. An attribute
    # attack on whole messages includes one on every group of components and costs as much more:
    # here the whole and single groups take turns, and count as one metric.
    attack, view = case.attack, case.view()
    linking = attack.family is AttackFamily.LINKAGE
    if linking:  # the game removes the senders
        view = replace(case.run.transcript.view(Vantage.SERVER), vantage=case.vantage)
    views = [view]
    if attack.needs_known and len(view.group_names) > 1:
        views += [view.keep_part_group(group) for group in view.group_names]
    result: Counter[str] = Counter()
    for seed in range(case.plays):
        rng = np.random.default_rng([7, seed])
        trainings = case.trainings
        if attack.family is AttackFamily.USER_MEMBERSHIP and trainings is not None:
            coins = rng.random(trainings.is_included.shape) < 0.5
            trainings, empty = replace(trainings, is_included=coins), view
        else:
            empty = emptied(views[seed % len(views)], rng, always=not linking)
        given = {"user_vectors": case.run.user_vectors, "trainings_on_user_halves": trainings}
        rows = rows_of(attack, empty, rng, interactions=data(), **given)
        for row in rows:
            assert row.ci_low <= row.value <= row.ci_high, f"{row.metric} outside its interval"
            assert row.gain_over_baseline is not None, f"{row.metric} without a baseline"
            result[row.metric.partition(" (")[0]] += row.gain_over_baseline.ci_low > 0.0
    return result


def check_uploads_that_carry_nothing(case: AttackCase) -> None:
    """Checks that an attack rarely beats its baseline on uploads that carry nothing."""
    # A correct attack does so in at most 2.5% of plays. The check fails at p < 1e-4 for a metric.
    found, limit = alarms(case), stats.binom.isf(P_VALUE, case.plays, 0.025)
    assert max(found.values(), default=0) <= limit, f"{dict(found)} of {case.plays} plays"


def planted(attack: Attack, signal: float, permuted: bool = False, seed: int = 0) -> AttackRow:
    """Returns the result of an attack on bits that depend on the gender of 300 users.

    ``signal`` is the strength of the dependence, in [0, 1]. If ``permuted``, users get the gender
    of other users.
    """
    rng = np.random.default_rng([11, seed])
    codes, users = rng.integers(2, size=300), np.arange(300)
    lean = np.where(np.arange(60) < 30, signal * (codes[:, None] - 0.5), 0.0)
    bits = (rng.random(lean.shape) < 0.5 + lean).astype(np.int8)
    labels = codes[rng.permutation(300)] if permuted else codes
    gender = Attribute(codes=labels, categories=("F", "M"))
    public = PublicInfo(algorithm="planted", n_users=300, n_items=60)
    sent = Round(None, Uploads(users, {"bits": Dense(bits, Payload.BITS)}))
    view = Transcript(public=public, rounds=(sent,)).view(Vantage.SERVER)
    held = Interactions.create(bits, attributes={"gender": gender})
    rows = rows_of(attack, view, rng, interactions=held)
    assert rows, "it has no row on bits that tell an attribute"
    return rows[0]


def check_planted_signal(attack: Attack) -> None:
    """Checks that an attack beats its baseline with a signal, and is worse without the signal."""
    row, nothing = planted(attack, 0.6), planted(attack, 0.0)
    assert nothing.ci_high < row.ci_low, "it is as strong without any signal"
    assert row.baseline is not None
    assert row.ci_low > row.baseline, f"{row.metric} {row.value:.3f}, baseline {row.baseline:.3f}"


def check_removed_signal(attack: Attack) -> None:
    """Checks that an attack does not beat its baseline on permuted labels or on noise."""
    # In 12 plays, the 95% interval may be above the baseline as often as chance (p >= 1e-4)
    # permits.
    for signal, permuted in ((0.6, True), (0.0, False)):
        rows = [planted(attack, signal, permuted, s) for s in range(12)]
        beaten = sum(row.ci_low > (row.baseline or 0.0) for row in rows)
        assert beaten <= stats.binom.isf(P_VALUE, len(rows), 0.025), f"{beaten} of {len(rows)}"
