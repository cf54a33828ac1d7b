"""Laws of an attack on one training: it reads the wire alone, and finds nothing in nothing."""

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
from fedrec_auditor.attacks.base import Attack, AttackFamily, Background, Inference
from fedrec_auditor.auditor.games import membership
from fedrec_auditor.auditor.games.attack_games import ATTACK_GAMES
from fedrec_auditor.auditor.games.game import Game, HalfRuns
from fedrec_auditor.auditor.testing.targets import iter_arrays
from fedrec_auditor.reports.record.rows import AttackRow
from fedrec_auditor.targets.components import Component, Dense
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.systems.base import Run
from fedrec_auditor.targets.transcript import (
    Kind,
    PartView,
    Public,
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
    """An attack, and a training on ``data()`` that it is tried on, seen from ``vantage``.

    ``trainings`` are on halves of the users, for an attack on whole users. ``plays`` is the number
    of games on uploads that carry nothing: at least 3, for fewer cannot show a fault.
    """

    attack: Attack
    run: Run
    vantage: Vantage = Vantage.SERVER
    trainings: HalfRuns | None = None
    plays: int = PLAYS

    def view(self, of_round: Callable[..., RoundView] = RoundView) -> View:
        """The attack's view of the training."""
        return self.run.transcript.view(self.vantage, np.random.default_rng(0), of_round=of_round)

    @property
    def is_read(self) -> bool:
        """Whether the attack reads anything there."""
        return not self.attack.refusal(self.view())

    @cached_property
    def background(self) -> Background:
        """Every third user's gender, all users' ages, and a pair of each user and an item.

        Whole profiles, too, and who is in which training; and some items of each user.
        """
        halved = self.trainings
        codes = data().attributes["gender"].codes
        ages = data().attributes["age_group"]
        known, users = np.arange(0, len(codes), 3), np.arange(len(codes))
        return Background(
            known_users=known,
            classes=codes[known],
            n_classes=2,
            attributes=np.eye(len(ages.categories))[ages.codes],
            candidates=np.stack([users, users % data().n_items], axis=1),
            profiles=None if halved is None else data().ratings,
            references=() if halved is None else halved.views.get(self.vantage, ()),
            is_included=None if halved is None else halved.is_included,
            met_items=membership.split_known_items(data(), np.random.default_rng(2))[0],
        )

    def guess(self, view: View) -> Inference:
        """Inference of the attack from the view, with an equal generator each time.

        AssertionError if it reads what a wire does not show.
        """
        try:
            return self.attack.infer(view, self.background, np.random.default_rng(4))
        except AttributeError as error:
            if isinstance(error.obj, PartView):
                raise AssertionError(f"it reads what no wire shows: {error}") from error
            raise


def arrays(value: Any) -> dict[str, NDArray[Any]]:
    """The fields of a dataclass that are arrays, by name."""
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    return {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}


class AsStored(RoundView):
    """A round whose messages are left as they are stored, which no attack may notice."""

    def __post_init__(self) -> None:
        pass


def check_statement(attack: Attack) -> None:
    """An attack has a family that is scored and a reference; ``infer`` asks for no truth."""
    assert attack.family in ATTACK_GAMES, f"no game scores {attack.family!r}"
    assert len(attack.reference) > 10, f"a reference that says nothing, {attack.reference!r}"
    asked = list(inspect.signature(attack.infer).parameters)
    assert asked == ["view", "background", "rng"], f"infer asks for {asked}"


def check_some_uploads_are_read(attack: Attack, views: Sequence[View]) -> None:
    """An attack applies to one of the views, and to none of which the server received nothing."""
    assert not all(map(attack.refusal, views)), "no training has what it reads"
    for view in views:
        blind = view.vantage is not Vantage.SERVER or attack.refusal(view.without_uploads())
        assert blind, "it runs on a view without uploads"


def check_only_the_wire_is_read(case: AttackCase) -> None:
    """Equal generators give equal guesses however messages are stored: as wires, or as arrays.

    Floats may differ by rounding. View and background stay as they are.
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
    """The view with what carries nothing of users: uploads another's, or coins; items renamed.

    ``always`` the same other's, or in every round someone else's. Where no upload is linked, items
    of models, sums and unlinked messages take each other's places, all alike, users' rows as well,
    and other users are said to take part in sums.
    """
    if any(one.uploads is None for one in view.rounds):
        return _renamed(view, rng)
    coins = view.public.channel is not None
    rounds = []
    order = _others(view.public.n_users, rng)
    for one in view.rounds:
        assert one.uploads is not None
        order = order if always else _others(view.public.n_users, rng)
        sent: dict[str, Component] = {
            name: Dense(
                rng.integers(2, size=(len(part), *part.shape), dtype=np.int8)
                if coins
                else part.dense(np.arange(len(part))),
                part.kind,
                part.rate,
            )
            for name, part in one.uploads.components.items()
        }
        rounds.append(replace(one, uploads=Uploads(order[one.uploads.users], sent)))
    public = replace(view.public, channel=BitFlip(0.5, 0.5)) if coins else view.public
    return replace(view, public=public, rounds=tuple(rounds))


def _others(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """For each of ``n`` users another one."""
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
        return Dense(mixed(part.dense(np.arange(len(part))), 1), part.kind, part.rate)

    rounds = (
        replace(
            one,
            broadcast=one.broadcast and {k: mixed(v) for k, v in one.broadcast.items()},
            aggregate=one.aggregate and {k: mixed(v) for k, v in one.aggregate.items()},
            senders=None
            if one.senders is None
            else np.sort(rng.permutation(n)[: len(one.senders)]),
            cleartext=None,
        )
        for one in rewritten(view, renamed).rounds
    )
    return replace(view, rounds=tuple(rounds))


def rows_of(attack: Attack, view: View, rng: np.random.Generator, **more: Any) -> list[AttackRow]:
    """Rows of the attack's game on the view, played quickly, at confidence 95%."""
    name = type(attack).__name__
    settings = {"target": view.public.algorithm, "quick": True, "confidence": 0.95, **more}
    game = Game(name=name, attack=attack, view=view, rng=rng, **settings)
    return [row for row in ATTACK_GAMES[attack.family](game) if isinstance(row, AttackRow)]


def alarms(case: AttackCase) -> Counter[str]:
    """Count by metric the plays on uploads that carry nothing in which it beats its baseline.

    By more than its interval at 95%. An attack on whole users sees the true models, of
    which coins say who was in them. A play of attribute inference on a whole message
    includes one on every group of its components, and costs as much more: here the whole and
    single groups take turns, and count as one metric; one that tells nothing gives up its turn.
    """
    attack, view = case.attack, case.view()
    linking = attack.family is AttackFamily.LINKAGE
    if linking:  # its game takes the senders away
        view = replace(case.run.transcript.view(Vantage.SERVER), vantage=case.vantage)
    shown = [view]
    if attack.needs_known and len(view.group_names) > 1:
        shown += [view.keep_group(group) for group in view.group_names]
    found: Counter[str] = Counter()
    for seed in range(case.plays):
        rng = np.random.default_rng([7, seed])
        trainings = case.trainings
        if attack.family is AttackFamily.USER_MEMBERSHIP and trainings is not None:
            coins = rng.random(trainings.is_included.shape) < 0.5
            trainings, empty = replace(trainings, is_included=coins), view
        else:
            empty = emptied(shown[seed % len(shown)], rng, always=not linking)
        given = {"user_vectors": case.run.user_vectors, "halves": trainings}
        rows = rows_of(attack, empty, rng, interactions=data(), **given)
        for row in rows:
            assert row.ci_low <= row.value <= row.ci_high, f"{row.metric} outside its interval"
            assert row.net_gain is not None, f"{row.metric} without a baseline"
            found[row.metric.partition(" (")[0]] += row.net_gain.ci_low > 0.0
    return found


def check_uploads_that_carry_nothing(case: AttackCase) -> None:
    """Above its baseline by more than its interval in at most 2.5% of plays, for every metric.

    Plays share one data set; still, a count with probability below 1e-4 is no accident.
    """
    found, limit = alarms(case), stats.binom.isf(P_VALUE, case.plays, 0.025)
    assert max(found.values(), default=0) <= limit, f"{dict(found)} of {case.plays} plays"


def planted(attack: Attack, signal: float, permuted: bool = False, seed: int = 0) -> AttackRow:
    """Success on bits of 300 users that lean to their gender as far as ``signal`` says.

    A signal lies in [0, 1]. ``permuted`` scores its guesses against another's gender.
    """
    rng = np.random.default_rng([11, seed])
    codes, each = rng.integers(2, size=300), np.arange(300)
    lean = np.where(np.arange(60) < 30, signal * (codes[:, None] - 0.5), 0.0)
    bits = (rng.random(lean.shape) < 0.5 + lean).astype(np.int8)
    told = codes[rng.permutation(300)] if permuted else codes
    gender = Attribute(codes=told, categories=("F", "M"))
    public = Public(algorithm="planted", n_users=300, n_items=60)
    sent = Round(None, Uploads(each, {"bits": Dense(bits, Kind.BITS)}))
    view = Transcript(public=public, rounds=(sent,)).view(Vantage.SERVER)
    held = Interactions.create(bits, attributes={"gender": gender})
    rows = rows_of(attack, view, rng, interactions=held)
    assert rows, "it has no row on bits that tell an attribute"
    return rows[0]


def check_planted_signal(attack: Attack) -> None:
    """Every baseline is beaten where uploads reveal the attribute, and guesses are worse else."""
    row, nothing = planted(attack, 0.6), planted(attack, 0.0)
    assert nothing.ci_high < row.ci_low, "it is as strong without any signal"
    assert row.baseline is not None
    assert row.ci_low > row.baseline, f"{row.metric} {row.value:.3f}, baseline {row.baseline:.3f}"


def check_removed_signal(attack: Attack) -> None:
    """No baseline is beaten where labels are permuted, or uploads noise, but by bad luck.

    Above its baseline by more than its interval at 95% in so many of 12 plays as have a
    probability of less than 1e-4, or more.
    """
    for signal, permuted in ((0.6, True), (0.0, False)):
        rows = [planted(attack, signal, permuted, s) for s in range(12)]
        beaten = sum(row.ci_low > (row.baseline or 0.0) for row in rows)
        assert beaten <= stats.binom.isf(P_VALUE, len(rows), 0.025), f"{beaten} of {len(rows)}"
