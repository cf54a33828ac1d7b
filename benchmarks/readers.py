"""Quality of interactions recovered from messages: ``python -m benchmarks.readers [TARGET ...]``.

Every system whose users send messages runs for two rounds on MovieLens 100K. The recovered
interaction sets of up to 300 senders are compared with guessing the same popular items for
everybody. Times are those of one core.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import choose_sets
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.uploads import find_senders
from fedrec_auditor.attacks.readers.base import compute_posterior, fit_prior
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.reconstruction import flag_top_items
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions

ROUNDS, USERS = 2, 300


def format_row(name: str, data: Interactions) -> str:
    """The table line of one system; empty if no message is linked to a user."""
    target = FAMILIES["targets"].load_class(name)().limit_rounds(ROUNDS)
    view = target.run(data, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    matching = reading.find_readers(view)
    if not matching or view.public.n_silos is not None:
        return ""
    users = find_senders(view)[:USERS].astype(np.int64)
    start = time.process_time()
    evidence = reading.read_evidence(view, users)
    seconds = time.process_time() - start
    if evidence.log_ratio is None:
        return ""
    sets = choose_sets(compute_posterior(evidence))
    truth = data.ratings[users].toarray() != 0
    scores = np.clip(evidence.log_ratio, -1e9, 1e9) + fit_prior(evidence)[0]
    pairs = [np.broadcast_to(np.arange(len(users))[:, None], truth.shape).ravel()]
    area = metrics.get_user_aucs(scores.ravel(), truth.ravel(), pairs[0])
    popular = metrics.compute_set_f1(np.broadcast_to(flag_top_items(truth), truth.shape), truth)
    readers = ", ".join(type(each).__name__ for each in matching)
    return (
        f"| {name} | {readers} | {metrics.compute_set_f1(sets, truth).mean():.3f} | "
        f"{popular.mean():.3f} | {np.nanmean(area):.3f} | {1e3 * seconds / len(users):.2f} |"
    )


def main() -> None:
    """Prints the table of all or the given systems."""
    data = load_data("ml-100k")
    print("| system | readers | F1 of sets | popular items | mean AUC of a user | ms a user |")
    print("|---|---|---|---|---|---|")
    with limit_to_one_thread():
        for name in sys.argv[1:] or FAMILIES["targets"].list_names():
            line = format_row(name, data)
            if line:
                print(line, flush=True)


if __name__ == "__main__":
    main()
