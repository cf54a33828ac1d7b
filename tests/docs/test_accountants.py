"""The page on accountants: its sessions are run, its table of figures and its command are true.

``python tests/docs/test_accountants.py`` writes today's output of the command into the page.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec_auditor.accountants.events.documents import READ, read_event
from fedrec_auditor.auditor.spending.spend import account
from tests.accountants.published import PRINTED

Cli = Callable[..., tuple[int, str, str]]
PAGE = Path(__file__).parents[2] / "docs" / "accountants.md"
TEXT = PAGE.read_text(encoding="utf-8")
CONSOLE = re.compile(r"^```console\n\$ auditor (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(
    r"^\| ([\d./, e-]+) \| ([\d.]+) \| [^|]+ \| ([\d.]+) to ([\d.]+) \|$", re.MULTILINE
)


def test_the_page_shows_what_is_printed(cli: Cli) -> None:
    ((words, shown),) = CONSOLE.findall(TEXT)
    assert cli(*shlex.split(words))[1] == shown


def test_the_sessions_of_the_page_are_true() -> None:
    sessions = "\n".join(SESSION.findall(TEXT))
    test = doctest.DocTestParser().get_doctest(sessions, {}, "accountants", str(PAGE), 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert (runner.summarize().failed, runner.tries > 5) == (0, True)


def test_the_event_of_the_page_is_accounted() -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert read_event(text)
    assert account(event=text, delta=1e-6).total.upper.epsilon > 1.7


def test_the_table_of_events_has_all_that_are_read() -> None:
    named = set(re.findall(r"`(\w+DpEvent)`", TEXT))
    assert named == set(READ)


def number(text: str) -> float:
    over, _, under = text.replace(",", "").partition("/")
    return float(over) / float(under or 1)


@pytest.mark.parametrize("row", ROW.findall(TEXT), ids=lambda row: row[0])
def test_the_figures_of_the_page(row: tuple[str, str, str, str]) -> None:
    rate, noise, rounds, delta = (number(part) for part in row[0].split(", "))
    printed = [each for each in PRINTED if each.epsilon == pytest.approx(float(row[1]), abs=5e-4)]
    assert any((p.noise, p.steps, p.delta) == (noise, rounds, delta) for p in printed)
    found = account(gaussian=noise, rate=rate, rounds=int(rounds), delta=delta).total
    low, high = float(row[2]), float(row[3])
    assert low <= found.lower.epsilon <= found.upper.epsilon <= high
    assert high - low < 6e-4


def test_there_are_figures() -> None:
    assert len(ROW.findall(TEXT)) == len({(p.rate, p.noise, p.steps) for p in PRINTED})


def _written() -> str:
    def shown(found: re.Match[str]) -> str:
        given = dict(zip(*[iter(shlex.split(found[1])[1:])] * 2, strict=True))
        told = account(
            gaussian=given["--gaussian"],
            rate=float(given["--rate"]),
            rounds=int(given["--rounds"]),
            delta=float(given["--delta"]),
        )
        return f"```console\n$ auditor {found[1]}\n{told}\n```"

    return CONSOLE.sub(shown, TEXT)


if __name__ == "__main__":
    PAGE.write_text(_written(), encoding="utf-8")
