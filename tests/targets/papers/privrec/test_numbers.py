"""The numbers behind headings 10 to 16, each by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.theorems.neighbours import fixed_size_above
from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.auditor.reproductions.reproduction import reproduction
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.privrec import numbers
from fedrec_auditor.targets.papers.privrec.numbers import printed_epsilons, realisable, upper
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import DpPrivrec, Privrec
from fedrec_auditor.targets.systems.base import Population

PAPER = Paper.of("fedrec_auditor.targets.papers.privrec")


def of(number: str) -> tuple[Computed, ...]:
    return PAPER.computed(PAPER.entry(number))


def test_all_36_entries_are_reproduced_to_the_printed_digit() -> None:
    entries = tuple(printed_epsilons())
    assert len(entries) == 36
    assert [f"{e.counted:.4f}" for e in entries] == [f"{e.printed:.4f}" for e in entries]
    assert all(number.word is Arithmetic.RIGHT for number in of("15b"))


def test_a_reproduced_row_has_the_printed_figure_beside_both_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numbers, "printed_epsilons", lambda: [*printed_epsilons()][16:17])
    (part,) = [part for part in reproduction("privrec").parts() if not part.data]
    (row,) = part.measure(None, np.random.default_rng(0), False)
    assert (row.place, row.what) == ("Table 3", "epsilon at delta 1e-06, 30 of 4800 clients")
    assert (
        row.printed
        == row.beside["by the authors' counting"]
        == PAPER.table("Table 3").row("30 / 4800")["1e-6"]
    )
    assert row.beside["leaks at least"] < row.value < row.printed


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
    system = DpPrivrec(embedding=4, width=32, local_epochs=1)
    held = Interactions.of(np.ones((1, 4)), name="all")
    model = system.first(held, np.random.default_rng(1))
    sent = system.upload(held, model, np.random.default_rng(1), size=20)
    for name, part in sent.components.items():
        messages = part.dense(np.arange(20)).reshape(20, -1)
        np.testing.assert_allclose(messages - messages[0], 0.0, atol=1e-6, err_msg=name)
    assert np.abs(sent.components["item"].dense(np.arange(1))).max() > 0.01


def test_both_queries_together() -> None:
    (joint,) = of("10c")
    assert joint.claimed == pytest.approx(2 * math.sqrt(1601) / 30)
    assert joint.right == pytest.approx(math.sqrt(4 * 1600 + 1) / 30)
    assert joint.word is Arithmetic.LOOSE


def test_the_bound_cancels() -> None:
    (adapted,) = of("11b")
    assert adapted.right == pytest.approx(1 / math.sqrt(0.3 + 0.7 / 4))
    assert adapted.word is Arithmetic.RIGHT


def test_z_is_no_variance() -> None:
    (number,) = of("13b")
    assert (number.claimed, number.right) == pytest.approx((math.sqrt(2), 2.0))


def test_nearly_all_are_drawn_in_a_simulation_too() -> None:
    share, *_ = of("14b")
    assert share.claimed == pytest.approx(1 - 30 / 4800)
    rng, drawn = np.random.default_rng(8), np.zeros(4800, dtype=bool)
    for _ in range(1000):
        drawn[rng.choice(4800, 30, replace=False)] = True
    assert 1 - drawn.mean() == pytest.approx(share.right, abs=6 * math.sqrt(share.right / 4800))


@pytest.mark.calibration
def test_a_client_knows_of_its_own_draws() -> None:
    """In a round without it the M are drawn of N - 1: the rate that another one is drawn at."""
    _, one, many = of("14b")
    for number, others in ((one, 942), (many, 849)):
        rng = np.random.default_rng(others)
        drawn = np.argsort(rng.random((20_000, 943)), axis=1)[:, :30]
        told = drawn[(drawn < 943 - others).sum(axis=1) == 0]  # none of those who collude
        rate = (told == 942).any(axis=1).mean()
        assert rate == pytest.approx(30 / others, abs=6 * math.sqrt(30 / others / len(told)))
        joint = DpPrivrec().round_mechanism(Population(n_users=943, n_items=1682)).mu
        by_hand = fixed_size_above(
            n_users=others, sample=30, rounds=1000, multiplier=1 / joint, delta=1e-8
        )
        assert number.right == by_hand > number.claimed
    assert (one.claimed, one.right, many.right) == pytest.approx((3.928, 3.932, 4.399), abs=5e-4)


def test_counts_of_rounds_and_users() -> None:
    for number in of("15c"):
        assert number.claimed < number.right
        assert number.word is Arithmetic.WRONG
    assert [(n.claimed, n.right) for n in of("15d")] == [(4800, 4832), (760, 766)]
    for clients, printed, right in ((30, 4800, 4832), (15, 760, 766)):
        less, more = (upper(clients=clients, n_users=n, delta=1e-6) for n in (right, printed))
        assert 0.985 < less / more < 1.0
    assert all(math.isinf(number.right) for number in of("15e"))


def test_an_epsilon_of_fifty_identifies() -> None:
    """By Definition 2: the best test of two values is right (e^eps + delta)/(1 + e^eps) at most."""
    printed, proved = of("15f")
    assert printed.right == pytest.approx(1.0)
    assert proved.right == pytest.approx(math.exp(6.286) / (1 + math.exp(6.286)), abs=1e-5)


def test_the_rows_that_move_are_the_users_features() -> None:
    """What a device really sends: of each table of attributes the row of its own value alone."""
    (number,) = of("16b")
    assert number.word is Arithmetic.WRONG
    data = Synthetic(n_users=12, n_items=20, profile=6.0, tastes=3, seed=0).load()
    system = Privrec(embedding=16, width=64, local_epochs=1)
    model = system.first(data, np.random.default_rng(0))
    sent = system.upload(data, model, np.random.default_rng(1))
    for name, attribute in data.attributes.items():
        change = sent.components[f"user.{name}"].dense(np.arange(12))
        moved = [np.flatnonzero(rows.any(axis=1)).tolist() for rows in change]
        assert moved == [[code] for code in attribute.codes]
