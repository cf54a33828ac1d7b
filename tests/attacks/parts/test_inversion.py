"""Inputs come back from the gradients of a small network, whichever way they are looked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedrec_auditor.attacks.parts import inversion
from fedrec_auditor.attacks.parts.inversion import (
    Inverted,
    Mlp,
    cosine,
    dlg,
    first_layer_input,
    idlg,
    label_of,
)


def network(rng: np.random.Generator, sizes: tuple[int, ...] = (16, 32, 4)) -> Mlp:
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    return Mlp(
        [rng.standard_normal(pair) / np.sqrt(pair[1]) for pair in pairs],
        [0.1 * rng.standard_normal(h) for h, _ in pairs],
    )


def test_gradients_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(0)
    net, x = network(rng, (3, 5, 4)), rng.standard_normal(3)

    def loss(w: np.ndarray, b: np.ndarray) -> float:
        hidden = 1 / (1 + np.exp(-(w @ x + b)))
        logits = net.weights[1] @ hidden + net.biases[1]
        return float(np.log(np.exp(logits).sum()) - logits[2])

    found = net.gradients(x, 2)
    step = 1e-6
    for k in range(5):
        shift = step * np.eye(5)[k]
        by_bias = loss(net.weights[0], net.biases[0] + shift)
        by_bias -= loss(net.weights[0], net.biases[0] - shift)
        assert found[1][k] == pytest.approx(by_bias / (2 * step), abs=1e-7)
        wide = np.outer(shift, np.eye(3)[1])
        by_weight = loss(net.weights[0] + wide, net.biases[0])
        by_weight -= loss(net.weights[0] - wide, net.biases[0])
        assert found[0][k, 1] == pytest.approx(by_weight / (2 * step), abs=1e-7)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.calibration) for n in (1, 2))]
)
@pytest.mark.parametrize(
    ("method", "error"),
    [
        (dlg, 1e-8),
        (idlg, 1e-12),
        pytest.param(cosine, 1e-12, marks=pytest.mark.calibration),
    ],
)
def test_optimisation_finds_input_and_label(
    method: Callable[..., Inverted], error: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    net, x, label = network(rng), rng.standard_normal(16), int(rng.integers(4))
    found = method(net, net.gradients(x, label), rng)
    assert np.mean((found.x - x) ** 2) < error
    assert found.label == label


def test_the_closed_form_is_exact_and_zero_of_nothing() -> None:
    rng = np.random.default_rng(0)
    net, x = network(rng), rng.standard_normal(16)
    weight, bias, *_ = observed = net.gradients(x, 1)
    found = first_layer_input(np.stack([weight, weight]), np.stack([bias, 0 * bias]))
    np.testing.assert_allclose(found, [x, 0 * x], atol=1e-14)
    assert label_of(observed) == 1


@pytest.mark.parametrize("method", [idlg, cosine])
def test_noise_on_the_gradients_spoils_the_input(
    method: Callable[..., Inverted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose search ends early, which the error without noise still passes."""
    monkeypatch.setattr(inversion, "_DESCENTS", 600)
    monkeypatch.setattr(inversion, "_RESTARTS", 2)
    rng = np.random.default_rng(0)
    net, x = network(rng, (8, 16, 4)), rng.standard_normal(8)
    errors = []
    for scale in (0.0, 0.3, 30.0):
        observed = [
            part + scale * part.std() * rng.standard_normal(part.shape)
            for part in net.gradients(x, 1)
        ]
        observed[-1] = net.gradients(x, 1)[-1]  # the label stays known
        found = method(net, observed, np.random.default_rng(1)).x
        errors.append(1 - found @ x / np.linalg.norm(found) / np.linalg.norm(x))
    assert errors == sorted(errors)
    assert errors[0] < 1e-6
    assert errors[2] > 0.3
