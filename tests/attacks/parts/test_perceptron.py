"""The perceptron learns what scikit-learn's does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from fedrec_auditor.attacks.parts.perceptron import Perceptron


def problem(classes: int, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clouds around one corner a class, of 40 columns."""
    rng = np.random.default_rng(classes)
    corners = 0.5 * rng.normal(size=(classes, 40))
    y = rng.integers(classes, size=rows)
    x = corners[y] + rng.normal(size=(rows, 40))
    return x.astype(np.float32), y


@pytest.mark.parametrize("classes", [2, 4])
def test_it_is_as_good_as_scikit_learn(classes: int) -> None:
    """On 2,000 fresh rows, averaged over five seeds of each, within .03."""
    x, y = problem(classes, 2300)
    ours, theirs = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(5):
            one = Perceptron((100, 30), epochs=60, seed=seed).fit(x[:300], y[:300])
            two = MLPClassifier((100, 30), max_iter=60, random_state=seed).fit(x[:300], y[:300])
            ours.append(np.mean(one.scores(x[300:]).argmax(axis=1) == y[300:]))
            theirs.append(np.mean(two.predict(x[300:]) == y[300:]))
    assert np.mean(theirs) > 1.5 / classes
    assert abs(np.mean(ours) - np.mean(theirs)) < 0.03


def test_the_seed_draws_the_network() -> None:
    x, y = problem(3)
    one, other = (Perceptron((8,), epochs=5, seed=seed).fit(x, y).scores(x) for seed in (1, 2))
    assert (one.argmax(axis=1) != other.argmax(axis=1)).any()


def test_it_ends_when_the_loss_stands_still() -> None:
    """Rows that say nothing: forty epochs more change no weight after the end."""
    x, y = np.zeros((20, 3), dtype=np.float32), np.arange(20) % 2
    short, long = (Perceptron((4,), epochs=e, seed=0).fit(x, y) for e in (400, 440))
    for (one, _), (two, _) in zip(short._layers, long._layers, strict=True):
        np.testing.assert_array_equal(one, two)


def test_gradients_are_those_of_the_loss() -> None:
    """Each of them by central differences, in double precision."""
    x, y = problem(3, 20)
    network = Perceptron((6, 4), epochs=1, seed=0).fit(x, y)
    truth = np.eye(3)[y]
    layers = [(w.astype(np.float64), b.astype(np.float64)) for w, b in network._layers]
    network._layers = layers
    slopes = [(np.zeros_like(w), np.zeros_like(b)) for w, b in layers]
    spare = [(np.zeros_like(w), np.zeros_like(b)) for w, b in layers]
    rows = x.astype(np.float64)
    network._slope(rows, truth, slopes)
    for layer, found in zip(layers, slopes, strict=True):
        for part, slope in zip(layer, found, strict=True):
            for place in list(np.ndindex(part.shape))[:40]:
                losses = []
                for sign in (1, -1):
                    part[place] += sign * 1e-5
                    losses.append(network._slope(rows, truth, spare))
                    part[place] -= sign * 1e-5
                expected = (losses[0] - losses[1]) / 2e-5
                assert slope[place] == pytest.approx(expected, rel=1e-4, abs=1e-7)
