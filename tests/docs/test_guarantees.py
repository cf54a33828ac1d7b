"""docs/guarantees.md: what it says of quick audits, of alarms and of slack is what the code has."""

from __future__ import annotations

import re

from fedrec_auditor.accountants import crosscheck, verdict
from fedrec_auditor.auditor.games import (
    attribute,
    canary,
    canary_game,
    crowd_game,
    game,
    linkage,
    local,
)
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.run import tasks
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "guarantees.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {
    row[0]: (row[1], row[2])
    for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TEXT, re.MULTILINE)
}


def numbers(start: str) -> tuple[list[int], list[int]]:
    """What a row says of full and of quick audits."""
    ((full, quick),) = [cells for name, cells in ROWS.items() if name.startswith(start)]
    in_full, in_quick = (
        [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", c)] for c in (full, quick)
    )
    return in_full, in_quick


def test_what_a_quick_audit_leaves_out() -> None:
    percent = [round(100 * share) for share in attribute.SHARES]
    few = [round(100 * share) for share in attribute.QUICK_SHARES]
    assert numbers("rounds of a training that") == ([], [tasks.QUICK_ROUNDS])
    long = make_target("dp-privrec", Plan())
    full, short = (crowd_game.shortened(long, quick).sizes.rounds for quick in (False, True))
    assert numbers("rounds of a `training`") == ([full], [short, full])
    assert numbers("messages of a designed pair")[0] == [local.DESIGNED_RUNS]
    assert numbers("runs of")[0] == [canary_game.UPLOAD_RUNS, canary_game.TRAINING_RUNS]
    assert ROWS["runs of `round`, `training` and `local` games"][1] == "a tenth"
    assert canary_game.QUICK == 10
    assert numbers("trainings on halves") == (
        [game.COUNT],
        [game.QUICK_COUNT, game.QUICK_HALF_SECONDS],
    )
    assert numbers("users that an attack") == ([game.USERS], [game.QUICK_USERS])
    assert numbers("users that are linked") == ([linkage.USERS], [linkage.QUICK_USERS])
    assert numbers("canaries") == ([canary.CANARIES], [canary.QUICK_CANARIES])
    assert numbers("attribute inference: shares") == (
        [*percent, attribute.DRAWS],
        [*few, attribute.QUICK_DRAWS],
    )
    assert f"more than {attribute.QUICK_WIDTH:,} columns" in TEXT


def test_what_is_too_small_to_count() -> None:
    assert "one part in 10⁹" in TEXT
    assert verdict._SLACK == 1e-9
    assert "one in 10⁶" in TEXT
    assert crosscheck._SLACK == 1e-6


def test_the_population_of_games_is_that_of_a_plan() -> None:
    users, items = Plan().population
    edges = " ".join(TEXT.split())
    assert f"{users} users and {items} items" in edges
    assert f"`training` games {crowd_game.MOST_ROUNDS} rounds" in edges
