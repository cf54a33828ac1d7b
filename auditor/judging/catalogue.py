"""The catalogue of claims, judged: targets made, claims evaluated, released code by its entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Scope, Sizes
from fedrec_auditor.accountants.verdict import Verdict, worst_number
from fedrec_auditor.auditor.judging.accounting import all_accountants, evaluate, exact_bounds
from fedrec_auditor.auditor.machine.workers import results
from fedrec_auditor.auditor.plan.families import FAMILIES, papers
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.reports.documents.catalogue import (
    CatalogueRow,
    EpsilonTables,
    Figure,
    PaperRow,
    TableRow,
)
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.targets.declarations.entry import Entry
from fedrec_auditor.targets.declarations.paper import Heading, Paper
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Product, Repeated
from fedrec_auditor.targets.systems.base import Claimant, Population, ScopedClaim

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


# The catalogue of claims, judged: targets are made, claims evaluated, numbers computed.
#
# No verdict is stated in the catalogue's data: claims come from the target, verdicts from
# ``accountants.verdict`` over the accountants' upper and the exact lower bounds.

_MOVIELENS = Population(n_users=943, n_items=1682)
_SIZES = ("n_users", "n_items")


def entries(of: str | None = None) -> tuple[Entry, ...]:
    """All entries with a number, by heading and part, or those ``of`` a paper."""
    return tuple(entry for paper, entry in _numbered().values() if of in (None, paper.name))


def _numbered() -> Mapping[str, tuple[Paper, Entry]]:
    """All entries with a number, each with its paper; InputError if two have one number."""
    found: dict[str, tuple[Paper, Entry]] = {}
    for paper in papers().values():
        for entry in paper.entries:
            if entry.number in found:
                raise InputError(
                    f"Expected one entry {entry.number} of the papers, got two, of "
                    f"{found[entry.number][0].name} and {paper.name}. Give one another part."
                )
            if entry.number:
                found[entry.number] = paper, entry
    return dict(sorted(found.items(), key=lambda item: (item[1][1].heading, item[1][1].part)))


def find(number: str) -> tuple[Entry, ...]:
    """The entry of this number; for a heading, such as "2", all its parts. InputError if none."""
    text = number.strip().lower()
    found = tuple(e for e in entries() if text in (e.number, str(e.heading)))
    if not found:
        last = max((entry.heading for entry in entries()), default=0)
        raise InputError(
            f"Expected a number of the catalogue, 1 to {last} with or without a part such as 2b, "
            f"got {number!r}. `auditor claims --all` lists them."
        )
    return found


def judge(chosen: Sequence[Entry], *, jobs: int = 1) -> tuple[CatalogueRow, ...]:
    """The rows of ``chosen``, in their order, by ``jobs`` worker processes.

    Entries on the same target and settings are judged by the same worker, one after the other.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for entry in chosen:
        alike[f"{entry.system[0]} {sorted(entry.settings.items(), key=str)}"].append(entry.number)
    tasks = [(tuple(numbers),) for numbers in alike.values()]
    made = {row.number: row for rows in results(_judge_all, tasks, jobs=jobs) for row in rows}
    return tuple(made[entry.number] for entry in chosen)


def judge_entry(paper: Paper, entry: Entry) -> CatalogueRow:
    """One entry judged; InputError that names it if its target, claim or repair is not there."""
    try:
        return _judge(paper, entry)
    except InputError as error:
        name = f"Catalogue entry {entry.number} ({entry.system[0]})"
        raise InputError(f"{name}: {error}") from error


def _judge_all(numbers: tuple[str, ...]) -> tuple[CatalogueRow, ...]:
    return tuple(judge_entry(*_numbered()[number]) for number in numbers)


def _judge(paper: Paper, entry: Entry) -> CatalogueRow:
    finding = _ask(paper, entry, entry.settings)
    repaired = None
    if entry.repaired is not None:
        repaired = _ask(paper, entry, {**entry.settings, **entry.repaired})
        if repaired is not None and repaired.verdict in (Verdict.VIOLATED, Verdict.UNSOUND):
            raise InputError(
                f"Expected the repaired variant ({dict(entry.repaired)}) not to be "
                f"{repaired.verdict}, got: {repaired.reason} Mend the repair."
            )
    computed = paper.computed(entry)
    if finding is None and not computed:
        raise InputError("Expected a scope or computed numbers, got neither. Give one of them.")
    figures = tuple(Figure.model_validate(number, from_attributes=True) for number in computed)
    accounted = None if finding is None else finding.accounted
    settings, population = _split(entry.settings)
    target = _claimant(paper, entry, settings)
    return CatalogueRow(
        number=entry.number,
        heading=entry.heading,
        paper=_paper(paper.heading),
        kind=entry.kind,
        basis=entry.basis,
        target=entry.system[0],
        settings=settings,
        n_users=population.n_users,
        n_items=population.n_items,
        statement=paper.statement(entry, target, population),
        source=entry.source,
        scope=paper.scope(entry),
        delta=None if finding is None else finding.delta,
        claimed=entry.claimed,
        claimed_epsilon=None if finding is None else finding.claim.epsilon,
        computed_at=entry.computed_at,
        repeats=entry.repeats,
        provable=entry.provable,
        proved_epsilon=None if accounted is None else accounted.epsilon,
        proof="" if accounted is None else accounted.source,
        exact_lower_epsilon=None
        if finding is None or finding.measured is None
        else finding.measured.epsilon,
        verdict=None if finding is None else finding.verdict,
        arithmetic=worst_number(figure.word for figure in figures),
        reason=entry.reason,
        finding=finding,
        figures=figures,
        repaired_settings=None if entry.repaired is None else dict(entry.repaired),
        repaired=repaired,
    )


def _paper(paper: Heading) -> PaperRow:
    return PaperRow(
        title=paper.title,
        code=paper.code,
        place=paper.threat.place,
        adversary=paper.threat.adversary,
        trusted=paper.threat.trusted,
        symbols=dict(paper.symbols),
    )


def _ask(paper: Paper, entry: Entry, settings: Mapping[str, Any]) -> Finding | None:
    """The entry's claim evaluated on its target with these settings; None if it has no scope."""
    own, population = _split(settings)
    target = _claimant(paper, entry, own)
    if paper.scope(entry) is None:
        return None
    scoped = paper.scoped(entry, target, population)
    return evaluate(
        target,
        scoped,
        population,
        exact=exact_bounds(target, population, scoped),
        accountants=all_accountants(),
    )


def claimant(row: CatalogueRow) -> Claimant:
    """The system of a row, with its settings."""
    return _claimant(*_numbered()[row.number], row.settings)


def _claimant(paper: Paper, entry: Entry, settings: Mapping[str, Any]) -> Claimant:
    """The entry's first system with these settings, or the code that is none here."""
    (name, *_) = entry.system
    if paper.heading.code and name not in FAMILIES["targets"].names():
        return Released.of(entry, settings)
    return make_target(name, Plan(settings={name: dict(settings)}))


def _split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], Population]:
    """The target's own settings, and the population."""
    own = {name: value for name, value in settings.items() if name not in _SIZES}
    return own, Population(
        n_users=settings.get("n_users", _MOVIELENS.n_users),
        n_items=settings.get("n_items", _MOVIELENS.n_items),
    )


def tables(system: str | None = None, *, jobs: int = 1) -> tuple[EpsilonTables, ...]:
    """The printed tables of epsilons, of all systems or one, entry by entry beside the truth.

    PrivRec's 36 entries take about 20 seconds of one core. InputError for a system without any.
    """
    if system is not None and system not in (known := tabled()):
        raise InputError(
            f"Expected --tables alone or with {' or '.join(known)}, got {system!r}. Drop it."
        )
    found = []
    for name, paper in tabled().items():
        if system in (None, name) and (declared := paper.printed.epsilons) is not None:
            made = dict(results(_table_row, enumerate(paper.epsilons()), jobs=jobs))
            rows = tuple(made[place] for place in sorted(made))
            found.append(EpsilonTables(title=declared.title, note=declared.note, rows=rows))
    return tuple(found)


def tabled() -> Mapping[str, Paper]:
    """The papers that print tables of epsilons, by the system that these are of."""
    return {
        declared.system.lower(): paper
        for paper in papers().values()
        if (declared := paper.printed.epsilons) is not None
    }


def _table_row(place: int, entry: Any) -> tuple[int, TableRow]:
    return place, TableRow.model_validate(entry, from_attributes=True)
