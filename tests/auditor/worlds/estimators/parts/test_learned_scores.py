"""Statistics of vectors that are learnt: directions, and values in whatever place."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from fedrec_auditor.auditor.worlds.estimators.parts.entry_names import EntryNames
from fedrec_auditor.auditor.worlds.estimators.parts.learned_scores import learned_scores


def best_gap(first: Any, second: Any, fresh: Any) -> dict[str, float]:
    """By name, how many deviations the fresh means of the two worlds lie apart."""
    found = {}
    for score in learned_scores(
        first.astype(float), second.astype(float), EntryNames(first.shape[1:])
    ):
        one, other = (np.asarray(score.of(each), dtype=float) for each in fresh)
        found[score.name] = float((one.mean() - other.mean()) / max(one.std(), 1e-9))
    return found


def test_a_direction_of_many_entries_is_found_by_the_difference_of_means() -> None:
    rng = np.random.default_rng(1)
    direction = rng.normal(size=200)
    direction *= 2.0 / np.linalg.norm(direction)
    drawn = [x * direction + rng.normal(size=(5_000, 200)) for x in (1, 0)]
    fresh = [x * direction + rng.normal(size=(5_000, 200)) for x in (1, 0)]
    gaps = best_gap(*drawn, fresh)
    projection = gaps["projection on the difference of means"]
    # Estimated from 5,000 draws, the direction is off by a cosine of 1/sqrt(1 + 200 (2/5000) / 4).
    assert projection > 0.95 * 2.0 / np.sqrt(1.0 + 0.02)
    assert projection > 1.1 * max(gap for name, gap in gaps.items() if "signed sum" in name)


def test_items_are_counted_wherever_they_stand() -> None:
    """Four items of ten in random order, of which item 5 or 4 is there with probability 0.9."""
    rng = np.random.default_rng(2)

    def lists(item: int) -> Any:
        order = np.argsort(rng.random((4_000, 10)) - (np.arange(10) == item) * 0.8, axis=1)
        return rng.permuted(order[:, :4], axis=1)

    gaps = best_gap(lists(5), lists(4), [lists(5), lists(4)])
    (name,) = (name for name in gaps if "values shown" in name)
    assert "(4, 5 above all)" in name or "(5, 4 above all)" in name
    assert gaps[name] == max(gaps.values())
    error = np.sqrt(2 / 4_000)
    assert stats.norm.sf(gaps[name] / error) < 1e-9
