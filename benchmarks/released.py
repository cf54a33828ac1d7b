"""A released system's own device, audited: ``python -m benchmarks.released ptf-fedrec --code DIR``.

DIR is a checkout of the repository, at the commit that the system's folder names; its files are
run, none is copied. Without it nothing is run, and a line says why. Printed are what the local game
shows of one message, and how much of the histories attacks read of a training, of the released
device and of the system of that name here, on the same small data.

A device is asked as its server asks it, but for what the server would answer between rounds. Cost:
five minutes.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import fedrec_auditor
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.words import support_words
from fedrec_auditor.targets.papers.ptf_fedrec.systems.ptf_fedrec import PtfFedRec
from fedrec_auditor.targets.wrapped.history import History

CODE = {
    "client.py": "41bb69bdf298eb813c2d95c71f6bf3920d764eb9",
    "evaluate.py": "0958a9c2a6bbc6487664729e1988d3f19b95ea1a",
    "models.py": "b2614f601630304727229e44908c44bb16be5471",
    "parse.py": "b5e887af15dcdb6a69c3400c7e7ca97c6fe5e6f2",
}
"""Git's names of the files of hi-weiyuan/PTF-FedRec at bb884e9 that are run."""
USERS, ITEMS, ROUNDS, RUNS = 40, 200, 20, 200
ASKED = fedrec_auditor.Claim(epsilon=1.0, unit="interaction", horizon="round")
"""Nobody's claim: of a function with one, the game says what a message shows."""
_TIMES = 5  # own items that a list has entries at most


def blob(content: bytes) -> str:
    """Git's name of a file with this content.

    >>> blob(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def check(folder: Path) -> None:
    """InputError unless the folder has the files at the commit that is named."""
    for name, expected in CODE.items():
        path = folder / name
        found = blob(path.read_bytes()) if path.is_file() else "no such file"
        if found != expected:
            raise InputError(
                f"Expected {name} of hi-weiyuan/PTF-FedRec at bb884e9 ({expected}) in {folder}, "
                f"got {found}. Clone the repository and check that commit out."
            )


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules are found in ``folder``, and read their options from no command line."""
    path, argv, known = list(sys.path), sys.argv, set(sys.modules)
    sys.path.insert(0, str(folder))
    sys.argv = ["main.py", "--device", "cpu"]
    try:
        yield
    finally:
        sys.path[:], sys.argv = path, argv
        for name in {file.stem for file in folder.glob("*.py")} & (set(sys.modules) - known):
            del sys.modules[name]


def device(folder: Path) -> Callable[..., dict[str, Any]]:
    """The released client as a function of a history: its lists, filled up to one length."""
    with importable(folder):
        client, args = importlib.import_module("client"), importlib.import_module("parse").args

    def send(
        history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]
    ) -> dict[str, Any]:
        import torch

        items = np.full(_TIMES * history.n_items, -1)
        scores = np.zeros(items.shape)
        held = history.items.tolist()
        if not held or len(held) == history.n_items:  # the released one draws forever
            return {"items": items, "scores": scores}
        seed = int(rng.integers(2**31))
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - what the released code draws from
        torch.manual_seed(seed)
        if "device" not in state:
            config = SimpleNamespace(
                user_id=0,
                num_users=1,
                num_items=history.n_items,
                latent_dim=args.client_dim,
                layers=ast.literal_eval(args.user_layers),
                device_id=args.device,
                local_epoch=args.local_epoch,
                lr=args.local_lr,
                local_bs=args.local_bs,
                model_type=args.local_model_type,
                use_privacy=args.use_privacy,
            )
            state["device"] = client.FedRecClient(config, held, [])
        confidence, listed, *_ = state["device"].train_(None)
        items[: len(listed)], scores[: len(listed)] = listed, confidence
        return {"items": items, "scores": scores}

    return send


def data() -> np.ndarray:
    """Histories of a few popular and many other items."""
    rng = np.random.default_rng(0)
    odds = rng.normal(-2.5, 1.0, ITEMS) + rng.normal(0, 0.5, (USERS, 1))
    return (rng.random((USERS, ITEMS)) < 1 / (1 + np.exp(-odds))).astype(float)


def audited(client: Any, **settings: Any) -> Record:
    """The local game, and the attacks on a training."""
    return fedrec_auditor.audit_system(
        client,
        data=data(),
        games=["local"],
        attacks=["interaction-reconstruction", "interaction-membership"],
        runs=RUNS,
        jobs=1,
        **settings,
    )


def lines(name: str, record: Record) -> Iterator[str]:
    """What was measured of one of the two."""
    for finding in record.findings:
        if (found := finding.measured) is not None:
            yield (
                f"{name}: epsilon at least {found.epsilon:.2f} at delta {found.delta:g} for "
                f"{found.scope} ({support_words(found)}; {found.source})"
            )
    for row in record.attacks:
        yield f"{name}: {row.attack}, {row.metric} {row.value:.3f}"


def main(arguments: list[str] | None = None) -> int:
    """Prints the figures of both, or why nothing was run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.released", description=__doc__)
    parser.add_argument("system", choices=["ptf-fedrec"])
    parser.add_argument("--code", type=Path, help="a checkout of the repository")
    given = parser.parse_args(arguments)
    if given.code is None:
        print("Not run: the released code is not part of this repository. Give --code DIR.")
        return 0
    check(given.code)
    kinds = {"items": "items", "scores": "ratings"}
    sent = device(given.code)
    released = audited(sent, claim=ASKED, rounds=ROUNDS, kinds=kinds, upload_seconds=0.05)
    for line in lines("released", released):
        print(line)
    for line in lines("here", audited(PtfFedRec(told=0))):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
