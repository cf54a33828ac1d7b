"""Compactly stored components equal dense arrays, completely, in parts and from a row on."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.targets import components
from fedrec_auditor.targets.components import Bits, Component, Dense, Payload, Reports, SparseRows
from fedrec_auditor.targets.federated.noise import ClippedNoise
from fedrec_auditor.targets.papers.federated_mf.systems.parts import noise_rounds
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import ComponentView


def draw(seed: int, whole: bool, clients: int = 4, count: int = 6) -> tuple[SparseRows, np.ndarray]:
    """Some rows of one matrix per client, and the same matrices as a dense table."""
    rng = np.random.default_rng(seed)
    touched = rng.random((clients, count)) < 0.4
    rest = rng.normal(size=(count, 2)) if whole else None
    dense = np.tile(np.zeros((count, 2)) if rest is None else rest, (clients, 1, 1))
    values = rng.normal(size=(int(touched.sum()), 2))
    dense[touched] = values
    indptr = np.concatenate([[0], np.cumsum(touched.sum(axis=1))])
    columns = np.nonzero(touched)[1]
    return SparseRows(indptr, columns, values, count, Payload.MODEL, 0.1, rest), dense


@given(st.integers(0, 2**32), st.booleans())
def test_rows_read_as_the_whole_matrix(seed: int, whole: bool) -> None:
    component, dense = draw(seed, whole)
    order = np.random.default_rng(seed).permutation(4)[:3]
    np.testing.assert_array_equal(component.to_dense(order), dense[order])
    np.testing.assert_allclose(component.sum_all(), dense.sum(axis=0), atol=1e-12)
    taken = component.take(order)
    np.testing.assert_array_equal(taken.to_dense(np.arange(3)), dense[order])
    assert taken.shape == component.shape == (6, 2)


@pytest.mark.parametrize("whole", [False, True])
def test_rows_are_summed_by_blocks(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """Blocks may end within a client, and the sum makes no copy of all values."""
    component, dense = draw(1, whole, clients=2000, count=500)
    monkeypatch.setattr("fedrec_auditor.targets.components._BLOCK", 10_001)
    tracemalloc.start()
    try:
        total = component.sum_all()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(total, dense.sum(axis=0), atol=1e-9)
    assert peak < component.values.nbytes / 5


@given(st.integers(0, 2**32))
def test_bits_read_as_the_table_of_their_entries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.random((4, 6)) < 0.4
    bits, order = Bits(sparse.csr_array(table * rng.normal(size=(4, 6)))), rng.permutation(4)[:3]
    assert bits.shape == (6,)
    assert len(bits) == 4
    np.testing.assert_array_equal(bits.to_dense(order), table[order])
    np.testing.assert_array_equal(bits.take(order).to_dense(np.arange(3)), table[order])
    np.testing.assert_array_equal(bits.sum_all(), table.sum(axis=0))


@given(st.integers(0, 2**32))
def test_sent_entries_are_distinguished_from_zeros(seed: int) -> None:
    component, _ = draw(seed, whole=False)
    component.values[:] = 0.0
    expected = np.zeros((4, 6), dtype=bool)
    for client in range(4):
        expected[
            client, component.row_ids[component.indptr[client] : component.indptr[client + 1]]
        ] = 1
    np.testing.assert_array_equal(component.flag_sent_rows(np.arange(4)), expected)
    assert draw(seed, whole=True)[0].flag_sent_rows(np.arange(4)).all()


@given(st.integers(0, 2**32))
def test_noise_is_redrawn_identically(seed: int) -> None:
    clean, dense = draw(seed, whole=True)
    streams = Streams.spawn(np.random.default_rng(seed), 4)
    noisy = components.RandomizedMessages(clean, noise_rounds.NoiseAdder(2.0), streams)
    whole = noisy.to_dense(np.arange(4))
    assert (whole != dense).all()
    np.testing.assert_array_equal(noisy.to_dense(np.array([3, 1])), whole[[3, 1]])
    np.testing.assert_array_equal(noisy.take(np.array([2])).to_dense(np.array([0])), whole[[2]])
    np.testing.assert_allclose(noisy.sum_all(), whole.sum(axis=0))


@given(st.integers(0, 2**32))
def test_trained_rows_lie_over_a_table_of_noise(seed: int) -> None:
    changed, dense = draw(seed, whole=True)
    noise = components.RandomizedMessages(
        Dense(np.zeros((4, 6, 2)), Payload.MODEL),
        noise_rounds.NoiseAdder(2.0),
        Streams.spawn(np.random.default_rng(seed), 4),
    )
    overlaid, noisy = components.OverlaidTables(noise, changed), noise.to_dense(np.arange(4))
    trained = np.zeros((4, 6), dtype=bool)
    for client in range(4):
        trained[client, changed.row_ids[changed.indptr[client] : changed.indptr[client + 1]]] = True
    expected = np.where(trained[:, :, None], dense, noisy)
    np.testing.assert_array_equal(overlaid.to_dense(np.arange(4)), expected)
    np.testing.assert_array_equal(
        overlaid.take(np.array([3, 1])).to_dense(np.array([1])), expected[[1]]
    )
    np.testing.assert_allclose(overlaid.sum_all(), expected.sum(axis=0))
    assert (overlaid.shape, len(overlaid), overlaid.kind, overlaid.learning_rate) == (
        (6, 2),
        4,
        Payload.MODEL,
        0.1,
    )


def test_noise_is_independent_in_every_entry() -> None:
    noisy = components.RandomizedMessages(
        Dense(np.zeros((50, 8, 5)), Payload.MODEL),
        noise_rounds.NoiseAdder(1.0),
        Streams.spawn(np.random.default_rng(0), 50),
    )
    values = noisy.to_dense(np.arange(50)).ravel()
    assert len(np.unique(values)) == len(values)
    # 2,000 draws of variance 1: the mean square is within 6 standard deviations of it
    assert np.mean(values**2) == pytest.approx(1.0, abs=6 * np.sqrt(2 / len(values)))


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_lists_are_read_entry_by_entry(count: int, seed: int) -> None:
    """Lists of clients in any order, as components and as views."""
    rng = np.random.default_rng(seed)
    entries, clients = rng.integers(-1, 4, (count, 6)), rng.permutation(count)
    lists = Dense(entries, Payload.ITEMS)
    expected = [
        (place, column, entry)
        for place, client in enumerate(clients)
        for column, entry in enumerate(entries[client])
        if entry >= 0
    ]
    for component in (lists, ComponentView(lists)):
        row, column, listed = component.list_entries(clients)
        assert list(zip(row, column, listed, strict=True)) == expected


CLIENTS, ITEMS, WIDTH = 5, 9, 3  # odd width, because noise is drawn in pairs


_RNG = np.random.default_rng(0)


_TABLE = Dense(_RNG.normal(size=(CLIENTS, ITEMS, WIDTH)).astype(np.float32), Payload.GRADIENT)


_ROWS = SparseRows(
    indptr=np.array([0, 2, 2, 5, 6, 8]),
    row_ids=np.array([0, 4, 1, 2, 8, 3, 4, 7]),
    values=_RNG.normal(size=(8, WIDTH)).astype(np.float32),
    n_rows=ITEMS,
    kind=Payload.MODEL,
    broadcast=_RNG.normal(size=(ITEMS, WIDTH)).astype(np.float32),
)


_NOISES: dict[str, components.Randomizer] = {
    "masked": noise_rounds.NoiseAdder(1.0),
    "replaced": noise_rounds.NoiseReplacer(1.0, 0.5),
    "repaired": noise_rounds.NoiseReplacer(1.0, 0.5, is_repaired=True),
    "normal": ClippedNoise(0.5, 0.2, is_normal=True),
    "Laplace": ClippedNoise(0.5, 0.2),
}


MESSAGES: dict[str, Component] = {
    "dense": _TABLE,
    "rows": _ROWS,
    "overlaid": components.OverlaidTables(_TABLE, _ROWS),
    "rank one": components.RankOneMessages(
        _RNG.normal(size=(CLIENTS, WIDTH)),
        _RNG.normal(size=(ITEMS, WIDTH)),
        sparse.csr_array(
            _RNG.normal(size=(CLIENTS, ITEMS)) * (_RNG.random((CLIENTS, ITEMS)) < 0.3)
        ),
    ),
    "reports": Reports(
        _RNG.integers(ITEMS * WIDTH, size=(CLIENTS, 4)),
        _RNG.random((CLIENTS, 4)) < 0.5,
        2.0,
        (ITEMS, WIDTH),
    ),
    **{
        name: components.RandomizedMessages(_TABLE, noise, Streams.spawn(_RNG, CLIENTS))
        for name, noise in _NOISES.items()
    },
}


@pytest.mark.parametrize("first", [1, 4, 8])
@pytest.mark.parametrize("on_the_wire", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_tails_are_the_end_of_the_component(name: str, on_the_wire: bool, first: int) -> None:
    whole = ComponentView(MESSAGES[name]) if on_the_wire else MESSAGES[name]
    tail, everybody, some = whole.drop_rows(first), np.arange(CLIENTS), np.array([3, 0])
    assert tail.shape == (ITEMS - first, WIDTH)
    assert (len(tail), tail.kind, tail.learning_rate) == (CLIENTS, whole.kind, whole.learning_rate)
    dense = whole.to_dense(everybody)[:, first:]
    np.testing.assert_allclose(tail.to_dense(everybody), dense, atol=1e-6)
    np.testing.assert_allclose(tail.take(some).to_dense(np.arange(2)), dense[some], atol=1e-6)
    np.testing.assert_array_equal(tail.flag_sent_rows(some), whole.flag_sent_rows(some)[:, first:])
    np.testing.assert_allclose(tail.sum_all(), whole.sum_all()[first:], atol=1e-5)


@pytest.mark.parametrize("on_the_wire", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_picked_rows_are_those_of_the_component(name: str, on_the_wire: bool) -> None:
    whole = ComponentView(MESSAGES[name]) if on_the_wire else MESSAGES[name]
    clients = np.array([3, 0, 1])
    for rows in (
        np.array([[4, 0], [8, 4], [2, 7]]),
        np.array([[3], [4], [0]]),
        np.zeros((3, 0), int),
    ):
        picked = whole.select_rows(clients, rows)
        expected = whole.to_dense(clients)[np.arange(3)[:, None], rows]
        np.testing.assert_allclose(picked, expected, atol=1e-6)


@pytest.mark.parametrize("on_the_wire", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_no_number_exceeds_the_stated_limit(name: str, on_the_wire: bool) -> None:
    whole = ComponentView(MESSAGES[name]) if on_the_wire else MESSAGES[name]
    assert np.abs(whole.to_dense(np.arange(CLIENTS))).max() <= whole.bound_magnitude()


# Messages without a known limit of their numbers.
UNLIMITED = ("reports",)


@pytest.mark.parametrize(
    "made",
    [MESSAGES[name] for name in MESSAGES if name not in UNLIMITED],
    ids=lambda made: type(getattr(made, "randomizer", made)).__name__,
)
def test_limits_follow_from_the_parts_of_messages(made: Component) -> None:
    """Limits need no message, so that their time does not depend on the number of items."""
    for part in (made, components.SelectedRows(made, np.array([2, 4]))):
        assert np.abs(part.to_dense(np.arange(CLIENTS))).max() <= part.bound_magnitude() < 100


@pytest.mark.parametrize("broken", ["vectors", "items", "corrections"])
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e200])
def test_broken_factors_have_no_limit(broken: str, number: float) -> None:
    factors = {"vectors": np.eye(2), "items": np.zeros((3, 2)), "corrections": np.zeros((2, 3))}
    factors[broken][0, 1] = number
    corrections = sparse.csr_array(factors["corrections"])
    assert (
        components.RankOneMessages(
            factors["vectors"], factors["items"], corrections
        ).bound_magnitude()
        > 1e100
    )


@pytest.mark.parametrize("noise", ["normal", "Laplace"])
def test_noise_has_a_limit_and_nan_has_none(noise: str) -> None:
    """A device whose training diverged sends NaN through clipping and noise."""
    sent = MESSAGES[noise]
    assert isinstance(sent, components.RandomizedMessages)
    assert sent.bound_magnitude() < 10
    broken = _TABLE.values.copy()
    broken[2, 3, 1] = np.nan
    clean = Dense(broken, Payload.MODEL)
    noisy = components.RandomizedMessages(clean, sent.randomizer, sent.streams)
    assert noisy.bound_magnitude() == np.inf


@pytest.mark.parametrize("name", _NOISES)
def test_the_sum_of_noise_is_that_of_the_messages(name: str) -> None:
    sent = MESSAGES[name]
    total = sent.to_dense(np.arange(CLIENTS)).sum(axis=0)
    np.testing.assert_allclose(sent.sum_all(), total, atol=1e-5)
