"""Inputs of a network from the gradients that they caused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def first_layer_input(
    weight: NDArray[np.floating[Any]], bias: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """The input x of a layer W x + b by its gradients dW (n, h, d) and db (n, h): (n, d).

    dW = db x^T, whatever the loss; so x = dW^T db / |db|^2, which is the least-squares solution
    where several inputs were summed up. 0 where db is. Source: Phong et al. 2018, section 3.

    >>> first_layer_input(np.array([[[2.0, 4.0], [-1.0, -2.0]]]), np.array([[2.0, -1.0]]))
    array([[1., 2.]])
    """
    wide, by = weight.astype(np.float64), bias.astype(np.float64)
    size = np.sum(by**2, axis=1, keepdims=True)
    dot = (by[:, None] @ wide)[:, 0]
    return np.asarray(np.divide(dot, size, out=np.zeros_like(dot), where=size > 0))
