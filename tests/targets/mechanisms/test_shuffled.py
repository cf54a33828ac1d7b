"""Shuffled reports, held to the law of their histogram, added up one user after another."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Shuffle
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Shuffled


def histogram_law(epsilon: float, k: int, values: Sequence[int]) -> Counter[tuple[int, ...]]:
    """How often each report is sent, with its probability, by users with these values.

    Of k-ary randomized response: the true one of k is e^epsilon times as likely as any other.
    """
    law = Counter({(0,) * k: 1.0})
    for value in values:
        odds = np.where(np.arange(k) == value, math.exp(epsilon), 1.0)
        chances = odds / odds.sum()
        after: Counter[tuple[int, ...]] = Counter()
        for counts, before in law.items():
            for report, chance in enumerate(chances):
                more = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
                after[more] += before * chance
        law = after
    return law


@pytest.mark.parametrize("n_users", [1, 2, 30])
def test_shuffled_bits_have_the_law_of_their_count(n_users: int) -> None:
    ones = np.arange(n_users + 1)
    theirs = Shuffled(1.3, n_users).log_prob(ones[:, None], [1.0, -1.0])
    for value, column in ((1, 0), (0, 1)):
        law = histogram_law(1.3, 2, (value, *(0,) * (n_users - 1)))
        mine = [math.log(law[n_users - count, count]) for count in ones]
        np.testing.assert_allclose(mine, theirs[:, column], rtol=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_clones_dominate_the_shuffle_of_any_others(epsilon: float) -> None:
    event = ShuffledDpEvent(epsilon, 6)
    proved = {d: Shuffle().bound(event, delta=d, scope=SCOPE).epsilon for d in (1e-4, 1e-2)}
    for others in itertools.combinations_with_replacement(range(3), 5):
        laws = [histogram_law(epsilon, 3, (value, *others)) for value in range(3)]
        for delta, bound in proved.items():
            for one, two in itertools.permutations(laws, 2):
                excess = sum(max(0.0, p - math.exp(bound) * two[key]) for key, p in one.items())
                assert excess <= delta * (1 + 1e-9)
