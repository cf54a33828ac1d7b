"""Interactions read from a layer with an input an item: an autoencoder's first, a linear model.

For the layer h = W x + b on a device's history x an example with error e in h adds e x^T to the
gradient of W. The column of an item that the device did not meet (x_i = 0) therefore does not move,
whatever the loss, the layers above and the number of steps, and that of an own item does, unless
all units are inactive. Noise and weight decay move all columns. Source: derived here from the chain
rule; the same of one example, Phong et al. 2018, Privacy-preserving deep learning via additively
homomorphic encryption, section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.model_messages import ModelMessages, model_messages
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import moves_some_rows
from fedrec_auditor.targets.transcript import View

_LOOKED_AT = 16  # messages by which it is told whether all columns move


class InputWeights(MessageReader):
    """Messages that move some columns of a matrix with a column an item, and leave the others.

    Of the first and last rounds, see ``uploads.kept``. A matrix of as many rows as columns is not
    read: which of them are items is not told.
    """

    reference = (
        "which inputs' weights moved: derived in attacks/readers/input_weights.py from the chain "
        "rule; compare Phong et al. 2018, section 3"
    )

    wanted = "weights of a layer with an input an item"

    def reads(self, view: View) -> bool:
        """Whether devices leave some of them unmoved, and move all rows of an item table."""
        return not moves_some_rows(view) and bool(input_messages(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Sure of items whose column moved in any round that is read, and of those in none.

        Nothing is told of a user whose columns never moved.
        """
        own = np.zeros((len(users), view.public.n_items), dtype=np.bool_)
        for sent in input_messages(view):
            for whose, _, moved in sent.changes_of(users):
                own[whose] |= moved.any(axis=1)
        ratio = np.where(own, SURE, -SURE) * own.any(axis=1, keepdims=True)
        return Evidence(users=users, log_ratio=ratio.astype(np.float32))


def input_messages(view: View) -> tuple[ModelMessages, ...]:
    """The first such matrix of which one of a few messages leaves a column as it was, by rounds."""
    for rounds in model_messages(view).values():
        shape = rounds[-1].component.shape
        if len(shape) != 2 or shape[1] != view.public.n_items or shape[0] == shape[1]:
            continue
        last = rounds[-1].few(_LOOKED_AT)
        if any((~moved.any(axis=1)).any() for _, _, moved in last.changes()):
            return rounds
    return ()
