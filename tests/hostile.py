"""Hostile input to every command: `python -m tests.hostile [FAMILY]`, 3,100 cases in some minutes.

A case passes if the command ends within seconds, with an exit code of its own, without a traceback
or a control code. A refusal is one line, and writes nothing.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import signal
import sys
import tempfile
import time
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.command import cli

MAX_SECONDS = 20
REFUSED = frozenset({2})
ANY = frozenset({0, 1, 2, 3})


@dataclass(frozen=True)
class Case:
    """A command line, its exit codes, and the path and content of the file that it reads."""

    name: str
    words: tuple[str, ...]
    codes: frozenset[int] = ANY
    path: str = ""
    content: bytes = b""


DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NAMES = DATA["names"] | {
    "long path": "a/" * 2048,
    "long": "x" * 100_000,
    "long words": "ab cd " * 20_000,
    "surrogate": "\udcff\udc80",
    "digits": "9" * 5000,
    "brackets": "[" * 20_000,
}
PLACES = ("run", "verify", "list", "report", "compare", "estimate", "attack", "reproduce", "")


def make_name_cases() -> Iterator[Case]:
    """Every hostile name as the value of every option, and as the argument of every command."""
    for command, (end, options) in DATA["options"].items():
        for option, (name, value) in itertools.product(options.split(), NAMES.items()):
            *start, before, last = (command, *end.split())
            words = (*start, f"--{option}={value}", before, last)
            yield Case(f"{command} --{option} {name}", words, REFUSED)
    for command, (name, value) in itertools.product(PLACES, NAMES.items()):
        further = {"verify": ("--epsilon", "1"), "compare": ("nowhere",)}.get(command, ())
        codes = ANY if command == "list" and not value else REFUSED
        yield Case(f"{command} {name}", (*filter(None, [command]), value, *further), codes)


CLAIM = b'[[claim]]\nepsilon = 1.0\ndelta = 1e-5\nunit = "user"\nvantage = "server"\n'
PLAN = b'targets = ["fcf"]\nseed = 1\ngames = ["local"]\n[settings.fcf]\nrounds = 2\n'
BIG = 260_000
BOMBS = {
    "brackets": b"x = " + b"[" * (BIG // 2) + b"]" * (BIG // 2),
    "inline": b"x = " + b"{a=" * 60_000 + b"1" + b"}" * 60_000,
    "dots": b".".join([b"a"] * (BIG // 2)) + b" = 1",
    "headers": b"\n".join(b"[" + b"a." * 250 + b"b%d]" % k for k in range(480)),
    "keys": b"\n".join(b"k%d = 1" % k for k in range(200_000)),
    "tables": b"[[claim]]\nepsilon=1\n" * 12_000,
    "half strings": b'"a\\' * (BIG // 3),
    "half texts": b'"""\\"' * (BIG // 5),
    "digits": b"epsilon = " + b"9" * BIG,
    "hexadecimal": b"epsilon = 0x" + b"f" * BIG,
    "comment": b"#" * BIG,
    "zero bytes": b"\0" * BIG,
    "blanks": b" " * BIG,
    "large": b"#" * 50_000_000,
}
TOKENS = b'\0 \x1b[31m " [ ] { \n , = nan -1 1e999 \xff\xfe inf true null \xe2\x80\xae'.split(b" ")
TOKENS += [b"9" * 5000, b"a" * 3000, b"0x" + b"f" * 99]


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Content with one to three random changes."""
    for _ in range(rng.randint(1, 3)):
        start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        end = min(end, start + 64)
        content = {
            0: content[:start] + bytes([rng.randrange(256)]) + content[start + 1 :],
            1: content[:start] + content[end:],
            2: content[:end] + content[start:],
            3: content[:start] + rng.choice(TOKENS) + content[end:],
            4: content[:start],
        }[rng.choice([0, 0, 1, 2, 3, 3, 4])]
    return content


def vary_file(name: str, path: str, words: tuple[str, ...], count: int) -> Iterator[Case]:
    """Cases with a file that begins as it is on disk; ``words`` name it."""
    rng, content = random.Random(name), Path(path).read_bytes()
    for number in range(count):
        yield Case(f"{name} {number}", words, ANY, path, mutate(content, rng))


def make_file_cases() -> Iterator[Case]:
    """Bombs and changes of files of claims, plans, tables, events, scores and reports."""
    for kind, words in (
        ("claim", CLAIMED),
        ("plan", ("run", "--plan", "plan.toml", "--data", "nowhere")),
    ):
        for name, content in BOMBS.items():
            yield Case(f"{kind} {name}", words, REFUSED, f"{kind}.toml", content)
        yield from vary_file(kind, f"{kind}.toml", words, 80)
    yield from vary_file("table", "base.csv", ("doctor", "--data", "base.csv"), 120)
    yield from vary_file(
        "users", "users.csv", ("doctor", "--data", "base.csv", "--users", "users.csv"), 60
    )
    yield from vary_file(
        "event", "event.json", ("account", "--event", "event.json", "--delta", "1e-5"), 60
    )
    yield from vary_file("scores", "scores.npz", ("estimate", "scores.npz", "--epsilon", "1"), 60)
    yield from vary_file("report", "report/report.json", ("report", "report"), 60)
    yield from vary_file("compared", "report/report.json", ("compare", "report", "whole"), 40)


CLAIMED = ("run", "os:nothing", "--claim", "claim.toml", "--data", "nowhere")
ATTACKED = ("attack", "recording", "--attacks", "interaction-reconstruction", "--quick")
ATTACKED += ("--jobs", "1", "--force", "--out", "attacked")


def make_recording_cases() -> Iterator[Case]:
    """Changes of the files of a recording, and archives that are larger than they look."""
    first = "recording/rounds/1/"
    upload = next(Path(first).glob("uploads*")).name
    for path in ("recording/manifest.json", first + upload, "recording/truth.npz"):
        yield from vary_file(path, path, ATTACKED, 40)
    shapes = [
        (1 << 20, 40, 5),
        (30, 1 << 22, 5),
        (1 << 28,),
        (1 << 62,),
        (1 << 62, 1 << 62),
        (-1, 4),
    ]
    for shape, dtype, name in itertools.product(
        shapes, ("<f4", "|O", "<U9", "<M8[s]"), ("gradient", "senders")
    ):
        content = make_bomb(name, shape, dtype)
        yield Case(f"bomb {shape} {dtype} {name}", ATTACKED, ANY, first + "uploads-1.npz", content)


def make_bomb(name: str, shape: tuple[int, ...], dtype: str) -> bytes:
    """An archive whose array has at most 64 MB of zeros, and states another shape."""
    head, whole = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(f"{name}.npy", head.getvalue() + bytes(1 << 26))
    return whole.getvalue()


MODULE = """import contextlib, ctypes, os, sys
class Own(BaseException): pass
class Odd(Exception):
    def __str__(self): raise ValueError
def _recurse(): return _recurse()
def _write(n):
    try: os.write(n, b'["", 0, "[]"]')
    except OSError: pass
"""


def make_callable_cases() -> Iterator[Case]:
    """Randomizers whose code does something else."""
    for (act, code), (form, text) in itertools.product(DATA["acts"].items(), DATA["forms"].items()):
        name = f"hostile_{act}_{form}".replace(" ", "_")
        words = ("verify", f"{name}:f", "--epsilon", "2", "--samples", "1000", "--timeout", "8")
        yield Case(
            f"{form}: {act}", words, ANY, f"{name}.py", (MODULE + text.format(act=code)).encode()
        )


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "names": make_name_cases,
    "files": make_file_cases,
    "recordings": make_recording_cases,
    "callables": make_callable_cases,
}


def prepare() -> None:
    """Writes the files that are changed, all right, into the working directory."""
    rng = random.Random(0)
    rows = [f"{u},{i},{rng.randint(1, 5)}" for u in range(30) for i in rng.sample(range(40), 12)]
    Path("base.csv").write_text("\n".join(["user,item,rating", *rows]))
    Path("users.csv").write_text(
        "\n".join(["user,group", *(f"{u},{'ab'[u % 2]}" for u in range(30))])
    )
    Path("claim.toml").write_bytes(CLAIM)
    Path("plan.toml").write_bytes(PLAN)
    Path("event.json").write_text('{"type": "GaussianDpEvent", "noise_multiplier": 2.0}')
    scores = np.random.default_rng(0).normal(size=(2, 300))
    np.savez("scores.npz", in_scores=scores[0], out_scores=scores[1])
    small = ("--data", "base.csv", "--quick")
    attack = ("--attacks", "interaction-reconstruction", "--jobs", "1")
    for out in ("report", "whole"):
        assert cli("run", "random", *small, *attack, "--out", out)[0] == 0
    assert (
        cli("record", "fcf", *small, "--set", "fcf.rounds=2", "--with-truth", "--out", "recording")[
            0
        ]
        == 0
    )


def _stop(*_: Any) -> None:
    raise AssertionError(f"no answer within {MAX_SECONDS} s")


def judge(case: Case) -> str:
    """The fault of the answer to a case, in words; empty if there is none."""
    path, before = Path(case.path or "."), None
    if case.path:
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(case.content)
    here = {p for p in Path.cwd().iterdir() if p.name != "__pycache__"}
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(MAX_SECONDS)
    try:
        code, out, err = cli(*case.words)
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.alarm(0)
        if case.path:
            path.write_bytes(before) if before is not None else path.unlink()
    lines = [line for line in err.splitlines() if line.startswith("auditor: ")]
    new = {p.name for p in Path.cwd().iterdir() if p.name != "__pycache__"} - {p.name for p in here}
    faults = {
        f"exit code {code}: {err[-200:]!r}": code not in case.codes,
        f"a traceback: {err[-300:]!r}": "Traceback" in err,
        "a control code": any(c in out + err for c in "\x1b\x07\0"),
        f"{len(lines)} lines: {err[-200:]!r}": code == 2 and len(lines) != 1,
        f"a line of {max(map(len, lines), default=0)} letters": any(len(x) > 4100 for x in lines),
        f"files {sorted(new)}": code == 2 and bool(new),
    }
    return "; ".join(text for text, fault in faults.items() if fault)


@contextlib.contextmanager
def enter_folder() -> Iterator[None]:
    """Context manager: a new working directory with the files that are changed."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            prepare()
            yield
        finally:
            os.chdir(here)


def main(wanted: list[str]) -> int:
    """Runs the families of cases; prints each fault, and the counts."""
    counts, slowest = Counter[str](), (0.0, "")
    with enter_folder():
        for family, make in FAMILIES.items():
            for case in make() if not wanted or family in wanted else ():
                started = time.monotonic()
                fault = judge(case)
                slowest = max(slowest, (time.monotonic() - started, case.name))
                counts[f"{family}: {'a fault' if fault else 'answered'}"] += 1
                if fault:
                    print(f"{family}, {case.name}: {fault}", flush=True)
    print(dict(counts), f"slowest: {slowest[0]:.1f} s, {slowest[1]}")
    return int(any(name.endswith("fault") for name in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
