"""What lists of items, or of codes that stand for items, tell without the senders' code.

A device may list others' items beside its own. Its own come up in every round, others if they are
drawn again. Of user u an item or code is listed in c of R rounds; that has probability

    w Binomial(c; R, a) + v Binomial(c; R, b) + (1 - w - v) Binomial(c; R, d),

a of one's own, b and d of others (some that a device draws from again and again, and those that it
hardly knows), w and v the shares of the first two: a is the same of all users, the rest is u's.
They are fitted by expectation and maximisation. In a single round a is taken to be 1, and b is how
often the tenth that is listed least comes up, which hardly anybody has. Where items are listed
several times, the number of times is told apart as well: none, one, more.

In which tenth of a list an entry stands, and in which tenth by the number beside it where there is
one (a score), tells own ones from others: either has its chances, the same of all users, which are
fitted with the rest. Of sorted lists the place is left out; it says which item it is. Numbers that
an item has in several rounds are alike, whosever it is: with a correlation r within an item and a
class, c of them count as c / (1 + (c - 1) r).

Where one's own items stand first, the first n of a list are the same set in every round at n, the
number of one's own, whatever the order. Where most lists have such a beginning and differ behind
it, it is read as it is, and so is such an end where own items stand last. How many others there
are, as many for all or so many for each own one, these lists show of those that were seen once
(``_Rule``). In a single round popularity shows the place (``_popular``),
and of the two ends one's own are where codes differ more in how often they come up.

Codes are those of items by ``Public.rows``, or else they are matched: of codes sorted by how many
users have them, and items by how popular they are, the k-th belong together. Those with ties are as
likely each.

Source: latent classes (Dempster, Laird and Rubin, JRSS B 1977); matching by frequency: Naveed,
Kamara and Wright, Inference attacks on property-preserving encrypted databases, CCS 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, softmax

from fedrec_auditor.attacks.parts.item_features import TENTHS, Floats, SeenLists, seen_codes
from fedrec_auditor.attacks.parts.prior import prior
from fedrec_auditor.attacks.parts.uploads import last, names, senders
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.transcript import Kind, View

_SAMPLE = 500  # users by whom it is told how lists are made
_STEPS = 30
_BLOCK = 2**20  # users times codes at once
_LEAST = 1e-6  # of a probability
_LEAST_LISTED = 0.1  # of the catalogue, which hardly anybody has
_CODES = 4  # times the catalogue: so many codes are told apart at most
_LUCK = 3.0  # deviations
_DIGITS = 6
_PAIRS = 2**24  # codes times items, or times users, at once
_PIECES = 8
_EXACT = 0.05  # of the number of own items
_HARDLY = 0.02  # as often as a code is on average, where fitting begins


class ListedItems(MessageReader):
    """Lists of items, or of their codes: how often each comes up, in which place, and beside what.

    Codes that nobody knows are matched to items by frequency, where it is known how popular these
    are and the senders' code is not at hand, those that come up most. Memory: some arrays of users
    times items, or codes, of 2^24 numbers, and the entries of one round.
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
        told = np.zeros((len(users), view.public.n_items))
        for name in lists:
            of_items = _of_items(view, name)
            if of_items is None:
                view.tell("Matches codes to items by how many users have each.")
                return _matched(view, name, users)
            some = np.arange(len(of_items))
            if len(lists) > 1:
                some = some[np.isin(of_items, seen_codes(view, name)).all(axis=1)]
            if not len(some):
                continue
            ratio = _told(view, name, of_items[some], users)
            told[:, some] = np.where(abs(ratio) > abs(told[:, some]), ratio, told[:, some])
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
    n_items = view.public.n_items
    codes = seen_codes(view, name, min(_CODES * n_items, _PAIRS // n_items))
    if not len(codes):
        return Evidence(users=users, log_ratio=np.zeros((len(users), view.public.n_items)))
    lists = _Lists.of(view, name, codes, seen_only=True)
    shares = np.zeros(len(lists.codes))
    for block in blocks(len(everybody), len(lists.codes), _BLOCK):
        shares += lists.chance(everybody[block]).sum(axis=0)
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


@dataclass(frozen=True, slots=True)
class _Classes:
    """How often one's own codes are listed in a round, and where: the same of all users.

    Not at all, once, or more: ``own`` (3,). ``told`` (2, 10) are the log-ratios of the tenths of an
    entry, and ``alike`` is the correlation of the numbers of one item.
    """

    own: Floats
    told: Floats
    alike: float

    @classmethod
    def fitted(cls, seen: SeenLists, *, places: bool) -> _Classes:
        """Of all that is ``seen``, by the place in lists or not."""
        return _fit(seen, None, places)[0]

    def ratio(self, seen: SeenLists, *, places: bool) -> Floats:
        """Log-likelihood ratios (n, D) of being one's own."""
        return _fit(seen, self, places)[1]

    def where(self, seen: SeenLists, often: Floats) -> Floats:
        """What the tenths of its entries tell of each code, (n, D); ``often`` (E,) it has one."""
        place, number = np.einsum("kt,kte->ke", self.told, seen.tenths)
        told = np.zeros(seen.once.shape)
        told.ravel()[seen.key] = place + number / (1.0 + (often - 1.0) * self.alike)
        return told

    @classmethod
    def maximised(cls, seen: SeenLists, mine: Floats, own: Floats, often: Floats) -> _Classes:
        """By how probably each code is the user's own, ``mine`` (n, D), and how often it is listed.

        ``own`` (3,) need not add up to 1.
        """
        each = mine.ravel()[seen.key]
        found = [np.einsum("kte,e->kt", seen.tenths, weight) + 1.0 for weight in (each, 1 - each)]
        shares = np.stack([one / one.sum(axis=1, keepdims=True) for one in found])
        told = np.log(shares[0]) - np.log(shares[1])
        tenth = np.arange(TENTHS, dtype=np.float64)
        own_mean, other_mean = shares[:, 1] @ tenth
        mean = np.where(each > 0.5, own_mean, other_mean)
        total, squares = (np.einsum("t,te->e", of, seen.tenths[1]) for of in (tenth, tenth * tenth))
        squared = (squares - 2 * mean * total + often * mean * mean).sum()
        shared = ((total - often * mean) ** 2).sum() - squared
        pairs = (often * (often - 1.0)).sum()
        apart = max(float(squared / max(often.sum(), 1.0)), _LEAST)
        alike = shared / max(pairs, 1.0) / apart if pairs else 0.0
        return cls(own / own.sum(), told, float(np.clip(alike, 0.0, 1.0)))


def _fit(seen: SeenLists, known: _Classes | None, places: bool) -> tuple[_Classes, Floats]:
    """The classes, which may be ``known``, and the log-likelihood ratios (n, D) of one's own.

    Of ``parts`` (3, n, D) the first is one's own. The last step only reads.
    """
    if not places:
        nowhere = np.zeros_like(seen.tenths[0])
        nowhere[0] = seen.tenths[0].sum(axis=0)
        seen = replace(seen, tenths=np.stack([nowhere, seen.tenths[1]]))
    counts = np.stack([seen.rounds - seen.once - seen.more, seen.once, seen.more])
    often = (seen.once + seen.more).ravel()[seen.key]
    shares = counts.mean(axis=2) / seen.rounds[:, 0] + _LEAST
    own = np.array([0.02, *(np.array([1.0, 2.0]) * shares[1:].mean(axis=1))])
    own[1:] *= 0.98 / own[1:].sum()
    classes = known or _Classes(own, np.zeros((2, TENTHS)), 0.0)
    others = np.stack([shares, shares * np.array([[1.0], [_HARDLY], [_HARDLY]])])
    others /= others.sum(axis=1, keepdims=True)
    mine = (0.5 * shares[1:].sum(axis=0)).clip(_LEAST, 0.5)
    weight = np.stack([mine, 0.5 * (1 - mine), 0.5 * (1 - mine)])
    for step in range(_STEPS + 1):
        every = np.broadcast_to(classes.own[:, None], shares.shape)
        rates = np.log(np.stack([every, *others]))
        parts = np.einsum("knd,ckn->cnd", counts, rates, optimize=True)
        parts[0] += classes.where(seen, often)
        if step == _STEPS:
            break
        parts += np.log(weight)[:, :, None]
        parts -= parts.max(axis=0)
        np.exp(parts, out=parts)
        parts /= parts.sum(axis=0)
        if known is None:
            own = np.einsum("knd,nd->k", counts, parts[0]) + _LEAST
            classes = _Classes.maximised(seen, parts[0], own, often)
        others = np.einsum("knd,cnd->ckn", counts, parts[1:], optimize=True) + _LEAST
        others /= others.sum(axis=1, keepdims=True)
        weight = parts.mean(axis=2).clip(_LEAST)
        weight /= weight.sum(axis=0)
    share = np.log(weight[1:] / weight[1:].sum(axis=0))[:, :, None]
    return classes, (parts[0] - logsumexp(parts[1:] + share, axis=0)).clip(-SURE, SURE)


@dataclass(frozen=True, slots=True)
class _Lists:
    """How lists of ``codes`` (D,) are made, as ``some`` of the senders show.

    ``classes`` are those of several rounds, None of a single one; by ``places`` if lists are not
    sorted. ``others`` is how often a code that is nobody's comes up, of a list of length 1.
    With a ``rule`` own ones are the beginning of lists, or their end, if these are ``turned``; of a
    single round ``popular`` (D,) is how much popularity speaks for a code there, and ``usual`` the
    log-odds of being there.
    """

    view: View
    name: str
    codes: NDArray[np.int64]
    some: NDArray[np.int64]
    classes: _Classes | None
    places: bool
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
        seen = SeenLists.of(view, name, codes, some)
        often = (seen.rounds > 1)[:, 0]
        listed = np.maximum((seen.once + seen.more).sum(axis=0) - seen_only, 0.0)
        rarest = np.sort(listed)[: max(1, int(_LEAST_LISTED * len(listed)))]
        others = float(rarest.mean() / max(1.0, float(seen.rounds[:, 0] @ seen.size)))
        classes, rule, turned = None, None, False
        popular, usual = None, 0.0
        places = not _sorted(seen)
        if often.any():
            again = seen.of_users(often)
            rule = _Rule.of(again)
            if rule is None:
                back = SeenLists.of(view, name, codes, some[often], turned=True)
                rule = _Rule.of(back)
                turned = rule is not None
                again = back if turned else again
            classes = _Classes.fitted(again, places=places)
        elif others and (popular := _popular(seen)) is not None:
            if _are_last(seen, popular):
                seen, popular = SeenLists.of(view, name, codes, some, turned=True), -popular
                turned = True
            begin = _likely_beginning(seen, popular)[np.isfinite(seen.place)]
            usual = float(logit(begin.mean().clip(_LEAST, 1 - _LEAST)))
        return cls(view, name, codes, some, classes, places, others, rule, turned, popular, usual)

    def ratio(self, users: NDArray[np.int64]) -> Floats:
        """Log-likelihood ratios (n, D) of what ``users`` list."""
        some = blocks(len(users), len(self.codes), _BLOCK)
        none = np.zeros((0, len(self.codes)))
        return np.concatenate([none, *(self._ratio(users[block]) for block in some)])

    def _ratio(self, users: NDArray[np.int64]) -> Floats:
        seen = SeenLists.of(self.view, self.name, self.codes, users, self.turned)
        often = (seen.rounds > 1)[:, 0]
        chance = (self.others * seen.size[:, None]).clip(_LEAST, 1.0)
        times = seen.once + 2 * seen.more
        ratio = np.where(times > 0, np.log(np.maximum(times, 1.0) / chance), -SURE)
        if self.classes is not None and often.any():
            ratio[often] = self.classes.ratio(seen.of_users(often), places=self.places)
        if self.rule is not None:
            size = self.rule.sizes(seen)[:, None]
            ratio = np.where(size >= 0, np.where(seen.place < size, SURE, -SURE), ratio)
        elif self.popular is not None:
            own = _likely_beginning(seen, self.popular).clip(_LEAST, 1 - _LEAST)
            ratio = np.where(np.isfinite(seen.place), ratio + logit(own) - self.usual, -SURE)
        ratio[seen.rounds[:, 0] == 0] = 0.0
        return np.asarray(ratio.clip(-SURE, SURE))

    def chance(self, users: NDArray[np.int64]) -> Floats:
        """How probable it is that each code is a user's own, (n, D)."""
        sample = Evidence(users=self.some, log_ratio=self.ratio(self.some))
        return np.asarray(expit(self.ratio(users) + prior(sample)[0]))


def _sorted(seen: SeenLists) -> bool:
    """Whether most lists have their codes in ascending order."""
    return bool(seen.ascending.sum() > 0.5 * seen.rounds.sum())


def _beginning(seen: SeenLists) -> Floats:
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
    def of(cls, seen: SeenLists) -> _Rule | None:
        """As users show of whom there are several lists; None where most have no beginning.

        Lists that are sorted begin alike by chance.
        """
        size = _beginning(seen)
        some = size > 0
        if some.mean() <= 0.5 or _sorted(seen):
            return None
        own, others = size[some], seen.size[some] - size[some]
        rules = (cls(float(np.median(others)), 0.0), cls(0.0, float(np.median(others / own))))
        wrong = [float(np.median(abs(rule._own(own + others) - own) / own)) for rule in rules]
        return rules[int(np.argmin(wrong))] if min(wrong) < _EXACT else cls(np.nan, np.nan)

    def _own(self, size: Floats) -> Floats:
        return np.rint((size - self.fixed) / (1.0 + self.each))

    def sizes(self, seen: SeenLists) -> Floats:
        """How many codes begin the lists of each user, (n,); NaN where that is not known."""
        shown, told = _beginning(seen), self._own(seen.size).clip(min=0.0)
        return np.asarray(
            np.where(shown > 0, np.fmin(shown, np.where(told > 0, told, shown)), told)
        )


def _popular(seen: SeenLists) -> Floats | None:
    """How much each code speaks for being one's own where these begin the lists of a single round.

    Own ones are the more popular. None where lists are sorted, or would have a beginning as clearly
    with their pieces in another order.
    """
    if _sorted(seen):
        return None
    told, clear = _fitted(seen)
    there, size = np.isfinite(seen.place), np.maximum(seen.size, 1.0)[:, None]
    piece = (np.where(there, seen.place, 0.0) * _PIECES / size).astype(np.intp)
    keys = np.take_along_axis(np.random.default_rng(0).random((len(size), _PIECES)), piece, axis=1)
    mixed = np.lexsort((seen.place, np.where(there, keys, np.inf)), axis=1).argsort(axis=1)
    gain = clear - _fitted(replace(seen, place=np.where(there, mixed, np.inf)))[1]
    return told if gain.mean() > _LUCK * gain.std() / np.sqrt(len(gain)) else None


def _are_last(seen: SeenLists, told: Floats) -> bool:
    """Whether one's own stand behind the others: how often each comes up differs more there."""
    begin = _likely_beginning(seen, told)
    parts = begin, np.isfinite(seen.place) - begin
    head, rest = (part.sum(axis=0).std() / max(part.sum(axis=0).mean(), _LEAST) for part in parts)
    return bool(rest > head)


def _fitted(seen: SeenLists) -> tuple[Floats, Floats]:
    """Log-ratios (D,) of codes in beginnings and behind, and how clear those are, (n,)."""
    there, order = np.isfinite(seen.place), _order(seen)
    own = np.where(there, 1 - np.where(there, seen.place, 0) / seen.size[:, None].clip(min=1), 0.0)
    for _ in range(_STEPS):
        head, rest = (np.where(there, each, 0.0).sum(axis=0) + 0.5 for each in (own, 1 - own))
        told = np.log(head / head.sum()) - np.log(rest / rest.sum())
        own = _likely_beginning(seen, told, order)
    return told, logsumexp(_before(seen, told, order), axis=1) - np.log1p(seen.size)


def _order(seen: SeenLists) -> NDArray[np.intp]:
    """Codes by their places in the list of each user, (n, W) for the longest of W, then others."""
    longest = int(seen.size.max(initial=0))
    return np.argsort(seen.place, axis=1, kind="stable")[:, :longest]


def _before(seen: SeenLists, told: Floats, order: NDArray[np.intp]) -> Floats:
    """How much speaks for each length of the beginning, (n, W + 1)."""
    inside = np.arange(order.shape[1]) < seen.size[:, None]
    speaks = np.cumsum(np.where(inside, told[order], 0.0), axis=1)
    speaks = np.where(inside, speaks, -np.inf)
    return np.concatenate([np.zeros((len(order), 1)), speaks], axis=1)


def _likely_beginning(
    seen: SeenLists, told: Floats, order: NDArray[np.intp] | None = None
) -> Floats:
    """How probable it is that each code is in the beginning of a user's list, (n, D)."""
    order = _order(seen) if order is None else order
    speaks = _before(seen, told, order)
    longer = np.cumsum(softmax(speaks, axis=1)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    own = np.zeros(seen.place.shape)
    np.put_along_axis(own, order, longer, axis=1)
    return own
