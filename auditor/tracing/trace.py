"""``trace``: the output distributions of a randomizer, and what they prove of its epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.tracing.law import Law, laws_of
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.proof import proved
from fedrec_auditor.auditor.tracing.run import OneOutput, run_all
from fedrec_auditor.targets.mechanisms.base import plainly


@dataclass(frozen=True, slots=True)
class Trace:
    """The laws of a randomizer, one for each of ``inputs``."""

    randomizer: OneOutput
    inputs: Sequence[Any]
    laws: Sequence[Law]
    names: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        *,
        sized: bool,
        deadline: float,
        names: Sequence[str] = (),
    ) -> Trace:
        """Run every path of ``function`` for each input; NotTraced with the reason."""
        randomizer = OneOutput(function, sized)
        try:
            laws = laws_of([run_all(randomizer, value, deadline) for value in inputs])
        except Exception as error:  # of ours, or of what the code has changed
            raise NotTraced(f"tracing failed: {type(error).__name__}: {error}") from error
        return cls(randomizer, inputs, laws, names)

    def bound(self, delta: float, enough: float = math.inf) -> Bound:
        """The exact epsilon over all pairs of the inputs, tight from below; see ``proved``."""
        names = self.names or [plainly(value) for value in self.inputs]
        try:
            return proved(self.laws, names, delta, enough)
        except Exception as error:  # of numbers beyond what is compared
            raise NotTraced(f"laws are not compared: {error}") from error

    @property
    def atoms(self) -> list[float]:
        """The numbers that have a probability for any input, where others have densities."""
        return sorted({number for law in self.laws for number in law.atoms})

    def log_prob(self, output: Any, value: Any) -> Any:
        """The log-probability, or log-density, of outputs for one of the inputs."""
        return self._law(value).log_prob(output)

    def log_probs(self, answers: Sequence[Any], value: Any) -> NDArray[np.float64]:
        """The log-probabilities, or log-densities, of answers that are no arrays."""
        return self._law(value).log_probs(answers)

    def _law(self, value: Any) -> Law:
        return next(
            law for known, law in zip(self.inputs, self.laws, strict=True) if known is value
        )


__all__ = ["NotTraced", "Trace"]
