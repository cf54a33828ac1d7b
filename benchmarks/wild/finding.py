"""What a package claims, what is so, and how to measure it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.others.case import CONFIDENCE, Case
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian

MECHANISMS = (
    "accountant",
    "exponential",
    "Gaussian",
    "geometric",
    "Laplace",
    "other",
    "randomized response",
)
"""Kinds of what is verified; hashes and sketches that are flipped are randomized response."""


@dataclass(frozen=True, kw_only=True)
class Finding(Case):
    """A mechanism of a public package at the epsilon that the package gives it.

    ``key`` is its name in ``module``, that of the package here; ``mechanism`` is one of
    ``MECHANISMS``. ``exact`` is the epsilon that it
    has at the claimed delta, for the inputs named. ``claim`` says in which place of the package the
    epsilon is claimed and how it is read, ``remark`` what the code does, and from where the exact
    epsilon follows, ``holds_if`` the milder reading or use under which the claim holds, ``answer``
    what the maintainers might say, ``remedy`` what would repair it. Where the ``call`` is
    an accountant, ``account`` are the settings that it is asked about.
    """

    module: str
    key: str
    mechanism: str
    exact: float
    claim: str
    holds_if: str = ""
    answer: str = ""
    remedy: str = ""
    account: Mapping[str, Any] | None = None

    @property
    def place(self) -> str:
        """Where its row is kept: the last word of the module, and the key."""
        return f"{self.module.rpartition('.')[2]}:{self.key}"

    @property
    def broken(self) -> bool:
        """Whether more is spent than claimed, by the exact epsilon."""
        return self.exact > self.epsilon * (1.0 + 1e-9)

    @property
    def command(self) -> str:
        """What measures it again, in the root of the project."""
        if self.account is not None:
            settings = " ".join(f"--{name} {value}" for name, value in self.account.items())
            return f"auditor account {settings} --claimed-epsilon {self.module}:{self.key}"
        words = ["auditor verify"]
        if isinstance(self.call, Gaussian):
            law = asdict(self.call)
            words += ["gaussian", *(f"--set {name}={value:.17g}" for name, value in law.items())]
        else:
            words.append(f"{self.module}:{self.key}")
        words.append(f"--epsilon {self.epsilon:.12g}")
        words += [f"--delta {self.delta:g}"] if self.delta else []
        if self.inputs is not None:
            words += [f"--inputs '{json.dumps(self.inputs)}'", f"--samples {self.samples}"]
        return " ".join([*words, f"--confidence {CONFIDENCE}"])
