"""The rule on values seen under one input only: what it finds, and how its sets are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST, SECOND, SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.exclusive_values import Found, exclusive_rules
from fedrec_auditor.auditor.worlds.estimators.parts.fingerprints import fingerprints

BUDGET = SampleBudget(draws=1_800_000, delta=0.0, alpha=0.005)
PAIR = (0, 1)


def found(first: Any, second: Any) -> Found:
    return exclusive_rules([np.asarray(first), np.asarray(second)], [PAIR], BUDGET)[PAIR]


def base(x: int, rng: np.random.Generator, n: int) -> Any:
    return x + rng.laplace(size=n)


@pytest.mark.parametrize("kind", ["numbers", "words", "bytes of many", "vectors", "rows"])
def test_a_leak_of_one_in_ten_thousand_is_taken_and_nothing_else(kind: str) -> None:
    rng, n = np.random.default_rng(3), 100_000
    drawn = []
    for x in (0, 1):
        if kind == "numbers":
            out: Any = base(x, rng, n)
            out[:10] = x
        elif kind == "words":
            out = np.where(rng.random(n) < 0.6, *(("yes", "no") if x else ("no", "yes")))
            out = out.astype("U9")
            out[:10] = f"debug {x}"
        elif kind == "bytes of many":
            out = rng.integers(0, 200, n)
            out[:10] = 1000 + x
        elif kind == "vectors":
            out = np.stack([base(x, rng, n), base(x, rng, n)], axis=1)
            out[:10, 1] = x
        else:
            out = (rng.random((n, 6)) < 0.5).astype(np.int8)
            out[:10] = 2 + x
        drawn.append(out)
    rule = found(*drawn).rule
    assert rule.count(drawn[0][:10]).tolist() == [10, 0]
    assert rule.count(drawn[1][:10]).tolist() == [0, 10]
    fresh = drawn[0][10:]
    if fresh.dtype.kind == "f":
        fresh = fresh + 1e-3  # other numbers than those of the split
    right, wrong = rule.count(fresh)
    assert wrong == 0
    assert right <= 10
    assert "seen under one input only" in rule.words(FIRST)


def test_what_lies_far_out_is_a_range() -> None:
    rng, n = np.random.default_rng(4), 20_000
    drawn = [rng.normal(size=n) for _ in PAIR]
    drawn[1][:40] += 1e6
    best = found(*drawn)
    assert best.rule.count(np.array([1e6, 0.0])).tolist() == [0, 1]
    assert "outside of" in best.rule.words(SECOND)


def test_rare_values_of_both_inputs_are_expected_to_show_nothing() -> None:
    """Some of a million values come up under one input alone by chance: draws left out tell."""
    rng = np.random.default_rng(5)
    drawn = [rng.integers(10**5, size=50_000) for _ in PAIR]
    assert found(*drawn).expected < 0.1


def test_rounding_makes_no_value_of_its_own() -> None:
    """0.1 + 0.2 and 0.3 differ in the last bit: judged by the check of floating point alone."""
    rng = np.random.default_rng(6)
    one = np.where(rng.random(5000) < 0.5, 0.3, 1.0)
    other = np.where(rng.random(5000) < 0.5, 0.1 + 0.2, 1.0)
    assert exclusive_rules([one, other], [PAIR], BUDGET) == {}


def test_fingerprints_tell_rows_apart_and_not_their_padding() -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(-5, 5, (20_000, 4))
    different = len(np.unique(rows, axis=0))
    assert len(np.unique(fingerprints(rows))) == different
    words = np.array([["ab", "c"], ["a", "bc"], ["ab", "c"]])
    short, wide = fingerprints(words), fingerprints(words.astype("U40"))
    assert short.tolist() == wide.tolist()
    assert (short[0] == short[2], short[0] == short[1]) == (True, False)
    assert fingerprints(np.array([[-3], [4]])).view(np.int64).tolist() == [-3, 4]
