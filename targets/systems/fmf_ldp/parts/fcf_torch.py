"""User vectors of equation 4 in padded batches of torch, on any device.

The same batches and systems as the numpy kernel of ``closed_form``, solved by Cholesky: with the
rows Z_S of a batch of users of like activity, (I + alpha Z_S^T Z_S) y = Z_S^T 1, or its dual where
histories are shorter than F. Only ``closed_form`` imports this module, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats

Batch = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]


def solve(
    whitened: Floats,
    root: Floats,
    touched: sparse.csr_array,
    alpha: float,
    batches: Iterable[Batch],
    device: str,
) -> tuple[Floats, Floats]:
    """x (n, F) and x.v at every stored entry of ``touched`` (n, M), both without the (1 + alpha).

    ``batches`` gives users, the positions of their entries, and which of them exist. Memory on the
    device: Z, the results, and a few arrays of a batch's size.
    """
    count, factors = whitened.shape
    kind = torch.from_numpy(whitened[:0]).dtype
    padded = torch.zeros((count + 1, factors), dtype=kind, device=device)
    padded[:count] = torch.from_numpy(np.ascontiguousarray(whitened))
    columns = torch.from_numpy(np.append(touched.indices, count).astype(np.int64)).to(device)
    y = torch.zeros((touched.shape[0], factors), dtype=kind, device=device)
    predicted = torch.empty(touched.nnz + 1, dtype=kind, device=device)  # the last takes padding
    for users, positions, held in batches:
        at = torch.from_numpy(positions).to(device)
        rows = padded[columns[at]]
        across = rows.mT
        dual = held.shape[1] < factors
        gram = (rows @ across if dual else across @ rows).mul_(alpha)
        gram.diagonal(dim1=-2, dim2=-1).add_(1.0)
        pull = rows.new_ones((*held.shape, 1)) if dual else rows.sum(dim=1).unsqueeze(-1)
        solved = torch.cholesky_solve(pull, torch.linalg.cholesky(gram))
        solved = across @ solved if dual else solved
        y[torch.from_numpy(users).to(device)] = solved.squeeze(-1)
        predicted[at] = (rows @ solved).squeeze(-1)
    exact = torch.from_numpy(np.ascontiguousarray(root)).to(device)
    x = torch.linalg.solve_triangular(exact.mT, y.mT.to(exact.dtype), upper=True).mT
    return x.to(kind).contiguous().cpu().numpy(), predicted[:-1].cpu().numpy()
