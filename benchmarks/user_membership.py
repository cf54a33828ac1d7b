"""AUC and time of membership inference for users: ``python -m benchmarks.user_membership``.

The attack guesses, from the view of another client, which profiles (users' histories) are in a
training. Arguments are systems.
"""

# MovieLens 100K, 20 rounds, four trainings on random halves of the users. The AUC is over all
# trainings and known profiles (all 943, or 500). Seconds are those of one core for all trainings.
# Methods:
# - joint solve: for systems whose messages add up to the models' steps;
# - LiRA online, and RMIA on its first statistic: the fit of models to profiles, compared with
#   reference models;
# - both: the attack, which combines joint solve and fit.

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.membership_attacks import UserMembership
from fedrec_auditor.attacks.parts import profile_fit
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import HalfTrainings
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, limit_to_one_thread
from fedrec_auditor.targets.transcript import DeviceCode, View

TARGETS, ROUNDS, TRAININGS, COUNTS = (("fcf", "fcf-meta", "dplcf-ap", "fmf-ldp"), 20, 4, (943, 500))
Method = Callable[[View, Background], NDArray[np.float64]]
"""Function from a view and a background to scores of the background's profiles."""


def run_attack(view: View, background: Background) -> NDArray[np.float64]:
    """The attack's scores of the known profiles."""
    return UserMembership().infer(view, background, np.random.default_rng(0)).values


def solve_jointly(view: View, background: Background) -> NDArray[np.float64]:
    """Scores of the known profiles by the joint solve, which needs no reference models."""
    assert background.profiles is not None
    return profile_fit.infer_participation(view, background.profiles)


def compare_references(view: View, background: Background) -> NDArray[np.float64]:
    """Scores of the known profiles by RMIA at gamma = 1.

    A score is the rank of the profile's fit divided by its mean fit to reference models.
    """
    assert background.profiles is not None
    fit, *others = (
        profile_fit.measure_profile_fit(each, background.profiles)[:, 0]
        for each in (view, *background.reference_views)
    )
    return np.asarray(rankdata(fit / np.mean(others, axis=0)))


def format_lines(name: str) -> Iterator[str]:
    """Yields table lines of one system: method, known profiles, AUC and seconds."""
    data = load_data("ml-100k")
    target = FAMILIES["targets"].load_class(name)().limit_rounds(ROUNDS)
    rng, peers = np.random.default_rng(5), (Vantage.PEERS, Vantage.RELEASE)
    halves = HalfTrainings.train(
        target, data, peers, count=TRAININGS, compute=DEFAULT_MACHINE, rng=rng
    )
    guesses = next(v for v in peers if not UserMembership().refusal(halves.views[v][0]))

    def get_views(client: DeviceCode | None) -> list[View]:
        return [
            replace(view, public=replace(view.public, device_code=client))
            for view in halves.views[guesses]
        ]

    def format_line(way: str, known: NDArray[np.int64], seen: list[View], method: Method) -> str:
        start, scores, included = time.process_time(), [], halves.is_included[:, known]
        profiles = data.ratings[known]
        for k, view in enumerate(seen):
            background = Background(
                profiles=profiles,
                reference_views=(*seen[:k], *seen[k + 1 :]),
                is_in_training=np.delete(included, k, axis=0),
            )
            scores.append(method(view, background))
        seconds = time.process_time() - start
        area = metrics.get_auc(np.concatenate(scores), included.ravel())
        return f"| {name} ({guesses}) | {way} | {len(known)} | {area:.4f} | {seconds:.1f} |"

    for count in COUNTS:
        known = np.sort(np.random.default_rng(9).permutation(data.n_users)[:count])
        client = SimulatedClient.from_data(target, data)
        if profile_fit.can_infer_participation(get_views(client)[0]):
            yield format_line("joint solve", known, get_views(client), solve_jointly)
        yield format_line("RMIA, first statistic", known, get_views(None), compare_references)
        yield format_line("LiRA, models' fit", known, get_views(None), run_attack)
        yield format_line("both", known, get_views(client), run_attack)


if __name__ == "__main__":
    print("| system | attack | profiles known | AUC | seconds |\n|---|---|---|---|---|")
    with limit_to_one_thread():
        for target in sys.argv[1:] or TARGETS:
            for text in format_lines(target):
                print(text, flush=True)
