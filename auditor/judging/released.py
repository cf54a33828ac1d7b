"""Released code that is no system here: judged by what its entries say that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.statements.sizes import Sizes
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.declarations.entry import Entry
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.mechanisms.product import Product
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.systems.base import Population, ScopedClaim

NOTHING, ANYTHING = "nothing", "anything"
"""Values of ``Entry.draws`` where nothing is seen, and where nothing bounds what is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Released code as an entry declares it: a ``mechanism`` hides the data, or ``draws`` says why.

    No run, no client and no claim but that of the entry.
    """

    name: str
    draws: str
    assumes: tuple[str, ...]
    drawn: Mechanism | None
    sizes: Sizes

    unproved: ClassVar[str] = ""

    @classmethod
    def of(cls, entry: Entry, settings: Mapping[str, Any]) -> Self:
        """The code with these settings of its mechanism; InputError if there is none such."""
        drawn, own = None, dict(settings)
        sizes = Sizes(rounds=own.pop("rounds", None))
        if entry.draws not in ("", NOTHING, ANYTHING):
            counts = {Product: own.pop("entries", 1), Repeated: own.pop("times", 1)}
            try:
                drawn = FAMILIES["mechanisms"].member(entry.draws)(**own)
            except TypeError as error:
                raise InputError(
                    f"Expected settings of {entry.draws}, got {own}: {error}. Mend the entry."
                ) from error
            for uses, count in counts.items():
                drawn = drawn if count == 1 else uses(drawn, count)
        name, draws = entry.system[0], entry.draws
        return cls(name=name, draws=draws, assumes=entry.assumes, drawn=drawn, sizes=sizes)

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """None beside that of the entry."""
        return ()

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The mechanism in the scope of the entry; None where no distribution is known."""
        return self.drawn

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """The charge in the scope of the entry; InputError if it says nothing of it."""
        if not self.draws:
            raise InputError(
                f"Expected what {self.name} draws, which is no system here, got none. Give draws."
            )
        if self.draws == NOTHING:
            return dp.NoOpDpEvent()
        return (self.drawn or Identity()).event()
