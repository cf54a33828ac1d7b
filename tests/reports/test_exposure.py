"""Who learns how much: the largest shown and the least proved, and colours that do not lie."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.reports.exposure import Tone, exposure
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.section import Section


def test_each_who_looks_has_the_largest_shown_and_the_least_proved(record: Record) -> None:
    found = exposure(record["fmf-ldp"], Vantage.SERVER)
    assert (found.shown_words, found.proved_words, found.tone) == ("≥ 5,000", "≤ 2.5", Tone.BAD)
    assert str(found.shown.scope).startswith("user")
    shuffled = exposure(record["fmf-ldp"], Vantage.SHUFFLED)
    assert (shuffled.shown_words, shuffled.proved_words) == ("≥ 1.87", "≤ 432")
    assert shuffled.tone is Tone.OPEN
    assert exposure(record["fmf-ldp"], Vantage.PEERS) is None


def test_calm_is_only_what_is_proved_in_every_scope_asked(record: Record) -> None:
    one, every = record["dplcf-sp"].findings
    calm = exposure(Section("it", (one,)), Vantage.SERVER)
    assert calm.tone is Tone.CALM
    unknown = every.model_copy(update={"measured": None})
    both = exposure(Section("it", (one, unknown)), Vantage.SERVER)
    assert both.tone is Tone.OPEN


def test_what_is_infinite_is_said_and_nothing_proved_is_empty(record: Record) -> None:
    found = exposure(record["fcf"], Vantage.SERVER)
    assert (found.shown_words, found.proved_words, found.tone) == ("∞", "", Tone.BAD)


def test_a_game_of_few_items_proves_nothing_for_the_data(record: Record) -> None:
    one, _ = record["dplcf-sp"].findings
    assert math.isfinite(one.accounted.epsilon)
    game = one.model_copy(update={"game": "local game over 36 items"})
    found = exposure(Section("it", (game,)), Vantage.SERVER)
    assert (found.proved_words, found.tone) == ("", Tone.OPEN)
