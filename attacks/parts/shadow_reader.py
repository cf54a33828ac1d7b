"""Reader of messages of any form, trained by running the devices' code on simulated histories.

A reader infers users' interactions from messages, as log-likelihood ratios.
"""

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
from fedrec_auditor.attacks.parts import item_features, uploads
from fedrec_auditor.attacks.parts.item_features import ItemFeatures, ItemMarks, Numbers
from fedrec_auditor.attacks.readers import base
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, Reader, pool_evidence
from fedrec_auditor.targets import transcript
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.transcript import Broadcast, Component, RoundView, Uploads, View

# Maximum and minimum number of simulated users (shadows), each of whom sends in every round that is
# read. The minimum number is used if computing a message takes long.
MAX_SHADOWS, MIN_SHADOWS = 1_000, 100
# Time, in seconds, for computing messages of simulated users; ``MIN_SHADOWS`` may need more.
MAX_SHADOW_SECONDS = 60.0
# Maximum number of entries in all messages of shadows in a round: 256 MiB to 512 MiB.
MAX_SHADOW_ENTRIES = 2**26
_HISTORIES = 2**23  # maximum number of shadows times items: a few tables of 64 MiB
_SINGLE = 2**25  # maximum number of items times items, for histories of one item
_USERS = 500  # number of users whose first evidence sets the histories of the second shadows
_PARTS = 5  # number of parts of the shadows; one part calibrates the rule fitted to all others
_LONGEST = 1 / 3  # maximum share of the catalogue in a history
_ROUNDS, _SLOW_ROUNDS = 8, 4
_BLOCK = 2**22  # how many numbers of messages and features are in memory at once
_PAIRS = 100_000  # number of pairs of a shadow and an item to learn from, half interactions
_RIDGE = 0.01  # multiple of a number's variance
_EXACT = 0.9999  # area under the ROC curve, above which readers make no mistake
_OFTEN = 0.02  # minimum share of shadows that send an informative number

Bits = NDArray[np.bool_]
# Inputs of ``ItemMarks`` from devices whose history is a single item, (M, d) each.
OneItemMessages = Sequence[NDArray[Any]] | None
Index = NDArray[np.intp]
_MEMO = "shadows"
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ShadowReader:
    """Reader that learns from simulated users (shadows) how messages depend on interactions.

    A classifier of boosted trees, one for all items, computes the log-odds of an interaction. The
    log-odds of several rounds are added up and calibrated on held-out shadows. Then they are
    combined with the log-likelihood ratios of ``readers``. If ``readers`` make no error on a first
    group of shadows, only their result is returned.

    readers: readers that know the form of the messages; may be empty
    reference: description of the method, with its source
    """

    # Inputs of the classifier are features of an item in the message (``ItemFeatures``), and the
    # predictions of two ridge regressions: one on the item's numbers, one on all numbers that
    # belong to no item. Log-likelihood ratios are limited to values that the number of held-out
    # pairs can support.

    readers: tuple[Reader, ...] = ()

    reference: ClassVar[str] = (
        "messages of shadow users under the observed broadcasts, and a classifier of items "
        "trained on them (shadow models: Shokri et al., S&P 2017)"
    )

    def refusal(self, view: View) -> str:
        """Returns the reason why the reader cannot read the messages; an empty string if it can.

        The reader needs the devices' code, and messages that the adversary's view links to single
        users.
        """
        in_clear = any(seen.is_cleartext for seen in view.rounds)
        sent = bool(uploads.list_linked_components(view)) and not in_clear
        if view.public.device_code is None or view.public.item_rows is not None or not sent:
            return uploads.make_refusal(view, "messages whose senders' code can be run")
        if (numbers := _message_size(view)) * MIN_SHADOWS > MAX_SHADOW_ENTRIES:
            return f"{MIN_SHADOWS} messages of {numbers:,} numbers are too large to simulate."
        return ""

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of the interactions of ``users`` (ascending indices).

        A ratio compares an interaction with none. Raises InputError if the devices' code fails at
        too many simulated histories (``run_on_accepted``).
        """
        if _MEMO not in view.cache:
            view.cache[_MEMO] = _learn_rule(view, self.readers)
        learned, left_out = view.cache[_MEMO]
        known = pool_evidence(self.readers, view, users)
        if learned is None:
            return known
        view.add_note(f"The attack learns from users simulated by the devices' code.{left_out}")
        known = replace(known, item_log_odds=None, activity_log_odds=None)
        evidence = replace(known, log_ratio=learned.infer(users))
        return replace(evidence, activity_log_odds=base.estimate_shrunk_activity(evidence))


def _learn_rule(view: View, readers: tuple[Reader, ...]) -> tuple[_Rule | None, str]:
    """Learns a rule from random simulated histories, then from histories similar to the users'.

    Returns the rule, which gives log-likelihood ratios of interactions, and a sentence on omitted
    histories, or an empty string. The rule is None if the other ``readers`` make no mistake.
    """
    rng, n_items, client = np.random.default_rng(0), view.public.n_items, view.public.device_code
    assert client is not None, "refused"
    rounds = choose_rounds(view)
    known = FixedReaders(readers, replace(view, rounds=tuple(rounds)))
    sizes = client.n_items_range
    if readers:
        drawn = draw_histories(MIN_SHADOWS, n_items, sizes, rng)
        taken, sent, _ = run_on_accepted(
            drawn, lambda n: [client(drawn[n], each.broadcast, rng).components for each in rounds]
        )
        ratio = known.read_shadow_log_ratios(sent, len(taken))
        if roc_auc_score(drawn[taken].ravel(), ratio.ravel()) > _EXACT:
            return None, ""
    messages = 2 * len(rounds) * max(1e-9, client.call_seconds)
    max_shadows = min(MAX_SHADOWS, _HISTORIES // n_items, MAX_SHADOW_ENTRIES // _message_size(view))
    count = int(np.clip(MAX_SHADOW_SECONDS / messages, MIN_SHADOWS, max(MIN_SHADOWS, max_shadows)))
    alone = _send_one_item(view, rounds, rng)
    every = np.ones(count, np.bool_)
    drawn = draw_histories(count, n_items, sizes, rng)
    _, first, _ = run_on_accepted(drawn, lambda n: _Rule.fit(known, drawn[n], every[n], alone, rng))
    among = np.sort(rng.permutation(uploads.find_senders(view))[:_USERS]).astype(np.int64)
    chance = base.compute_posterior(Evidence(users=among, log_ratio=first.infer(among)))
    like = rng.permutation(count) < count // 2
    mixed = np.zeros((count, n_items), np.bool_)
    mixed[like] = draw_similar_histories(count // 2, chance, sizes, rng)
    mixed[~like] = draw_histories(count - count // 2, n_items, sizes, rng)
    by = like if readers else every
    _, second, left_out = run_on_accepted(
        mixed, lambda n: _Rule.fit(known, mixed[n], by[n], alone, rng)
    )
    return second, left_out


def run_on_accepted(
    histories: Bits, function: Callable[[Index], _Result], min_accepted: int = MIN_SHADOWS // 2
) -> tuple[Index, _Result, str]:
    """Calls ``function`` with the simulated users whose histories the devices' code accepts.

    Returns the indices of the accepted users, the result of ``function``, and a sentence on the
    rejected histories (empty if there are none). Raises InputError if fewer than ``min_accepted``
    histories are accepted.

    histories: True for items of a simulated user's history (n, M)
    function: function of indices of simulated users, which runs the devices' code on them
    min_accepted: minimum number of accepted histories
    """
    places, left_out = np.arange(len(histories)), ""
    while True:
        try:
            return places, function(places), left_out
        except transcript.RefusedHistoriesError as refusal:
            places = places[refusal.is_accepted]
            left_out = (
                f" {len(histories) - len(places):,} of {len(histories):,} simulated histories are "
                f"left out because the code fails at them: {refusal}"
            )
        if len(places) < min_accepted:
            raise InputError(
                f"Expected client code that accepts >= {min_accepted} simulated histories, got "
                f"{len(places)} of them. Correct this code.{left_out}"
            )


def _send_one_item(
    view: View, rounds: Sequence[RoundView], rng: np.random.Generator
) -> list[OneItemMessages]:
    """Returns messages, for each round, of devices whose history is a single item.

    All rounds have None in three cases:

    - no message may be a MinHash signature, so that these messages are not needed (``ItemMarks``);
    - computing the messages takes too much time or memory;
    - the devices' code rejects such histories.
    """
    client, n_items = view.public.device_code, view.public.n_items
    assert client is not None, "refused"
    numbers, nothing = _message_size(view), [None for _ in rounds]
    logs = [each.uploads for each in rounds if each.uploads is not None]
    signed = any(map(item_features.may_be_minhash, logs[-1].components.values()))
    large = n_items * max(n_items / _SINGLE, numbers / MAX_SHADOW_ENTRIES) > 1
    if not signed or large or n_items * len(rounds) * client.call_seconds > MAX_SHADOW_SECONDS:
        return list(nothing)
    single, every = np.eye(n_items, dtype=np.bool_), np.arange(n_items)
    alone: list[OneItemMessages] = []
    for seen, logged in zip(rounds, logs, strict=True):
        try:
            made = client(single, seen.broadcast, rng).components
        except InputError:  # the code may need a longer history
            return list(nothing)
        parts = {n: made[n].to_dense(every) for n in logged.components if n in made}
        lists = item_features.find_list_components(logged.components)
        sources = item_features.select_item_mark_parts(parts, n_items, lists)
        alone.append([messages for _, messages in sources])
    return alone


def _message_size(view: View) -> int:
    """Returns the number of entries of one user's message in the last of the rounds to read."""
    last = choose_rounds(view)[-1].uploads
    assert last is not None, "chosen"
    return sum(max(1, int(np.prod(part.shape))) for part in last.components.values())


def draw_histories(
    count: int, n_items: int, sizes: tuple[int, int], rng: np.random.Generator
) -> Bits:
    """Draws histories of random items for simulated users, as a mask (count, n_items).

    ``sizes`` are the smallest and the largest number of items of a history. The number of items is
    log-uniform between these two numbers, but at most a third of all items.
    """
    fewest, longest_of_users = sizes
    longest = max(fewest, min(longest_of_users, max(2.0, _LONGEST * n_items)))
    lengths = np.exp(rng.uniform(np.log(fewest), np.log(longest), count))
    places = rng.permuted(np.tile(np.arange(n_items), (count, 1)), axis=1)
    return np.asarray(places < lengths[:, None])


def draw_similar_histories(
    count: int, probs: NDArray[np.float32], sizes: tuple[int, int], rng: np.random.Generator
) -> Bits:
    """Draws histories of simulated users who resemble real users, as a mask (count, items).

    count: number of simulated users
    probs: probability that each real user interacted with each item (users, items)
    sizes: smallest and largest number of items of a history
    """
    # Each simulated user takes the row of a random real user.
    probs = probs[rng.integers(len(probs), size=count)]
    met = rng.random(probs.shape, dtype=np.float32) < probs
    keys = np.where(met, 2.0 + rng.random(probs.shape, dtype=np.float32), probs)
    rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
    return np.asarray(rank < np.clip(met.sum(axis=1), *sizes)[:, None])


@dataclass(frozen=True)
class FixedReaders:
    """Readers that need not learn from simulated users, with the messages that they can read.

    readers: the readers, which infer interactions from messages
    view: the messages that they read, and the public parameters
    """

    readers: tuple[Reader, ...]
    view: View

    def read_user_log_ratios(self, users: NDArray[np.int64]) -> Numbers:
        """Returns log-likelihood ratios of the interactions of n ``users`` with M items, (n, M).

        A ratio compares an interaction with none; it is 0 without information.
        """
        return self._clip_ratio(pool_evidence(self.readers, self.view, users))

    def read_shadow_log_ratios(self, sent: Sequence[Mapping[str, Component]], n: int) -> Numbers:
        """Returns log-likelihood ratios (n, M) of the interactions of simulated users.

        sent: messages of the simulated users in each round, by component name
        n: number of simulated users
        """
        return self._clip_ratio(self.read_shadow_evidence(sent, n))

    def read_shadow_evidence(self, sent: Sequence[Mapping[str, Component]], count: int) -> Evidence:
        """Returns the readers' evidence on simulated users, such as log-ratios of interactions.

        sent: messages of the simulated users in each round, by component name
        count: number of simulated users

        Readers that cannot read the messages are omitted.
        """
        whose = np.arange(count)
        rounds = tuple(
            replace(seen, uploads=Uploads(whose, {n: parts[n] for n in seen.uploads.components}))
            for seen, parts in zip(self.view.rounds, sent, strict=True)
            if seen.uploads is not None
        )
        view = replace(self.view, public=replace(self.view.public, n_users=count), rounds=rounds)
        return pool_evidence([each for each in self.readers if not each.refusal(view)], view, whose)

    def _clip_ratio(self, evidence: Evidence) -> Numbers:
        ratio = evidence.log_ratio
        if ratio is None:
            return np.zeros((len(evidence.users), self.view.public.n_items))
        return np.asarray(np.clip(ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO), np.float64)


@dataclass(frozen=True)
class _Rule:
    """Classifier of interactions from messages, with a calibration of its sum over rounds.

    known: readers that know the form of messages, whose evidence is combined with the rule's
    rounds: the rounds that are read
    rule: classifier of the features of a user and an item
    trust: calibration of the sum over 1, 2, ... rounds
    max_ratio: largest absolute log-likelihood ratio
    """

    known: FixedReaders
    rounds: tuple[_RoundReader, ...]
    rule: HistGradientBoostingClassifier
    trust: tuple[LogisticRegression, ...]
    max_ratio: float

    @classmethod
    def fit(
        cls,
        readers: FixedReaders,
        histories: Bits,
        is_realistic: Bits,
        singles: Sequence[OneItemMessages],
        rng: np.random.Generator,
    ) -> Self:
        """Fits the classifier to simulated users, and calibrates it on held-out simulated users.

        readers: readers made for the form of the messages, whose log-likelihood ratios are combined
            with the classifier's
        histories: histories of the simulated users (n, M)
        is_realistic: True for simulated users that resemble real users (n,); only these are held
            out
        singles: messages of devices with a single item, per round
        """
        rounds = readers.view.rounds
        # ``readers`` may rely on what real users have in common, so that only realistic users are
        # held out.
        held_out = np.flatnonzero(is_realistic)[:: max(1, int(_PARTS * is_realistic.mean()))]
        learned = np.setdiff1d(np.arange(len(histories)), held_out)
        fitted = _draw_pairs(histories, learned, _PAIRS // len(rounds), rng)
        tried = _draw_pairs(histories, held_out, _PAIRS, rng)
        labels, truth = (histories[pairs[:, 0], pairs[:, 1]] for pairs in (fitted, tried))
        pairs = np.concatenate([fitted, tried])
        made = [
            _RoundReader.fit(readers.view, round_view, histories, one, pairs, held_out, rng)
            for round_view, one in zip(rounds, singles, strict=True)
        ]
        numbers = [x for _, x, _ in made]
        ratio = readers.read_shadow_log_ratios([sent for _, _, sent in made], len(held_out))
        ratio = ratio[np.searchsorted(held_out, tried[:, 0]), tried[:, 1]]
        rule = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=15,
            min_samples_leaf=50,
            early_stopping=False,
            random_state=0,
        )
        with limit_to_one_thread(None):
            features = np.concatenate([x[: len(fitted)] for x in numbers])
            rule.fit(features, np.tile(labels, len(numbers)))
            totals = np.cumsum([rule.decision_function(x[len(fitted) :]) for x in numbers], axis=0)
        trust = tuple(
            LogisticRegression().fit(np.stack([total, ratio], axis=1), truth) for total in totals
        )
        max_ratio = float(np.log(max(2, len(tried)) / 2))
        return cls(readers, tuple(round_view for round_view, _, _ in made), rule, trust, max_ratio)

    def infer(self, users: NDArray[np.int64]) -> Numbers:
        """Returns log-likelihood ratios (n, M) of interactions of ``users`` (ascending indices).

        The ratio is 0 for a user without messages.
        """
        n_items = self.known.view.public.n_items
        ratio = np.zeros((len(users), n_items))
        count = np.zeros(len(users), np.int64)
        with limit_to_one_thread(None):
            for each in self.rounds:
                for places, x in each.read_users(users, n_items):
                    scores = self.rule.decision_function(x.reshape(-1, x.shape[-1]))
                    ratio[places] += scores.reshape(x.shape[:2])
                    count[places] += 1
        of_known = self.known.read_user_log_ratios(users)
        for n_rounds, model in enumerate(self.trust, 1):
            at, (learned, known) = count == n_rounds, model.coef_[0]
            ratio[at] = model.intercept_[0] + learned * ratio[at] + known * of_known[at]
        return np.clip(ratio, -self.max_ratio, self.max_ratio)


@dataclass(frozen=True)
class _RoundReader:
    """Messages of one round, and regressions fitted to simulated messages of this round.

    broadcast: model that the server sent in the round, or None
    whose: users who sent the messages (n,)
    sent: messages by component name
    listing: names of the components that are lists
    linear: the fitted regressions
    """

    broadcast: Broadcast | None
    whose: NDArray[np.integer[Any]]
    sent: Mapping[str, Component]
    listing: frozenset[str]
    linear: _Regressions

    @classmethod
    def fit(
        cls,
        view: View,
        round_view: RoundView,
        histories: Bits,
        singles: OneItemMessages,
        pairs: Index,
        kept_shadows: Index,
        rng: np.random.Generator,
    ) -> tuple[Self, Numbers, Mapping[str, Component]]:
        """Fits the regressions of a round to messages of simulated users.

        Returns three values: the round, features (k, f) of ``pairs``, and messages of
        ``kept_shadows`` by component name.

        histories: histories of the simulated users (n, M)
        singles: messages of devices with a single item, or None
        pairs: indices of a simulated user and an item (k, 2)
        kept_shadows: indices of simulated users whose messages are returned
        """
        client = view.public.device_code
        assert client is not None, "refused"
        assert round_view.uploads is not None, "chosen"
        made = client(histories, round_view.broadcast, rng).components
        shadows = {name: made[name] for name in round_view.uploads.components if name in made}
        sent = {name: round_view.uploads.components[name] for name in shadows}
        listing = item_features.find_list_components(sent)
        features = partial(_featurize, shadows, round_view.broadcast, histories.shape[1], listing)
        linear = _Regressions.fit(features(), histories, singles)
        fitted = cls(round_view.broadcast, round_view.uploads.users, sent, listing, linear)
        parts, positions = [], []
        for some, each in features():
            positions.append(np.flatnonzero(np.isin(pairs[:, 0], some)))
            x = fitted._join_features(each, some)
            parts.append(x[pairs[positions[-1], 0] - some[0], pairs[positions[-1], 1]])
        some_sent = {name: part.take(kept_shadows) for name, part in shadows.items()}
        return fitted, np.concatenate(parts)[np.argsort(np.concatenate(positions))], some_sent

    def read_users(self, users: NDArray[np.int64], n_items: int) -> Iterator[tuple[Index, Numbers]]:
        """Yields blocks of senders: their positions in ``users`` (k,), and features (k, M, f)."""
        asked = np.flatnonzero(np.isin(self.whose, users))
        if len(asked):
            for some, made in _featurize(self.sent, self.broadcast, n_items, self.listing, asked):
                yield np.searchsorted(users, self.whose[some]), self._join_features(made, None)

    def _join_features(self, made: ItemFeatures, shadows: Index | None) -> Numbers:
        """Returns features of items, followed by the mean of each over all items, (n, M, f).

        ``shadows`` are the indices of simulated users who sent the messages ``made``; None for real
        users.
        """
        features = made.features_by_item + self.linear.read(made, shadows)
        each = np.stack(features, axis=-1).astype(np.float32)
        mean = np.broadcast_to(each.mean(axis=1, keepdims=True), each.shape)
        return np.concatenate([each, mean], axis=-1)


@dataclass(frozen=True)
class _Regressions:
    """Ridge regressions of interactions on the numbers in messages of one round.

    One regression predicts an interaction from the item's own numbers. A second regression predicts
    whole histories from the numbers that belong to no item.

    row: weights of the numbers of an item (k,)
    middle, spread: mean and standard deviation of the numbers without an item (d,)
    halves: for each half of the simulated users, the standardised numbers (n/2, d) and the dual
        weights (n/2, M)
    marks: marks of the items (codes that identify an item), for each part of the messages that may
        have some
    """

    # The second regression and the marks are fitted twice, to each half of the simulated users. A
    # simulated user is read by the fit to the half without that user, a real user by the mean of
    # both fits.

    row: Numbers
    middle: Numbers
    spread: Numbers
    halves: tuple[tuple[Numbers, Numbers], ...]
    marks: tuple[ItemMarks, ...]

    @classmethod
    def fit(
        cls, blocks: Iterator[tuple[Index, ItemFeatures]], histories: Bits, singles: OneItemMessages
    ) -> Self:
        others, square, towards = [], np.zeros((1, 1)), np.zeros(1)
        marked_blocks: list[list[tuple[bool, NDArray[Any]]]] = []
        overall = histories.mean()
        for some, made in blocks:
            others.append(_join_numbers(made))
            marked_blocks.append(made.item_mark_parts)
            if made.vectors_by_item:
                rows = np.concatenate(made.vectors_by_item, axis=2)
                rows = rows.reshape(-1, rows.shape[2])
                square = square + rows.T @ rows
                towards = towards + rows.T @ (histories[some].ravel() - overall)
        damped = square + _RIDGE * np.diag(np.diag(square))
        row = np.asarray(np.linalg.lstsq(damped, towards, rcond=None)[0], np.float64)
        x = np.concatenate(others)
        middle, spread = x.mean(axis=0), x.std(axis=0)
        spread[(x != 0).mean(axis=0) < _OFTEN] = np.inf
        spread = np.where(spread > 0, spread, 1.0)
        x = (x - middle) / spread
        halves = tuple((x[half::2], _fit_ridge(x[half::2], histories[half::2])) for half in (0, 1))
        parts = list(zip(*marked_blocks, strict=True))
        single: Sequence[NDArray[Any] | None] = singles or [None for _ in parts]
        marks = []
        for part, one in zip(parts, single, strict=True):
            messages = np.concatenate([sent for _, sent in part])
            marks.append(ItemMarks.fit(messages, histories, one, has_code_lists=part[0][0]))
        return cls(row, middle, spread, halves, tuple(marks))

    def read(self, messages: ItemFeatures, shadows: Index | None) -> list[Numbers]:
        """Returns features of each item in n messages, as a list of arrays (n, M).

        messages: the numbers and marks of the messages
        shadows: indices of the simulated users who sent the messages; None for real users
        """
        features = []
        if messages.vectors_by_item:
            features.append(np.concatenate(messages.vectors_by_item, axis=2) @ self.row)
        x = (_join_numbers(messages) - self.middle) / self.spread
        either: list[Sequence[NDArray[Any]]] = []
        if x.shape[1]:
            either.append([(x @ fitted.T) @ weights for fitted, weights in self.halves])
        for marks, (_, sent) in zip(self.marks, messages.item_mark_parts, strict=True):
            either.append(marks.compute_mark_shares(sent))
            if (matches := marks.count_matches(sent)) is not None:
                features.append(matches.astype(np.float64))
        odd = 0.5 if shadows is None else (1 - shadows[:, None] % 2)
        return features + [(1 - odd) * by[0] + odd * by[1] for by in either]


def _fit_ridge(x: Numbers, histories: Bits) -> Numbers:
    """Returns dual weights (n, M) of a ridge regression of ``histories`` on the rows of x.

    The prediction for a row y is (y x') times the weights.

    x: predictors (n, d)
    histories: histories of the n users (n, M)
    """
    # The dual form suits fewer rows than numbers, or about as many.
    y = histories - histories.mean(axis=0)
    return np.linalg.solve(x @ x.T + _RIDGE * len(x) * np.eye(len(x)), y)


def _featurize(
    sent: Mapping[str, Component],
    broadcast: Broadcast | None,
    n_items: int,
    listing: frozenset[str],
    among: Index | None = None,
) -> Iterator[tuple[Index, ItemFeatures]]:
    """Yields features of items in messages, in blocks: positions of the messages, and features.

    ``among`` are the positions of the messages to use; all by default.
    """
    places = np.arange(len(next(iter(sent.values())))) if among is None else among
    size = 32 * n_items + sum(int(np.prod(part.shape)) for part in sent.values())
    for some in np.array_split(places, -(-len(places) * size // _BLOCK)):
        part = {name: each.take(some) for name, each in sent.items()}
        yield some, ItemFeatures.from_messages(part, broadcast, n_items, listing)


def choose_rounds(view: View) -> list[RoundView]:
    """Returns the rounds whose messages are compared with those of simulated users.

    The rounds are some of the first and last ones in the adversary's view (``select_rounds``), with
    the message components of the last round. There are at most 8, or at most 4 if computing a
    message takes long.
    """
    client = view.public.device_code
    assert client is not None, "refused"
    is_slow = 2 * _ROUNDS * MIN_SHADOWS * client.call_seconds > MAX_SHADOW_SECONDS
    max_rounds, name = _SLOW_ROUNDS if is_slow else _ROUNDS, uploads.list_linked_components(view)[0]
    rounds = [seen for seen, _, _ in uploads.select_rounds(view, name, max_rounds)][-max_rounds:]
    forms = [seen.uploads and seen.uploads.components.keys() for seen in rounds]
    return [seen for seen, form in zip(rounds, forms, strict=True) if form == forms[-1]]


def _draw_pairs(histories: Bits, among: Index, n_pairs: int, rng: np.random.Generator) -> Index:
    """Draws pairs (k, 2) of a simulated user and an item, half of them interactions.

    The users are from ``among``. Each user has as many negatives as positives, and negatives are as
    popular as positives.
    """
    # Therefore neither the user nor the item is informative by itself.
    count = np.minimum(histories[among].sum(axis=1), (~histories[among]).sum(axis=1))
    weight = np.log(histories.sum(axis=0) + 0.5), np.zeros(histories.shape[1])
    parts = []
    for kind, more in zip((~histories[among], histories[among]), weight, strict=True):
        keys = np.where(kind, more + rng.gumbel(size=kind.shape), -np.inf)
        order = np.argsort(-keys, axis=1)
        row, place = np.nonzero(np.arange(histories.shape[1]) < count[:, None])
        parts.append(np.stack([among[row], order[row, place]], axis=1))
    taken = np.sort(rng.permutation(len(parts[0]))[: n_pairs // 2])
    return np.concatenate([part[taken] for part in parts])


def _join_numbers(made: ItemFeatures) -> Numbers:
    count = len((made.features_by_item or made.non_item_numbers)[0])
    return np.concatenate([np.zeros((count, 0)), *made.non_item_numbers], axis=1)
