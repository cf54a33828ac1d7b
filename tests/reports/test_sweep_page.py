"""The page of a sweep in a browser: it fits every width, and its filter needs no script."""

import math

import pytest

from fedrec_auditor.reports.frontier import frontiers
from tests.reports.test_browser import BROWSER, MEASURE, framed
from tests.reports.test_frontier import row, swept

WIDTHS = (400, 800, 1400)
FILTER = """
const found = {};
const page = document.querySelector("iframe").contentDocument;
for (const each of page.querySelectorAll("details")) each.open = true;
const seen = () => [...page.querySelectorAll("main [data-system], main [data-rows]")].filter(
  e => e.checkVisibility()).map(e => e.tagName + (e.dataset.system ?? ""));
for (const select of page.querySelectorAll("select")) {
  found[select.id] = [...select.options].map(option => {
    select.value = option.value;
    return [option.textContent, seen()];
  });
  select.value = "";
}
document.body.textContent = JSON.stringify(found);
"""


def page():
    made = swept()
    bounds = [row(0, 1.0, "epsilon", "claimed"), row(0, 0.0, "linkage: right", "gain")]
    return swept(overall=(*made.overall, *bounds)).page()


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, which is not installed here")
def test_it_fits_every_width(tmp_path):
    measured = framed(page(), MEASURE, WIDTHS, tmp_path)
    assert len(measured) == 3 * len(WIDTHS)
    for found in measured.values():
        assert (found["over"], found["wide"], found["cut"]) == (0, [], [])
        assert (found["twice"], found["asked"], found["over_each_other"]) == (0, 0, [])


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, which is not installed here")
def test_a_filter_leaves_what_it_names(tmp_path):
    found = framed(page(), FILTER, WIDTHS[-1:], tmp_path)
    systems, kinds, metrics = (dict(found[name]) for name in ("system", "kind", "metric"))
    blocks = ["FIGURE1", "FIGURE2", "SECTION1", "SECTION2"]
    every = [*blocks, "DETAILS", "TR1", "TR2", "TR4", "DETAILS", "TR1", "DETAILS", "TR1"]
    assert systems["all"] == kinds["all"] == metrics["all"] == every
    assert systems["other"] == ["FIGURE2", "SECTION2", "DETAILS", "TR2"]
    assert kinds["epsilon claimed"] == [*blocks, "DETAILS", "TR1"]
    assert metrics["HR@10"] == [*blocks, "DETAILS", "TR1", "TR2", "TR4"]


def test_what_is_sent_in_the_clear_is_said_and_a_user_stands_beside_an_interaction():
    """The page had "shown at least nothing" without noise, and 16 alone where a user has 3,040."""
    one, whole = (f"{unit} / any pair / server / training" for unit in ("interaction", "user"))
    bounds = [
        row(0, 16.0, "epsilon", "claimed", one),
        row(0, 3040.0, "epsilon", "proved", whole),
        row(0, 3040.0, "epsilon", "shown", whole),
        row(3, math.inf, "epsilon", "shown", whole),
    ]
    made = swept(overall=(*swept().overall, *bounds))
    system = next(each for each in frontiers(made) if each.target == "own")
    assert (system.scope, system.wider) == (one, whole)
    noisy, clear = system.points
    assert [noisy.said("claimed"), noisy.said("shown", whole=True)] == ["16", "3,040"]
    assert [clear.said(kind) for kind in ("claimed", "proved", "shown")] == [
        "not claimed",
        "not known",
        "sent in the clear: infinite",
    ]
    page = made.page()
    assert "sent in the clear: infinite" in page
    assert "3,040" in page
    assert ">nothing<" not in page
