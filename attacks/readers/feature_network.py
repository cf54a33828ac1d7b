"""Reader of locally trained networks that use items' public features only, such as genres.

An item's score is how much training on the device raised the network's logit for the item's
features. Items with equal features have equal scores. Therefore messages reveal a preference for
each combination of features, never for a single item.

The network is recognised by the shapes of the broadcast arrays, in this order:

1. Embedding tables, all with rows of the same length d. The last table has one row per public item
   feature; any tables before it are for features of users.
2. For each layer, a weight (inputs, outputs) and a bias (outputs,). The last layer has one output:
   its weight is a vector, its bias a number.

Source: derived here. A classifier that minimises the cross entropy estimates the ratio of the
densities of its two classes (Sugiyama, Suzuki and Kanamori, Density Ratio Estimation, 2012).
"""

# No message names an item. A user's items change rows of a table that has one row per feature, and
# weights of the layers behind it. To the gradient of the first layer, a feature with the row E_g
# contributes E_g times the loss's derivatives by the layer's outputs, summed over the examples with
# this feature. The messages thus carry sums per feature, over positives and negatives together.
# A device minimises the cross entropy of positives (label 1: the user's own items) against
# negatives (label 0), so that its network's logit for features z estimates log P(z | own) - log P(z
# | negative) + constant. The constant follows from sum_z P(z | negative) exp(logit) =
# exp(constant), because negatives are drawn uniformly. From each logit its constant is subtracted.
# The reader computes:
# - the evidence on the user: the logit of the returned network at an item's features, minus the
#   logit of the broadcast network at these features;
# - the prior of items: the logit of the broadcast network, averaged over users. It includes only
#   the part of popularity that depends on features.
# Evidence and prior depend on the shares P(z | own), which add up to 1 over all features z. So they
# do not reveal how many items a user has. The user's own row in a table of user features is the row
# that changed.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.parts.uploads import ModelMessages
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import has_unchanged_rows
from fedrec_auditor.targets.transcript import View

_TOGETHER = 32  # number of senders that are processed at once
# Arrays of a network, one row per sender, by the name of the part.
ArraysByName = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Form:
    """Form of a network on item features: the names of its parts in the messages.

    tables: embedding tables; the last has one row per item feature
    layers: weight and bias of the first layer, of the second layer, and so on
    mean: True if the network's input is the mean of the embeddings of an item's features; False if
        it is one embedding per feature, joined to one vector
    """

    tables: tuple[str, ...]
    layers: tuple[str, ...]
    mean: bool


class FeatureNetworkReader(MessageReader):
    """Reader of networks on public item features: compares the returned with the broadcast network.

    The log-likelihood ratio of an interaction is the difference of the two networks' logits at the
    item's features. The first and last rounds are read (``uploads.select_rounds``).
    """

    # Cost: some products of layers per sender and combination of features.

    reference = (
        "logits of the returned network less those of the broadcast one, at the items' public "
        "features: derived in attacks/readers/feature_network.py"
    )

    required_messages = "a network on public features of items"

    def can_read(self, view: View) -> bool:
        """Checks whether devices send trained networks whose inputs are public features of items.

        The result is False if messages leave some rows of an item table unchanged.
        """
        # ``ItemRowsReader`` learns more from unchanged rows.
        return _find_form(view) is not None and not has_unchanged_rows(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, added over rounds.

        A ratio is the logit of the returned network minus the logit of the broadcast network. Items
        with the same features have the same ratio.
        """
        form, features = _find_form(view), view.public.item_features
        assert form is not None, "refused"
        assert features is not None, "refused"
        kinds, whose, sizes = np.unique(features, axis=0, return_inverse=True, return_counts=True)
        weight = sizes / len(features)
        flags = kinds.astype(np.float64)
        if form.mean:
            flags /= np.maximum(flags.sum(axis=1, keepdims=True), 1)
        ratio, sent = np.zeros((len(users), len(flags))), np.zeros((len(users), len(flags)))
        count = np.zeros(len(users))
        rounds = uploads.read_model_messages(view)
        names = (*form.tables, *form.layers)
        for parts in zip(*(rounds[name] for name in names), strict=True):
            whole = dict(zip(names, parts, strict=True))
            rows, places = uploads.match_senders_to_users(parts[0].users, users)
            for start in range(0, len(rows), _TOGETHER):
                some, at = (part[start : start + _TOGETHER] for part in (rows, places))
                before, after = _pair_networks(form, whole, some)
                first = _log_ratios(form, before, flags, weight)
                ratio[at] += _log_ratios(form, after, flags, weight) - first
                sent[at] += first
                count[at] += 1
        prior = sent.sum(axis=0) / max(1.0, count.sum())
        ratio, odds, level = ratio[:, whose], prior[whose], np.zeros(len(users))
        return Evidence(users=users, log_ratio=ratio, item_log_odds=odds, activity_log_odds=level)


def _pair_networks(
    form: _Form, whole: Mapping[str, ModelMessages], some: NDArray[np.intp]
) -> tuple[ArraysByName, ArraysByName]:
    """Returns the networks that the senders ``some`` received, and those that they returned.

    ``whole`` holds the messages about each part of the network. A table of user features is reduced
    to the row that changed, or to its mean if no row changed.
    """
    before, after = {}, {}
    for name, part in whole.items():
        own = ModelMessages(part.users[some], part.component.take(some), part.broadcast)
        blocks = [(change, moved) for _, change, moved in own.iter_changes()]
        change = np.concatenate([entries for entries, _ in blocks]).astype(np.float64)
        base = np.broadcast_to(np.asarray(part.broadcast, dtype=np.float64), change.shape)
        if name in form.tables[:-1]:
            rows = np.concatenate([moved.any(axis=2) for _, moved in blocks])
            share = np.where(rows.any(axis=1, keepdims=True), rows, True).astype(np.float64)
            share /= share.sum(axis=1, keepdims=True)
            base, change = (np.einsum("nc,ncd->nd", share, table) for table in (base, change))
        before[name], after[name] = base, base + change
    return before, after


def _log_ratios(
    form: _Form, network: ArraysByName, flags: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns log-ratios (n, k) of interactions against none, by n users' networks.

    flags: combinations of features (k, G)
    weight: share of items with each combination (k,)

    The result is 0 for a network with logits that are not finite.
    """
    logits = _logits(form, network, flags)
    logits[~np.isfinite(logits).all(axis=1)] = 0.0
    constant = logsumexp(logits, b=weight, axis=1, keepdims=True)
    return np.clip(logits - constant, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def _logits(form: _Form, network: ArraysByName, flags: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the logit (n, k) of each of n senders' networks for k combinations of features.

    flags: features of each combination (k, G)
    """
    *user, last = form.tables
    table, weight = network[last], network[form.layers[0]]
    du = sum(network[name].shape[1] for name in user)
    behind = weight[:, du:]
    with np.errstate(over="ignore", invalid="ignore"):
        if not form.mean:  # one input per feature
            behind = behind.reshape(*table.shape, -1)
            hidden = flags @ np.einsum("ngd,ngdh->ngh", table, behind)
        else:
            hidden = flags @ (table @ behind)
        own = np.concatenate([np.zeros((len(table), 0)), *(network[name] for name in user)], axis=1)
        hidden = hidden + np.einsum("nd,ndh->nh", own, weight[:, :du])[:, None]
        hidden += network[form.layers[1]][:, None]
        for name, bias in zip(form.layers[2::2], form.layers[3::2], strict=True):
            by = network[name].reshape(len(hidden), hidden.shape[2], -1)
            hidden = np.maximum(hidden, 0) @ by
            hidden += network[bias].reshape(len(hidden), 1, -1)
    return np.asarray(hidden[:, :, 0])


def _find_form(view: View) -> _Form | None:
    """Returns the form of a network on items' features in the messages; None if there is none."""
    features, broadcast = view.public.item_features, uploads.get_last_model(view)
    messages = uploads.read_model_messages(view)
    unknown = any(rounds[0].broadcast is None for rounds in messages.values())
    if features is None or not broadcast or unknown:
        return None
    names = [name for name in broadcast if name in messages]
    shapes = [messages[name][0].component.shape for name in names]
    at = len(names) - 2
    if at < 3 or len(shapes[at]) != 1 or shapes[at + 1] != ():
        return None
    (width,) = shapes[at]
    while at >= 2 and shapes[at - 1] == (width,) and shapes[at - 2][1:] == (width,):
        width, at = shapes[at - 2][0], at - 2
    tables = shapes[:at]
    if not tables or at == len(names) - 2 or any(len(shape) != 2 for shape in tables):
        return None
    rows, d = tables[-1]
    inputs = {d * (at - 1 + rows): False, d * at: True}
    if rows != features.shape[1] or {shape[1] for shape in tables} != {d} or width not in inputs:
        return None
    return _Form(tuple(names[:at]), tuple(names[at:]), inputs[width])
