"""Features of each item in messages of any form, as inputs of a classifier of interactions.

The features are numbers from arrays with an axis of items, positions in lists, and marks. A mark of
an item is a part of a message that reveals the item (``ItemMarks``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.transcript import Broadcast, Component, Payload

# Marks of an item: the codes, or the positions in a sketch, that its users' messages contain.
#
# A list of hashes contains the hash of each of the user's items; a Bloom filter or a count-min
# sketch is nonzero at the positions of each of them. An adversary who can run the devices' code
# learns the marks of an item: all devices with the item in their history send the marks, and some
# devices without the item do not (group testing: Dorfman 1943).

Floats32 = NDArray[np.float32]

# Maximum number of codes, or of positions, of a part that are searched for marks.
MAX_MARK_CODES = 2**13
# Maximum number of positions of a signature.
MAX_MINHASH_SIZE = 512
_RARE, _ALWAYS = 0.01, 0.98  # marks are uninformative in smaller or larger shares of the messages
_NEARLY = 0.98  # minimum frequency of a mark, as a share of that of the item's best mark


@dataclass(frozen=True, slots=True)
class ItemMarks:
    """Marks of all items; the mark of an item is the part of a message that reveals the item.

    Every device with the item in its history sends the mark. There are two forms of marks:

    - In a list of integers: a set of codes, such as the hash codes of the item.
    - In an array: a set of positions with an unusual value, such as the bits of the item in a Bloom
      filter.

    There are M items, and v codes or positions that may belong to marks.

    mark_codes: for lists, these codes (v,); for arrays, empty
    positions: for arrays, these positions (v,); for lists, None
    values_without_mark: for arrays, the usual value at each position (v,); for lists, empty
    weights_by_message_half: weight of each code or position in the mark of each item, adding up to
        1 per item. Two arrays (v, M), one learned from each half of the messages with known
        histories
    signatures: message of a device with item i alone, for every item i (M, d); None if messages are
        not MinHash signatures
    """

    # Each value of a MinHash signature is the value at its position in the signature of one of the
    # user's items.

    mark_codes: NDArray[Any]
    positions: NDArray[np.intp] | None
    values_without_mark: NDArray[Any]
    weights_by_message_half: tuple[Floats32, Floats32]
    signatures: NDArray[Any] | None

    @classmethod
    def fit(
        cls,
        sent: NDArray[Any],
        histories: NDArray[np.bool_],
        single_items: NDArray[Any] | None,
        *,
        has_code_lists: bool,
    ) -> Self:
        """Learns the marks of items from messages of devices with known histories.

        sent: messages of n devices: arrays of d numbers, or lists of d codes (n, d)
        histories: True if the device's history has the item, for M items (n, M)
        single_items: for each item, the message of a device with this item alone (M, d), or None
        has_code_lists: True if ``sent`` holds lists of codes
        """
        whole = sent.dtype.kind in "biu"
        if has_code_lists:
            each, counts = np.unique(sent, return_counts=True)
            codes = np.sort(each[np.argsort(-counts, kind="stable")[:MAX_MARK_CODES]])
            present, still = _flag_codes(sent, codes), codes[:0]
        else:
            codes, still = (sent[0, :0], sent.min(axis=0) if whole else np.median(sent, axis=0))
            present = (sent != still).astype(np.float32)
        share = present.mean(axis=0)
        informative = np.flatnonzero((share >= _RARE) & (share < _ALWAYS))
        halves = _learn_marks(present[:, informative], histories)
        if has_code_lists:
            return cls(codes[informative], None, still, halves, None)
        signed = whole and sent.shape[1] <= MAX_MINHASH_SIZE
        return cls(codes, informative, still[informative], halves, single_items if signed else None)

    def compute_mark_shares(self, messages: NDArray[Any]) -> tuple[Floats32, Floats32]:
        """Returns the share, from 0 to 1, of each item's mark that each message contains.

        A mark is a set of codes or positions; the share is the sum of their weights that are in the
        message. The result is two arrays (messages, items), one for each half of
        ``weights_by_message_half``.

        messages: the messages, one per row, each as the entries of a list or as numbers
        """
        if self.positions is None:
            present = _flag_codes(messages, self.mark_codes)
        else:
            present = (messages[:, self.positions] != self.values_without_mark).astype(np.float32)
        return present @ self.weights_by_message_half[0], present @ self.weights_by_message_half[1]

    def count_matches(self, messages: NDArray[Any]) -> Floats32 | None:
        """Counts the positions at which each of n messages equals each of M signatures, (n, M).

        The signature of an item is the message of a device whose only item it is. The result is
        None if there are no signatures.
        """
        if self.signatures is None:
            return None
        count = np.zeros((len(messages), len(self.signatures)), np.float32)
        for sent_column, signature_column in zip(messages.T, self.signatures.T, strict=True):
            count += sent_column[:, None] == signature_column
        return count


def _flag_codes(sent: NDArray[Any], codes: NDArray[Any]) -> Floats32:
    """Returns 1 for each of ``codes`` (v,) that is in the list of a message, else 0, (n, v)."""
    present = np.zeros((len(sent), len(codes)), np.float32)
    if len(codes):
        at = np.searchsorted(codes, sent).clip(max=len(codes) - 1)
        row, column = np.nonzero(codes[at] == sent)
        present[row, at[row, column]] = 1.0
    return present


def _learn_marks(present: Floats32, histories: NDArray[np.bool_]) -> tuple[Floats32, Floats32]:
    """Returns the weight of each code or position in items' marks, from both message halves.

    An item's mark is the codes or positions in the messages of all its users. The two arrays (v, M)
    are learned from even and from odd messages; the weights of an item add up to 1.

    present: whether each message has each code or position (n, v)
    histories: whether each device's history has each item (n, M)
    """
    share, halves = present.mean(axis=0), []
    for half in (0, 1):
        some = histories[half::2].astype(np.float32)
        often = present[half::2].T @ some / np.maximum(some.sum(axis=0), 1.0)
        # A code or position belongs to an item's mark if its frequency among messages with the item
        # is at least ``_NEARLY`` times that of the most frequent code or position, and above its
        # frequency among all messages.
        mark = (often >= _NEARLY * often.max(axis=0, initial=0.0)) & (often > share[:, None])
        halves.append((mark / np.maximum(mark.sum(axis=0), 1)).astype(np.float32))
    return halves[0], halves[1]


# Features of each item in any message: numbers with the same meaning for all items.
#
# A part of a message refers to items by an axis as long as the catalogue, or by listing them. All
# other parts become features without an item, unchanged.

Numbers = NDArray[np.float64]
_FEW = 4  # maximum number of values per item that are separate features
_STEPS = 8  # number of power iterations
_WIDTH = 1_024  # maximum number of features of a part; a wider part is projected
_TINY = 1e-12
_TOGETHER = 2**24  # how many numbers are processed at once


@dataclass(slots=True)
class ItemFeatures:
    """Features of each of M items in n messages; a feature has the same meaning for all items.

    n_items: number of items M
    vectors_by_item: vectors of k numbers per item, as arrays (n, M, k): the numbers of a message
        about the item, and their products with the item's part of the broadcast model
    features_by_item: single numbers per item, such as a rank or a length, as arrays (n, M)
    non_item_numbers: numbers that belong to no item, as arrays (n, d) of d numbers per message
    item_mark_parts: message parts from which ``ItemMarks`` learns, each as a pair. For a list of
        codes per message (integers that may stand for items): True, and the lists (n, L).
        Otherwise: False, and the numbers (n, d)
    """

    n_items: int
    vectors_by_item: list[Numbers] = field(default_factory=list)
    features_by_item: list[Numbers] = field(default_factory=list)
    non_item_numbers: list[Numbers] = field(default_factory=list)
    item_mark_parts: list[tuple[bool, NDArray[Any]]] = field(default_factory=list)

    @classmethod
    def from_messages(
        cls,
        components: Mapping[str, Component],
        broadcast: Broadcast | None,
        n_items: int,
        list_names: Collection[str],
    ) -> ItemFeatures:
        """Computes the features of all messages of one round.

        components: messages by the name of each component
        broadcast: model that the server sent in the round, or None
        n_items: number of items M
        list_names: names of the components that are lists of codes (integers that may stand for
            items)
        """
        made, listed = cls(n_items), {}
        parts = {name: part.to_dense(np.arange(len(part))) for name, part in components.items()}
        made.item_mark_parts = select_item_mark_parts(parts, n_items, list_names)
        for name, sent in parts.items():
            base = (broadcast or {}).get(name)
            is_like_base = base is not None and np.shape(base) == sent.shape[1:]
            if is_like_base and components[name].kind is Payload.MODEL:
                sent = sent - base
            along = n_items in sent.shape[1:]
            if along:
                made._add_item_part(sent, base if is_like_base else None)
            if name in list_names:
                listed[name] = sent
            elif not along:
                made._add_numbers(sent)
        for name, ids in listed.items():
            made._add_lists(ids, [part for key, part in parts.items() if key != name])
        return made

    def _add_item_part(self, sent: NDArray[Any], base: NDArray[Any] | None) -> None:
        """Adds features of a message part (n, *shape) with an axis of items.

        base: the corresponding part of the broadcast model, or None
        """
        # Few numbers per item become one feature each. More numbers become their length and their
        # projections on three directions: the message's sum, its principal direction, and the
        # item's own part of the broadcast.
        axis = sent.shape[1:].index(self.n_items)
        rows = np.moveaxis(sent, axis + 1, 1).reshape(len(sent), self.n_items, -1)
        rows = rows.astype(np.float64)
        self.features_by_item.append((rows != 0).any(axis=2).astype(np.float64))
        if rows.shape[2] <= _FEW:
            for number in np.moveaxis(rows, 2, 0):
                self._add_with_rank(number)
        self.vectors_by_item.append(rows)
        if rows.shape[2] > 1:
            length = np.linalg.norm(rows, axis=2)
            total = _normalise(rows.sum(axis=1))
            direction = total + _TINY
            for _ in range(_STEPS):
                place = np.einsum("nmk,nk->nm", rows, direction)
                direction = _normalise(np.einsum("nmk,nm->nk", rows, place))
            place = np.einsum("nmk,nk->nm", rows, direction)
            place *= np.where((place**3).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
            along = np.einsum("nmk,nk->nm", rows, total)
            for number in (length, along, place):
                self._add_with_rank(number)
            self.features_by_item.append(along / np.maximum(length, _TINY))
        if base is not None:
            own = np.moveaxis(base, axis, 0).reshape(self.n_items, -1)
            self.vectors_by_item.append(rows * own)
            self.features_by_item.append(np.einsum("nmk,mk->nm", rows, own))
            lengths = np.linalg.norm(own, axis=1)
            each = np.broadcast_to(lengths, rows.shape[:2]).astype(np.float64)
            self.features_by_item.append(each)

    def _add_lists(self, ids: NDArray[Any], beside: list[NDArray[Any]]) -> None:
        """Adds features of lists (n, L) that may contain item indices.

        The features are the count and the first position of each item in the list, and numbers of
        other parts at the same positions.

        beside: the other message parts; the shape of usable parts is (n, L) or (n, L, k)
        """
        count = len(ids)
        whose, at = np.nonzero((ids >= 0) & (ids < self.n_items))
        item = ids[whose, at]
        times = np.zeros((count, self.n_items))
        np.add.at(times, (whose, item), 1.0)
        place = np.full((count, self.n_items), 2.0)
        np.minimum.at(place, (whose, item), at / ids.shape[1])
        self.features_by_item += [times, place]
        for part in beside:
            if part.shape[:2] != ids.shape or part[0].size > _FEW * ids.shape[1]:
                continue
            for number in np.moveaxis(part.reshape(*ids.shape, -1).astype(np.float64), 2, 0):
                for values in (number, _rank(number)):
                    values_of_items = np.full((count, self.n_items), -1.0)
                    values_of_items[whose, item] = values[whose, at]
                    self.features_by_item.append(values_of_items)

    def _add_numbers(self, sent: NDArray[Any]) -> None:
        """Adds all numbers of a message part as features without an item.

        More than 1,024 numbers are first added up in 1,024 groups with random signs.
        """
        flat = sent.reshape(len(sent), -1).astype(np.float64)
        width = flat.shape[1]
        if width > _WIDTH:
            rng = np.random.default_rng(0)
            signs = rng.choice([-1.0, 1.0], width)
            places = (np.arange(width), rng.integers(_WIDTH, size=width))
            flat = np.asarray(flat @ sparse.csr_array((signs, places), shape=(width, _WIDTH)))
        self.non_item_numbers.append(flat)

    def _add_with_rank(self, number: Numbers) -> None:
        self.features_by_item += [number, _rank(number)]


def select_item_mark_parts(
    parts: Mapping[str, NDArray[Any]], n_items: int, list_names: Collection[str]
) -> list[tuple[bool, NDArray[Any]]]:
    """Selects message parts from which the marks of items (``ItemMarks``) are learned.

    parts: parts of the messages by name (n, ...)
    n_items: number of items
    list_names: names of the parts that are lists of codes

    The result has pairs of a flag and an array:

    - True and the lists (n, L), for each part of lists;
    - False and the flattened arrays (n, d), for each part that has no axis of items and at most
      8,192 positions.
    """
    inputs = []
    for name, sent in parts.items():
        size = int(np.prod(sent.shape[1:]))
        if name in list_names:
            inputs.append((True, sent))
        if n_items not in sent.shape[1:] and size <= MAX_MARK_CODES:
            inputs.append((False, sent.reshape(len(sent), size)))
    return inputs


def may_be_minhash(part: Component) -> bool:
    """Checks whether a message part may be a MinHash signature: 5 to 512 integers or bits."""
    whole = part.to_dense(np.arange(min(1, len(part)))).dtype.kind in "biu"
    return whole and _FEW < int(np.prod(part.shape)) <= MAX_MINHASH_SIZE


def find_list_components(components: Mapping[str, Component]) -> frozenset[str]:
    """Returns the names of components whose messages are lists of integers, some of them above 1.

    A component with integers of 0 and 1 only holds flags, not codes.
    """
    names_of_lists = []
    for name, part in components.items():
        if len(part.shape) == 1 and len(part) and part.to_dense(np.arange(1)).dtype.kind in "iu":
            parts = iter_blocks(len(part), part.shape[0], _TOGETHER)
            messages = (part.to_dense(np.arange(some.start, some.stop)) for some in parts)
            names_of_lists += [name] * any((each > 1).any() for each in messages)
    return frozenset(names_of_lists)


def _rank(values: Numbers) -> Numbers:
    """Returns the rank of each entry (n, L) among the L entries of its message, divided by L.

    Tied entries get their mean rank.
    """
    return np.asarray(rankdata(values, axis=1) / values.shape[1])


def _normalise(rows: Numbers) -> Numbers:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY))
