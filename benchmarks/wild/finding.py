"""What a package claims, what is so, and how to measure it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks.others.case import CONFIDENCE, Case


@dataclass(frozen=True, kw_only=True)
class Finding(Case):
    """A mechanism of a public package at the epsilon that the package gives it.

    ``exact`` is the epsilon that it has at the claimed delta, for the inputs named: by derivation
    or by listing its outputs. ``claim`` says in which place of the package the epsilon is claimed
    and how it is read, ``remark`` what the code does, and from where the exact epsilon follows,
    ``holds_if`` the milder reading or use under which the claim holds, ``again`` the command that
    measures it where ``call`` cannot be named on the command line.
    """

    exact: float
    claim: str
    holds_if: str = ""
    again: str = ""

    @property
    def broken(self) -> bool:
        """Whether more is spent than claimed, by the exact epsilon."""
        return self.exact > self.epsilon * (1.0 + 1e-9)

    @property
    def command(self) -> str:
        """What measures it again, in the root of the project."""
        if self.again:
            return self.again
        words = [
            f"auditor verify {self.call.__module__}:{self.call.__name__}",
            f"--epsilon {self.epsilon:.12g}",
            f"--delta {self.delta:g}" if self.delta else "",
            f"--inputs '{json.dumps(self.inputs)}'",
            f"--samples {self.samples}",
            f"--confidence {CONFIDENCE}",
        ]
        return " ".join(word for word in words if word)
