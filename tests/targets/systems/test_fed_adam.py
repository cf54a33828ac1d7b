"""The server's step by Adam, held to Algorithm 2 of Reddi et al. entry by entry."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.targets.systems.federated import FedAdam


def test_the_step_is_that_of_the_algorithm() -> None:
    rng, adam = np.random.default_rng(0), FedAdam(0.1)
    model = {"item": rng.normal(size=(3, 2)).astype(np.float32), "user.b": np.zeros(1, np.float32)}
    state = {(n, at): (float(x), 0.0, 0.0) for n, t in model.items() for at, x in np.ndenumerate(t)}
    for _ in range(5):
        mean = {n: rng.normal(size=t.shape).astype(np.float32) for n, t in model.items()}
        for (name, at), (x, m, v) in state.items():
            delta = float(mean[name][at]) - x
            m, v = 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
            state[name, at] = x + 0.1 * m / (v**0.5 + 1e-8), m, v
        model = adam.step(model, mean)
        for (name, at), (x, _, _) in state.items():
            np.testing.assert_allclose(model[name][at], x, rtol=1e-4, atol=1e-5)


def test_a_row_moves_as_far_however_few_moved_it_and_not_at_all_where_none_did() -> None:
    model = {"item": np.zeros((3, 2), np.float32)}
    mean = {"item": np.array([[0.5, -0.5], [5e-4, -5e-4], [0.0, 0.0]], np.float32)}
    moved = FedAdam(0.1).step(model, mean)["item"]
    np.testing.assert_allclose(moved, [[0.1, -0.1], [0.1, -0.1], [0.0, 0.0]], rtol=1e-3)
