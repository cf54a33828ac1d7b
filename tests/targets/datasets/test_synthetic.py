"""Synthetic data have the stated dependencies, and no others."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import BernoulliNB

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets import synthetic
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic


def get_law(model: Synthetic) -> NDArray[np.float64]:
    """Probability of each item as a user's first choice, by the class's docstring, user by user."""
    truth, result = model.draw_truth(), np.empty((model.n_users, model.n_items))
    for user in range(model.n_users):
        for item in range(model.n_items):
            log = -model.skew * np.log(item + 1)
            is_match = truth.user_taste[user] == truth.item_taste[item]
            log += synthetic.ITEM_MATCH_LOG_WEIGHT * model.taste * is_match
            for name in ("gender", "age_group"):
                code, lean = truth.attributes[name].codes[user], truth.preferences[name][item]
                log += synthetic.ITEM_MATCH_LOG_WEIGHT * model.signal * (code == lean)
            result[user, item] = np.exp(log)
    return result / result.sum(axis=1, keepdims=True)


def draw_first_choices(data: Interactions) -> NDArray[np.int64]:
    starts, ends = data.ratings.indptr[:-1], data.ratings.indptr[1:]
    return np.array(
        [
            data.ratings.indices[a + np.argmin(data.timestamps[a:b])]
            for a, b in zip(starts, ends, strict=True)
        ]
    )


def get_p_value(chosen: NDArray[np.int64], law: NDArray[np.float64], order: NDArray[Any]) -> float:
    """P-value of choices under a distribution, by the uniformity of their quantiles."""
    sorted_law = np.take_along_axis(law, order, axis=1)
    at = np.argmax(order == chosen[:, None], axis=1)[:, None]
    mass = np.take_along_axis(sorted_law, at, axis=1)[:, 0]
    upto = np.take_along_axis(np.cumsum(sorted_law, axis=1), at, axis=1)[:, 0]
    spread = np.random.default_rng(5).random(len(chosen))
    return float(stats.kstest(upto - mass * spread, "uniform").pvalue)


@pytest.mark.calibration
def test_first_choices_follow_the_stated_distribution_and_no_weaker_one() -> None:
    settings: dict[str, Any] = {"n_users": 1500, "n_items": 60, "profile": 8, "tastes": 4}
    model = Synthetic(**settings, taste=0.7, signal=0.8, seed=3)
    truth, right = model.draw_truth(), get_law(model)
    chosen = draw_first_choices(model.load())
    matches = {"index": np.broadcast_to(np.arange(60), (1500, 60))}
    matches["taste"] = truth.user_taste[:, None] == truth.item_taste
    for name, lean in truth.preferences.items():
        matches[name] = truth.attributes[name].codes[:, None] == lean
    for match in matches.values():
        assert get_p_value(chosen, right, np.argsort(match, axis=1, kind="stable")) > 0.001
    wrong = {"index": {"skew": 0.5}, "taste": {"taste": 0.2}, "gender": {"signal": 0.3}}
    for name, change in wrong.items():
        other = get_law(Synthetic(**{**settings, "taste": 0.7, "signal": 0.8, "seed": 3, **change}))
        assert get_p_value(chosen, other, np.argsort(matches[name], axis=1, kind="stable")) < 1e-6


def measure_link(chosen: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum over items of the variation of rates between categories; ``codes`` may be (trials, n)."""
    flags = codes[..., None] == np.arange(codes.max() + 1)
    rates = np.swapaxes(flags, -1, -2) @ chosen / flags.sum(axis=-2)[..., None]
    return np.asarray((rates.var(axis=-2) / (chosen.mean(axis=0) + 1e-9)).sum(axis=-1))


def permutation_p_value(data: Interactions, attribute: str, rng: np.random.Generator) -> float:
    """P-value of a permutation test of "ratings do not depend on the attribute"."""
    chosen, codes = (data.ratings.toarray() > 0).astype(float), data.attributes[attribute].codes
    shuffled = rng.permuted(np.tile(codes, (99, 1)), axis=1)
    at_least = measure_link(chosen, shuffled) >= measure_link(chosen, codes)
    return float((1 + at_least.sum()) / 100)


@pytest.mark.parametrize(
    ("attribute", "signal"), [("gender", 0.0), ("age_group", 0.0), ("occupation", 1.0)]
)
def test_no_dependence_is_found_without_a_planted_one(attribute: str, signal: float) -> None:
    rng = np.random.default_rng(11)
    p_values = [
        permutation_p_value(
            Synthetic(n_users=120, n_items=80, profile=15, signal=signal, seed=seed).load(),
            attribute,
            rng,
        )
        for seed in range(40)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.parametrize("attribute", ["gender", "age_group"])
def test_a_strong_signal_is_found_by_a_simple_classifier(attribute: str) -> None:
    data = Synthetic(signal=1.0, seed=1).load()
    codes = data.attributes[attribute].codes
    guessed = cross_val_predict(BernoulliNB(), data.ratings > 0, codes, cv=5)
    hits = stats.binomtest(int((guessed == codes).sum()), len(codes))
    assert hits.proportion_ci(0.999).low > np.bincount(codes).max() / len(codes)


def test_attributes_have_the_stated_shares() -> None:
    attributes = Synthetic(n_users=20_000).draw_truth().attributes
    for name, shares in synthetic.USER_SHARE_BY_CATEGORY.items():
        counts = np.bincount(attributes[name].codes)
        assert attributes[name].categories == tuple(shares)
        assert stats.chisquare(counts, np.array([*shares.values()]) * 20_000).pvalue > 0.001


def test_popularity_has_the_requested_skew() -> None:
    flat, steep = (
        Synthetic(n_users=2000, n_items=200, profile=10, skew=skew, taste=0, signal=0).load()
        for skew in (0.0, 1.5)
    )
    rated = [data.ratings > 0 for data in (flat, steep)]
    shares = [matrix.sum(axis=0)[:20].sum() / matrix.nnz for matrix in rated]
    assert shares[0] == pytest.approx(0.1, abs=0.01)
    assert shares[1] > 0.5


def test_ratings_are_higher_within_the_taste_group() -> None:
    model = Synthetic(seed=2)
    data, truth = model.load(), model.draw_truth()
    users = np.repeat(np.arange(model.n_users), np.diff(data.ratings.indptr))
    match = truth.user_taste[users] == truth.item_taste[data.ratings.indices]
    stars = data.ratings.data
    assert set(np.unique(stars)) == {1, 2, 3, 4, 5}
    assert stats.ttest_ind(stars[match], stars[~match]).statistic > 5


def test_data_follow_the_seed_and_strengths_keep_users() -> None:
    one, again, other = (Synthetic(seed=seed).load() for seed in (4, 4, 5))
    assert one.digest() == again.digest() != other.digest()
    strong = Synthetic(seed=4, signal=1.0, taste=0.0).load()
    assert strong.digest() != one.digest()
    assert np.array_equal(strong.ratings.indptr, one.ratings.indptr)
    for name in synthetic.USER_SHARE_BY_CATEGORY:
        assert np.array_equal(strong.attributes[name].codes, one.attributes[name].codes)


@pytest.mark.parametrize(("n_users", "n_items", "profile"), [(1, 1, 1), (300, 4, 4), (257, 30, 9)])
def test_shapes_at_every_size(n_users: int, n_items: int, profile: float) -> None:
    data = Synthetic(n_users=n_users, n_items=n_items, profile=profile).load()
    assert data.ratings.shape == (n_users, n_items)
    assert data.ratings.has_canonical_format
    sizes = np.diff(data.ratings.indptr)
    assert sizes.min() >= min(5, n_items)
    assert sizes.max() <= min(n_items, max(5, n_items // 2))
    assert len(data.timestamps) == data.ratings.nnz
    rows = np.split(data.timestamps, data.ratings.indptr[1:-1])
    assert all(len(np.unique(times)) == len(times) for times in rows)
    assert (data.genres.sum(axis=1) == 1).all()


def test_the_size_of_ml_1m_takes_less_than_one_dense_matrix() -> None:
    tracemalloc.start()
    data = Synthetic(n_users=6040, n_items=3706, profile=165).load()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.ratings.nnz / 6040 == pytest.approx(165, rel=0.05)
    assert peak < 6040 * 3706 * 8


def test_users_have_at_most_all_items() -> None:
    with pytest.raises(InputError, match="n_items=400, got profile=401"):
        Synthetic(profile=401)


def test_a_path_is_refused(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="Expected no path"):
        Synthetic().load(tmp_path)
