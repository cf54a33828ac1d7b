"""Utility and leakage of all systems, with and without noise, in one figure.

    python -m benchmarks.frontier [FAMILY ...] [--data ml-100k ml-1m] [--out frontier] [--noise 1]

trains and audits the systems of each family at several noise levels and without noise, three times
per setting. An interrupted run resumes. The command writes one row per setting to frontier.csv, the
figures, and the page FRONTIER.md. With ``--quick`` (one training of at most twenty rounds on
synthetic data) it only prints the rows. Data are names, or paths of folders with these names.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks._frontier_page import draw_figure, format_page
from benchmarks._frontier_rows import (
    FAMILIES,
    MAIN_DATA,
    PRINTED_NOISE,
    RESULTS,
    STUDY,
    TRAININGS,
    Family,
    Setting,
    read_rows,
    write_rows,
)
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.machine.progress import show_progress as shown_progress
from fedrec_auditor.auditor.plan import members
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.run.tasks import MAX_QUICK_ROUNDS
from fedrec_auditor.auditor.sweep.grid import PRIVACY_AXIS, Axis
from fedrec_auditor.auditor.sweep.sweep import run_sweep
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.frontier import (
    BEYOND_PROTOCOL_SUFFIX,
    SCOPE_DELTA_SEPARATOR,
    AllTrainingsRow,
    VariantRow,
    select_headline_utility,
)
from fedrec_auditor.reports.record.record import Sweep
from fedrec_auditor.reports.writers.svg import make_svg_text
from fedrec_auditor.targets.systems.base import Population

ATTACKS = (
    "attribute-bayes",
    "attribute-logistic",
    "interaction-membership",
    "interaction-reconstruction",
)
"""Attacks on interactions and attributes; attacks on participation are not drawn."""
INTERACTION_ATTACKS = ("interaction-membership", "interaction-reconstruction")
"""Attacks on large data sets, where attacks on attributes would take minutes per training."""
METRICS = frozenset({"AUC", "F1"})
"""Metrics of the drawn gains: means over all users, from 0 to 1."""
USER_SCOPE = frozenset({"user", "server", "training"})
"""Unit, vantage and horizon of the drawn epsilon."""


def run_family(family: Family, *, data: str, out: Path, noise: Sequence[str], seeds: int) -> Sweep:
    """Trains and audits the systems of a family, and returns the sweep.

    An interrupted sweep in the family's folder of ``out`` is completed.

    noise: factors of the printed noise.
    seeds: number of trainings per setting.
    """
    settings = {name: {"learns": True} for name in family.targets} if family.learns else {}
    plan = Plan(
        targets=family.targets,
        data=data,
        attacks=ATTACKS if _is_small(data) else INTERACTION_ATTACKS,
        games=("local",),
        quick=family.quick,
        settings=settings,
    )
    knobs = {name: make_target(name, plan).noise_setting is not None for name in family.targets}
    axes = [Axis(PRIVACY_AXIS, tuple(noise), name) for name, has in knobs.items() if has]
    with shown_progress(None) as observe:
        return run_sweep(
            plan, axes, seeds, make_resources(), out=out / family.name, observe=observe
        )


def _is_small(data: str) -> bool:
    """Whether all families are trained on the data set, with all attacks."""
    return Path(data).name in (MAIN_DATA, "synthetic")


def list_settings(family: Family, sweep: Sweep) -> Iterator[Setting]:
    """Yields one row of utility and leakage per setting of a sweep."""
    data = Path(sweep.plan["data"]).name
    twins = {each.twin for each in sweep.variants if each.twin is not None}
    for place, variant in enumerate(sweep.variants):
        rows = [row for row in sweep.overall if row.variant == place]
        measured = [row for row in rows if row.kind == "utility"]
        used = select_headline_utility(measured) if measured else None
        over = _match(used, [row for row in sweep.relative if row.variant == place])
        gains = [
            row
            for row in rows
            if row.kind == "gain"
            and METRICS & set(row.metric.split())
            and not row.view.endswith(BEYOND_PROTOCOL_SUFFIX)
        ]
        strongest = max(gains, key=lambda row: row.value, default=None)
        max_gain = max((row.ci_high for row in gains if row.ci_high is not None), default=None)
        noise = next(
            (float(v) for n, v in variant.swept.items() if n.endswith(PRIVACY_AXIS)), math.nan
        )
        bare = noise == 0.0 or (place in twins and not variant.swept)
        claim = next((row for row in rows if row.kind == "claimed" and not bare), None)
        twin = "" if variant.twin is None else sweep.variants[variant.twin].target
        yield Setting(
            data=data,
            family=family.name,
            system=variant.target,
            twin=twin,
            noise=0.0 if bare else noise,
            learns=family.learns,
            metric="" if used is None else used.metric,
            protocol="" if used is None else used.view,
            **_get_ends("utility", used),
            **_get_ends("relative", over),
            popularity=_to_float(None if used is None else used.baseline),
            random=_to_float(None if used is None else used.random),
            **_get_ends("ahead", _match(used, [row for row in rows if row.kind == "ahead"])),
            attack="" if strongest is None else f"{strongest.metric}, {strongest.view}",
            **{**_get_ends("gain", strongest), "gain_high": _to_float(max_gain)},
            claimed=_to_float(None if claim is None else claim.value),
            scope="" if claim is None else claim.view,
            **_get_epsilon(rows, "proved", variant),
            **_get_epsilon(rows, "shown", variant),
            trainings=used.trainings if isinstance(used, AllTrainingsRow) else 0,
            rounds=_describe_cut(family, variant),
        )


def _match(
    figure: AllTrainingsRow | None, rows: Sequence[AllTrainingsRow]
) -> AllTrainingsRow | None:
    """The row with the metric and protocol of ``figure``; None if there is no such row."""
    if figure is None:
        return None
    named = (figure.metric, figure.view)
    return next((row for row in rows if (row.metric, row.view) == named), None)


def _get_ends(name: str, row: AllTrainingsRow | None) -> dict[str, float]:
    """Value and interval of ``row`` under "gain", "gain_low" and "gain_high" if ``name`` is "gain".

    All are NaN if ``row`` is None.
    """
    values = (None,) * 3 if row is None else (row.value, row.ci_low, row.ci_high)
    names = (name, f"{name}_low", f"{name}_high")
    return {key: _to_float(value) for key, value in zip(names, values, strict=True)}


def _to_float(value: float | None) -> float:
    return math.nan if value is None else value


def _describe_cut(family: Family, variant: VariantRow) -> str:
    """Trained and set rounds, such as "20 of 40", if the quick audit cuts them; else empty."""
    settings = {name: value for name, value in variant.settings.items() if name == "rounds"}
    plan = Plan(settings={variant.target: settings})
    rounds = getattr(make_target(variant.target, plan), "rounds", None) or 0
    return f"{MAX_QUICK_ROUNDS} of {rounds:,}" if family.quick and rounds > MAX_QUICK_ROUNDS else ""


def _get_epsilon(rows: Sequence[AllTrainingsRow], kind: str, variant: VariantRow) -> dict[str, Any]:
    """Epsilon of a whole user over the training against the server, and its basis.

    kind: "proved" (upper bound) or "shown" (lower bound).
    """
    # The bound at the first delta. If all claimed epsilons are infinite, so is the proved epsilon.
    bounds = [row for row in rows if row.kind == kind]
    for row in bounds:
        if _is_user_scope(row.view.partition(SCOPE_DELTA_SEPARATOR)[0].split(" / ")):
            return {kind: row.value, f"{kind}_basis": f"{row.view}: {row.basis}"}
    texts = (f"{variant.target}.{key}={json.dumps(each)}" for key, each in variant.settings.items())
    plan = Plan(settings=members.parse_settings([text.replace('"', "") for text in texts]))
    claims = make_target(variant.target, plan).get_claims(Population(n_users=943, n_items=1682))
    nothing = all(math.isinf(scoped.claim.epsilon) for scoped in claims)
    return {kind: math.inf if kind == "proved" and nothing else math.nan, f"{kind}_basis": ""}


def _is_user_scope(parts: Sequence[str]) -> bool:
    """Whether a scope is that of ``USER_SCOPE``; a fifth part means a game with fewer items."""
    return len(parts) == 4 and set(parts) >= USER_SCOPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and audits the families of the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [family.name for family in FAMILIES]
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(names))
    parser.add_argument("--data", nargs="+", default=[*STUDY], metavar="NAME or PATH")
    parser.add_argument("--out", type=Path, default=Path("frontier"))
    parser.add_argument("--noise", nargs="+", metavar="FACTOR")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.families) - set(names)):
        parser.error(f"Expected families among {', '.join(names)}, got {', '.join(unknown)}.")
    if given.quick:
        given.data, given.noise = ["synthetic"], ["1"]
    if other := [data for data in given.data if Path(data).name not in {*STUDY, "synthetic"}]:
        parser.error(f"Expected data called {' or '.join(STUDY)}, got {', '.join(other)}.")
    try:
        for data in given.data:
            load_data(data)  # missing data fail before hours of other work
    except InputError as error:
        parser.error(str(error))
    for data, family in product(given.data, FAMILIES):
        name = Path(data).name
        wanted = (
            family.name in given.families if given.families else family.large or _is_small(data)
        )
        if not wanted:
            continue
        found = run_family(
            replace(family, quick=family.quick or given.quick),
            data=data,
            out=given.out / name,
            noise=given.noise or (PRINTED_NOISE if family.slow else STUDY[name]),
            seeds=1 if given.quick else TRAININGS,
        )
        print(*found.errors, sep="\n", file=sys.stderr)  # their settings have no interval
        rows = list(list_settings(family, found))
        if given.quick:
            for row in rows:
                print(*(f"{key}={value}" for key, value in asdict(row).items()))
        else:
            write_rows(rows)
            publish(read_rows())
    return 0


def publish(rows: Sequence[Setting]) -> None:
    """Writes the drawings of all rows to docs, and the page to FRONTIER.md."""
    docs = RESULTS.parents[1] / "docs"
    drawn = (draw_figure(data, rows) for data in dict.fromkeys(row.data for row in rows))
    contents = {docs / f"{each.name}.svg": make_svg_text(each) for each in drawn} | {
        RESULTS.with_name("FRONTIER.md"): format_page(rows)
    }
    store.write_files({path: text.encode() for path, text in contents.items()})


if __name__ == "__main__":
    sys.exit(main())
