"""What every attack must keep. Each check raises AssertionError naming what is broken.

Attacks are tried on short trainings of ``TARGETS``, whose messages have every form that a user of
our targets sends.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Attack, AttackFamily, Background, Inference
from fedrec_auditor.auditor.games import membership
from fedrec_auditor.auditor.games.attack_games import ATTACK_GAMES
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.auditor.games.halves import Halves
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.parts.checks import Contract
from fedrec_auditor.auditor.testing.targets import seen
from fedrec_auditor.reports.rows import AttackRow
from fedrec_auditor.targets.components import Component, Dense, Rows
from fedrec_auditor.targets.compute import DEFAULT
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.systems.base import Run, Target
from fedrec_auditor.targets.transcript import (
    Kind,
    Public,
    Round,
    RoundView,
    Transcript,
    Uploads,
    View,
    Wire,
)

TARGETS = (
    "bpr-mf",
    "dp-privrec",
    "f-dpmf",
    "f-gerai",
    "fcf",
    "fedncf",
    "fmf-ldp",
    "fmf-lfl",
    "fofl-self",
    "gd-dr",
    "lfl-sgdmf",
    "nn-self",
    "fedgnn",
)
PLAYS = 4
P_VALUE = 1e-4


@cache
def data() -> Interactions:
    """90 users of 70 items, whose taste goes with their attributes."""
    return Synthetic(n_users=90, n_items=70, profile=14, signal=1.0).load()


def narrow(name: str, rounds: int = 2) -> Target:
    """The target with so many rounds at most, and embeddings of 8 numbers: smaller messages."""
    target: Any = FAMILIES["targets"].member(name)()
    settings = {f.name for f in fields(target)}
    if "learner" in settings:
        target = replace(target, learner=replace(target.learner, dimension=8))
    if "embedding" in settings:
        target = replace(target, embedding=8, width=16)
    short: Target = target.shortened(rounds)
    return short


@cache
def training(name: str) -> Run:
    """Two rounds of the narrow target on ``data``. Every case shares it: do not change it."""
    return narrow(name).run(data(), np.random.default_rng(0))


@cache
def halves(name: str) -> Halves:
    """Three trainings of the narrow target on halves of the users, and every weaker view."""
    return Halves.of(
        narrow(name),
        data(),
        (Vantage.SHUFFLED, Vantage.PEERS, Vantage.RELEASE),
        count=3,
        compute=DEFAULT,
        rng=np.random.default_rng(1),
    )


@dataclass(frozen=True, eq=False)
class AttackCase:
    """An attack, and a training on ``interactions`` that it is tried on, seen from ``vantage``.

    ``trainings`` are on halves of the users, for an attack on whole users. ``plays`` is the number
    of games on uploads that carry nothing: at least 3, for fewer cannot show a fault.
    """

    attack: Attack
    run: Run
    interactions: Interactions
    vantage: Vantage = Vantage.SERVER
    trainings: Halves | None = None
    plays: int = PLAYS

    def view(self, of_round: Callable[..., RoundView] = RoundView) -> View:
        """What the attack sees of the training. Raises SkipTest if it reads nothing there."""
        view = self.run.transcript.view(self.vantage, np.random.default_rng(0), of_round=of_round)
        refusal = self.attack.refusal(view)
        if refusal:
            raise SkipTest(refusal)
        if self.attack.family is AttackFamily.USER_MEMBERSHIP and self.trainings is None:
            raise SkipTest("no trainings on halves of the users are given")
        return view

    @cached_property
    def background(self) -> Background:
        """Every third user's gender, all users' ages, and a pair of each user and an item.

        Whole profiles, too, and who is in which training; and some items of each user.
        """
        halved = self.trainings
        codes = self.interactions.attributes["gender"].codes
        ages = self.interactions.attributes["age_group"]
        known, users = np.arange(0, len(codes), 3), np.arange(len(codes))
        return Background(
            known=known,
            labels=codes[known],
            n_classes=2,
            side=np.eye(len(ages.categories))[ages.codes],
            candidates=np.stack([users, users % self.interactions.n_items], axis=1),
            profiles=None if halved is None else self.interactions.ratings,
            references=() if halved is None else halved.views.get(self.vantage, ()),
            included=None if halved is None else halved.included,
            met=membership.known(self.interactions, np.random.default_rng(2))[0],
        )

    def guess(self, view: View) -> Inference:
        """What the attack infers from the view, with the same generator each time.

        AssertionError if it reads what a wire does not show.
        """
        try:
            return self.attack.infer(view, self.background, np.random.default_rng(4))
        except AttributeError as error:
            if isinstance(error.obj, Wire):
                raise AssertionError(f"it reads what no wire shows: {error}") from error
            raise

    @cached_property
    def guesses(self) -> dict[str, NDArray[Any]]:
        """What it infers from the wire."""
        return arrays(self.guess(self.view()))


def arrays(value: object) -> dict[str, NDArray[Any]]:
    """The fields of a dataclass that are arrays, by name."""
    assert is_dataclass(value), f"{type(value).__name__} is no dataclass"
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    return {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}


class AsStored(RoundView):
    """A round whose messages are left as they are stored, which no attack may notice."""

    def __post_init__(self) -> None:
        pass


def rewritten(view: View, change: Callable[[Component], Component]) -> View:
    """The view with every component changed, linked or not."""

    def each(parts: Mapping[str, Component] | None) -> dict[str, Component] | None:
        return None if parts is None else {name: change(part) for name, part in parts.items()}

    def linked(uploads: Uploads | None) -> Uploads | None:
        return uploads and Uploads(uploads.users, each(uploads.components) or {})

    rounds = (
        replace(
            one, uploads=linked(one.uploads), clear=linked(one.clear), shuffled=each(one.shuffled)
        )
        for one in view.rounds
    )
    return replace(view, rounds=tuple(rounds))


def as_arrays(view: View) -> View:
    """The same view with every component stored as the plain array that it shows."""
    return rewritten(view, plain)


def plain(component: Component) -> Dense | Rows:
    """The component as the array that it shows, or as the rows of it that are sent."""
    everyone = np.arange(len(component))
    values, sent = component.dense(everyone), component.sent(everyone)
    if sent.all():
        return Dense(values, component.kind, component.rate)
    indptr = np.concatenate([[0], np.cumsum(sent.sum(axis=1))])
    ids = np.nonzero(sent)[1]
    return Rows(indptr, ids, values[sent], component.shape[0], component.kind, component.rate)


def check_statement(case: AttackCase) -> None:
    """It says what it is after, from where, and where it is described; ``infer`` asks no truth."""
    assert case.attack.family in ATTACK_GAMES, f"no game scores {case.attack.family!r}"
    reference = case.attack.reference
    assert len(reference) > 10, f"a reference that says nothing, {reference!r}"
    asked = list(inspect.signature(case.attack.infer).parameters)
    assert asked == ["view", "background", "rng"], f"infer asks for {asked}"


def check_uploads_are_needed(case: AttackCase) -> None:
    """It does not apply where the server received nothing."""
    view = case.run.transcript.view(Vantage.SERVER).without_uploads()
    assert case.attack.refusal(view), "it runs on a view without uploads"


def check_repeatable(case: AttackCase) -> None:
    """Equal generators give equal guesses; view and background stay as they are."""
    view, known = case.view(), case.background

    def given() -> Any:
        return [dict(seen(one)) for one in view.rounds], arrays(known)

    before = copy.deepcopy(given())
    again = arrays(case.guess(view))
    np.testing.assert_equal(again, case.guesses, "the same generator gave others")
    np.testing.assert_equal(given(), before, "it changed the view or the background")


def check_only_the_wire_is_read(case: AttackCase) -> None:
    """Guesses are the same however messages are stored: as wires, as they are, as arrays.

    Floats may differ by rounding.
    """
    wire, expected = case.view(), case.guesses
    for how, view in (("as they are stored", case.view(AsStored)), ("as arrays", as_arrays(wire))):
        found = arrays(case.guess(view))
        assert found.keys() == expected.keys(), f"{list(found)} from messages {how}"
        for name, values in expected.items():
            said = f"other {name} from messages {how}"
            if values.dtype.kind == "f":
                scale = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
                np.testing.assert_allclose(
                    found[name], values, rtol=1e-6, atol=1e-9 * scale, err_msg=said
                )
            else:
                assert np.array_equal(found[name], values), said


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
            clear=None,
        )
        for one in rewritten(view, renamed).rounds
    )
    return replace(view, rounds=tuple(rounds))


def rows_of(attack: Attack, view: View, rng: np.random.Generator, **more: Any) -> list[AttackRow]:
    """What the attack's game tells of it on the view, quickly, at confidence 95%."""
    name = type(attack).__name__
    settings = {"target": view.public.algorithm, "quick": True, "confidence": 0.95, **more}
    game = Game(name=name, attack=attack, view=view, rng=rng, **settings)
    return [row for row in ATTACK_GAMES[attack.family](game) if isinstance(row, AttackRow)]


def alarms(case: AttackCase) -> Counter[str]:
    """In how many of the plays on uploads that carry nothing each metric beats its baseline.

    That is: by more than its interval at 95%. An attack on whole users sees the true models, of
    which coins say who was in them. A play of attribute inference on a whole message
    includes one on every group of its components, and costs as much more: here the whole and
    single groups take turns, and count as one metric; one that tells nothing gives up its turn.
    """
    attack, view = case.attack, case.view()
    linking = attack.family is AttackFamily.LINKAGE
    if linking:  # its game takes the senders away
        view = replace(case.run.transcript.view(Vantage.SERVER), vantage=case.vantage)
    shown = [view]
    if attack.needs_known and len(view.groups) > 1:
        shown += [view.only(group) for group in view.groups]
    found: Counter[str] = Counter()
    for seed in range(case.plays):
        rng = np.random.default_rng([7, seed])
        trainings = case.trainings
        if attack.family is AttackFamily.USER_MEMBERSHIP and trainings is not None:
            coins = rng.random(trainings.included.shape) < 0.5
            trainings, empty = replace(trainings, included=coins), view
        else:
            empty = emptied(shown[seed % len(shown)], rng, always=not linking)
        given = {"user_vectors": case.run.user_vectors, "halves": trainings}
        rows = rows_of(attack, empty, rng, interactions=case.interactions, **given)
        for row in rows:
            assert row.ci_low <= row.value <= row.ci_high, f"{row.metric} outside its interval"
            assert row.ahead is not None, f"{row.metric} without a baseline"
            found[row.metric.partition(" (")[0]] += row.ahead.ci_low > 0.0
    if not found:
        raise SkipTest("it tells nothing from these messages, and says so")
    return found


def check_uploads_that_carry_nothing(case: AttackCase) -> None:
    """Above its baseline by more than its interval in at most 2.5% of plays, for every metric.

    Plays share one data set; still, a count with probability below 1e-4 is no accident.
    """
    found = alarms(case)
    limit = stats.binom.isf(P_VALUE, case.plays, 0.025)
    assert max(found.values()) <= limit, f"{dict(found)} of {case.plays} plays beat a baseline"


class AttackContract(Contract, suite=__name__):
    """What every attack must keep of one training; a subject is an ``AttackCase``."""


def planted(attack: Attack, signal: float, *, permuted: bool = False, seed: int = 0) -> AttackRow:
    """What it tells of bits of 300 users that lean to their gender as far as ``signal`` says.

    In [0, 1]. ``permuted`` scores its guesses against another's gender.
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
    held = Interactions.of(bits, attributes={"gender": gender})
    rows = rows_of(attack, view, rng, interactions=held)
    assert rows, "it has no row on bits that tell an attribute"
    return rows[0]


DEFENDED = (1.0, 0.6, 0.3, 0.0)
"""What is left of the planted signal as its defence grows."""


def check_planted_signal(attack: Attack) -> None:
    """It beats every baseline where uploads tell the attribute."""
    row = planted(attack, 0.6)
    assert row.baseline is not None
    assert row.ci_low > row.baseline, f"{row.metric} {row.value:.3f}, baseline {row.baseline:.3f}"


def check_removed_signal(attack: Attack) -> None:
    """It beats none where labels are permuted, or uploads noise, but by bad luck.

    Above its baseline by more than its interval at 95% in so many of 12 plays as have a
    probability of less than 1e-4, or more.
    """
    for signal, permuted in ((0.6, True), (0.0, False)):
        rows = [planted(attack, signal, permuted=permuted, seed=s) for s in range(12)]
        beaten = sum(row.ci_low > (row.baseline or 0.0) for row in rows)
        assert beaten <= stats.binom.isf(P_VALUE, len(rows), 0.025), f"{beaten} of {len(rows)}"


def check_defence(attack: Attack) -> None:
    """It weakens as the signal does: no interval lies above one of a weaker defence."""
    rows = [planted(attack, signal) for signal in DEFENDED]
    for weak, strong in itertools.combinations(rows, 2):
        assert strong.ci_low <= weak.ci_high, f"{strong.value:.3f} above {weak.value:.3f}"
    assert rows[-1].ci_high < rows[0].ci_low, "it is as strong without any signal"


class LearningContract(Contract, more=(check_planted_signal, check_removed_signal, check_defence)):
    """What an attack that learns an attribute from known users must keep besides."""


def check_attack(
    attack: Attack, runs: Mapping[str, Run] | None = None, plays: int = PLAYS
) -> tuple[str, ...]:
    """Run every check on it, on trainings of every target of ``TARGETS``, from every vantage.

    ``runs`` are trainings on ``data()`` to try it on instead, by name. Returns which checks do not
    apply, and why. Raises AssertionError at the first check that fails, and where an attack on
    trainings applies to none of them.

    >>> from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
    >>> check_attack(InteractionReconstruction(), {"fcf": training("fcf")})
    ()
    """
    skipped: list[str] = []
    read = 0
    whole = attack.family is AttackFamily.USER_MEMBERSHIP
    for name, run in (runs or {name: training(name) for name in TARGETS}).items():
        trainings = halves(name) if whole and runs is None else None
        for vantage in Vantage:
            case = AttackCase(attack, run, data(), vantage, trainings, plays)
            refused = attack.refusal(run.transcript.view(vantage, np.random.default_rng(0)))
            read += not refused
            if vantage is Vantage.SERVER or not refused:
                skipped += (f"{name}, {line}" for line in AttackContract.check(case))
    assert read, "no training has what it reads"
    if attack.family is AttackFamily.ATTRIBUTE and attack.needs_known:
        skipped += LearningContract.check(attack)
    return tuple(skipped)
