"""Time of attribute inference with half of the users known: our classifiers and scikit-learn's.

The data are 600 synthetic uploads; a tenth of their columns depends weakly on the user's class. Our
attacks read the view, compute the inner products of its rows once for all classifiers, and guess.
scikit-learn's classifiers fit the same columns, as does the baseline attack of the Adversarial
Robustness Toolbox (``AttributeInferenceBaseline``), if that is installed. Times are CPU seconds of
one thread.

The last row is on MovieLens 100K: uploads of two rounds of FedRec, and ten draws of 30% known users
for each attribute. Its time is in wall-clock seconds of two processes.
"""

from __future__ import annotations

import importlib
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks import Row
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import SUMMARY, add_input_tables
from fedrec_auditor.auditor.games.attribute import N_DRAWS
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import Payload, PublicInfo, Round, Transcript, Uploads, View

USERS, NARROW, WIDE = 600, 2400, 107_648
MODELS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: MLPClassifier((100, 30), random_state=0),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "svc": lambda: SVC(class_weight="balanced"),
    "knn": KNeighborsClassifier,
}
TOOLBOX = "Adversarial Robustness Toolbox"
KINDS = {"mlp": "nn", "tree": "dt", "svc": "svm", "knn": "knn"}
"""The toolbox's names of the classifiers. Its network has no class weights."""


def measure() -> tuple[Row, ...]:
    rows = []
    for width, names in ((NARROW, tuple(MODELS)), (WIDE, ("svc", "knn"))):
        view, codes = make_view(width)
        rows += compare(f"{USERS} uploads x {width:,}", view, codes, names)
    return (*rows, time_fedrec())


def make_view(width: int) -> tuple[View, NDArray[np.int64]]:
    """Random uploads (600, width) whose means depend on two classes, and the users' classes.

    Means differ by .24 standard deviations in a tenth of the columns.
    """
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=USERS)
    values = rng.normal(size=(USERS, width)).astype(np.float32)
    values[:, ::10] += 0.12 * (2 * codes[:, None] - 1)
    uploads = Uploads(np.arange(USERS), {"update": Dense(values, Payload.CHANGE)})
    public = PublicInfo(algorithm="planted", n_users=USERS, n_items=7)
    rounds = (Round(None, uploads),)
    return Transcript(public=public, rounds=rounds).view(Vantage.SERVER), codes


def compare(job: str, view: View, codes: NDArray[np.int64], names: tuple[str, ...]) -> list[Row]:
    """Times per classifier of our implementation, of scikit-learn's and of the toolbox's."""
    known, rest = np.arange(0, USERS, 2), np.arange(1, USERS, 2)
    background = Background(known_users=known, known_classes=codes[known], n_classes=2)
    rows, total = [], {"scikit-learn": 0.0, TOOLBOX: 0.0, "ours": 0.0}

    def add(name: str, way: str, seconds: float, note: str) -> None:
        total[way] += seconds
        rows.append(
            Row(job=f"{job}, {name}", way=way, seconds=seconds, work=1, unit="attacks", note=note)
        )

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:  # compiled beforehand
            load_attack(name).infer(make_view(20)[0], background, np.random.default_rng(0))
        columns = add_input_tables(view).with_only_input(SUMMARY).inputs[SUMMARY].compute_values()
        read = add_input_tables(view).with_only_input(SUMMARY)
        start = time.process_time()
        _ = read.inputs[SUMMARY].inner_products
        add("reading and inner products", "ours", time.process_time() - start, "once for all")
        for name in names:
            start = time.process_time()
            guessed = MODELS[name]().fit(columns[known], codes[known]).predict(columns[rest])
            add(name, "scikit-learn", time.process_time() - start, score(codes[rest], guessed))
            if names == tuple(MODELS):
                seconds, note = run_toolbox(name, columns, codes, known, rest)
                add(name, TOOLBOX, seconds, note)
            start = time.process_time()
            found = load_attack(name).infer(read, background, np.random.default_rng(0))
            add(name, "ours", time.process_time() - start, score(codes[found.users], found.classes))
    for way, seconds in total.items():
        if seconds:
            rows.append(Row(job=f"{job}, all", way=way, seconds=seconds, work=1, unit="attacks"))
    return rows


def run_toolbox(
    name: str,
    columns: NDArray[np.float32],
    codes: NDArray[np.int64],
    known: NDArray[np.int64],
    rest: NDArray[np.int64],
) -> tuple[float, str]:
    """CPU seconds and balanced accuracy of the toolbox; NaN and the reason if it is absent.

    ``known`` and ``rest`` are rows to train on and to guess.
    """
    try:
        toolbox = importlib.import_module("art.attacks.inference.attribute_inference")
    except ImportError as error:
        return float("nan"), f"not run: {error}"
    table = np.concatenate([codes[:, None].astype(np.float32), columns], axis=1)
    start = time.process_time()
    attack = toolbox.AttributeInferenceBaseline(attack_feature=0, attack_model_type=KINDS[name])
    attack.fit(table[known])
    guessed = attack.infer(columns[rest], values=[0, 1])
    return time.process_time() - start, score(codes[rest], guessed.astype(np.int64))


def time_fedrec() -> Row:
    """Time of all our classifiers on all message components of FedRec, in two processes."""
    data = FAMILIES["datasets"].load_class("ml-100k")().load()
    target = FAMILIES["targets"].load_class("fedrec")().limit_rounds(2)
    with limit_to_one_thread():
        view = target.run(data, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        fork = multiprocessing.get_context("fork")  # it has the view in memory
        parts = [
            fork.Process(target=attack_components, args=(view, data, view.group_names[at::2]))
            for at in range(2)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.join()
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if any(part.exitcode for part in parts):
        raise RuntimeError("An attack on FedRec's uploads failed; its error is above.")
    count = len(view.group_names) * len(data.attributes) * (len(MODELS) + 1) * N_DRAWS
    return Row(
        job=f"FedRec, {len(view.group_names)} components x 5 classifiers x {N_DRAWS} draws",
        way="ours",
        seconds=seconds,
        work=count,
        unit="attacks",
        note=f"{len(data.attributes)} attributes; {taken:.0f} CPU seconds of the two",
    )


def attack_components(view: View, data: Interactions, groups: tuple[str, ...]) -> None:
    """Attacks each message component in ``groups`` with all classifiers, on all draws."""
    # A draw is a set of users with known attributes.
    rng = np.random.default_rng(0)
    for group in groups:
        read = add_input_tables(view).with_only_input(f"{group} only")
        users = read.inputs[f"{group} only"].users.astype(np.int64)
        for attribute in data.attributes.values():
            count = round(0.3 * len(users))
            known = [np.sort(rng.permutation(users)[:count]) for _ in range(N_DRAWS)]
            drawn = [
                Background(
                    known_users=each,
                    known_classes=attribute.codes[each],
                    n_classes=len(attribute.categories),
                    subjects=users,
                )
                for each in known
            ]
            for name in (*MODELS, "logistic"):
                load_attack(name).infer_per_background(read, drawn, rng)


def load_attack(name: str) -> Any:
    """This project's attack with a classifier, by the classifier's name."""
    return FAMILIES["attacks"].load_class(f"attribute-{name}")()


def score(truth: NDArray[np.int64], guessed: NDArray[np.int64]) -> str:
    """The balanced accuracy of guessed classes, in words."""
    return f"balanced accuracy {balanced_accuracy_score(truth, guessed):.3f}"
