"""Reader of lists of items, or of codes that stand for items, without the senders' code.

A device may list decoys (other items) in addition to the user's own items (positives). Own items
occur in every round, but decoys vary if they are drawn again. An item or code is in c of R lists of
user u with the probability

    w Binomial(c; R, a) + v Binomial(c; R, b) + (1 - w - v) Binomial(c; R, d),

where a is the rate of own items, b and d are those of decoys (b for decoys that a device draws
often, d for those that it hardly draws), and w and v are the shares of own items and of the decoys
of rate b. The rate a is the same for all users; all other parameters depend on u. They are fitted
by expectation maximisation. With a single round, a is assumed to be 1, and b is the rate of the
tenth of the codes that is listed least often, which hardly any user owns. If lists repeat items,
the number of occurrences in a list is modelled as well: none, one, more.

Own items and decoys also differ by the position of an entry in its list and by the rank of the
number (score) sent with the entry, if there is one. Position and rank are counted in tenths of the
list. The probabilities of the tenths are the same for all users and are fitted together with the
other parameters. The position in a sorted list is ignored because it depends only on the item.
Numbers of one item in several rounds are correlated: with a correlation r within an item and a
class, c of them count as c / (1 + (c - 1) r).

If own items stand first, the first n entries of a list are the same set in every round, where n is
the number of own items, whatever their order. If most lists have such a beginning and differ behind
it, the beginning is assumed to be the own items; a common end is treated in the same way. These
lists also show the number of decoys, constant or proportional to the number of own items. This
number then splits lists that were sent only once (``_Rule``). With a single round, popularity shows
the split (``_popular``), and own items are on that side of it where the frequencies of codes vary
more.

``Public.item_rows`` assigns codes to items. If it is unknown, codes are matched to items: the k-th
most frequent code to the k-th most popular item. All matches among ties are equally likely.

Source: latent classes (Dempster, Laird and Rubin, JRSS B 1977); matching by frequency: Naveed,
Kamara and Wright, Inference attacks on property-preserving encrypted databases, CCS 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, softmax

from fedrec_auditor.attacks.parts.item_features import TENTHS, Floats, ListStatistics, listed_codes
from fedrec_auditor.attacks.parts.prior import prior
from fedrec_auditor.attacks.parts.uploads import last_sent, list_names, senders
from fedrec_auditor.attacks.readers.base import CERTAIN, Evidence, MessageReader
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.transcript import Kind, View

_SAMPLE = 500  # number of users to whose lists the parameters are fitted
_STEPS = 30
_BLOCK = 2**20  # maximum number of users times codes that are processed at once
_LEAST = 1e-6  # smallest probability
_LEAST_LISTED = 0.1  # share of the codes, the rarest ones, that hardly any user owns
_CODES = 4  # maximum number of codes that are matched, as a multiple of the catalogue
_LUCK = 3.0  # standard deviations
_DIGITS = 6
_PAIRS = 2**24  # maximum number of codes times items, or times users, that are processed at once
_PIECES = 8
_EXACT = 0.05  # maximum error of a rule, as a share of the number of own items
_HARDLY = 0.02  # initial rate d, as a multiple of the mean rate of a code


class ListedItems(MessageReader):
    """Reader of lists of items, or of codes that stand for items, which infers interactions.

    Log-likelihood ratios of interactions follow from how often and where a list names an item, and
    from the number sent with the entry. If it is unknown which codes stand for which items, the
    most frequent codes are matched to the most popular items. This requires that popularity is
    known and the senders' code is not available. Memory: some arrays of users times items, some of
    2^24 numbers, and the entries of one round.
    """

    reference = (
        "latent classes of listed items, derived in attacks/readers/listed_items.py; frequency "
        "matching: Naveed, Kamara and Wright, CCS 2015"
    )

    requirement = "lists of items, or of codes of items"

    def can_read(self, view: View) -> bool:
        """Checks whether users sent lists of items, or of codes that can be matched to items."""
        return bool(_names(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions from the lists that users sent.

        Users may send several lists, each in its own component. A component gives ratios of the
        items that anybody lists in it; for each item the largest absolute log-ratio counts. If
        codes are matched to items, only one list is read.
        """
        lists = _names(view)
        assert lists, "refused"
        ratios = np.zeros((len(users), view.public.n_items))
        for name in lists:
            of_items = _of_items(view, name)
            if of_items is None:
                view.add_note("Matches codes to items by how many users have each.")
                return _match(view, name, users)
            some = np.arange(len(of_items))
            if len(lists) > 1:
                some = some[np.isin(of_items, listed_codes(view, name)).all(axis=1)]
            if not len(some):
                continue
            new = _read(view, name, of_items[some], users)
            ratios[:, some] = np.where(abs(new) > abs(ratios[:, some]), new, ratios[:, some])
        return Evidence(users=users, log_ratio=ratios)


def _names(view: View) -> list[str]:
    """Returns the names of the components to read: lists of items, or else lists of codes."""
    kinds = {name: last_sent(view, name).kind for name in list_names(view)}
    known = view.public.item_rows is not None
    guessed = view.public.device_code is None and view.public.popularity is not None
    for wanted, able in ((Kind.ITEMS, True), (Kind.CODES, known or guessed)):
        lists = [name for name, kind in kinds.items() if kind is wanted]
        if able and (lists := [name for name in lists if len(last_sent(view, name).shape) == 1]):
            return lists
    return []


def _read(view: View, name: str, of_items: NDArray[np.int64], users: NDArray[np.int64]) -> Floats:
    """Returns log-likelihood ratios of interactions (n, M) from one list of each user.

    of_items: codes of each item (M, h)

    The ratio of an item is the smallest ratio of its h codes.
    """
    codes, places = np.unique(of_items, return_inverse=True)
    ratio = _Lists.of(view, name, codes).ratio(users)
    places = places.reshape(of_items.shape)
    return np.asarray(np.stack([ratio[:, each] for each in places.T]).min(axis=0))


def _of_items(view: View, name: str) -> NDArray[np.int64] | None:
    """Returns the h codes of each item in lists of component ``name``, (M, h); None if unknown."""
    if last_sent(view, name).kind is Kind.ITEMS:
        return np.arange(view.public.n_items)[:, None]
    return view.public.item_rows


def _match(view: View, name: str, users: NDArray[np.int64]) -> Evidence:
    """Returns log-ratios of interactions from lists of codes, which are matched to items.

    The k-th most frequent code is matched to the k-th most popular item.
    """
    popularity = view.public.popularity
    assert popularity is not None, "refused"
    everybody = senders(view).astype(np.int64)
    n_items = view.public.n_items
    codes = listed_codes(view, name, min(_CODES * n_items, _PAIRS // n_items))
    if not len(codes):
        return Evidence(users=users, log_ratio=np.zeros((len(users), view.public.n_items)))
    lists = _Lists.of(view, name, codes, seen_only=True)
    shares = np.zeros(len(lists.codes))
    for block in iter_blocks(len(everybody), len(lists.codes), _BLOCK):
        shares += lists.chance(everybody[block]).sum(axis=0)
    likely, doubt = _by_rank(np.rint(shares), np.rint(popularity * view.public.n_users))
    overall = (shares @ likely / len(everybody)).clip(_LEAST, 1 - _LEAST)
    chance = (1 - doubt) * (lists.chance(users) @ likely) + doubt * overall
    items = logit(overall)
    ratio = (logit(chance.clip(_LEAST, 1 - _LEAST)) - items).clip(-CERTAIN, CERTAIN)
    ratio = np.round(ratio, _DIGITS)  # last bits would break ties of the prior
    return Evidence(users=users, log_ratio=ratio, item_odds=items, activity=np.zeros(len(users)))


def _by_rank(first: Floats, second: Floats) -> tuple[Floats, float]:
    """Returns the probability that each code is each item, by rank, (D, M), and a doubt.

    first, second: numbers of users of each code (D,) and of each item (M,)

    The largest value matches the largest. Equal values share their ranks, and so do values whose
    difference, in units of their square root, is at most the root mean square difference of values
    of the same rank. The doubt is the probability that a match is wrong: twice that difference, at
    most 1, because true partners differ more than values of the same rank.
    """
    first = first * second.sum() / max(first.sum(), _LEAST)
    count = min(len(first), len(second))
    top, partner = (-np.sort(-each)[:count] for each in (first, second))
    apart = (top - partner) / np.sqrt(np.maximum(partner, 1.0))
    near = min(1.0, float(np.sqrt(np.mean(apart**2))))
    (low, high), (bottom, top) = _ranks(first, near), _ranks(second, near)
    shared = np.minimum(high[:, None], top) - np.maximum(low[:, None], bottom)
    likely = np.maximum(shared, 0) / (high - low)[:, None] / (top - bottom)
    return likely / np.maximum(likely.sum(axis=1, keepdims=True), 1.0), min(1.0, 2 * near)


def _ranks(values: Floats, near: float) -> tuple[Floats, Floats]:
    """Returns for each value the first and last rank, in descending order, of values near it.

    A value is near if it differs by less than ``near`` times the square root of the value.
    """
    order, span = np.sort(-values), near * np.sqrt(np.maximum(values, 1.0))
    return (
        np.searchsorted(order, -values - span, side="left").astype(np.float64),
        np.searchsorted(order, -values + span, side="right").astype(np.float64),
    )


@dataclass(frozen=True, slots=True)
class _Classes:
    """Parameters of a user's own codes and of decoys in lists that are the same for all users.

    own: probabilities that an own code is in a list not at all, once, or more often (3,)
    log_ratios: log-ratios, own against decoy, of each tenth by position and by number (2, 10)
    correlation: correlation of the numbers sent with one item, within own codes or decoys
    """

    own: Floats
    log_ratios: Floats
    correlation: float

    @classmethod
    def fit(cls, data: ListStatistics, *, places: bool) -> _Classes:
        """Fits the parameters to lists; positions in the lists are used if ``places`` is True."""
        return _fit(data, None, places)[0]

    def ratio(self, data: ListStatistics, *, places: bool) -> Floats:
        """Returns log-likelihood ratios (n, D) that a code is the user's own, against a decoy."""
        return _fit(data, self, places)[1]

    def sum_tenths(self, data: ListStatistics, often: Floats) -> Floats:
        """Returns log-ratios (n, D) of own codes against decoys, from codes' places in lists.

        A place is the tenth of the list by position, and by the number sent with the code.

        ``often`` (E,) is the number of lists that contain a code, for each user and listed code.
        """
        place, number = np.einsum("kt,kte->ke", self.log_ratios, data.tenths)
        ratio = np.zeros(data.n_single.shape)
        ratio.ravel()[data.pair_keys] = place + number / (1.0 + (often - 1.0) * self.correlation)
        return ratio

    @classmethod
    def maximise(cls, data: ListStatistics, p_own: Floats, own: Floats, often: Floats) -> _Classes:
        """Computes parameters from probabilities that codes are a user's own (maximisation step).

        p_own: probability that each code is the user's own, not a decoy (n, D)

        own: expected counts, up to a common factor, of own codes that are listed not at all, once,
            or more often (3,)
        often: number of lists that contain a code, for each user and listed code (E,)
        """
        p = p_own.ravel()[data.pair_keys]
        counts = [np.einsum("kte,e->kt", data.tenths, weight) + 1.0 for weight in (p, 1 - p)]
        shares = np.stack([part / part.sum(axis=1, keepdims=True) for part in counts])
        log_ratios = np.log(shares[0]) - np.log(shares[1])
        tenth = np.arange(TENTHS, dtype=np.float64)
        own_mean, other_mean = shares[:, 1] @ tenth
        mean = np.where(p > 0.5, own_mean, other_mean)
        total, squares = (np.einsum("t,te->e", of, data.tenths[1]) for of in (tenth, tenth * tenth))
        squared = (squares - 2 * mean * total + often * mean * mean).sum()
        shared = ((total - often * mean) ** 2).sum() - squared
        pairs = (often * (often - 1.0)).sum()
        apart = max(float(squared / max(often.sum(), 1.0)), _LEAST)
        correlation = shared / max(pairs, 1.0) / apart if pairs else 0.0
        return cls(own / own.sum(), log_ratios, float(np.clip(correlation, 0.0, 1.0)))


def _fit(data: ListStatistics, known: _Classes | None, places: bool) -> tuple[_Classes, Floats]:
    """Fits a model of users' own codes and decoys to lists; returns parameters and log-ratios.

    data: statistics of the lists of n users
    known: parameters to use instead of fitted ones, or None
    places: True to use positions in the lists

    The log-likelihood ratios (n, D) are those of a user's own code against two classes of decoys.
    """
    if not places:
        nowhere = np.zeros_like(data.tenths[0])
        nowhere[0] = data.tenths[0].sum(axis=0)
        data = replace(data, tenths=np.stack([nowhere, data.tenths[1]]))
    counts = np.stack(
        [data.n_rounds - data.n_single - data.n_repeated, data.n_single, data.n_repeated]
    )
    often = (data.n_single + data.n_repeated).ravel()[data.pair_keys]
    shares = counts.mean(axis=2) / data.n_rounds[:, 0] + _LEAST
    own = np.array([0.02, *(np.array([1.0, 2.0]) * shares[1:].mean(axis=1))])
    own[1:] *= 0.98 / own[1:].sum()
    classes = known or _Classes(own, np.zeros((2, TENTHS)), 0.0)
    others = np.stack([shares, shares * np.array([[1.0], [_HARDLY], [_HARDLY]])])
    others /= others.sum(axis=1, keepdims=True)
    p_own = (0.5 * shares[1:].sum(axis=0)).clip(_LEAST, 0.5)
    weight = np.stack([p_own, 0.5 * (1 - p_own), 0.5 * (1 - p_own)])
    for step in range(_STEPS + 1):
        every = np.broadcast_to(classes.own[:, None], shares.shape)
        rates = np.log(np.stack([every, *others]))
        parts = np.einsum("knd,ckn->cnd", counts, rates, optimize=True)
        parts[0] += classes.sum_tenths(data, often)
        if step == _STEPS:
            break
        parts += np.log(weight)[:, :, None]
        parts -= parts.max(axis=0)
        np.exp(parts, out=parts)
        parts /= parts.sum(axis=0)
        if known is None:
            own = np.einsum("knd,nd->k", counts, parts[0]) + _LEAST
            classes = _Classes.maximise(data, parts[0], own, often)
        others = np.einsum("knd,cnd->ckn", counts, parts[1:], optimize=True) + _LEAST
        others /= others.sum(axis=1, keepdims=True)
        weight = parts.mean(axis=2).clip(_LEAST)
        weight /= weight.sum(axis=0)
    share = np.log(weight[1:] / weight[1:].sum(axis=0))[:, :, None]
    return classes, (parts[0] - logsumexp(parts[1:] + share, axis=0)).clip(-CERTAIN, CERTAIN)


@dataclass(frozen=True, slots=True)
class _Lists:
    """Model of lists of codes, of the user's own items and of decoys, fitted to some senders.

    view, name: view and component of the lists
    codes: codes whose lists are modelled, ascending (D,)
    some: users of the sample
    classes: parameters of own codes and decoys; None with a single round
    places: True if positions are informative, because lists are not sorted
    others: rate of a code that nobody owns, per entry of a list
    rule: number of decoys, if own codes are the beginning of lists; else None
    turned: True if lists are read from their end
    popular: log-ratio of each code to be in the beginning of lists, among own codes, with a single
        round; else None (D,)
    usual: log-odds of a listed code to be in the beginning of its list, with a single round
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
        """Fits the model to the lists of component ``name``.

        ``seen_only`` is True if each of ``codes`` is in somebody's list.
        """
        everybody = senders(view).astype(np.int64)
        few = min(_SAMPLE, 1 + _PAIRS // max(1, len(codes)))
        some = np.sort(np.random.default_rng(0).permutation(everybody)[:few])
        data = ListStatistics.of(view, name, codes, some)
        often = (data.n_rounds > 1)[:, 0]
        listed = np.maximum((data.n_single + data.n_repeated).sum(axis=0) - seen_only, 0.0)
        rarest = np.sort(listed)[: max(1, int(_LEAST_LISTED * len(listed)))]
        others = float(rarest.mean() / max(1.0, float(data.n_rounds[:, 0] @ data.max_codes)))
        classes, rule, turned = None, None, False
        popular, usual = None, 0.0
        places = not _is_sorted(data)
        if often.any():
            again = data.select_users(often)
            rule = _Rule.of(again)
            if rule is None:
                back = ListStatistics.of(view, name, codes, some[often], turned=True)
                rule = _Rule.of(back)
                turned = rule is not None
                again = back if turned else again
            classes = _Classes.fit(again, places=places)
        elif others and (popular := _popular(data)) is not None:
            if _is_turned(data, popular):
                data, popular = ListStatistics.of(view, name, codes, some, turned=True), -popular
                turned = True
            begin = _likely_beginning(data, popular)[np.isfinite(data.last_place)]
            usual = float(logit(begin.mean().clip(_LEAST, 1 - _LEAST)))
        return cls(view, name, codes, some, classes, places, others, rule, turned, popular, usual)

    def ratio(self, users: NDArray[np.int64]) -> Floats:
        """Returns log-likelihood ratios (n, D) that each code is the user's own, from lists."""
        some = iter_blocks(len(users), len(self.codes), _BLOCK)
        none = np.zeros((0, len(self.codes)))
        return np.concatenate([none, *(self._ratio(users[block]) for block in some)])

    def _ratio(self, users: NDArray[np.int64]) -> Floats:
        data = ListStatistics.of(self.view, self.name, self.codes, users, self.turned)
        often = (data.n_rounds > 1)[:, 0]
        chance = (self.others * data.max_codes[:, None]).clip(_LEAST, 1.0)
        times = data.n_single + 2 * data.n_repeated
        ratio = np.where(times > 0, np.log(np.maximum(times, 1.0) / chance), -CERTAIN)
        if self.classes is not None and often.any():
            ratio[often] = self.classes.ratio(data.select_users(often), places=self.places)
        if self.rule is not None:
            size = self.rule.sizes(data)[:, None]
            ratio = np.where(size >= 0, np.where(data.last_place < size, CERTAIN, -CERTAIN), ratio)
        elif self.popular is not None:
            own = _likely_beginning(data, self.popular).clip(_LEAST, 1 - _LEAST)
            ratio = np.where(
                np.isfinite(data.last_place), ratio + logit(own) - self.usual, -CERTAIN
            )
        ratio[data.n_rounds[:, 0] == 0] = 0.0
        return np.asarray(ratio.clip(-CERTAIN, CERTAIN))

    def chance(self, users: NDArray[np.int64]) -> Floats:
        """Returns the probability that each code is one of the user's own, not a decoy, (n, D)."""
        sample = Evidence(users=self.some, log_ratio=self.ratio(self.some))
        return np.asarray(expit(self.ratio(users) + prior(sample)[0]))


def _is_sorted(data: ListStatistics) -> bool:
    """Checks whether most lists have their codes in ascending order."""
    return bool(data.n_sorted.sum() > 0.5 * data.n_rounds.sum())


def _beginning(data: ListStatistics) -> Floats:
    """Returns the length of the beginning that all lists of a user share, in any order, (n,).

    Lists share their first n codes if n codes are among the first n in all of them. The length is 0
    without a shared beginning, or if the lists do not differ behind it.
    """
    places = np.sort(data.last_place, axis=1)
    same = places == np.arange(places.shape[1])
    behind = np.arange(places.shape[1]) >= data.max_codes[:, None] - 2
    last = np.where(same & ~behind, np.arange(1, places.shape[1] + 1), 0).max(axis=1)
    size = data.max_codes.astype(np.intp)
    closed = same[np.arange(len(size)), (size - 2).clip(min=0)]
    closed |= same[np.arange(len(size)), (size - 1).clip(min=0)] & (size < places.shape[1])
    return np.where(closed, 0.0, last)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Number of decoys in a list: ``fixed`` plus ``per_own`` for each of the user's own items.

    Both numbers are NaN if the lists of users who sent several lists do not show them.
    """

    fixed: float
    per_own: float

    @classmethod
    def of(cls, data: ListStatistics) -> _Rule | None:
        """Learns how many decoys (items that the user does not have) lists contain, from users who
        sent several lists.

        The beginning that all lists of a user share is assumed to be the user's own items, and all
        further entries decoys. Their number is fitted as a constant, or as proportional to the
        number of own items. Returns None if at most half of the users have a common beginning, or
        if lists are sorted: sorted lists have common beginnings by chance.
        """
        size = _beginning(data)
        some = size > 0
        if some.mean() <= 0.5 or _is_sorted(data):
            return None
        own, others = size[some], data.max_codes[some] - size[some]
        rules = (cls(float(np.median(others)), 0.0), cls(0.0, float(np.median(others / own))))
        wrong = [float(np.median(abs(rule._own(own + others) - own) / own)) for rule in rules]
        return rules[int(np.argmin(wrong))] if min(wrong) < _EXACT else cls(np.nan, np.nan)

    def _own(self, size: Floats) -> Floats:
        return np.rint((size - self.fixed) / (1.0 + self.per_own))

    def sizes(self, data: ListStatistics) -> Floats:
        """Returns the number of own codes at the beginning of each user's lists, or NaN, (n,).

        Own codes are those of items with which the user interacted.
        """
        common, own = _beginning(data), self._own(data.max_codes).clip(min=0.0)
        return np.asarray(
            np.where(common > 0, np.fmin(common, np.where(own > 0, own, common)), own)
        )


def _popular(data: ListStatistics) -> Floats | None:
    """Returns the log-ratio of each code to be in the beginning of lists, not behind it, (D,).

    The beginning is the users' own codes, if decoys follow; the codes of both parts differ in
    frequency. The function is for a single round. The result is None if lists are sorted, or if
    lists with permuted pieces have beginnings that are as clear.
    """
    if _is_sorted(data):
        return None
    log_ratio, clear = _fit_beginnings(data)
    there, size = np.isfinite(data.last_place), np.maximum(data.max_codes, 1.0)[:, None]
    piece = (np.where(there, data.last_place, 0.0) * _PIECES / size).astype(np.intp)
    keys = np.take_along_axis(np.random.default_rng(0).random((len(size), _PIECES)), piece, axis=1)
    mixed = np.lexsort((data.last_place, np.where(there, keys, np.inf)), axis=1).argsort(axis=1)
    gain = clear - _fit_beginnings(replace(data, last_place=np.where(there, mixed, np.inf)))[1]
    return log_ratio if gain.mean() > _LUCK * gain.std() / np.sqrt(len(gain)) else None


def _is_turned(data: ListStatistics, log_ratio: Floats) -> bool:
    """Checks whether users' own codes are at the end of lists, where frequencies vary more."""
    begin = _likely_beginning(data, log_ratio)
    parts = begin, np.isfinite(data.last_place) - begin
    head, rest = (part.sum(axis=0).std() / max(part.sum(axis=0).mean(), _LEAST) for part in parts)
    return bool(rest > head)


def _fit_beginnings(data: ListStatistics) -> tuple[Floats, Floats]:
    """Fits which codes are in the beginnings of lists (users' own codes), not behind them.

    Returns two values: the log-ratio of each code's frequencies in beginnings and behind them (D,),
    and the log-likelihood ratio of each list for having a beginning against having none (n,).
    """
    there, order = np.isfinite(data.last_place), _order(data)
    own = np.where(
        there, 1 - np.where(there, data.last_place, 0) / data.max_codes[:, None].clip(min=1), 0.0
    )
    for _ in range(_STEPS):
        head, rest = (np.where(there, each, 0.0).sum(axis=0) + 0.5 for each in (own, 1 - own))
        log_ratio = np.log(head / head.sum()) - np.log(rest / rest.sum())
        own = _likely_beginning(data, log_ratio, order)
    return log_ratio, logsumexp(_before(data, log_ratio, order), axis=1) - np.log1p(data.max_codes)


def _order(data: ListStatistics) -> NDArray[np.intp]:
    """Returns the codes of each user's list in order, then unlisted codes, (n, longest list)."""
    longest = int(data.max_codes.max(initial=0))
    return np.argsort(data.last_place, axis=1, kind="stable")[:, :longest]


def _before(data: ListStatistics, log_ratio: Floats, order: NDArray[np.intp]) -> Floats:
    """Returns the log-likelihood that the first k codes of a list are the user's own, (n, W + 1).

    log_ratio: log-ratio of each code to be in the beginning of a list (D,)
    order: codes in the order of each user's list (n, W)

    The columns are k from 0 to W.
    """
    inside = np.arange(order.shape[1]) < data.max_codes[:, None]
    evidence = np.cumsum(np.where(inside, log_ratio[order], 0.0), axis=1)
    evidence = np.where(inside, evidence, -np.inf)
    return np.concatenate([np.zeros((len(order), 1)), evidence], axis=1)


def _likely_beginning(
    data: ListStatistics, log_ratio: Floats, order: NDArray[np.intp] | None = None
) -> Floats:
    """Returns the probability that each code is in the beginning of a user's list, (n, D).

    The beginning is the user's own codes, if decoys are listed behind them.

    log_ratio: log-ratio of each code to be in a beginning (D,)
    order: result of ``_order``, if it is known
    """
    order = _order(data) if order is None else order
    evidence = _before(data, log_ratio, order)
    longer = np.cumsum(softmax(evidence, axis=1)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    own = np.zeros(data.last_place.shape)
    np.put_along_axis(own, order, longer, axis=1)
    return own
