"""Judges the catalogue of privacy claims that papers print.

Each entry of the catalogue is a claim about a system; the system is created and the claim is
evaluated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Scope, Sizes
from fedrec_auditor.accountants.verdict import Verdict, find_worst_label
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine.workers import run_parallel
from fedrec_auditor.auditor.plan.families import FAMILIES, load_papers
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.reports.documents.catalogue import (
    CatalogueRow,
    EpsilonTableRow,
    EpsilonTables,
    PaperRow,
    StatedNumber,
)
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.targets.declarations.entry import PaperEntry
from fedrec_auditor.targets.declarations.paper import Paper, PaperHeading
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Product, Repeated
from fedrec_auditor.targets.systems.base import Claimant, Population, ScopedClaim

# Values of ``PaperEntry.draws`` that do not name a mechanism: the adversary sees nothing, or the
# uploads have no bound.
NOTHING, ANYTHING = "nothing", "anything"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedCode:
    """Released code that a catalogue entry (a paper's claim) describes, but that cannot be run
    here.

    - ``name``: name of the code.
    - ``protection``: name of the mechanism that protects the data. It is ``NOTHING`` if the
      adversary sees nothing, ``ANYTHING`` if the uploads have no bound, and empty if unknown.
    - ``assumes``: assumptions of the entry, as sentences.
    - ``noise``: the mechanism, or None if ``protection`` does not name a mechanism.
    - ``sizes``: number of rounds, with which bounds are converted to other scopes.
    - ``unproved_reason``: always empty.
    """

    name: str
    protection: str
    assumes: tuple[str, ...]
    noise: Mechanism | None
    sizes: Sizes

    unproved_reason: ClassVar[str] = ""

    @classmethod
    def from_entry(cls, entry: PaperEntry, settings: Mapping[str, Any]) -> Self:
        """Describes the code to which a catalogue entry (a paper's claim) applies.

        ``settings``: settings of the code's mechanism, by name.

        Raises InputError if the mechanism rejects the settings.
        """
        drawn, own = None, dict(settings)
        sizes = Sizes(rounds=own.pop("rounds", None))
        if entry.draws not in ("", NOTHING, ANYTHING):
            counts = {Product: own.pop("entries", 1), Repeated: own.pop("times", 1)}
            try:
                drawn = FAMILIES["mechanisms"].load_class(entry.draws)(**own)
            except TypeError as error:
                raise InputError(
                    f"Expected settings of {entry.draws}, got {own}: {error}. Correct claims.toml."
                ) from error
            for uses, count in counts.items():
                drawn = drawn if count == 1 else uses(drawn, count)
        name, draws = entry.system[0], entry.draws
        return cls(name=name, protection=draws, assumes=entry.assumes, noise=drawn, sizes=sizes)

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns an empty tuple: the only claim about the code is the catalogue entry itself."""
        return ()

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism that protects the data; None if its distribution is unknown.

        The arguments are ignored, because the code has only one claim.
        """
        return self.noise

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event (composition of mechanisms) of the catalogue entry's claim.

        The arguments are ignored. Raises InputError if the entry does not state a protection.
        """
        if not self.protection:
            raise InputError(
                f"Expected the key 'draws' in the entry of {self.name} in claims.toml, got none. "
                f"Set draws to the name of a mechanism, or to {NOTHING!r}."
            )
        if self.protection == NOTHING:
            return dp.NoOpDpEvent()
        return (self.noise or Identity()).event()


# The data of the catalogue contain no verdicts. Claims come from the system, and verdicts from
# ``accountants.verdict``, given the accountants' upper bounds and the exact lower bounds.

_MOVIELENS = Population(n_users=943, n_items=1682)
_SIZES = ("n_users", "n_items")


def list_entries(paper_name: str | None = None) -> tuple[PaperEntry, ...]:
    """Lists all numbered catalogue entries (claims that papers print), sorted by number and letter.

    ``paper_name``: name of the paper whose entries are listed; None for all papers.
    """
    return tuple(entry for paper, entry in _load_all().values() if paper_name in (None, paper.name))


def _load_all() -> Mapping[str, tuple[Paper, PaperEntry]]:
    """All numbered catalogue entries with their papers, by number such as "2b". Raises InputError
    if two entries have the same number.
    """
    known: dict[str, tuple[Paper, PaperEntry]] = {}
    for paper in load_papers().values():
        for entry in paper.entries:
            if entry.number in known:
                raise InputError(
                    f"Expected one catalogue entry {entry.number}, got two, in "
                    f"{known[entry.number][0].name} and {paper.name}. Change one number."
                )
            if entry.number:
                known[entry.number] = paper, entry
    order = sorted(known, key=lambda n: (known[n][1].heading_number, known[n][1].number_suffix))
    return {number: known[number] for number in order}


def find_entries(number: str) -> tuple[PaperEntry, ...]:
    """Returns the catalogue entries (claims of papers) with this ``number``: one entry ("2b"), or
    all parts of a heading ("2").

    Raises InputError if there is none.
    """
    text = number.strip().lower()
    found = tuple(e for e in list_entries() if text in (e.number, str(e.heading_number)))
    if not found:
        last = max((entry.heading_number for entry in list_entries()), default=0)
        raise InputError(
            f"Expected the number of a catalogue entry, 1 to {last} with or without a part such as "
            f"2b, got {number!r}. `auditor claims --all` lists the numbers."
        )
    return found


def judge_entries(entries: Sequence[PaperEntry], *, jobs: int = 1) -> tuple[CatalogueRow, ...]:
    """Judges catalogue ``entries`` (claims of papers), and returns one row per entry, in their
    order.

    ``jobs``: number of worker processes.
    """
    # One worker judges all entries on one system with the same settings, one after another.
    alike: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        alike[f"{entry.system[0]} {sorted(entry.settings.items(), key=str)}"].append(entry.number)
    tasks = [(tuple(numbers),) for numbers in alike.values()]
    made = {row.number: row for rows in run_parallel(_judge_all, tasks, jobs=jobs) for row in rows}
    return tuple(made[entry.number] for entry in entries)


def judge_entry(paper: Paper, entry: PaperEntry) -> CatalogueRow:
    """Judges one catalogue entry (a claim) of a paper and returns its row.

    Raises InputError, with the number of the entry, if its system, its claim or its
    repair (the setting that would make the claim true) is invalid.
    """
    try:
        return _judge(paper, entry)
    except InputError as error:
        name = f"Catalogue entry {entry.number} ({entry.system[0]})"
        raise InputError(f"{name} cannot be judged: {error}") from error


def _judge_all(numbers: tuple[str, ...]) -> tuple[CatalogueRow, ...]:
    return tuple(judge_entry(*_load_all()[number]) for number in numbers)


def _judge(paper: Paper, entry: PaperEntry) -> CatalogueRow:
    finding = _evaluate_claim(paper, entry, entry.settings)
    repaired = None
    if entry.repaired is not None:
        repaired = _evaluate_claim(paper, entry, {**entry.settings, **entry.repaired})
        if repaired is not None and repaired.verdict in (Verdict.VIOLATED, Verdict.UNSOUND):
            raise InputError(
                f"Expected the claim to hold with repaired settings {dict(entry.repaired)}, got "
                f"{repaired.verdict}: {repaired.reason} Correct the key 'repaired' in claims.toml."
            )
    computed = paper.compute_numbers(entry)
    if finding is None and not computed:
        raise InputError(
            f"Expected 'scope' or 'computed' in claims.toml of {paper.name}, got neither. Add one."
        )
    figures = tuple(StatedNumber.model_validate(each, from_attributes=True) for each in computed)
    accounted = None if finding is None else finding.accounted
    settings, population = _split_settings(entry.settings)
    return CatalogueRow(
        number=entry.number,
        heading=entry.heading_number,
        paper=_make_paper_row(paper.heading),
        kind=entry.kind,
        basis=entry.basis,
        target=entry.system[0],
        settings=settings,
        n_users=population.n_users,
        n_items=population.n_items,
        statement=paper.fill_statement(entry, _make_claimant(paper, entry, settings), population),
        source=entry.source,
        scope=paper.get_entry_scope(entry),
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
        arithmetic=find_worst_label(figure.word for figure in figures),
        reason=entry.reason,
        finding=finding,
        figures=figures,
        repaired_settings=None if entry.repaired is None else dict(entry.repaired),
        repaired=repaired,
    )


def _make_paper_row(paper: PaperHeading) -> PaperRow:
    return PaperRow(
        title=paper.title,
        code=paper.code,
        place=paper.threat.place,
        adversary=paper.threat.adversary,
        trusted=paper.threat.trusted,
        symbols=dict(paper.symbols),
    )


def _evaluate_claim(paper: Paper, entry: PaperEntry, settings: Mapping[str, Any]) -> Finding | None:
    """Judges the entry's claim on its system with these settings; returns None if the entry has no
    scope.
    """
    own, population = _split_settings(settings)
    target = _make_claimant(paper, entry, own)
    if paper.get_entry_scope(entry) is None:
        return None
    scoped = paper.get_claim(entry, target, population)
    return accounting.judge_scoped_claim(
        target,
        scoped,
        population,
        exact_bounds=accounting.compute_exact_bounds(target, population, scoped),
        accountants=accounting.list_accountants(),
    )


def make_claimed_system(row: CatalogueRow) -> Claimant:
    """Creates the system about which a catalogue row states a claim, with the row's settings."""
    return _make_claimant(*_load_all()[row.number], row.settings)


def _make_claimant(paper: Paper, entry: PaperEntry, settings: Mapping[str, Any]) -> Claimant:
    """Creates the first system of a catalogue entry with these settings, or a description of
    released code that has no system here.
    """
    (name, *_) = entry.system
    if paper.heading.code and name not in FAMILIES["targets"].list_names():
        return ReleasedCode.from_entry(entry, settings)
    return make_target(name, Plan(settings={name: dict(settings)}))


def _split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], Population]:
    """Splits ``settings`` into the system's own settings and the population (numbers of users and
    items).

    The default population is that of MovieLens 100K.
    """
    own = {name: value for name, value in settings.items() if name not in _SIZES}
    return own, Population(
        n_users=settings.get("n_users", _MOVIELENS.n_users),
        n_items=settings.get("n_items", _MOVIELENS.n_items),
    )


def make_epsilon_tables(system: str | None = None, *, jobs: int = 1) -> tuple[EpsilonTables, ...]:
    """Computes the epsilons in tables that papers print, each next to the printed value.

    ``system``: name of the only system whose tables are computed; None for all tables.
    ``jobs``: number of worker processes.

    Raises InputError if ``system`` has no table.
    """
    if system is not None and system not in (known := find_papers_by_system()):
        names = " or ".join(known)
        raise InputError(f"Expected --tables alone or with {names}, got {system!r}. Choose one.")
    found = []
    for name, paper in find_papers_by_system().items():
        if system in (None, name) and (declared := paper.printed_numbers.epsilons) is not None:
            # PrivRec's 36 entries take about 20 seconds on one core.
            entries = enumerate(paper.compute_epsilon_rows())
            made = dict(run_parallel(_make_table_row, entries, jobs=jobs))
            rows = tuple(made[place] for place in sorted(made))
            found.append(EpsilonTables(title=declared.title, note=declared.note, rows=rows))
    return tuple(found)


def find_papers_by_system() -> Mapping[str, Paper]:
    """Returns the papers that print tables of epsilons, by the lower-case name of the system in the
    tables.
    """
    return {
        declared.system.lower(): paper
        for paper in load_papers().values()
        if (declared := paper.printed_numbers.epsilons) is not None
    }


def _make_table_row(place: int, entry: Any) -> tuple[int, EpsilonTableRow]:
    return place, EpsilonTableRow.model_validate(entry, from_attributes=True)
