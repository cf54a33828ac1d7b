"""Reads messages of any kind, by running the code of the devices on histories that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.item_features import (
    ItemFeatures,
    Marks,
    Numbers,
    is_signature,
    lists,
    marked,
)
from fedrec_auditor.attacks.parts.prior import posterior, shrunk_activity
from fedrec_auditor.attacks.parts.uploads import kept, names, senders, unread
from fedrec_auditor.attacks.readers.base import SURE, Evidence, Reader, together
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.transcript import (
    Broadcast,
    Component,
    HistoriesRefused,
    RoundView,
    Uploads,
    View,
)

SHADOWS, FEWEST = 1_000, 100
"""Histories that are made up, of which each sends in every round that is read; and how few where a
message takes long."""
SECONDS = 60.0
"""What their messages may take beyond the fewest, as the client says what one takes."""
HELD = 2**26
"""Numbers of shadows' messages in a round: 256 MiB to 512 MiB."""
_HISTORIES = 2**23  # shadows times items: a few tables of 64 MiB
_SINGLE = 2**25  # items times items of histories of one item
_USERS = 500  # whose first reading says what shadows are to have met
_PARTS = 5  # of the shadows: one tells how far to believe what is learned on the others
_LONGEST = 1 / 3  # of the catalogue in a history
_ROUNDS, _SLOW_ROUNDS = 8, 4
_BLOCK = 2**22  # numbers of messages and features that are held at once
_PAIRS = 100_000  # of shadows and items that are learned from, half of them met
_RIDGE = 0.01  # of a number's variance
_EXACT = 0.9999  # area under the curve of readers that make no mistake
_OFTEN = 0.02  # of the shadows that send a code which means something

Bits = NDArray[np.bool_]
Alone = Sequence[NDArray[Any]] | None
"""What is marked in messages of devices that met a single item, (M, d) each."""
Places = NDArray[np.intp]
_MEMO = "shadows"
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ShadowReader:
    """Learns on shadows what a message tells of an item: one rule for all items.

    The rule is boosted trees on what the message shows of an item (``ItemFeatures``), on what a
    ridge regression makes of the item's numbers, and another of all numbers that speak of no item.
    Evidence of several rounds is added up. How far to believe it is settled on shadows of which
    nothing was learned, and no ratio is beyond what so many pairs can show. There it is weighed
    against what readers ``beside`` tell, which know the form; where these read some shadows without
    an error, nothing is learned.
    """

    beside: tuple[Reader, ...] = ()

    reference: ClassVar[str] = (
        "messages of shadow users under the broadcasts that were seen, and a classifier of items "
        "trained on them (shadow models: Shokri et al., S&P 2017)"
    )

    def refusal(self, view: View) -> str:
        """What is missing, the code of the devices or messages of users; empty where it reads."""
        sent = bool(names(view)) and not any(seen.in_clear for seen in view.rounds)
        if view.public.client is None or view.public.rows is not None or not sent:
            return unread(view, "messages whose senders' code can be run")
        if (numbers := _numbers(view)) * FEWEST > HELD:
            return f"{FEWEST} messages of {numbers:,} numbers are more than are simulated at once."
        return ""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """See ``Reader.read``; InputError where the code fails at most histories made up."""
        if _MEMO not in view.memo:
            view.memo[_MEMO] = _learned(view, self.beside)
        learned, left_out = view.memo[_MEMO]
        known = together(self.beside, view, users)
        if learned is None:
            return known
        view.tell(f"Learns on users made up, by the devices' code.{left_out}")
        found = replace(known, log_ratio=learned.ratio(users), items=None, activity=None)
        return replace(found, activity=shrunk_activity(found))


def _learned(view: View, beside: tuple[Reader, ...]) -> tuple[_Learned | None, str]:
    """What is learned on shadows that are anybody, and then on such as users seem to be.

    None where those ``beside`` make no mistake. And a sentence on shadows that are left out.
    """
    rng, n_items, client = np.random.default_rng(0), view.public.n_items, view.public.client
    assert client is not None, "refused"
    seen = chosen_rounds(view)
    known, sizes = KnownForms(beside, replace(view, rounds=tuple(seen))), client.sizes
    if beside:
        met = anybody(FEWEST, n_items, sizes, rng)
        taken, sent, _ = taken_by_code(
            met, lambda some: [client(met[some], s.broadcast, rng).components for s in seen]
        )
        told = known.of_shadows(sent, len(taken))
        if roc_auc_score(met[taken].ravel(), told.ravel()) > _EXACT:
            return None, ""
    messages = 2 * len(seen) * max(1e-9, client.seconds)
    most = min(SHADOWS, _HISTORIES // n_items, HELD // _numbers(view))
    count = int(np.clip(SECONDS / messages, FEWEST, max(FEWEST, most)))
    alone = _alone(view, seen, rng)
    everybody = np.ones(count, np.bool_)
    met = anybody(count, n_items, sizes, rng)
    _, first, _ = taken_by_code(met, lambda n: _Learned.of(known, met[n], everybody[n], alone, rng))
    among = np.sort(rng.permutation(senders(view))[:_USERS]).astype(np.int64)
    chance = posterior(Evidence(users=among, log_ratio=first.ratio(among)))
    like = rng.permutation(count) < count // 2
    mixed = np.zeros((count, n_items), np.bool_)
    mixed[like] = alike(count // 2, chance, sizes, rng)
    mixed[~like] = anybody(count - count // 2, n_items, sizes, rng)
    by = like if beside else everybody
    _, second, left_out = taken_by_code(
        mixed, lambda n: _Learned.of(known, mixed[n], by[n], alone, rng)
    )
    return second, left_out


def taken_by_code(
    met: Bits, learn: Callable[[Places], _Result], least: int = FEWEST // 2
) -> tuple[Places, _Result, str]:
    """The shadows at whose histories the devices' code does not fail, and what is learned on them.

    And a sentence on the others. InputError, with what the code raises, where fewer than ``least``
    are left.
    """
    places, left_out = np.arange(len(met)), ""
    while True:
        try:
            return places, learn(places), left_out
        except HistoriesRefused as refusal:
            places = places[refusal.takes]
            left_out = (
                f" Left out are {len(met) - len(places):,} of {len(met):,} of them, at which the "
                f"code fails: {refusal}"
            )
        if len(places) < least:
            raise InputError(
                f"Expected devices' code that takes histories as users have them.{left_out}"
            )


def _alone(view: View, rounds: Sequence[RoundView], rng: np.random.Generator) -> list[Alone]:
    """What devices send in each round that met a single item each, where signatures may be sent.

    Nothing where that takes long, or where they send nothing then.
    """
    client, n_items = view.public.client, view.public.n_items
    assert client is not None, "refused"
    numbers, nothing = _numbers(view), [None for _ in rounds]
    uploads = [each.uploads for each in rounds if each.uploads is not None]
    signed = any(map(is_signature, uploads[-1].components.values()))
    large = n_items * max(n_items / _SINGLE, numbers / HELD) > 1
    if not signed or large or n_items * len(rounds) * client.seconds > SECONDS:
        return list(nothing)
    met, every, found = np.eye(n_items, dtype=np.bool_), np.arange(n_items), list[Alone]()
    for seen, logged in zip(rounds, uploads, strict=True):
        try:
            made = client(met, seen.broadcast, rng).components
        except InputError:  # it may take a longer history
            return list(nothing)
        parts = {n: made[n].dense(every) for n in logged.components if n in made}
        found.append([one for _, one in marked(parts, n_items, lists(logged.components))])
    return found


def _numbers(view: View) -> int:
    """Of a message of the last round that is read."""
    uploads = chosen_rounds(view)[-1].uploads
    assert uploads is not None, "chosen"
    return sum(max(1, int(np.prod(part.shape))) for part in uploads.components.values())


def anybody(count: int, n_items: int, sizes: tuple[int, int], rng: np.random.Generator) -> Bits:
    """Histories (count, M) of any items, as long as users' and up to a share of the catalogue."""
    fewest, most = sizes
    longest = max(fewest, min(most, max(2.0, _LONGEST * n_items)))
    lengths = np.exp(rng.uniform(np.log(fewest), np.log(longest), count))
    places = rng.permuted(np.tile(np.arange(n_items), (count, 1)), axis=1)
    return np.asarray(places < lengths[:, None])


def alike(
    count: int, chance: NDArray[np.float32], sizes: tuple[int, int], rng: np.random.Generator
) -> Bits:
    """Histories (count, M) that some user may have, as long as users'."""
    chance = chance[rng.integers(len(chance), size=count)]
    met = rng.random(chance.shape, dtype=np.float32) < chance
    keys = np.where(met, 2.0 + rng.random(chance.shape, dtype=np.float32), chance)
    rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
    return np.asarray(rank < np.clip(met.sum(axis=1), *sizes)[:, None])


@dataclass(frozen=True)
class KnownForms:
    """What readers that know the form tell by the rounds of a ``view``."""

    readers: tuple[Reader, ...]
    view: View

    def of_users(self, users: NDArray[np.int64]) -> Numbers:
        """Log-likelihood ratios (n, M) of users; zeros where there is no reader."""
        return self._ratio(together(self.readers, self.view, users))

    def of_shadows(self, sent: Sequence[Mapping[str, Component]], count: int) -> Numbers:
        """Those of ``count`` shadows who ``sent`` these in the rounds of the view."""
        return self._ratio(self.evidence_of(sent, count))

    def evidence_of(self, sent: Sequence[Mapping[str, Component]], count: int) -> Evidence:
        """Evidence on ``count`` shadows who ``sent`` these, by the readers that read them."""
        whose = np.arange(count)
        rounds = tuple(
            replace(seen, uploads=Uploads(whose, {n: parts[n] for n in seen.uploads.components}))
            for seen, parts in zip(self.view.rounds, sent, strict=True)
            if seen.uploads is not None
        )
        public = replace(self.view.public, n_users=count)
        view = replace(self.view, public=public, rounds=rounds)
        return together([each for each in self.readers if not each.refusal(view)], view, whose)

    def _ratio(self, evidence: Evidence) -> Numbers:
        told = evidence.log_ratio
        if told is None:
            return np.zeros((len(evidence.users), self.view.public.n_items))
        return np.asarray(np.clip(told, -SURE, SURE), np.float64)


@dataclass(frozen=True)
class _Learned:
    """A rule of features for all rounds, and the log-odds to believe of a sum of so many.

    Beside what ``known`` readers tell.
    """

    known: KnownForms
    rounds: tuple[_Round, ...]
    rule: HistGradientBoostingClassifier
    trust: tuple[LogisticRegression, ...]
    most: float

    @classmethod
    def of(
        cls,
        known: KnownForms,
        met: Bits,
        like: Bits,
        alone: Sequence[Alone],
        rng: np.random.Generator,
    ) -> Self:
        """By shadows who ``met`` (n, M) these, believed as some say who are ``like`` users, (n,).

        Readers that know the form may go by what users have in common, which not all shadows have.
        """
        seen = known.view.rounds
        held_out = np.flatnonzero(like)[:: max(1, int(_PARTS * like.mean()))]
        learned = np.setdiff1d(np.arange(len(met)), held_out)
        fitted = _pairs(met, learned, _PAIRS // len(seen), rng)
        tried = _pairs(met, held_out, _PAIRS, rng)
        labels, truth = (met[pairs[:, 0], pairs[:, 1]] for pairs in (fitted, tried))
        pairs = np.concatenate([fitted, tried])
        made = [
            _Round.of(known.view, each, met, one, pairs, held_out, rng)
            for each, one in zip(seen, alone, strict=True)
        ]
        numbers = [x for _, x, _ in made]
        told = known.of_shadows([sent for _, _, sent in made], len(held_out))
        told = told[np.searchsorted(held_out, tried[:, 0]), tried[:, 1]]
        rule = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            min_samples_leaf=50,
            early_stopping=False,
            random_state=0,
        )
        with one_thread(None):
            rule.fit(
                np.concatenate([x[: len(fitted)] for x in numbers]), np.tile(labels, len(numbers))
            )
            shown = np.cumsum([rule.decision_function(x[len(fitted) :]) for x in numbers], axis=0)
        trust = tuple(
            LogisticRegression().fit(np.stack([total, told], axis=1), truth) for total in shown
        )
        most = float(np.log(max(2, len(tried)) / 2))
        return cls(known, tuple(each for each, _, _ in made), rule, trust, most)

    def ratio(self, users: NDArray[np.int64]) -> Numbers:
        """Log-likelihood ratios (n, M) of ``users`` (ascending); 0 of those who sent nothing."""
        n_items = self.known.view.public.n_items
        ratio = np.zeros((len(users), n_items))
        count = np.zeros(len(users), np.int64)
        with one_thread(None):
            for each in self.rounds:
                for places, x in each.of_users(users, n_items):
                    said = self.rule.decision_function(x.reshape(-1, x.shape[-1]))
                    ratio[places] += said.reshape(x.shape[:2])
                    count[places] += 1
        told = self.known.of_users(users)
        for heard, model in enumerate(self.trust, 1):
            mine, (learned, known) = count == heard, model.coef_[0]
            ratio[mine] = model.intercept_[0] + learned * ratio[mine] + known * told[mine]
        return np.clip(ratio, -self.most, self.most)


@dataclass(frozen=True)
class _Round:
    """One round: what its users sent, and what was learned of such messages."""

    broadcast: Broadcast | None
    whose: NDArray[np.integer[Any]]
    sent: Mapping[str, Component]
    listing: frozenset[str]
    linear: _Linear

    @classmethod
    def of(
        cls,
        view: View,
        seen: RoundView,
        met: Bits,
        alone: Alone,
        pairs: Places,
        kept: Places,
        rng: np.random.Generator,
    ) -> tuple[Self, Numbers, Mapping[str, Component]]:
        """And the features of ``pairs`` (k, 2) of a shadow and an item, (k, f), and the messages of
        some shadows that are ``kept``."""
        client = view.public.client
        assert client is not None, "refused"
        assert seen.uploads is not None, "chosen"
        made = client(met, seen.broadcast, rng).components
        shadows = {name: made[name] for name in seen.uploads.components if name in made}
        sent = {name: seen.uploads.components[name] for name in shadows}
        listing = lists(sent)
        features = partial(_features, shadows, seen.broadcast, met.shape[1], listing)
        linear = _Linear.of(features(), met, alone)
        found = cls(seen.broadcast, seen.uploads.users, sent, listing, linear)
        parts, mine = [], []
        for some, each in features():
            mine.append(np.flatnonzero(np.isin(pairs[:, 0], some)))
            x = found._all(each, some)
            parts.append(x[pairs[mine[-1], 0] - some[0], pairs[mine[-1], 1]])
        some_sent = {name: part.take(kept) for name, part in shadows.items()}
        return found, np.concatenate(parts)[np.argsort(np.concatenate(mine))], some_sent

    def of_users(self, users: NDArray[np.int64], n_items: int) -> Iterator[tuple[Places, Numbers]]:
        """Places among ``users`` and features (k, M, f) of those who sent, in blocks."""
        asked = np.flatnonzero(np.isin(self.whose, users))
        if len(asked):
            for some, made in _features(self.sent, self.broadcast, n_items, self.listing, asked):
                yield np.searchsorted(users, self.whose[some]), self._all(made, None)

    def _all(self, made: ItemFeatures, shadows: Places | None) -> Numbers:
        """All features (n, M, f), each beside its mean over the message."""
        each = np.stack(made.items + self.linear.read(made, shadows), axis=-1).astype(np.float32)
        mean = np.broadcast_to(each.mean(axis=1, keepdims=True), each.shape)
        return np.concatenate([each, mean], axis=-1)


@dataclass(frozen=True)
class _Linear:
    """Ridge regressions: of meeting an item on its numbers, and of histories on other numbers.

    The latter, and the ``marks`` of items, are fitted on either half of the shadows: a shadow is
    read by that which was not fitted to it, a user by both.
    """

    row: Numbers
    middle: Numbers
    spread: Numbers
    halves: tuple[tuple[Numbers, Numbers], ...]
    marks: tuple[Marks, ...]

    @classmethod
    def of(
        cls,
        blocks: Iterator[tuple[Places, ItemFeatures]],
        met: Bits,
        alone: Alone,
    ) -> Self:
        others, square, towards = [], np.zeros((1, 1)), np.zeros(1)
        kept: list[list[tuple[bool, NDArray[Any]]]] = []
        overall = met.mean()
        for some, made in blocks:
            others.append(_others(made))
            kept.append(made.marked)
            if made.rows:
                rows = np.concatenate(made.rows, axis=2)
                rows = rows.reshape(-1, rows.shape[2])
                square = square + rows.T @ rows
                towards = towards + rows.T @ (met[some].ravel() - overall)
        damped = square + _RIDGE * np.diag(np.diag(square))
        row = np.asarray(np.linalg.lstsq(damped, towards, rcond=None)[0], np.float64)
        x = np.concatenate(others)
        middle, spread = x.mean(axis=0), x.std(axis=0)
        spread[(x != 0).mean(axis=0) < _OFTEN] = np.inf
        spread = np.where(spread > 0, spread, 1.0)
        x = (x - middle) / spread
        halves = tuple((x[half::2], _ridge(x[half::2], met[half::2])) for half in (0, 1))
        parts = list(zip(*kept, strict=True))
        single: Sequence[NDArray[Any] | None] = alone or [None for _ in parts]
        marks = tuple(
            Marks.of(np.concatenate([sent for _, sent in part]), met, one, listed=part[0][0])
            for part, one in zip(parts, single, strict=True)
        )
        return cls(row, middle, spread, halves, marks)

    def read(self, made: ItemFeatures, shadows: Places | None) -> list[Numbers]:
        """What is told of each item, some arrays (n, M)."""
        found = []
        if made.rows:
            found.append(np.concatenate(made.rows, axis=2) @ self.row)
        x = (_others(made) - self.middle) / self.spread
        either: list[Sequence[NDArray[Any]]] = []
        if x.shape[1]:
            either.append([(x @ fitted.T) @ weights for fitted, weights in self.halves])
        for marks, (_, sent) in zip(self.marks, made.marked, strict=True):
            either.append(marks.read(sent))
            if (alike := marks.alike(sent)) is not None:
                found.append(alike.astype(np.float64))
        odd = 0.5 if shadows is None else (1 - shadows[:, None] % 2)
        return found + [(1 - odd) * by[0] + odd * by[1] for by in either]


def _ridge(x: Numbers, met: Bits) -> Numbers:
    """Weights (n, M) of the rows of numbers (n, d), by which others' inner products with them add
    up to what they tell: there are fewer rows than numbers, or about as many."""
    y = met - met.mean(axis=0)
    return np.linalg.solve(x @ x.T + _RIDGE * len(x) * np.eye(len(x)), y)


def _features(
    sent: Mapping[str, Component],
    broadcast: Broadcast | None,
    n_items: int,
    listing: frozenset[str],
    among: Places | None = None,
) -> Iterator[tuple[Places, ItemFeatures]]:
    """Those of the messages at these positions, all by default, in blocks."""
    places = np.arange(len(next(iter(sent.values())))) if among is None else among
    size = 32 * n_items + sum(int(np.prod(part.shape)) for part in sent.values())
    for some in np.array_split(places, -(-len(places) * size // _BLOCK)):
        part = {name: each.take(some) for name, each in sent.items()}
        yield some, ItemFeatures.of(part, broadcast, n_items, listing)


def chosen_rounds(view: View) -> list[RoundView]:
    """Some of the rounds that are read, the last and the first ones, of messages alike.

    Fewer where a message takes long.
    """
    client = view.public.client
    assert client is not None, "refused"
    most = _ROUNDS if 2 * _ROUNDS * FEWEST * client.seconds <= SECONDS else _SLOW_ROUNDS
    rounds = [seen for seen, _, _ in kept(view, names(view)[0], most)][-most:]
    forms = [seen.uploads and seen.uploads.components.keys() for seen in rounds]
    return [seen for seen, form in zip(rounds, forms, strict=True) if form == forms[-1]]


def _pairs(met: Bits, among: Places, most: int, rng: np.random.Generator) -> Places:
    """Pairs (k, 2) of one ``among`` the shadows and an item, half of them met.

    Of each shadow as many met as not, and those not met of items that are as popular: neither the
    shadow nor the item then says anything by itself.
    """
    count = np.minimum(met[among].sum(axis=1), (~met[among]).sum(axis=1))
    weight = np.log(met.sum(axis=0) + 0.5), np.zeros(met.shape[1])
    parts = []
    for kind, more in zip((~met[among], met[among]), weight, strict=True):
        keys = np.where(kind, more + rng.gumbel(size=kind.shape), -np.inf)
        order = np.argsort(-keys, axis=1)
        row, place = np.nonzero(np.arange(met.shape[1]) < count[:, None])
        parts.append(np.stack([among[row], order[row, place]], axis=1))
    taken = np.sort(rng.permutation(len(parts[0]))[: most // 2])
    return np.concatenate([part[taken] for part in parts])


def _others(made: ItemFeatures) -> Numbers:
    count = len((made.items or made.others)[0])
    return np.concatenate([np.zeros((count, 0)), *made.others], axis=1)
