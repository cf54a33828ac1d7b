"""Local collaborative filtering: neighbourhoods from uploads, scores from the device's history."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import (
    DplcfAp,
    DplcfSp,
    LcfAp,
    LcfSp,
    LcfUb,
)
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import ItemKnn
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import estimate_jaccard, pair_counts

SYSTEMS = [DplcfSp(), DplcfAp(), LcfSp(), LcfAp(), LcfUb()]


def interactions(users: int = 60, items: int = 25) -> Interactions:
    rng = np.random.default_rng(4)
    return Interactions.of((rng.random((users, items)) < 0.3) * 4.0)


@pytest.mark.parametrize("target", SYSTEMS, ids=lambda target: target.name)
def test_one_upload_one_release_and_scores_by_equation_12(target: ItemKnn) -> None:
    data = interactions()
    run = target.run(data, np.random.default_rng(4))
    (uploads, bits), *rest = run.transcript.view(Vantage.SERVER).component("bits")
    assert not rest
    assert bits.dense(uploads.users).shape == (60, 25)
    release = run.transcript.release
    scores = target.score(run.model, data, np.array([3, 7]))
    history = data.ratings.toarray()[[3, 7]] > 0
    for item in range(25):  # equation 12, neighbour by neighbour, from what was sent out
        near = zip(release["neighbours"][item], release["similarity"][item], strict=True)
        expected = sum(similarity * history[:, j] for j, similarity in near)
        np.testing.assert_allclose(scores[:, item], expected)


@pytest.mark.parametrize("target", SYSTEMS, ids=lambda target: target.name)
def test_similarity_is_estimated_through_the_flip_or_not_at_all(target: ItemKnn) -> None:
    run = target.run(interactions(), np.random.default_rng(4))
    ((_, bits),) = run.transcript.view(Vantage.SERVER).component("bits")
    flip = target.randomizer
    p, q = (flip.p, flip.q) if target.name.startswith("dplcf") and flip is not None else (1.0, 0.0)
    expected = estimate_jaccard(pair_counts(bits), 60, p, q)
    release = run.transcript.release
    found = np.take_along_axis(expected, release["neighbours"], axis=1)
    np.testing.assert_array_equal(release["similarity"], found)


def test_dplcf_and_lcf_upload_the_same_from_the_same_coins() -> None:
    for with_estimate, without in ((DplcfSp(), LcfSp()), (DplcfAp(), LcfAp())):
        first, second = (
            target.run(interactions(), np.random.default_rng(1)).transcript.rounds[0].uploads
            for target in (with_estimate, without)
        )
        every = np.arange(60)
        np.testing.assert_array_equal(
            first.components["bits"].dense(every), second.components["bits"].dense(every)
        )


def is_mapped(array: np.ndarray | None) -> bool:
    """Whether an array is a view of a mapped file."""
    return array is not None and (isinstance(array, np.memmap) or is_mapped(array.base))


def test_uploads_beyond_the_memory_bound_go_to_disk_unchanged() -> None:
    data = interactions(4000, 1200)
    held, mapped = (
        DplcfSp().run(data, np.random.default_rng(1), compute=Compute(memory=memory))
        for memory in (1 << 31, 0)
    )
    (one,), (other,) = held.transcript.rounds, mapped.transcript.rounds
    bits = other.uploads.components["bits"]
    assert is_mapped(bits.entries.indices)
    every = np.arange(4000)
    np.testing.assert_array_equal(
        one.uploads.components["bits"].dense(every), other.uploads.components["bits"].dense(every)
    )
    np.testing.assert_array_equal(
        held.transcript.release["similarity"],
        mapped.transcript.release["similarity"],
    )


def test_one_item_and_one_user_leave_nothing_to_compare() -> None:
    for target in SYSTEMS:
        for shape in ((1, 1), (1, 4), (4, 1)):
            data = Interactions.of(np.ones(shape))
            run = target.run(data, np.random.default_rng(0))
            scores = target.score(run.model, data, np.arange(shape[0]))
            assert scores.shape == shape
            assert np.isfinite(scores).all()
