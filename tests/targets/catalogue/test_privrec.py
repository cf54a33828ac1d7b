"""The numbers behind headings 10 to 16, each by a second way."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.targets.catalogue import privrec
from fedrec_auditor.targets.catalogue.entry import Computed
from fedrec_auditor.targets.catalogue.parts.privrec_tables import (
    PRINTED,
    counted,
    realisable,
    upper,
)
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.privrec.dp_privrec import DpPrivRec


def of(number: str) -> tuple[Computed, ...]:
    (entry,) = [entry for entry in privrec.ENTRIES if entry.number == number]
    assert entry.computed is not None
    return tuple(entry.computed())


def test_all_36_entries_are_reproduced_to_the_printed_digit() -> None:
    assert len(PRINTED) == 36
    assert [f"{counted(cell):.4f}" for cell in PRINTED] == [f"{c.printed:.4f}" for c in PRINTED]
    assert all(number.word is Arithmetic.RIGHT for number in of("15b"))


@pytest.mark.parametrize(
    ("clients", "n_users", "low", "high"), [(30, 4800, 1.298, 1.524), (15, 760, 4.382, 5.235)]
)
def test_the_truth_lies_where_claims_md_has_it(
    clients: int, n_users: int, low: float, high: float
) -> None:
    asked = {"clients": clients, "n_users": n_users, "delta": 1e-6}
    assert realisable(**asked) == pytest.approx(low, abs=6e-4)
    assert upper(**asked) == pytest.approx(high, abs=6e-4)


def test_sensitivities() -> None:
    (average,), (share,) = of("10"), of("10b")
    assert (average.claimed, average.right) == (pytest.approx(80 / 30), pytest.approx(80 / 30))
    assert (share.claimed, share.right) == (pytest.approx(2 / 30), pytest.approx(1 / 30))


def test_the_bound_drifts_to_zero_in_400_rounds() -> None:
    bit, rounds = of("11")
    assert (bit.right, rounds.right) == (1.0, 400.0)


def test_the_proof_divides_by_z_where_the_algorithm_multiplies() -> None:
    proof, algorithm = of("13")
    assert (proof.right, algorithm.right) == (pytest.approx(0.5), pytest.approx(2.0))
    assert (proof.word, algorithm.word) == (Arithmetic.WRONG, Arithmetic.RIGHT)


def test_the_poisson_figure_is_below_that_of_a_fixed_number() -> None:
    for number in of("14"):
        assert number.claimed < number.right
        assert number.word is Arithmetic.WRONG


def test_a_device_sends_the_same_whatever_its_coins() -> None:
    """Who holds all items draws no negatives: nothing but noise could tell messages apart."""
    (rate,) = of("16")
    assert (rate.right, rate.word) == (1.0, Arithmetic.WRONG)
    system = DpPrivRec(embedding=4, width=32, local_epochs=1)
    held = Interactions.of(np.ones((1, 4)), name="all")
    model = system.first(held, np.random.default_rng(1))
    sent = system.upload(held, model, np.random.default_rng(1), size=20)
    for name, part in sent.components.items():
        messages = part.dense(np.arange(20)).reshape(20, -1)
        np.testing.assert_allclose(messages - messages[0], 0.0, atol=1e-6, err_msg=name)
    assert np.abs(sent.components["item"].dense(np.arange(1))).max() > 0.01
