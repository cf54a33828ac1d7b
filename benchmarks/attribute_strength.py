"""Success (AUC) of attribute inference: ``python -m benchmarks.attribute_strength``.

Attacks of this project and textbook classifiers are compared with the best possible attacker, on
synthetic users of two classes, and on the gender of users of MovieLens 100K.
"""

# Synthetic: users of two classes (35% and 65%) interact with each of 400 items with a probability
# of their class. Its log-odds deviate from the item's popularity by a normal number with standard
# deviation ``lean``. Histories are sent in the clear, or each bit is flipped at epsilon 1.
# ``oracle`` knows the probabilities. ``Bayes`` knows their distribution and learns them from the
# known users: no attacker that learns from these users alone does better. Textbook classifiers are
# naive Bayes and those of the Adversarial Robustness Toolbox's baseline attack (forest, logistic
# regression, SVM, neighbours). 180 of 600 users are known. AUCs are means over seeds.
#
# MovieLens 100K: the classes of 30% of the users are known. Textbook classifiers get the raw
# uploads (logistic regression at most 2,000 columns), or the interactions that readers recover.

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import add_input_tables
from fedrec_auditor.attacks.parts.reading import read_evidence
from fedrec_auditor.attacks.readers.base import compute_posterior
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.transcript import Payload, PublicInfo, Round, Transcript, Uploads, View

USERS, ITEMS, P_KNOWN, SHARES = 600, 400, 0.3, (0.35, 0.65)
MAX_COLUMNS = 2000
LEANS, SEEDS, DRAWS = (0.2, 0.4, 0.8), 5, 5
EPSILONS = {"exact": 40.0, "flipped": 1.0}
OUR_ATTACKS = ("logistic", "bayes", "mlp", "svc", "tree", "knn")
TEXTBOOK: dict[str, Callable[[], Any]] = {
    "LR-CV": lambda: LogisticRegressionCV(
        Cs=np.logspace(-4, 1, 6), cv=3, scoring="roc_auc", class_weight="balanced"
    ),
    "forest": lambda: RandomForestClassifier(100, class_weight="balanced", random_state=0),
    "SVM": lambda: SVC(class_weight="balanced"),
    "neighbours": KNeighborsClassifier,
}
Areas = dict[str, list[float]]


def attack_synthetic(lean: float, epsilon: float, seed: int, areas: Areas) -> None:
    """Attacks one synthetic data set, and appends each attack's AUC to its list in ``areas``.

    lean: standard deviation of a class's log-odds around the item's popularity.
    epsilon: epsilon of one flipped bit.
    """
    rng = np.random.default_rng(seed)
    codes = rng.choice(2, p=SHARES, size=USERS)
    popularity = np.log(0.6 / (1 + np.arange(ITEMS) / 15))
    coins = expit(popularity + rng.normal(0, lean, (2, ITEMS)))
    channel = BitFlip(float(expit(epsilon)), float(expit(-epsilon)))
    held = rng.random((USERS, ITEMS)) < coins[codes]
    bits = rng.random(held.shape) < np.where(held, channel.p, channel.q)
    uploads = Uploads(np.arange(USERS), {"bits": Dense(bits.astype(np.int8), Payload.BITS)})
    public = PublicInfo(algorithm="planted", n_users=USERS, n_items=ITEMS, noise_channel=channel)
    view = Transcript(public=public, rounds=(Round(None, uploads),)).view(Vantage.SERVER)
    known = np.sort(rng.permutation(USERS)[: round(P_KNOWN * USERS)])
    rest = np.setdiff1d(np.arange(USERS), known)

    def add_flips(rates: NDArray[np.float64]) -> NDArray[np.float64]:
        return channel.q + (channel.p - channel.q) * rates

    drawn = np.linspace(-4, 4, 81)  # values of a standard normal number
    grid = add_flips(expit(popularity[:, None] + lean * drawn))
    learned = []
    for code in range(2):
        ones, users = bits[known][codes[known] == code].sum(axis=0), (codes[known] == code).sum()
        chance = ones[:, None] * np.log(grid) + (users - ones[:, None]) * np.log1p(-grid)
        weight = np.exp(chance - chance.max(axis=1, keepdims=True) - drawn**2 / 2)
        learned.append((weight * grid).sum(axis=1) / weight.sum(axis=1))
    for name, rates in (("oracle", add_flips(coins)), ("Bayes", np.array(learned))):
        odds = np.log(rates[1] / rates[0]), np.log((1 - rates[1]) / (1 - rates[0]))
        scores = bits[rest] @ odds[0] + ~bits[rest] @ odds[1]
        areas[name].append(roc_auc_score(codes[rest], scores))
    attack_view(view, codes, known, rest, {"": bits.astype(np.float64)}, areas)


def attack_view(
    view: View,
    codes: NDArray[np.int64],
    known: NDArray[np.int64],
    rest: NDArray[np.int64],
    tables: dict[str, NDArray[Any]],
    areas: Areas,
) -> None:
    """Appends to ``areas`` the AUC of our attacks, and of textbook classifiers on ``tables``.

    ``known`` and ``rest`` are the indices of the users to train on and to guess.
    """
    subjects = np.sort(np.concatenate([known, rest]))
    background = Background(
        known_users=known, known_classes=codes[known], n_classes=2, subjects=subjects
    )
    for name in OUR_ATTACKS:
        attack = FAMILIES["attacks"].load_class(f"attribute-{name}")()
        guesses = attack.infer(view, background, np.random.default_rng(0))
        areas[name].append(roc_auc_score(codes[guesses.users], guesses.scores[:, 1]))
    for of, table in tables.items():
        bayes = BernoulliNB if table.min() >= 0 and table.max() <= 1 else GaussianNB
        for name, made in {"NB": bayes, **TEXTBOOK}.items():
            if name == "LR-CV" and table.shape[1] > MAX_COLUMNS:
                continue
            values = table if bayes is GaussianNB or name != "NB" else table > 0.5
            model = made().fit(values[known], codes[known])
            ask = getattr(model, "decision_function", None) or model.predict_proba
            scores = ask(values[rest])
            area = roc_auc_score(codes[rest], scores if scores.ndim == 1 else scores[:, 1])
            areas[f"{name}{of}"].append(area)


def attack_movielens(name: str) -> Areas:
    """AUCs of all attacks on gender in one system, one entry per draw of the known users."""
    data = load_data("ml-100k")
    target = FAMILIES["targets"].load_class(name)().limit_rounds(4)
    view = target.run(data, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    users, codes = np.arange(data.n_users), data.attributes["gender"].codes
    found: Areas = defaultdict(list)
    raw = add_input_tables(view).inputs
    tables = {
        ", raw": raw.get("raw change", raw["summary"]).compute_values(),
        ", read": compute_posterior(read_evidence(view, users)),
    }
    for k in range(DRAWS):
        known = np.sort(np.random.default_rng(k).permutation(users)[: round(P_KNOWN * len(users))])
        attack_view(add_input_tables(view), codes, known, np.setdiff1d(users, known), tables, found)
    return found


def format_lines() -> Iterator[str]:
    """Yields one line per data set, with the AUC of each attack."""

    def format_line(head: str, found: Areas) -> Iterator[str]:
        yield f"**{head}**: " + ", ".join(f"{n} {np.mean(v):.3f}" for n, v in found.items())

    for kind, epsilon in EPSILONS.items():
        for lean in LEANS:
            found: Areas = defaultdict(list)
            for seed in range(SEEDS):
                attack_synthetic(lean, epsilon, seed, found)
            yield from format_line(f"{kind}, lean {lean}", found)
    for name in ("fcf", "dplcf-sp"):
        yield from format_line(f"MovieLens 100K, {name}", attack_movielens(name))


if __name__ == "__main__":
    with limit_to_one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in format_lines():
            print(each, flush=True)
