"""Reader of lists of items, or of codes that stand for items, without the senders' code.

A device may list decoys (other items) in addition to the user's own items (positives). Own items
occur in every round, but decoys vary if they are drawn again. So a code is more likely an own item
if more of the user's lists contain it. A model of latent classes gives the log-likelihood ratio.
The order of a list, and numbers sent with its entries, are not read.

``PublicInfo.item_rows`` assigns codes to items. If it is unknown, the k-th most frequent code is
matched to the k-th most popular item.

Source: latent classes (Dempster, Laird and Rubin, JRSS B 1977); matching by frequency: Naveed,
Kamara and Wright, Inference attacks on property-preserving encrypted databases, CCS 2015.
"""

# The model has three classes of codes. A code is in c of a user's R lists with the probability w
# Binomial(c; R, a) + v Binomial(c; R, b) + (1 - w - v) Binomial(c; R, d). The shares w, v and 1 - w
# - v of all codes are: own items, decoys that the device draws often, and decoys that it hardly
# ever draws. A list contains a code of these classes with probability a (common to all users), b
# and d. With a single round, a is assumed to be 1, and there is only one class of decoys. The 10%
# of the codes that are listed least often are then regarded as decoys, to estimate b.
#
# The parameters are fitted by expectation maximisation. Hardly any user owns the codes that are
# listed least often, so that their mean frequency is that of a decoy. A reader with the devices'
# code reads orders and numbers too (``shadow_reader``). All matches among ties are equally likely.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, softmax

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader, fit_prior
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.transcript import Payload, View

_SAMPLE = 500  # number of users to whose lists the parameters are fitted
_STEPS = 30
_BLOCK = 2**20  # maximum number of users times codes that are processed at once
_MIN_P = 1e-6  # smallest probability
_RARE_SHARE = 0.1  # share of the codes, the rarest ones, that hardly any user owns
_CODES = 4  # maximum number of codes that are matched, as a multiple of the catalogue
_DIGITS = 6
_PAIRS = 2**24  # maximum number of codes times items, or times users, that are processed at once
_OWN, _HARDLY = 0.98, 0.02  # initial rate a, and initial rate d as a multiple of a code's mean rate

Floats = NDArray[np.float64]
_AS_SETS = (
    "Lists are read as sets. Their order, and numbers sent with entries, are read only with the "
    "devices' code."
)


class ListedItemsReader(MessageReader):
    """Reader of lists of items, or of codes that stand for items, which infers interactions.

    Log-likelihood ratios of interactions follow from how often a user's lists name an item. If the
    codes of items are unknown, the most frequent codes are matched to the most popular items. This
    requires known popularity, and devices whose code the adversary does not have
    (``PublicInfo.device_code``).
    """

    # With the devices' code, another reader learns more. Memory: some arrays of users times items,
    # some of 2^24 numbers, and the entries of one round.

    reference = (
        "latent classes of listed items, derived in attacks/readers/listed_items.py; frequency "
        "matching: Naveed, Kamara and Wright, CCS 2015"
    )

    required_messages = "lists of items, or of codes of items"

    def can_read(self, view: View) -> bool:
        """Checks whether users sent lists of items, or of codes that can be matched to items."""
        return bool(_list_names(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions from the lists that users sent.

        Users may send several lists, each in its own component. For each item, the largest absolute
        log-likelihood ratio over components counts. If the codes of items are unknown, only the
        first component is read.
        """
        lists = _list_names(view)
        assert lists, "refused"
        if view.public.device_code is None:
            view.add_note(_AS_SETS)
        ratios = np.zeros((len(users), view.public.n_items))
        for name in lists:
            of_items = _get_item_codes(view, name)
            if of_items is None:
                view.add_note("Matches codes to items by how many users have each.")
                return _match_codes(view, name, users)
            some = np.arange(len(of_items))
            if len(lists) > 1:
                some = some[np.isin(of_items, find_listed_codes(view, name)).all(axis=1)]
            if not len(some):
                continue
            new = _read(view, name, of_items[some], users)
            ratios[:, some] = np.where(abs(new) > abs(ratios[:, some]), new, ratios[:, some])
        return Evidence(users=users, log_ratio=ratios)


def find_listed_codes(view: View, name: str, count: int | None = None) -> NDArray[np.int64]:
    """Returns the codes (integers) that occur in the lists of component ``name``, ascending.

    If ``count`` is given, the result has only the ``count`` most frequent codes.
    """
    codes: NDArray[np.int64] = np.zeros(0, np.int64)
    counts: NDArray[Any] = np.zeros(0)
    for _, _, component in uploads.select_rounds(view, name):
        sent = component.list_entries(np.arange(len(component)))[2].astype(np.int64)
        new, more = np.unique(sent, return_counts=True)
        codes, place = np.unique(np.concatenate([codes, new]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, more]), len(codes))
    return np.sort(codes[np.argsort(-counts, kind="stable")[:count]])


def _list_names(view: View) -> list[str]:
    """Returns the names of the components to read: lists of items, or else lists of codes."""
    names = uploads.list_linked_components(view)
    kinds = {name: uploads.get_last_messages(view, name).kind for name in names}
    known = view.public.item_rows is not None
    guessed = view.public.device_code is None and view.public.popularity is not None
    for wanted, able in ((Payload.ITEMS, True), (Payload.CODES, known or guessed)):
        lists = [name for name, kind in kinds.items() if kind is wanted]
        lists = [name for name in lists if len(uploads.get_last_messages(view, name).shape) == 1]
        if able and lists:
            return lists
    return []


def _read(view: View, name: str, of_items: NDArray[np.int64], users: NDArray[np.int64]) -> Floats:
    """Returns log-likelihood ratios of interactions (n, M) from one list of each user.

    of_items: codes of each item (M, h)

    The ratio of an item is the smallest ratio of its h codes.
    """
    codes, places = np.unique(of_items, return_inverse=True)
    ratio = _ListModel.fit(view, name, codes).compute_log_ratios(users)
    places = places.reshape(of_items.shape)
    return np.asarray(np.stack([ratio[:, each] for each in places.T]).min(axis=0))


def _get_item_codes(view: View, name: str) -> NDArray[np.int64] | None:
    """Returns the h codes of each item in lists of component ``name``, (M, h); None if unknown."""
    if uploads.get_last_messages(view, name).kind is Payload.ITEMS:
        return np.arange(view.public.n_items)[:, None]
    return view.public.item_rows


def _match_codes(view: View, name: str, users: NDArray[np.int64]) -> Evidence:
    """Returns log-ratios of interactions from lists of codes, which are matched to items.

    The k-th most frequent code is matched to the k-th most popular item.
    """
    popularity = view.public.popularity
    assert popularity is not None, "refused"
    everybody = uploads.find_senders(view).astype(np.int64)
    n_items = view.public.n_items
    codes = find_listed_codes(view, name, min(_CODES * n_items, _PAIRS // n_items))
    if not len(codes):
        return Evidence(users=users, log_ratio=np.zeros((len(users), view.public.n_items)))
    lists = _ListModel.fit(view, name, codes, are_all_listed=True)
    shares = np.zeros(len(lists.codes))
    for block in iter_blocks(len(everybody), len(lists.codes), _BLOCK):
        shares += lists.compute_own_probability(everybody[block]).sum(axis=0)
    likely, doubt = _match_by_rank(np.rint(shares), np.rint(popularity * view.public.n_users))
    overall = (shares @ likely / len(everybody)).clip(_MIN_P, 1 - _MIN_P)
    chance = (1 - doubt) * (lists.compute_own_probability(users) @ likely) + doubt * overall
    items = logit(overall)
    ratio = (logit(chance.clip(_MIN_P, 1 - _MIN_P)) - items).clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = np.round(ratio, _DIGITS)  # last bits would break ties of the prior
    activity = np.zeros(len(users))
    return Evidence(users=users, log_ratio=ratio, item_log_odds=items, activity_log_odds=activity)


def _match_by_rank(first: Floats, second: Floats) -> tuple[Floats, float]:
    """Returns the probability that each code is each item, by rank, (D, M), and a doubt.

    first, second: numbers of users of each code (D,) and of each item (M,)

    The largest number of ``first`` matches the largest of ``second``, and so on. The doubt is the
    probability that a match is wrong.
    """
    first = first * second.sum() / max(first.sum(), _MIN_P)
    count = min(len(first), len(second))
    top, partner = (-np.sort(-each)[:count] for each in (first, second))
    apart = (top - partner) / np.sqrt(np.maximum(partner, 1.0))
    # Differences are in units of the square root of a number. Let r be the root mean square
    # difference between the matched numbers. Numbers of one array that differ by at most r share
    # their ranks. The doubt is 2 r, at most 1, because true partners differ more than matched ones.
    near = min(1.0, float(np.sqrt(np.mean(apart**2))))
    (low, high), (bottom, top) = _find_ranks(first, near), _find_ranks(second, near)
    shared = np.minimum(high[:, None], top) - np.maximum(low[:, None], bottom)
    likely = np.maximum(shared, 0) / (high - low)[:, None] / (top - bottom)
    return likely / np.maximum(likely.sum(axis=1, keepdims=True), 1.0), min(1.0, 2 * near)


def _find_ranks(values: Floats, near: float) -> tuple[Floats, Floats]:
    """Returns for each value the first and last rank, in descending order, of values near it.

    A value is near if it differs by less than ``near`` times the square root of the value.
    """
    order, span = np.sort(-values), near * np.sqrt(np.maximum(values, 1.0))
    first = np.searchsorted(order, -values - span, side="left")
    last = np.searchsorted(order, -values + span, side="right")
    return first.astype(np.float64), last.astype(np.float64)


@dataclass(frozen=True, slots=True)
class _ListModel:
    """Model of lists of codes, of the user's own items and of decoys, fitted to some senders.

    view, name: view and component of the lists
    codes: codes whose lists are modelled, ascending (D,)
    some: users of the sample
    own_rate: share of a user's lists that contain an own code; None with a single round
    others: rate of a code that nobody owns, per entry of a list
    """

    view: View
    name: str
    codes: NDArray[np.int64]
    some: NDArray[np.int64]
    own_rate: float | None
    others: float

    @classmethod
    def fit(
        cls, view: View, name: str, codes: NDArray[np.int64], *, are_all_listed: bool = False
    ) -> _ListModel:
        """Fits the model to the lists of component ``name``.

        ``are_all_listed`` is True if each of ``codes`` is in somebody's list.
        """
        everybody = uploads.find_senders(view).astype(np.int64)
        few = min(_SAMPLE, 1 + _PAIRS // max(1, len(codes)))
        some = np.sort(np.random.default_rng(0).permutation(everybody)[:few])
        n_rounds, times = _count_rounds(view, name, codes, some)
        listed = np.sort(np.maximum(times.sum(axis=0) - are_all_listed, 0.0))
        rarest = listed[: max(1, int(_RARE_SHARE * len(listed)))]
        others = float(rarest.mean() / max(1.0, float(times.sum())))
        often = n_rounds[:, 0] > 1
        own_rate = _fit_rates(n_rounds[often], times[often], None)[0] if often.any() else None
        return cls(view, name, codes, some, own_rate, others)

    def compute_log_ratios(self, users: NDArray[np.int64]) -> Floats:
        """Returns log-likelihood ratios (n, D) that each code is the user's own, from lists."""
        some = iter_blocks(len(users), len(self.codes), _BLOCK)
        none = np.zeros((0, len(self.codes)))
        return np.concatenate([none, *(self._score_codes(users[block]) for block in some)])

    def _score_codes(self, users: NDArray[np.int64]) -> Floats:
        n_rounds, times = _count_rounds(self.view, self.name, self.codes, users)
        size = times.sum(axis=1, keepdims=True) / np.maximum(n_rounds, 1.0)
        ratio = np.where(times > 0, -np.log((self.others * size).clip(_MIN_P, 1.0)), -MAX_LOG_RATIO)
        often = n_rounds[:, 0] > 1
        if self.own_rate is not None and often.any():
            ratio[often] = _fit_rates(n_rounds[often], times[often], self.own_rate)[1]
        ratio[n_rounds[:, 0] == 0] = 0.0
        return np.asarray(ratio.clip(-MAX_LOG_RATIO, MAX_LOG_RATIO))

    def compute_own_probability(self, users: NDArray[np.int64]) -> Floats:
        """Returns the probability that each code is one of the user's own, not a decoy, (n, D)."""
        sample = Evidence(users=self.some, log_ratio=self.compute_log_ratios(self.some))
        return np.asarray(expit(self.compute_log_ratios(users) + fit_prior(sample)[0]))


def _count_rounds(
    view: View, name: str, codes: NDArray[np.int64], users: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Counts the lists of each user (n, 1), and those that contain each of ``codes`` (n, D)."""
    n_rounds, times = np.zeros((len(users), 1)), np.zeros((len(users), len(codes)))
    for _, sent, component in uploads.select_rounds(view, name):
        positions, places = uploads.match_senders_to_users(sent.users, users)
        row, _, entries = component.list_entries(positions)
        at = np.searchsorted(codes, entries).clip(max=len(codes) - 1)
        known = codes[at] == entries
        present = np.zeros((len(places), len(codes)), dtype=np.bool_)
        present[row[known], at[known]] = True
        times[places] += present
        n_rounds[places] += 1
    return n_rounds, times


def _fit_rates(n_rounds: Floats, times: Floats, own_rate: float | None) -> tuple[float, Floats]:
    """Fits the model of own codes and two classes of decoys; returns own rate and log-ratios.

    The log-likelihood ratios (n, D) compare an own code of the user with the classes of decoys.

    n_rounds: number of lists of each user (n, 1)
    times: number of the user's lists that contain each code (n, D)
    own_rate: rate of own codes to use instead of a fitted one, or None
    """
    share = times.mean(axis=1) / n_rounds[:, 0]
    rates = np.stack([np.full(len(share), own_rate or _OWN), share, _HARDLY * share])
    own = (0.5 * share).clip(_MIN_P, 0.5)
    weight = np.stack([own, 0.5 * (1 - own), 0.5 * (1 - own)])
    for step in range(_STEPS + 1):
        rates = rates.clip(_MIN_P, 1 - _MIN_P)
        log_likely = np.log(rates)[:, :, None] * times
        log_likely += np.log1p(-rates)[:, :, None] * (n_rounds - times)
        if step == _STEPS:
            break
        chance = softmax(log_likely + np.log(weight)[:, :, None], axis=0)
        listed, sent = (chance * times).sum(axis=2), (chance * n_rounds).sum(axis=2)
        rates = (listed + _MIN_P) / (sent + _MIN_P)
        rates[0] = own_rate or (listed[0].sum() + _MIN_P) / (sent[0].sum() + _MIN_P)
        weight = chance.mean(axis=2).clip(_MIN_P)
    among = np.log(weight[1:] / weight[1:].sum(axis=0))[:, :, None]
    ratio = log_likely[0] - logsumexp(log_likely[1:] + among, axis=0)
    return float(rates[0, 0]), ratio.clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)
