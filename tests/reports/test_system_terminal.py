"""One system in the terminal: it fits, nothing is cut, and what beats guessing is told in full."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.terminal import render_system
from tests.reports.printing import printed

TARGETS = ("fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap")


def shown(record: Record, target: str, width: int = 80, *, tty: bool = True) -> str:
    (glance,) = (each for each in glances(record) if each.section.target == target)
    return printed(lambda c: render_system(record, glance, c), width=width, terminal=tty)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [50, 80, 160])
def test_it_fits_the_terminal_and_cuts_no_word(record: Record, target: str, width: int) -> None:
    text = shown(record, target, width)
    assert max(map(cell_len, text.split("\n"))) <= width
    assert text.split() == shown(record, target, 400).split()
    assert 100 < max(map(cell_len, shown(record, target, 400).split("\n"))) <= 160


def test_a_log_is_plain(record: Record) -> None:
    file = io.StringIO()
    (glance,) = (each for each in glances(record) if each.section.target == "dplcf-ap")
    render_system(record, glance, Console(file=file, width=7))
    assert "\x1b" not in file.getvalue()
    assert 80 < max(map(len, file.getvalue().split("\n"))) <= 100


def test_the_verdict_is_a_sentence_and_what_to_do_follows(record: Record) -> None:
    first, second, third, *_ = shown(record, "dplcf-ap", 160).split("\n")
    assert first == "dplcf-ap: Critical"
    assert second.startswith("The claim is false: epsilon claimed 1, shown ∞")
    assert re.fullmatch(r"What to do: +Withdraw the claim.*", third)
    assert shown(record, "fcf").split("\n")[1].startswith("No epsilon is claimed; epsilon shown")
    assert "The claim is proved, and not refuted" in shown(record, "dplcf-sp")
    detail = [line for line in shown(record, "fcf").split("\n") if line.endswith(": report.html.")]
    assert [line.split()[0] for line in detail] == ["All", "Utility", "For"]
