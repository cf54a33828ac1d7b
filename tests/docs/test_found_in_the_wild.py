"""Exact epsilons of public packages agree with a second method, and stored rows with the code.

Nothing is installed here: `make bench` measures again and writes found_in_the_wild.json.
"""

from __future__ import annotations

import importlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks import found_in_the_wild as wild
from benchmarks.wild import dp_accounting, exact, multi_freq_ldpy, pure_ldp, trasgodp
from benchmarks.wild.finding import Finding
from benchmarks.wild.package import NAMES, Package
from benchmarks.wild.page import format_message
from benchmarks.wild.rows import INFINITE, format_epsilon, make_claim_row, read_rows
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "found-in-the-wild.md").read_text(encoding="utf-8")
PAGES = [f"docs/{page.name}" for page in ROOT.glob("docs/*.md")]
WORDS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
COUNTED = {word: count for count, word in enumerate(WORDS, 1)}
ROWS = read_rows()
FINDINGS = wild.list_findings()
each_finding = pytest.mark.parametrize("finding", FINDINGS.values(), ids=FINDINGS)


@pytest.mark.parametrize("name", NAMES)
def test_exact_epsilons_agree_with_a_second_method(name: str) -> None:
    routes = importlib.import_module(f"benchmarks.wild.{name}")
    for key, epsilon in getattr(routes, "derive_epsilons", dict)().items():
        assert FINDINGS[f"{name}:{key}"].exact == pytest.approx(epsilon, rel=1e-9)


def test_finite_refutations_have_a_second_method() -> None:
    """Exceptions: bounds from above and below, a test of its own, and an epsilon of about 1e13."""
    modules = (importlib.import_module(f"benchmarks.wild.{name}") for name in NAMES)
    routes = {
        f"{module.__name__.rpartition('.')[2]}:{key}"
        for module in modules
        for key in getattr(module, "derive_epsilons", dict)()
    }
    finite = {p for p, f in FINDINGS.items() if f.is_refuted and math.isfinite(f.exact)}
    bounded = {"deepee:uniform", "secretflow:limits", "tensorflow_privacy:poisson"}
    aside = bounded | {"multi_freq_ldpy:several_unary", "smartnoise_synth:mean"}
    assert finite - routes == aside


def test_epsilons_of_enumerated_outputs() -> None:
    assert exact.find_epsilon([{1: 0.75, 0: 0.25}, {1: 0.25, 0: 0.75}]) == pytest.approx(np.log(3))
    assert exact.find_epsilon([{1: 0.1, 0: 0.9}, {1: 0.4, 0: 0.6}]) == pytest.approx(math.log(4.0))
    assert exact.find_epsilon([{0: 1.0}, {0: 0.999, 1: 0.001}]) == math.inf
    mixed = exact.mix([(0.5, exact.make_bit(1.0)), (0.5, exact.make_uniform([0, 1, 2, 3]))])
    assert mixed == {1: 0.625, 0: 0.125, 2: 0.125, 3: 0.125}
    assert exact.make_unary(1, 2, 0.5, 0.25)[(0, 1)] == 0.375


def test_permanent_first_reports_keep_the_claim() -> None:
    """A fresh first report costs r times the epsilon of one; unowned bits reveal nothing."""
    finding = FINDINGS["multi_freq_ldpy:several_unary"]
    reports, lasting = multi_freq_ldpy.REPORTS, multi_freq_ldpy.PERMANENT_EPSILON
    permanent, one = (math.exp(e / 2.0) / (math.exp(e / 2.0) + 1.0) for e in (lasting, 1.0))
    again = (one + permanent - 1.0) / (2.0 * permanent - 1.0)  # after permanent, the rate is one

    def compute_epsilon(rounds: int, *, kept: bool) -> float:
        sent = {
            bits: exact.join(exact.make_bit(again if bit else 1.0 - again) for bit in bits)
            for bits in ((0, 0), (0, 1), (1, 0), (1, 1))
        }
        laws = []
        for x in (0, 1):
            first = exact.make_unary(x, 2, permanent, 1.0 - permanent)
            if kept:
                parts = [(mass, exact.join([sent[y]] * rounds)) for y, mass in first.items()]
                laws.append(exact.mix(parts))
            else:
                report = exact.mix((mass, sent[y]) for y, mass in first.items())
                laws.append(exact.join([report] * rounds))
        return exact.find_epsilon(laws)

    assert compute_epsilon(1, kept=False) == pytest.approx(1.0)
    assert compute_epsilon(reports, kept=False) == pytest.approx(finding.exact)
    assert compute_epsilon(reports, kept=True) < lasting < finding.exact


def test_unrounded_conversion_of_epsilon_changes_the_epsilon() -> None:
    def convert_back(f: float) -> float:
        return exact.find_epsilon(exact.make_unary(x, 2, 1.0 - f / 2.0, f / 2.0) for x in (0, 1))

    assert convert_back(2.0 / (math.exp(2.5) + 1.0)) == pytest.approx(5.0)
    assert [convert_back(pure_ldp.convert_epsilon(e)) for e in (1.0, 5.0, 9.0)] == pytest.approx(
        [0.979, 5.025, 9.19], abs=1e-3
    )
    assert convert_back(pure_ldp.convert_epsilon(11.97)) < math.inf
    assert pure_ldp.convert_epsilon(pure_ldp.LARGE_EPS) == 0.0


def test_one_value_in_a_public_range_spends_epsilon() -> None:
    """``timeseries_dp`` adds truncated Laplace noise of scale 2 / epsilon on [-1, 1]."""
    grid = np.linspace(-1.0, 1.0, 201)
    weights = [np.exp(-np.abs(grid - value) / 2.0) for value in np.linspace(-1.0, 1.0, 21)]
    laws = [dict(enumerate(row / row.sum())) for row in weights]
    assert exact.find_epsilon(laws) == pytest.approx(1.0)
    # value 3, scaled to [1, 3]: outputs above 2, which the value 2 never gives
    assert sum(mass for y, mass in laws[-1].items() if grid[y] > 0.0) == pytest.approx(
        -math.expm1(-0.5) / -math.expm1(-1.0), abs=5e-3
    )


def test_one_location_spends_epsilon_times_distance() -> None:
    """``metric_privacy`` draws a direction, and a gamma-distributed distance of shape 2."""
    east = np.linspace(-5_000.0, 5_000.0, 101)
    north = east[:, np.newaxis]

    def log_density(x: int) -> Any:
        radius = np.hypot(east - x * trasgodp.DISTANCE, north) + 1e-9
        law = stats.gamma(2, scale=1.0 / trasgodp.EPSILON_PER_METRE)
        return law.logpdf(radius) - np.log(2.0 * math.pi * radius)

    ratio = np.abs(log_density(0) - log_density(1)).max()
    assert ratio == pytest.approx(FINDINGS["trasgodp:alone"].exact, rel=1e-6)


def test_responses_charged_by_count_are_charged_as_one() -> None:
    """One-by-one composition is right; the charge by count is the fault that the page reports."""
    finding = FINDINGS["dp_accounting:responses"]
    assert dp_accounting.compute_epsilon(one_by_one=True) == pytest.approx(finding.exact, abs=1e-2)
    alone = math.log((math.exp(0.5) / (1.0 + math.exp(0.5)) - 1e-3) * (1.0 + math.exp(0.5)))
    assert finding.epsilon == pytest.approx(alone, abs=1e-3)


@each_finding
def test_stored_rows_are_current(finding: Finding) -> None:
    """A stored verdict follows from the exact epsilon or is milder."""
    row = ROWS[finding.address]
    of_draws = {name: getattr(row, name) for name in ("measured", "verdict", "draws", "failed")}
    assert replace(make_claim_row(finding), **of_draws, event=row.event) == row
    shown = math.inf if row.measured == INFINITE else float(row.measured)
    assert shown <= finding.exact * (1.0 + 5e-4)  # printed with four digits
    proved = row.draws == "proved" or finding.account is not None
    kept = Verdict.CONSISTENT if proved else Verdict.UNSUBSTANTIATED
    assert row.verdict == (Verdict.VIOLATED if finding.is_refuted else kept)
    if row.draws == "proved":
        assert row.measured == format_epsilon(finding.exact)


def test_stored_rows_are_todays_findings_and_the_page_counts_them() -> None:
    assert list(ROWS) == list(FINDINGS)
    broken = [row for row in ROWS.values() if row.verdict == Verdict.VIOLATED]
    text = " ".join(PAGE.split())
    assert f"{len(broken)} of {len(ROWS)} mechanisms" in text
    assert f"{sum(row.exact == INFINITE for row in broken)} of them" in text
    verdicts = Counter(row.verdict for row in ROWS.values())
    proved, neither = verdicts[Verdict.CONSISTENT], verdicts[Verdict.UNSUBSTANTIATED]
    assert f"Among the other {proved + neither} mechanisms, {proved} are proved" in text
    assert f"{sum(bool(f.holds_if) for f in FINDINGS.values() if f.is_refuted)} of these" in text
    impossible, repeated = (
        sum(check in row.failed for row in broken) for check in ("support", "determinism")
    )
    assert f"Among the {len(broken)} mechanisms whose claim is false, {impossible} gave" in text
    assert f"{repeated} gave the same outputs" in text
    # All bounds from samples hold jointly at 95%: see CONFIDENCE.
    assert sum(row.draws not in ("proved", "exact") for row in ROWS.values()) <= 100
    listed = re.findall(r"^\| ([\w/-]+ [\w.]+) \| `(.*?)` \| (\S+) \| (\S+) \|", PAGE, re.MULTILINE)
    assert len(listed) >= 10
    assert set(listed) <= {(r.package, r.name, r.claimed.split(" at ")[0], r.exact) for r in broken}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", *sorted(PAGES)])
def test_counts_on_every_page_are_those_of_the_rows(name: str) -> None:
    """Every page's counts of packages and of mechanisms equal those of found_in_the_wild.json."""
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
    repositories = {row.package for p, row in ROWS.items() if "commit" in get_declared_package(p)}
    packages = {row.package.rpartition(" ")[0] for row in ROWS.values()} - {
        each.rpartition(" ")[0] for each in repositories
    }
    verdicts = Counter(row.verdict for row in ROWS.values())
    counts = {
        r"(?:public )?(?:Python )?packages\b": {len(packages)},
        r"(?:public )?repositories of (?:federated )?recommenders": {len(repositories)},
        r"mechanisms (?:and accountants|of)\b": {len(ROWS)},
        r"spend more\b": {verdicts[Verdict.VIOLATED]},
        r"are proved\b": {verdicts[Verdict.CONSISTENT]},
        r"(?:are |were )?not refuted\b": {verdicts[Verdict.UNSUBSTANTIATED]},
    }
    for what, allowed in counts.items():
        for said in re.findall(rf"\b([\w,]+) {what}", text):
            count = COUNTED.get(said.lower(), int(said) if said.isdecimal() else None)
            assert count is None or count in allowed, f"{said} {what}, of {allowed}"


def get_declared_package(place: str) -> Mapping[str, Any]:
    return Package.from_module(FINDINGS[place].module).toml


@each_finding
def test_commands_name_the_measured_mechanism(finding: Finding) -> None:
    program, target = finding.command.split()[:2]
    assert (program, target) in {("auditor", "account"), ("auditor", "verify")}
    named = [word for word in finding.command.split() if word.startswith("benchmarks.")]
    for module, _, name in (word.partition(":") for word in named):
        assert getattr(importlib.import_module(module), name) is finding.call
    assert named or isinstance(finding.call, Gaussian)


def test_the_page_lists_refuted_and_unrefuted_mechanisms() -> None:
    text, broken = wild.format_stored_page(), [p for p, f in FINDINGS.items() if f.is_refuted]
    assert f"## Refuted: {len(broken)} of {len(FINDINGS)}" in text
    for place in broken:
        finding = FINDINGS[place]
        for words in (finding.remark, finding.holds_if, finding.answer, finding.command):
            assert words in text, (place, words)
        letter = format_message(finding, ROWS[place])
        assert all(words in letter for words in (finding.name, finding.remedy))
    rest = [each.partition("\n## ")[0] for each in text.split("### Not refuted")[1:]]
    assert rest
    assert not any("VIOLATED" in each for each in rest)
