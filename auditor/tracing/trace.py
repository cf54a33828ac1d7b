"""``trace``: the output distributions of a randomizer, and what they prove of its epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.tracing.forms import Forms, check_forms, form_of
from fedrec_auditor.auditor.tracing.law import Law, laws_of
from fedrec_auditor.auditor.tracing.paths import NotTraced, StepBudget
from fedrec_auditor.auditor.tracing.proof import proved
from fedrec_auditor.auditor.tracing.run import OneOutput, run_all
from fedrec_auditor.targets.mechanisms.base import plainly


@dataclass(frozen=True, slots=True)
class Trace:
    """The laws of a randomizer, one for each of ``inputs``.

    ``steered`` says that the callable itself was run with the coins of every path, ``forms`` are
    those of its answers to each input, where inputs are of one form.
    """

    randomizer: OneOutput
    inputs: Sequence[Any]
    laws: Sequence[Law]
    names: Sequence[str] = ()
    steered: bool = True
    forms: Sequence[Forms] = ()

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        *,
        sized: bool,
        names: Sequence[str] = (),
    ) -> Trace:
        """Run every path of ``function`` for each input; NotTraced with the reason."""
        randomizer = OneOutput(function, sized)
        try:
            ran = [run_all(randomizer, value, StepBudget()) for value in inputs]
            laws = laws_of(ran)
        except NotTraced:
            raise
        except Exception as error:  # of ours
            raise NotTraced(f"tracing failed: {type(error).__name__}: {error}") from error
        kept = not randomizer.flat and len({form_of(value) for value in inputs}) == 1
        forms = [each.forms for each in ran] if kept else ()
        return cls(randomizer, inputs, laws, names, all(each.steered for each in ran), forms)

    def bound(self, delta: float, enough: float = math.inf) -> Bound:
        """The exact epsilon over all pairs of the inputs, tight from below; see ``proved``."""
        try:
            return proved(self.laws, self._names, delta, enough)
        except NotTraced:
            raise
        except Exception as error:  # of numbers beyond what is compared
            raise NotTraced(f"laws are not compared: {error}") from error

    def check_forms(self, delta: float) -> Check | None:
        """A failed check where the forms of answers tell inputs apart; see ``check_forms``."""
        return check_forms(self.forms, self._names, delta)

    @property
    def _names(self) -> Sequence[str]:
        return self.names or [plainly(value) for value in self.inputs]

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
