"""Reader of user vectors, from the first layer of an MLP on a user vector and an item vector.

The layer is h = W [x; v_i] + b, with the user vector x and the vector v_i of item i. Let db be the
gradient of b, and dW_user that of the columns of W that multiply x. For any batch

    dW_user = db x^T,    x = dW_user^T db / |db|^2.

For one gradient, this is exact. For the sum of several steps, in which x itself changes, this is
approximate. A step of Adam reveals little more than the signs of x.

Source: derived here from the chain rule; for one example see Phong et al. 2018, Privacy-preserving
deep learning via additively homomorphic encryption.
"""

# Every example with error e in h adds e x^T to the gradient of W on the user's side, and e to the
# gradient of b; x is equal in all examples of a device. A step of Adam divides every entry by its
# own size. One case helps: x = E f, where the matrix E was broadcast and f has few nonzero entries.
# Columns of E for which f is 0 do not change, so x is projected on the columns that changed. With
# an activation between E f and x, the projection retains no more of x than a projection on random
# vectors.
# The rank identifies the first layer and the user's side of it: columns of dW on the user's side
# are parallel to db.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.parts.uploads import ModelMessages
from fedrec_auditor.attacks.readers.base import Evidence, MessageReader
from fedrec_auditor.targets.transcript import View

_LOOKED_AT = 32  # number of messages that identify the layer
_PARALLEL = 0.6  # minimum median cosine of the user's columns with the bias
_WIDTH = 8  # minimum length of a bias, because short vectors are parallel by chance

# Changes of a weight or of a bias, one matrix or vector per sender.
Changes = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Location of the first layer among the messages of a network.

    weight: name of the component with the layer's weight
    bias: name of the component with its bias
    upright: True if the weight has the shape (outputs, inputs)
    side: columns of the weight that belong to the user vector x
    span: name of the matrix whose columns combine to x, or empty
    """

    weight: str
    bias: str
    upright: bool
    side: slice
    span: str = ""


class FirstLayerReader(MessageReader):
    """Reader of user vectors from the change of a network's first layer, in closed form.

    The layer's input is a user vector and an item vector. The last message of each user is read.
    """

    reference = (
        "first-layer closed form dW = db x^T: derived in attacks/readers/first_layer.py; compare "
        "Phong et al. 2018, section 3"
    )

    required_messages = "a first layer on user and item vectors"

    def can_read(self, view: View) -> bool:
        """Checks whether the view has an item table, and messages about a network's first layer.

        The layer's input must be a user vector and an item vector.
        """
        return _find_layout(view) is not None

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns user vectors (n, d) from each user's last message, 0 for users who sent none."""
        layout, rounds = _find_layout(view), uploads.read_model_messages(view)
        assert layout is not None, "refused"
        names = [name for name in (layout.weight, layout.bias, layout.span) if name]
        width = layout.side.stop - layout.side.start
        vectors = np.zeros((len(users), width))
        for parts in zip(*(rounds[name] for name in names), strict=True):
            (_, whose), *_ = chosen = [part.select(users) for part in parts]
            vectors[whose] = _solve_vectors(layout, *(part for part, _ in chosen))
        return Evidence(users=users, user_vectors=vectors)


def _solve_vectors(
    layout: _Layout, weight: ModelMessages, bias: ModelMessages, span: ModelMessages | None = None
) -> NDArray[np.float64]:
    """Returns the user vectors of all senders, (n, d), from changes of weight and bias.

    ``span`` are messages about the matrix whose changed columns combine to the vector, if any.
    """
    blocks = [
        solve_layer_input(_orient(change, layout.upright)[:, :, layout.side], by)
        for change, by in _pair_blocks(weight, bias)
    ]
    direct = np.concatenate([*blocks, np.zeros((0, layout.side.stop - layout.side.start))])
    if span is None:
        return direct
    out = direct.copy()
    for rows, columns in _iter_spans(span):
        out[rows] = _project(direct[rows], columns)
    return out


def _pair_blocks(weight: ModelMessages, bias: ModelMessages) -> Iterator[tuple[Changes, Changes]]:
    """Yields changes of the weight (k, ...) and of the bias (k, h), in blocks of senders."""
    by = np.concatenate(
        [change for _, change, _ in bias.iter_changes()] or [np.zeros((0, 0), dtype=np.float32)]
    )
    for rows, change, _ in weight.iter_changes():
        yield change, by[rows]


def _orient(change: Changes, upright: bool) -> Changes:
    return change if upright else change.transpose(0, 2, 1)


def _iter_spans(span: ModelMessages) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yields blocks of senders, and the matrix columns that each sender changed, (block, d, f).

    Unchanged columns are zero.
    """
    assert span.broadcast is not None
    for rows, _, moved in span.iter_changes():
        yield rows, np.where(moved.any(axis=1, keepdims=True), span.broadcast, 0.0)


def _project(vectors: NDArray[np.float64], columns: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the projection of each vector (n, d) on the span of its own columns (n, d, f)."""
    basis, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    basis = basis * (sizes > 1e-6 * sizes[:, :1])[:, None]
    return np.asarray(np.einsum("ndf,nf->nd", basis, np.einsum("ndf,nd->nf", basis, vectors)))


def _find_layout(view: View) -> _Layout | None:
    """Finds the first layer: a weight whose columns on one side are parallel to a bias.

    The result is None if there is no such weight and bias.
    """
    items = uploads.read_item_messages(view)
    if not items:
        return None
    width = items[-1].component.shape[1]
    last = {
        name: rounds[-1].select_first_senders(_LOOKED_AT)
        for name, rounds in uploads.read_model_messages(view).items()
        if name != uploads.find_item_table_name(view)
    }
    best, max_cosine = None, _PARALLEL
    for name, weight in last.items():
        for name_of_bias, bias in last.items():
            if len(weight.component.shape) != 2 or len(bias.component.shape) != 1:
                continue
            (size,) = bias.component.shape
            for upright in (True, False):
                tall, wide = weight.component.shape[:: 1 if upright else -1]
                if size < _WIDTH or tall != size or wide <= width:
                    continue
                for side in (slice(0, wide - width), slice(width, wide)):
                    layout = _Layout(name, name_of_bias, upright, side)
                    cosine = _median_cosine(layout, weight, bias)
                    if cosine > max_cosine:
                        best, max_cosine = layout, cosine
    return best and _find_span(best, last)


def _median_cosine(layout: _Layout, weight: ModelMessages, bias: ModelMessages) -> float:
    """Returns the median |cosine| of a bias and the weight's columns for the user vector.

    The layer is right if these columns are parallel to the bias.
    """
    cosines = [np.zeros(0, dtype=np.float32)]
    for change, by in _pair_blocks(weight, bias):
        part = _orient(change, layout.upright)[:, :, layout.side]
        length = np.linalg.norm(part, axis=1) * np.linalg.norm(by, axis=1)[:, None]
        dot = np.einsum("njk,nj->nk", part, by)
        cosines.append(np.abs(dot[length > 0] / length[length > 0]))
    cosine = np.concatenate(cosines)
    return float(np.median(cosine)) if len(cosine) else 0.0


def _find_span(layout: _Layout, last: dict[str, ModelMessages]) -> _Layout:
    """Adds to a layout the matrix, if any, whose changed columns span the user vectors.

    ``last`` holds messages of the last round by component. The span has to explain more of the
    vectors than chance would.
    """
    direct = _solve_vectors(layout, last[layout.weight], last[layout.bias])
    d = direct.shape[1]
    best, max_share = layout, 0.5
    for name, part in last.items():
        shape = part.component.shape
        if len(shape) != 2 or shape[0] != d or name == layout.weight or part.broadcast is None:
            continue
        in_span, chance = [], []
        for rows, columns in _iter_spans(part):
            in_span.append(np.sum(_project(direct[rows], columns) ** 2))
            rank = np.minimum(columns.any(axis=1).sum(axis=1), d)
            chance.append(np.sum(rank / d * np.sum(direct[rows] ** 2, axis=1)))
        whole, by_chance = np.sum(direct**2), float(np.sum(chance))
        share = (np.sum(in_span) - by_chance) / (whole - by_chance) if by_chance < whole else 0.0
        if share > max_share:
            best, max_share = replace(layout, span=name), share
    return best


def solve_layer_input(
    weight: NDArray[np.floating[Any]], bias: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Returns the input x (n, d) of a layer W x + b from its gradients dW (n, h, d) and db (n, h).

    dW = db x^T for any loss; therefore x = dW^T db / |db|^2, or 0 if db is 0. For a sum over
    several inputs, this is the least-squares solution. Source: Phong et al. 2018, section 3.

    >>> solve_layer_input(np.array([[[2.0, 4.0], [-1.0, -2.0]]]), np.array([[2.0, -1.0]]))
    array([[1., 2.]])
    """
    wide, by = weight.astype(np.float64), bias.astype(np.float64)
    size = np.sum(by**2, axis=1, keepdims=True)
    return uploads.divide_or_zero((by[:, None] @ wide)[:, 0], size)
