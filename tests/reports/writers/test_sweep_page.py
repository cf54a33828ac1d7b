"""A sweep: every point appears or is named, and its page fits, filters and explains."""

from __future__ import annotations

import math
import re

import pytest

from fedrec_auditor.reports.record.frontier import AllTrainingsRow, VariantRow
from fedrec_auditor.reports.record.record import Sweep, frontier
from tests.reports.writers.test_browser import BROWSER, MEASURE, run_in_frames

TARGETS = {"own": 3, "other": None, "silent": None, "twin": None}


def row(variant, value, metric="HR@10", kind="utility", view="all items", **more):
    return AllTrainingsRow(
        variant=variant, kind=kind, metric=metric, view=view, value=value, trainings=2, **more
    )


def make_sweep(metric="HR@10", values=(0.3, 0.2, None, 0.5), **changed):
    """A sweep of four systems: the first has the last as its twin, and one has no utility."""
    overall = [
        row(place, value, metric, baseline=0.4, random=0.1)
        for place, value in enumerate(values)
        if value is not None
    ]
    contents = {
        "plan": {"confidence": 0.95},
        "axes": {"epsilon": ("1",)},
        "seeds": (0, 1),
        "data": {},
        "versions": {},
        "method": "",
        "variants": [
            VariantRow(target=name, settings={}, swept={"epsilon": "1"} if twin else {}, twin=twin)
            for name, twin in TARGETS.items()
        ],
        "rows": (),
        "overall": overall,
        "relative": [row(0, 0.6, metric)],
    }
    return Sweep(**(contents | changed))


def make_leaking_sweep(metric="HR@10"):
    """A sweep with attack gains and epsilons of a user, of an interaction, and of plaintext.

    Regression: the page had "shown at least nothing" for plaintext, and 16 alone where the epsilon
    of a user is 3,040.
    """
    one, whole = (f"{unit} / any pair / server / training" for unit in ("interaction", "user"))
    bounds = [
        row(0, 16.0, "epsilon", "claimed", one),
        row(0, 3040.0, "epsilon", "proved", whole),
        row(0, 3040.0, "epsilon", "shown", whole),
        row(3, math.inf, "epsilon", "shown", whole),
        row(0, 0.2, "linkage: linkage top-1", "gain", "server", ci_low=0.1, ci_high=0.3),
    ]
    return make_sweep(metric, overall=(*make_sweep(metric).overall, *bounds))


def make_sweep_of_twins():
    """A sweep of one system with different twins, so that its noise levels are ranges."""
    variants = [
        VariantRow(target="own", settings={}, swept={"rounds": "1"}, twin=2),
        VariantRow(target="own", settings={}, swept={"rounds": "2"}, twin=3),
        VariantRow(target="twin", settings={"rounds": 1}, swept={}),
        VariantRow(target="twin", settings={"rounds": 2}, swept={}),
    ]
    relative = [row(0, 1), row(1, 1)]
    return make_sweep(values=(0.3, 0.3, 0.5, 0.8), variants=variants, relative=relative)


SWEEPS = (make_sweep(), make_leaking_sweep(), make_leaking_sweep("RMSE"), make_sweep_of_twins())
BOUNDS = (row(0, 1.0, "epsilon", "claimed"), row(0, 0.0, "linkage: linkage MRR", "gain", "server"))
PAGE = make_sweep(overall=(*make_sweep().overall, *BOUNDS)).page()


@pytest.mark.parametrize("epsilons", [(), (0.0,), (float("inf"),), (1e-9, 1e9), (1.0, 1.0)])
def test_any_epsilon_can_be_drawn(epsilons):
    bounds = [row(0, e, "epsilon", frontier.EPSILON_KINDS[n]) for n, e in enumerate(epsilons)]
    made = make_sweep()
    drawn = make_sweep(overall=(*made.overall, *bounds)).figure().svg
    assert not re.search("nan|inf[^o]", drawn)


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


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, which is not installed here")
def test_the_page_fits_every_width(tmp_path):
    measured = run_in_frames(PAGE, MEASURE, WIDTHS, tmp_path)
    assert len(measured) == 3 * len(WIDTHS)
    for found in measured.values():
        assert (found["over"], found["wide"], found["cut"]) == (0, [], [])
        assert (found["twice"], found["asked"], found["over_each_other"]) == (0, 0, [])


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium, which is not installed here")
def test_filters_show_what_they_name(tmp_path):
    found = run_in_frames(PAGE, FILTER, WIDTHS[-1:], tmp_path)
    systems, kinds, metrics = (dict(found[name]) for name in ("system", "kind", "metric"))
    blocks = ["FIGURE1", "FIGURE2", "SECTION1", "SECTION2"]
    every = [*blocks, "DETAILS", "TR1", "TR2", "TR4", "DETAILS", "TR1", "DETAILS", "TR1"]
    assert systems["all"] == kinds["all"] == metrics["all"] == every
    assert systems["other"] == ["FIGURE2", "SECTION2", "DETAILS", "TR2"]
    assert kinds["claimed epsilon"] == [*blocks, "DETAILS", "TR1"]
    assert metrics["HR@10"] == [*blocks, "DETAILS", "TR1", "TR2", "TR4"]
