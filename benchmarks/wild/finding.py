"""Claims of public packages, with the true epsilons and the way to measure them."""

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
"""Kinds of mechanisms; flipped hashes and sketches count as randomized response."""


@dataclass(frozen=True, kw_only=True)
class Finding(Case):
    """A mechanism of a public package at the epsilon that the package states.

    - ``key``: its name in ``module``, the module of ``benchmarks.wild`` on the package
    - ``mechanism``: one of ``MECHANISMS``
    - ``exact``: its exact epsilon at the claimed delta, for the given inputs
    - ``claim``: the place of the claim in the package, and our reading of it
    - ``remark``: the code's behaviour, and the derivation of the exact epsilon
    - ``holds_if``: the more favourable reading or use under which the claim holds
    - ``answer``: a possible reply of the maintainers
    - ``remedy``: a repair
    - ``account``: arguments of ``call`` if that is an accountant, else None
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
    def address(self) -> str:
        """The key of its stored result, "module:key", such as "flwr:local"."""
        return f"{self.module.rpartition('.')[2]}:{self.key}"

    @property
    def is_refuted(self) -> bool:
        """Whether the exact epsilon exceeds the claimed epsilon."""
        return self.exact > self.epsilon * (1.0 + 1e-9)

    @property
    def command(self) -> str:
        """The command that measures the mechanism again, in the root of the project."""
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
