"""The report in a browser: no overflow at any width, short while folded, no network requests.

One start of headless Chromium shows the page in frames of several widths, and a script of the
enclosing page measures them; the report itself has no script. axe-core checks copies of the page
that allow scripts, in light and dark, folded and unfolded.
"""

from __future__ import annotations

import html as text
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.writers import html
from tests.reports.conftest import vary
from tests.reports.writers.test_html import repeat_targets

WIDTHS = (390, 768, 1280, 1440)
NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
MEASURE = """
const found = {};
for (const [name, open] of [["folded", "none"], ["page", ".page"], ["open", "details"]])
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement;
    for (const each of page.querySelectorAll("details")) each.open = each.matches(open);
    const ids = [...page.querySelectorAll("[id]")].map(each => each.id);
    found[name + " " + frame.dataset.width] = {
      over: root.scrollWidth - root.clientWidth,
      wide: [...page.querySelectorAll("body *")].filter(
        e => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".wide")
      ).map(e => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40)).slice(0, 5),
      height: root.scrollHeight,
      picture: page.querySelector(".overview")?.getBoundingClientRect().bottom,
      words: page.body.innerText.split(/\\s+/).length,
      twice: ids.length - new Set(ids).size,
      asked: frame.contentWindow.performance.getEntriesByType("resource").length,
      silent: page.querySelectorAll("img:not([alt]), [role=img]:not([aria-label])").length,
      cut: [...page.querySelectorAll("svg text")].filter(
        t => t.getBBox().x < -1 || t.getBBox().x + t.getBBox().width >
          t.ownerSVGElement.viewBox.baseVal.width + 1).map(t => t.textContent),
      over_each_other: [...page.querySelectorAll("svg")].flatMap(svg => {
        const boxes = [...svg.querySelectorAll("text")].map(t => [t.getBBox(), t.textContent]);
        return boxes.flatMap(([a, one], i) => boxes.slice(i + 1).filter(([b]) =>
          a.width && b.width && a.x < b.x + b.width && b.x < a.x + a.width &&
          a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height
        ).map(([, other]) => one + "|" + other));
      }),
    };
  }
document.body.textContent = JSON.stringify(found);
"""
AXE = """
addEventListener("load", async () => {
  const found = {};
  for (const light of [true, false]) {
    if (!light)
      for (const each of document.querySelectorAll("style"))
        each.textContent = each.textContent.replaceAll(DARK, "@media screen");
    for (const open of [false, true]) {
      for (const each of document.querySelectorAll("details")) each.open = open;
      const ran = await axe.run(document);
      found[(light ? "light" : "dark") + (open ? ", open" : ", folded")] = {
        ground: getComputedStyle(document.body).backgroundColor,
        passed: ran.passes.map(rule => rule.id),
        bad: ran.violations.map(rule => [rule.impact, rule.id, rule.nodes.map(n => n.html)]),
      };
    }
  }
  document.body.textContent = JSON.stringify(found);
});
"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
DARK = "@media (prefers-color-scheme: dark)"


@pytest.fixture(scope="module")
def measured(record: Record, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Measurements of a page with 48 systems, by state and width."""
    if BROWSER is None:
        pytest.skip("needs Chromium, which is not installed here")
    folder = tmp_path_factory.mktemp("page")
    two = vary(repeat_targets(record, 12), notes=("50,000 samples instead of 1,000,000.",))
    return run_in_frames(html.render_html(two), MEASURE, WIDTHS, folder)


def run_in_frames(page: str, script: str, widths: Sequence[int], folder: Path) -> Any:
    """The result of a script on a page in frames of several widths."""
    (folder / "page.html").write_text(page)
    frames = "".join(
        f'<iframe src="page.html" data-width="{width}" style="width:{width}px;height:800px">'
        "</iframe>"
        for width in widths
    )
    page = f"<body>{frames}<script>addEventListener('load', () => {{{script}}})</script>"
    (folder / "frames.html").write_text(page)
    return dump(folder / "frames.html")


def dump(page: Path) -> Any:
    """The JSON that a page's script leaves in its body; the console must stay empty."""
    done = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--allow-file-access-from-files", f"--user-data-dir={page.parent / 'profile'}",
            "--enable-logging=stderr", "--window-size=1280,900", "--virtual-time-budget=30000",
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    found = re.search(r"<body>(\{.*\})</body>", done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-500:]
    return json.loads(text.unescape(found[1]))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("state", ["folded", "page", "open"])
def test_the_page_fits_every_width(measured: dict[str, Any], state: str, width: int) -> None:
    found = measured[f"{state} {width}"]
    assert (found["over"], found["wide"]) == (0, [])
    assert (found["twice"], found["asked"], found["silent"], found["cut"]) == (0, 0, 0, [])
    assert found["over_each_other"] == []


def test_the_folded_page_is_short(measured: dict[str, Any]) -> None:
    """Limits for 48 systems; a screen is 800 pixels high."""
    assert measured["folded 1280"]["words"] < 1500
    assert measured["folded 1280"]["height"] < 12 * 800
    assert 400 < measured["folded 1280"]["picture"] < 800  # of nine systems
    assert measured["open 1280"]["words"] > 2 * measured["folded 1280"]["words"]


def test_folded_systems_are_short(measured: dict[str, Any]) -> None:
    folded, page = (measured[f"{state} 1280"]["words"] for state in ("folded", "page"))
    assert (page - folded) / 48 < 800


def test_axe_finds_no_accessibility_faults(record: Record, tmp_path: Path) -> None:
    """Checked folded and unfolded, in light and in dark."""
    spec = importlib.util.find_spec("axe_core_python")
    if BROWSER is None or spec is None or spec.origin is None:
        pytest.skip("needs Chromium and axe-core-python, which are not both installed here")
    check_access(html.render_html(record), Path(spec.origin).parent, tmp_path)


def check_access(page: str, axe: Path, folder: Path) -> None:
    """Asserts that axe-core, in the folder `axe`, finds no faults in a page."""
    shutil.copy(axe / "axe.min.js", folder / "axe.js")
    scripts = f'<script src="axe.js"></script><script>const DARK = "{DARK}";{AXE}</script>'
    page, held = POLICY.subn(lambda _: scripts, page)
    assert held == 1
    (folder / "page.html").write_text(page)
    seen = dump(folder / "page.html")
    for name, found in seen.items():
        assert "color-contrast" in found["passed"], name
        assert found["bad"] == [], name
    assert len(seen) == 4
    assert len({found["ground"] for found in seen.values()}) == 2
