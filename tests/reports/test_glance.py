"""A system at a glance tells no more than its rows do."""

from __future__ import annotations

import math
from dataclasses import replace

from fedrec_auditor.accountants.statements.scope import Unit
from fedrec_auditor.reports.glance import glances, hidden_words
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import Finding, MessagesRow, UtilityRow


def with_one(record: Record, finding: Finding) -> Record:
    none = dict.fromkeys(("measurements", "attacks", "skipped", "utility"), ())
    return record.model_copy(update={"findings": (finding,), **none})


def test_what_is_measured_under_an_assumption_is_not_shown(record: Record) -> None:
    one = record["dplcf-sp"].findings[0]
    doubtful = replace(one.measured, epsilon=77.0, assumptions=("scores are Gaussian",))
    changed = with_one(record, one.model_copy(update={"measured": doubtful}))
    (glance,) = glances(changed)
    said = " ".join((glance.sentence, glance.head, glance.about, glance.line, glance.todo))
    assert "77" not in said
    assert "shown" not in said


def test_a_proof_under_an_assumption_hides_nobody_for_sure(record: Record) -> None:
    every = next(f for f in record["dplcf-sp"].findings if f.scope.unit is Unit.USER)
    proof = replace(every.accounted, epsilon=1.0)
    sure = every.model_copy(update={"accounted": proof, "measured": None})
    assumed = sure.model_copy(update={"accounted": replace(proof, assumptions=("luck",))})
    said = [hidden_words(with_one(record, each)) for each in (sure, assumed)]
    assert [words.split()[0] for words in said] == ["1", "None"]


def test_the_sentence_says_what_is_false_and_where_it_is_told(record: Record) -> None:
    said = {each.section.target: each.sentence for each in glances(record)}
    assert said["dplcf-ap"].startswith("The claim is false: epsilon claimed 1, shown ∞")
    assert said["fcf"].startswith("No epsilon is claimed; epsilon shown: infinite (calculated)")


def test_a_training_that_broke_down_is_told_with_what_an_attacker_got(record: Record) -> None:
    """Of most messages it is told, and that it broke where utility does not show it did not."""
    rows = [row for row in record.utility if row.target == "fcf"]
    flat = [row.model_copy(update={"ci_low": 0.0, "ci_high": 1.0}) for row in rows]
    assert rows

    def got(silent: int, utility: list[UtilityRow]) -> tuple[str, str]:
        told = MessagesRow(target="fcf", sent=100, empty=silent, oversized=1)
        changed = record.model_copy(update={"messages": (told,), "utility": tuple(utility)})
        (one,) = (glance for glance in glances(changed) if glance.section.target == "fcf")
        return one.got, one.got_words

    for words in got(70, flat):
        assert words.endswith("; the training broke down: 71 of 100 messages tell nothing")
    for words in (*got(70, rows), *got(70, [])):
        assert words.endswith("; 71 of 100 messages tell nothing")
    for words in got(49, flat):
        assert "messages" not in words


def test_of_a_false_claim_it_is_said_how_many_times_it_is_exceeded(record: Record) -> None:
    finding = record["dplcf-ap"].headline_finding
    for least, said in ((1.6662, "1.66 times as much"), (20.0, "20 times"), (math.inf, "")):
        shown = replace(finding.measured, epsilon=least)
        (changed,) = (
            glance
            for glance in glances(
                record.model_copy(
                    update={"findings": (finding.model_copy(update={"measured": shown}),)}
                )
            )
            if glance.section.target == "dplcf-ap"
        )
        assert ("times" in changed.sentence) is bool(said)
        assert said in changed.sentence
