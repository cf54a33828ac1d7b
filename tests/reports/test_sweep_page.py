"""A sweep: none of its points is left out in silence, and its page fits, filters and explains."""

from __future__ import annotations

import math
import re

import pytest

from fedrec_auditor.reports import frontier
from fedrec_auditor.reports.frontier import OverTrainingsRow, VariantRow, frontiers
from fedrec_auditor.reports.sweep import Sweep
from tests.reports.test_browser import BROWSER, MEASURE, framed

TARGETS = {"own": 3, "other": None, "silent": None, "twin": None}


def row(variant, value, metric="HR@10", kind="utility", view="split", **more):
    return OverTrainingsRow(
        variant=variant, kind=kind, metric=metric, view=view, value=value, trainings=2, **more
    )


def swept(metric="HR@10", values=(0.3, 0.2, None, 0.5), **changed):
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


def test_every_system_is_drawn_or_named():
    made = swept()
    found = {each.target: each for each in frontier.frontiers(made)}
    assert {name: each.relative for name, each in found.items()} == {"own": True, "other": False}
    assert frontier.without_utility(made) == "Without utility: silent."
    own, other = found["own"], found["other"]
    assert [(p.name, p.utility.value) for p in own.points] == [
        ("epsilon=1", 0.6),
        ("without noise", 1.0),
    ]
    assert [(level.name, level.low) for level in own.levels] == [
        ("popularity", pytest.approx(0.8)),
        ("random", pytest.approx(0.2)),
    ]
    assert [level.ends for level in other.levels] == [(0.4,), (0.1,)]
    drawn = re.sub("<[^>]*>", "|", made.figure().svg)
    for said in (
        "own",
        "other",
        "Without utility: silent.",
        "better: HR@10 over that without noise",
    ):
        assert f"|{said}|" in drawn


def test_of_errors_less_is_better():
    own, other = frontier.frontiers(swept("RMSE"))
    assert [(level.name, level.low) for level in own.levels] == [
        ("two means", pytest.approx(1.25)),
        ("mean of all ratings", pytest.approx(5.0)),
    ]
    assert own.measure == "RMSE without noise over its own"
    assert (other.measure, other.falls, own.falls) == ("RMSE, where less is better", True, False)


def test_levels_beside_several_twins_are_all_there():
    variants = [
        VariantRow(target="own", settings={}, swept={"rounds": "1"}, twin=2),
        VariantRow(target="own", settings={}, swept={"rounds": "2"}, twin=3),
        VariantRow(target="twin", settings={"rounds": 1}, swept={}),
        VariantRow(target="twin", settings={"rounds": 2}, swept={}),
    ]
    made = swept(values=(0.3, 0.3, 0.5, 0.8), variants=variants, relative=[row(0, 1), row(1, 1)])
    (found,) = frontier.frontiers(made)
    assert found.levels[0].ends == pytest.approx((0.5, 0.8))
    names = [point.name for point in found.points]
    assert names[2:] == ["without noise, rounds=1", "without noise, rounds=2"]


@pytest.mark.parametrize("epsilons", [(), (0.0,), (float("inf"),), (1e-9, 1e9), (1.0, 1.0)])
def test_any_epsilon_has_a_place(epsilons):
    bounds = [row(0, e, "epsilon", frontier.EPSILONS[n]) for n, e in enumerate(epsilons)]
    made = swept()
    drawn = swept(overall=(*made.overall, *bounds)).figure().svg
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
