"""Demonstrations in every report: claim, measurement and control."""

from __future__ import annotations

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.reports import demonstrations as shown
from fedrec_auditor.reports import html, markdown, terminal
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import DemonstrationRow, TrialRow
from fedrec_auditor.reports.terminal import render_system
from tests.reports.printing import printed
from tests.reports.test_html import Page

SCOPE = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


def trial(epsilon: float, claimed: float, text: str = "said", **more: object) -> TrialRow:
    claim = Claim(epsilon=claimed, scope=SCOPE, statement=text, source=text)
    bound = Bound(
        epsilon=epsilon,
        side=Side.LOWER,
        scope=SCOPE,
        source="Clopper-Pearson",
        confidence=0.95,
        samples=10_000,
    )
    values: dict[str, object] = {
        "target": "fmf-ldp",
        "settings": {"rounds": 10, "epsilon": 0.25},
        "claim": claim,
        "worlds": ("one history", "another"),
        "statistic": "how many reports carry +B",
        "bound": bound,
    }
    return TrialRow.model_validate(values | more)


def demonstration(violation: TrialRow, control: TrialRow) -> DemonstrationRow:
    return DemonstrationRow(
        name="rounds",
        entries=("2b", "2c"),
        target=violation.target,
        violation=violation,
        control=control,
        shown=violation.exceeds and not control.exceeds,
        note="Quick.",
    )


ROW = demonstration(trial(5.3, 1.0), trial(0.98, 1.0))
FAILED = demonstration(trial(5.3, 1.0), trial(1.1, 1.0))
WEAK = demonstration(trial(0.5, 1.0), trial(0.4, 1.0))


def with_rows(record: Record, *rows: DemonstrationRow) -> Record:
    return record.model_copy(update={"demonstrations": rows})


def test_outcomes_are_told_apart() -> None:
    assert [shown.outcome(row) for row in (ROW, FAILED, WEAK)] == [
        "shown",
        "control failed",
        "not shown at this size",
    ]
    assert shown.summary((ROW, FAILED, WEAK)) == (
        "Demonstrations: 1 of 3 violations shown on the target itself."
    )


def test_claim_worlds_statistic_bound_and_control_are_facts() -> None:
    part = shown.demonstration_part(ROW)
    assert part.heading == "Demonstration shown: rounds (claims 2b, 2c)"
    (facts,) = part.blocks
    claimed, measured, worlds, control, gave, *_, note = (text for _, text in facts.rows)
    assert "of fmf-ldp (epsilon=0.25, rounds=10): said (said)" in claimed
    assert worlds == "one history; another. Statistic: how many reports carry +B"
    assert (measured.value, gave.value, note) == ("≥ 5.3", "≥ 0.98", "Quick.")
    assert {"delta 0", "95% confidence, 10,000 samples"} <= set(measured.support)
    assert "≤ 1 (delta 0" in control


def test_every_report_tells_it(record: Record) -> None:
    changed = with_rows(record, ROW, WEAK)
    (glance,) = (g for g in glances(changed) if g.section.target == ROW.target)
    system = printed(lambda c: render_system(changed, glance, c))
    for text in (
        Page(html.render(changed)).said,
        markdown.render(changed),
        printed(lambda c: terminal.render(changed, c), terminal=False),
        printed(lambda c: terminal.render(changed, c), terminal=True),
        system,
    ):
        assert "Demonstration shown" in text
        assert "how many reports carry +B" in " ".join(text.split())
        assert text is system or shown.summary((ROW, WEAK)) in text


def test_a_record_without_data_is_rendered(record: Record) -> None:
    provenance = record.provenance.model_copy(update={"data": None})
    changed = with_rows(record.model_copy(update={"provenance": provenance}), ROW)
    assert "without data · seed 0" in Page(html.render(changed)).said
    assert "Data: none were read; seed 0." in markdown.render(changed)


def test_a_report_without_demonstrations_does_not_speak_of_them(record: Record) -> None:
    assert "Demonstrations" not in html.render(record)
    assert "Demonstrations" not in markdown.render(record)
    assert "Demonstrations" not in printed(lambda c: terminal.render(record, c), terminal=False)
