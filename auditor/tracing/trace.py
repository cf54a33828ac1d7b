"""``trace``: the output distributions of a randomizer, and what they prove of its epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.tracing.law import Law, laws_of
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.proof import proved
from fedrec_auditor.auditor.tracing.run import Randomizer, branches


@dataclass(frozen=True, slots=True)
class Trace:
    """The laws of a randomizer, one for each of ``inputs``."""

    randomizer: Randomizer
    inputs: Sequence[Any]
    laws: Sequence[Law]

    @classmethod
    def of(
        cls, function: Callable[..., Any], inputs: Sequence[Any], *, sized: bool, deadline: float
    ) -> Trace:
        """Run every path of ``function`` for each input; NotTraced with the reason."""
        randomizer = Randomizer(function, sized)
        try:
            laws = laws_of([branches(randomizer, value, deadline) for value in inputs])
        except Exception as error:  # of ours, or of what the code has changed
            raise NotTraced(f"tracing failed: {type(error).__name__}: {error}") from error
        return cls(randomizer, inputs, laws)

    def bound(self, delta: float) -> Bound:
        """The exact epsilon over all pairs of the inputs, as a tight lower bound."""
        return proved(self.laws, self.inputs, delta)

    def log_prob(self, output: Any, value: Any) -> Any:
        """The log-probability, or log-density, of outputs for one of the inputs."""
        place = next(k for k, known in enumerate(self.inputs) if known is value)
        return self.laws[place].log_prob(output)


__all__ = ["NotTraced", "Trace"]
