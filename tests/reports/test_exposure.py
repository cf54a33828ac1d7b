"""Who learns how much: what is shown and proved in one scope, and colours that do not lie."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.reports.exposure import Tone, exposure
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.section import Section, sections


def test_both_figures_of_a_cell_are_of_the_widest_scope_asked(record: Record) -> None:
    found = exposure(record["fmf-ldp"], Vantage.SERVER)
    (told,) = found.told
    assert told.lines == ("user, training", "shown ≥ 5,000", "proved ≤ 5,000")
    assert found.tone is Tone.BAD
    assert [each.label for each in found.others] == ["user, round", "report, report"]
    shuffled = exposure(record["fmf-ldp"], Vantage.SHUFFLED)
    assert shuffled.told[0].proved is not None
    assert shuffled.tone is Tone.OPEN
    assert exposure(record["fmf-ldp"], Vantage.PEERS) is None


def test_no_cell_shows_more_than_it_proves(record: Record) -> None:
    cells = [exposure(section, each) for section in sections(record) for each in Vantage]
    told = [asked for cell in cells if cell for asked in (*cell.told, *cell.others)]
    both = [asked for asked in told if asked.shown and asked.proved]
    assert both
    for asked in both:
        if asked.shown.delta >= asked.proved.delta:
            assert asked.shown.epsilon <= asked.proved.epsilon * (1 + 1e-9)


def test_calm_is_only_what_is_proved_in_every_scope_asked(record: Record) -> None:
    one, every = record["dplcf-sp"].findings
    calm = exposure(Section("it", (one,)), Vantage.SERVER)
    assert calm.tone is Tone.CALM
    unknown = every.model_copy(update={"measured": None})
    both = exposure(Section("it", (one, unknown)), Vantage.SERVER)
    assert both.tone is Tone.OPEN


def test_what_is_infinite_is_said_and_nothing_proved_is_empty(record: Record) -> None:
    found = exposure(record["fcf"], Vantage.SERVER)
    (told,) = found.told
    assert (told.shown_words, told.proved_words) == ("shown ∞", "nothing proved")
    assert found.tone is Tone.BAD


def test_a_game_of_few_items_proves_nothing_for_the_data(record: Record) -> None:
    one, _ = record["dplcf-sp"].findings
    assert math.isfinite(one.accounted.epsilon)
    game = one.model_copy(update={"game": "local game over 36 items"})
    found = exposure(Section("it", (game,)), Vantage.SERVER)
    assert all(each.proved is None for each in found.told)
    assert found.tone is Tone.OPEN
