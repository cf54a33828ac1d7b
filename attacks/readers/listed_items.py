"""What lists of items, or of codes that stand for items, tell without the senders' code.

A device may list others' items beside its own. Its own come up in every round, others if they are
drawn again. Of user u an item or code is listed in c of R rounds; that has probability

    w Binomial(c; R, a) + (1 - w) Binomial(c; R, b),

a of one's own and b of others, w the share that is one's own: a is the same of all users, b and w
are u's. They are fitted by expectation and maximisation. In a single round a is taken to be 1, and
b is how often the tenth that is listed least comes up, which hardly anybody has. Where items are
listed several times, the number of times is told apart as well: none, one, more.

Where one's own items stand first, the first n of a list are the same set in every round at n, the
number of one's own, whatever the order. Where most lists have such a beginning and differ behind
it, it is read as it is, and so is such an end where own items stand last. How many others there
are, as many for all or so many for each own one, these lists show of those that were seen once
(``_Rule``). In a single round popularity shows the place (``_popular``).

Codes are those of items by ``Public.rows``, or else they are matched: of codes sorted by how many
users have them, and items by how popular they are, the k-th belong together. Those with ties are as
likely each.

Source: latent classes (Dempster, Laird and Rubin, JRSS B 1977); matching by frequency: Naveed,
Kamara and Wright, Inference attacks on property-preserving encrypted databases, CCS 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, softmax

from fedrec_auditor.attacks.parts.prior import prior
from fedrec_auditor.attacks.parts.uploads import entries_of, kept, last, names, senders
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.targets.transcript import NOTHING, Kind, View

Floats = NDArray[np.float64]
_SAMPLE = 500  # users by whom it is told how lists are made
_STEPS = 30
_BLOCK = 2**22  # users times codes at once
_LEAST = 1e-6  # of a probability
_LEAST_LISTED = 0.1  # of the catalogue, which hardly anybody has
_CODES = 4  # times the catalogue: so many codes are told apart at most
_LUCK = 3.0  # deviations
_DIGITS = 6
_PAIRS = 2**24  # codes times items, or times users, at once
_PIECES = 8
_EXACT = 0.05  # of the number of own items


class ListedItems(MessageReader):
    """Lists of items, or of their codes: how often each comes up, and in which place.

    Codes that nobody knows are matched to items by frequency, where it is known how popular these
    are and the senders' code is not at hand, those that come up most. Memory: some arrays of users
    times items, or codes, and of 2^24 numbers.
    """

    reference = (
        "latent classes of what is listed, derived in attacks/readers/listed_items.py; frequency "
        "matching: Naveed, Kamara and Wright, CCS 2015"
    )

    wanted = "lists of items, or of codes of items"

    def reads(self, view: View) -> bool:
        """Whether there is a list, and something to read its codes by."""
        return bool(_names(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """See the module. Each of several lists tells of what anybody lists there, if it is known.

        Of an item the list that tells most counts. Of lists that are matched one is read.
        """
        lists = _names(view)
        assert lists, "refused"
        told: Floats | None = None
        for name in lists:
            of_items = _of_items(view, name)
            if of_items is None:
                view.tell("Matches codes to items by how many users have each.")
                return _matched(view, name, users)
            ratio = _told(view, name, of_items, users)
            if len(lists) > 1:
                ratio[:, ~np.isin(of_items, _seen_codes(view, name)).all(axis=1)] = 0.0
            stronger = told is None or abs(ratio) > abs(told)
            told = np.where(stronger, ratio, 0.0 if told is None else told)
        return Evidence(users=users, log_ratio=told)


def _names(view: View) -> list[str]:
    """The lists that are read: those of items, or else of codes."""
    kinds = {name: last(view, name).kind for name in names(view)}
    known = view.public.rows is not None
    guessed = view.public.client is None and view.public.popularity is not None
    for wanted, able in ((Kind.ITEMS, True), (Kind.CODES, known or guessed)):
        found = [name for name, kind in kinds.items() if kind is wanted]
        if able and (found := [name for name in found if len(last(view, name).shape) == 1]):
            return found
    return []


def _told(view: View, name: str, of_items: NDArray[np.int64], users: NDArray[np.int64]) -> Floats:
    """Log-likelihood ratios of items (n, M) by one list: the least of those of an item's codes."""
    codes, places = np.unique(of_items, return_inverse=True)
    ratio = _Lists.of(view, name, codes).ratio(users)
    places = places.reshape(of_items.shape)
    return np.asarray(np.stack([ratio[:, each] for each in places.T]).min(axis=0))


def _of_items(view: View, name: str) -> NDArray[np.int64] | None:
    """The codes of items in a list, (M, h); None where they are not known."""
    if last(view, name).kind is Kind.ITEMS:
        return np.arange(view.public.n_items)[:, None]
    return view.public.rows


def _matched(view: View, name: str, users: NDArray[np.int64]) -> Evidence:
    """What codes tell of the items that they are matched to by frequency."""
    popularity = view.public.popularity
    assert popularity is not None, "refused"
    everybody = senders(view).astype(np.int64)
    codes = _seen_codes(view, name)
    if not len(codes):
        return Evidence(users=users, log_ratio=np.zeros((len(users), view.public.n_items)))
    lists = _Lists.of(view, name, codes, seen_only=True)
    step = max(1, _BLOCK // max(1, len(lists.codes)))
    shares = np.zeros(len(lists.codes))
    for start in range(0, len(everybody), step):
        shares += lists.chance(everybody[start : start + step]).sum(axis=0)
    likely, doubt = _by_rank(np.rint(shares), np.rint(popularity * view.public.n_users))
    overall = (shares @ likely / len(everybody)).clip(_LEAST, 1 - _LEAST)
    chance = (1 - doubt) * (lists.chance(users) @ likely) + doubt * overall
    items = logit(overall)
    ratio = (logit(chance.clip(_LEAST, 1 - _LEAST)) - items).clip(-SURE, SURE)
    ratio = np.round(ratio, _DIGITS)  # last bits would break ties of the prior
    return Evidence(users=users, log_ratio=ratio, items=items, activity=np.zeros(len(users)))


def _by_rank(first: Floats, second: Floats) -> tuple[Floats, float]:
    """How likely each of ``first`` (D,) is each of ``second`` (M,) by their order: (D, M).

    The largest are each other's. Those that are equal share their ranks, and so do those that are
    as near as values of one rank are on average, in units of their root. And how much the match is
    to be doubted: twice that, at most 1, since what belongs together is farther apart than what is
    of one rank.
    """
    first = first * second.sum() / max(first.sum(), _LEAST)
    most = min(len(first), len(second))
    one, other = (-np.sort(-each)[:most] for each in (first, second))
    apart = (one - other) / np.sqrt(np.maximum(other, 1.0))
    near = min(1.0, float(np.sqrt(np.mean(apart**2))))
    (low, high), (bottom, top) = _ranks(first, near), _ranks(second, near)
    shared = np.minimum(high[:, None], top) - np.maximum(low[:, None], bottom)
    likely = np.maximum(shared, 0) / (high - low)[:, None] / (top - bottom)
    return likely / np.maximum(likely.sum(axis=1, keepdims=True), 1.0), min(1.0, 2 * near)


def _ranks(values: Floats, near: float) -> tuple[Floats, Floats]:
    """From where to where the ranks lie that a value shares with those near it, the largest first.

    That is so many times its root.
    """
    order, span = np.sort(-values), near * np.sqrt(np.maximum(values, 1.0))
    return (
        np.searchsorted(order, -values - span, side="left").astype(np.float64),
        np.searchsorted(order, -values + span, side="right").astype(np.float64),
    )


def _seen_codes(view: View, name: str) -> NDArray[np.int64]:
    """All codes that are listed, ascending; of very many those that come up most."""
    everybody = senders(view).astype(np.int64)
    codes, counts = np.zeros(0, np.int64), np.zeros(0)
    for _, uploads, component in kept(view, name):
        for _, sent in entries_of(everybody, uploads.users, component):
            new, more = np.unique(sent.astype(np.int64), return_counts=True)
            codes, place = np.unique(np.concatenate([codes, new]), return_inverse=True)
            found = np.bincount(place, np.concatenate([counts, more]), len(codes))
            counts = np.asarray(found, np.float64)
    counts[codes == NOTHING] = 0.0
    n_items = view.public.n_items
    most = np.argsort(-counts, kind="stable")[: min(_CODES * n_items, _PAIRS // n_items)]
    return np.sort(codes[most[counts[most] > 0]])


@dataclass(frozen=True, slots=True)
class _Seen:
    """What users (n,) list of codes (D,) in so many ``rounds`` (n, 1).

    In how many of them ``once`` or ``more`` often, (n, D) each. ``place`` (n, D) is the last of the
    places that a code has among those of the list, by rounds, inf where one is without it; ``size``
    (n,) how many the longest list has; ``sorted`` (n,) whether all have their codes in order. Lists
    that are ``turned`` are read from their end.
    """

    rounds: Floats
    once: Floats
    more: Floats
    place: Floats
    size: Floats
    sorted: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        view: View,
        name: str,
        codes: NDArray[np.int64],
        users: NDArray[np.int64],
        turned: bool = False,
    ) -> _Seen:
        shape = len(users), len(codes)
        rounds, size = np.zeros((shape[0], 1)), np.zeros(shape[0])
        once, more, place = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        in_order = np.ones(shape[0], np.bool_)
        for _, uploads, component in kept(view, name):
            for whose, entries in entries_of(users, uploads.users, component):
                sent = entries.astype(np.int64)
                at = np.searchsorted(codes, sent).clip(max=len(codes) - 1)
                row, column = np.nonzero(codes[at] == sent)
                times, first = (
                    np.zeros((len(sent), shape[1])),
                    np.full((len(sent), shape[1]), np.inf),
                )
                np.add.at(times, (row, at[row, column]), 1.0)
                np.minimum.at(first, (row, at[row, column]), -column if turned else column)
                count = (times > 0).sum(axis=1)
                listed = first.argsort(axis=1)
                behind = np.arange(1, shape[1]) >= count[:, None]
                ahead = np.diff(listed, axis=1) > 0
                in_order[whose] &= ((ahead ^ turned) | behind).all(axis=1)
                order = np.where(np.isfinite(first), listed.argsort(axis=1), np.inf)
                rounds[whose] += 1
                once[whose] += times == 1
                more[whose] += times > 1
                place[whose] = np.maximum(place[whose], order)
                size[whose] = np.maximum(size[whose], count)
        return cls(rounds, once, more, place, size, in_order)


@dataclass(frozen=True, slots=True)
class _Lists:
    """How lists of ``codes`` (D,) are made, as ``some`` of the senders show.

    ``own`` (3,) is how often one's own come up (``_classes``), ``others`` how often one that is
    nobody's does, of a list of length 1. With a ``rule`` own ones are the beginning of lists, or
    their end, if these are ``turned``; of a single round ``popular`` (D,) is how much popularity
    speaks for a code there, and ``usual`` the log-odds of being there.
    """

    view: View
    name: str
    codes: NDArray[np.int64]
    some: NDArray[np.int64]
    own: Floats
    others: float
    rule: _Rule | None
    turned: bool
    popular: Floats | None
    usual: float

    @classmethod
    def of(
        cls, view: View, name: str, codes: NDArray[np.int64], *, seen_only: bool = False
    ) -> _Lists:
        """As some senders show; each code was listed by somebody if they are ``seen_only``."""
        everybody = senders(view).astype(np.int64)
        few = min(_SAMPLE, 1 + _PAIRS // max(1, len(codes)))
        some = np.sort(np.random.default_rng(0).permutation(everybody)[:few])
        seen = _Seen.of(view, name, codes, some)
        often = (seen.rounds > 1)[:, 0]
        listed = np.maximum((seen.once + seen.more).sum(axis=0) - seen_only, 0.0)
        rarest = np.sort(listed)[: max(1, int(_LEAST_LISTED * len(listed)))]
        others = float(rarest.mean() / max(1.0, float(seen.rounds[:, 0] @ seen.size)))
        own, rule, turned = np.array([_LEAST, 1.0, 1.0]), None, False
        popular, usual = None, 0.0
        if often.any():
            own = _classes(_of(seen, often), None)[0]
            rule = _Rule.of(_of(seen, often))
            if rule is None:
                rule = _Rule.of(_Seen.of(view, name, codes, some[often], turned=True))
                turned = rule is not None
        elif others and (popular := _popular(seen)) is not None:
            begin = _likely_beginning(seen, popular)[np.isfinite(seen.place)]
            usual = float(logit(begin.mean().clip(_LEAST, 1 - _LEAST)))
        return cls(view, name, codes, some, own, others, rule, turned, popular, usual)

    def ratio(self, users: NDArray[np.int64]) -> Floats:
        """Log-likelihood ratios (n, D) of what ``users`` list."""
        seen = _Seen.of(self.view, self.name, self.codes, users, self.turned)
        often = (seen.rounds > 1)[:, 0]
        chance = (self.others * seen.size[:, None]).clip(_LEAST, 1.0)
        times = seen.once + 2 * seen.more
        ratio = np.where(times > 0, np.log(np.maximum(times, 1.0) / chance), -SURE)
        if often.any():
            ratio[often] = _classes(_of(seen, often), self.own)[1]
        if self.rule is not None:
            size = self.rule.sizes(seen)[:, None]
            ratio = np.where(size > 0, np.where(seen.place < size, SURE, -SURE), ratio)
        elif self.popular is not None:
            own = _likely_beginning(seen, self.popular).clip(_LEAST, 1 - _LEAST)
            ratio = np.where(np.isfinite(seen.place), ratio + logit(own) - self.usual, -SURE)
        ratio[seen.rounds[:, 0] == 0] = 0.0
        return np.asarray(ratio.clip(-SURE, SURE))

    def chance(self, users: NDArray[np.int64]) -> Floats:
        """How probable it is that each code is a user's own, (n, D)."""
        sample = Evidence(users=self.some, log_ratio=self.ratio(self.some))
        return np.asarray(expit(self.ratio(users) + prior(sample)[0]))


def _of(seen: _Seen, users: NDArray[np.bool_]) -> _Seen:
    return _Seen(*(getattr(seen, field.name)[users] for field in fields(seen)))


def _classes(seen: _Seen, known: Floats | None) -> tuple[Floats, Floats]:
    """How often one's own codes are listed in a round, not at all, once, or more, (3,).

    And the log-likelihood ratios (n, D) of being one's own. The former may be ``known``.
    """
    counts = np.stack([seen.rounds - seen.once - seen.more, seen.once, seen.more])
    shares = counts.mean(axis=2) / seen.rounds[:, 0] + _LEAST
    own = np.array([0.02, *(np.array([1.0, 2.0]) * shares[1:].mean(axis=1))])
    own[1:] *= 0.98 / own[1:].sum()
    own, others = own if known is None else known, shares / shares.sum(axis=0)
    odds = logit((0.5 * shares[1:].sum(axis=0)).clip(_LEAST, 0.5))
    for _ in range(_STEPS):
        ratio = np.einsum("knd,kn->nd", counts, np.log(own[:, None] / others))
        mine = expit(ratio + odds[:, None])
        if known is None:
            own = np.einsum("knd,nd->k", counts, mine) + _LEAST
            own /= own.sum()
        others = np.einsum("knd,nd->kn", counts, 1 - mine) + _LEAST
        others /= others.sum(axis=0)
        odds = logit(mine.mean(axis=1).clip(_LEAST, 1 - _LEAST))
    ratio = np.einsum("knd,kn->nd", counts, np.log(own[:, None] / others))
    return own, ratio.clip(-SURE, SURE)


def _beginning(seen: _Seen) -> Floats:
    """How many codes begin every list of a user, in any order, before others that differ, (n,).

    0 where there is no such beginning. The first n are the same where n codes are before n in all.
    """
    places = np.sort(seen.place, axis=1)
    same = places == np.arange(places.shape[1])
    behind = np.arange(places.shape[1]) >= seen.size[:, None] - 2
    last = np.where(same & ~behind, np.arange(1, places.shape[1] + 1), 0).max(axis=1)
    size = seen.size.astype(np.intp)
    closed = same[np.arange(len(size)), (size - 2).clip(min=0)]
    closed |= same[np.arange(len(size)), (size - 1).clip(min=0)] & (size < places.shape[1])
    return np.where(closed, 0.0, last)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How many others a list has beside one's own: ``fixed``, and ``each`` for each own one.

    NaN where the lists that were seen several times do not show it.
    """

    fixed: float
    each: float

    @classmethod
    def of(cls, seen: _Seen) -> _Rule | None:
        """As users show of whom there are several lists; None where most have no beginning.

        Lists that are sorted begin alike by chance.
        """
        size = _beginning(seen)
        some = size > 0
        if some.mean() <= 0.5 or seen.sorted.mean() > 0.5:
            return None
        own, others = size[some], seen.size[some] - size[some]
        rules = (cls(float(np.median(others)), 0.0), cls(0.0, float(np.median(others / own))))
        wrong = [float(np.median(abs(rule._own(own + others) - own) / own)) for rule in rules]
        return rules[int(np.argmin(wrong))] if min(wrong) < _EXACT else cls(np.nan, np.nan)

    def _own(self, size: Floats) -> Floats:
        return np.rint((size - self.fixed) / (1.0 + self.each))

    def sizes(self, seen: _Seen) -> Floats:
        """How many codes begin the lists of each user, (n,); 0 where that is not known."""
        shown, told = _beginning(seen), np.nan_to_num(self._own(seen.size)).clip(min=0.0)
        return np.asarray(np.where(shown > 0, shown, told))


def _popular(seen: _Seen) -> Floats | None:
    """How much each code speaks for being one's own where these begin the lists of a single round.

    Own ones are the more popular. None where lists are sorted, or would have a beginning as clearly
    with their pieces in another order.
    """
    if seen.sorted.mean() > 0.5:
        return None
    told, clear = _fitted(seen)
    there, size = np.isfinite(seen.place), np.maximum(seen.size, 1.0)[:, None]
    piece = (np.where(there, seen.place, 0.0) * _PIECES / size).astype(np.intp)
    keys = np.take_along_axis(np.random.default_rng(0).random((len(size), _PIECES)), piece, axis=1)
    mixed = np.lexsort((seen.place, np.where(there, keys, np.inf)), axis=1).argsort(axis=1)
    gain = clear - _fitted(replace(seen, place=np.where(there, mixed, np.inf)))[1]
    return told if gain.mean() > _LUCK * gain.std() / np.sqrt(len(gain)) else None


def _fitted(seen: _Seen) -> tuple[Floats, Floats]:
    """Log-ratios (D,) of codes in beginnings and behind, and how clear those are, (n,)."""
    there = np.isfinite(seen.place)
    own = np.where(there, 1 - np.where(there, seen.place, 0) / seen.size[:, None].clip(min=1), 0.0)
    for _ in range(_STEPS):
        head, rest = (np.where(there, each, 0.0).sum(axis=0) + 0.5 for each in (own, 1 - own))
        told = np.log(head / head.sum()) - np.log(rest / rest.sum())
        own = _likely_beginning(seen, told)
    return told, logsumexp(_before(seen, told)[0], axis=1) - np.log1p(seen.size)


def _before(seen: _Seen, told: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """How much speaks for each length of the beginning, (n, D + 1), and codes by their places."""
    order = np.argsort(seen.place, axis=1, kind="stable")
    inside = np.arange(order.shape[1]) < seen.size[:, None]
    speaks = np.cumsum(np.where(inside, told[order], 0.0), axis=1)
    speaks = np.where(inside, speaks, -np.inf)
    return np.concatenate([np.zeros((len(order), 1)), speaks], axis=1), order


def _likely_beginning(seen: _Seen, told: Floats) -> Floats:
    """How probable it is that each code is in the beginning of a user's list, (n, D)."""
    speaks, order = _before(seen, told)
    longer = np.cumsum(softmax(speaks, axis=1)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    own = np.zeros(longer.shape)
    np.put_along_axis(own, order, longer, axis=1)
    return own
