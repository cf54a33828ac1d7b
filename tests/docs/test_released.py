"""Released code runs at its commit only, in its own modules, with the audit's random draws."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.released import fedmf, lapglp, ptf_fedrec
from benchmarks.released.__main__ import NAMES, main
from benchmarks.released.checkout import Checkout
from benchmarks.released.figures import verify
from fedrec_auditor.accountants.errors import InputError

PARSE = """
import sys
args = type("Args", (), {"client_dim": 2, "user_layers": "[4,2]", "device": sys.argv[-1],
    "local_epoch": 1, "local_lr": 0.1, "local_bs": 8, "local_model_type": "NCF",
    "use_privacy": True})()
"""
CLIENT = """
import random
import numpy as np
import torch
from parse import args

class FedRecClient:
    def __init__(self, config, train, test):
        assert (config.layers, config.device_id, config.num_items) == ([4, 2], "cpu", 6)
        self.held, self.calls = train, 0

    def train_(self, answer):
        self.calls += 1
        coins = [random.random(), float(np.random.rand()), float(torch.rand(1))]
        return coins, [*self.held[:2], self.calls], 0.0, 1.0
"""


def ask_client(send: object, items: list[int], state: dict[str, object]) -> dict[str, np.ndarray]:
    class Items(SimpleNamespace):
        n_items = 6

    history = Items(items=np.array(items, dtype=np.int64))
    return send(history, None, np.random.default_rng(5), state)  # type: ignore[operator, no-any-return]


def test_a_client_keeps_its_state_and_draws_from_the_audit(tmp_path: Path) -> None:
    (tmp_path / "parse.py").write_text(PARSE)
    (tmp_path / "client.py").write_text(CLIENT)
    argv, path = sys.argv, list(sys.path)
    send = ptf_fedrec.make_send(tmp_path)
    assert (sys.argv, sys.path) == (argv, path)
    assert not {"client", "parse"} & set(sys.modules)
    state: dict[str, object] = {}
    first, second = ask_client(send, [4, 5, 3], state), ask_client(send, [4, 5, 3], state)
    assert first["items"][:4].tolist() == [4, 5, 1, -1]
    assert second["items"][:4].tolist() == [4, 5, 2, -1]
    assert first["items"].shape == (30,)
    assert np.array_equal(first["scores"], second["scores"])  # the same generator
    for nothing in ([], list(range(6))):
        assert (ask_client(send, nothing, {})["items"] == -1).all()


LOSS = """
import numpy as np
import tqdm

def rr_items_D(degrees, n_user, m_item, p_):
    assert (degrees.shape, n_user, p_, tqdm.tqdm) == ((1, m_item), 1, 0.8, None)
    return degrees if np.random.rand() < 2 else None
"""


def test_a_mechanism_is_measured_beside_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "LapGLP" / "algorithm" / "loss.py"
    path.parent.mkdir(parents=True)
    path.write_text(LOSS)
    known = dict(sys.modules)
    load = Checkout.load
    monkeypatch.setattr(Checkout, "load", lambda *given: load(*given, blank=["tqdm"]))
    released, here = lapglp.audit(tmp_path)
    assert released.startswith("released: degrees of items (p 0.8")
    assert "VIOLATED" in released  # the bit itself
    assert here.startswith("here: degrees of items (p 0.8")
    assert "CONSISTENT" in here
    assert {name: sys.modules[name] for name in known} == known
    assert not {"LapGLP", "LapGLP.algorithm.loss"} & set(sys.modules)


class Cipher:
    """Stand-in for a ciphertext: a number next to a random one, or alone and unencrypted."""

    exponent = -5

    def __init__(self, code: int) -> None:
        self.code = code

    def ciphertext(self, be_secure: bool) -> int:
        assert not be_secure  # the sent value
        return self.code


class Scheme:
    """Stand-in for an encryption scheme: a one-time pad of 8 bits, or none."""

    n, nsquare = 257, 256

    def __init__(self, pad: bool) -> None:
        self.pad = pad

    def encrypt(self, value: float, precision: float) -> Cipher:
        noise = self.get_random_lt_n() if self.pad else 0  # type: ignore[attr-defined]
        return Cipher((round(value) + noise) % self.nsquare)

    def generate_paillier_keypair(self, n_length: int) -> tuple[Scheme, None]:
        assert n_length == fedmf.BITS
        self.get_random_lt_n = lambda: 1
        return self, None


@pytest.mark.parametrize(("pad", "word"), [(True, "UNSUBSTANTIATED"), (False, "VIOLATED")])
def test_the_audit_detects_unencrypted_numbers(pad: bool, word: str) -> None:
    scheme = Scheme(pad)

    def update(vector: object, ratings: fedmf.Ratings, table: object) -> tuple[object, object]:
        return vector, [[scheme.encrypt(rating, 1e-5)] for _, rating, _ in ratings]

    script = SimpleNamespace(paillier=scheme, user_update=update)
    devices = fedmf.Devices(script, 1, 1)  # type: ignore[arg-type]
    call = devices.make_randomizer(lambda x: [(0, x, 0)], devices.inspect)
    line = verify("released", "a", call, epsilon=0.0, inputs=(1.0, 5.0), samples=1000)
    assert f", {word} (" in line


def test_missing_packages_are_named(tmp_path: Path) -> None:
    code = Checkout("a/b", "1234567", {}, needs={"no-such-package-here": "1.0"})
    with pytest.raises(InputError, match=r"no-such-package-here 1\.0, which a/b imports.*pip"):
        code.check(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_other_code_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = importlib.import_module(f"benchmarks.released.{name}").CODE
    with pytest.raises(InputError, match=r"Expected \S+ of .*got no such file\. Clone"):
        code.check(tmp_path)
    for file in code.files:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    with pytest.raises(SystemExit, match="2"):
        main([name, "--code", str(tmp_path)])
    assert "got e69de29" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_without_the_code_a_line_says_why(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0
    assert capsys.readouterr().out.startswith("Not run: ")
