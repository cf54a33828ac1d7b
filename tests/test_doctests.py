"""The examples in the source print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_imports import ROOT, list_modules

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


SOURCES = {"fedrec_auditor": ROOT / "src" / "fedrec_auditor" / "__init__.py", **list_modules()}
EXAMPLES = [name for name, path in SOURCES.items() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_say(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fedrec_auditor"):
            raise
        pytest.skip(f"needs {error.name}, which is not installed")
    failed, tried = doctest.testmod(module, optionflags=OPTIONS)
    assert tried, "the example is in no docstring that doctest finds"
    assert not failed, "see the differences above"


# Names that users call, by module.
CALLED = {
    "accountants.errors": "InputError",
    "accountants.methods.accounting_methods": "Optimal Pld Pure Rdp Shuffle",
    "accountants.statements": "Bound Claim Scope",
    "accountants.verdict": "Gate Verdict judge_claim",
    "auditor.exact.candidates": "inputs_of",
    "auditor.exact.search": "find_exact_bound",
    "auditor.plan.plan": "Plan",
    "auditor.run.resources": "Resources",
    "auditor.run.runner": "audit run_plan",
    "auditor.spending.spend": "account",
    "auditor.testing.ldp": "assert_ldp",
    "auditor.verification.verification": "Verification",
    "auditor.verification.verify": "verify_ldp",
    "auditor.worlds.estimators.lower_bound_estimators": "AllThresholds JointBinomial",
    "auditor.worlds.measure": "measure_bounds",
    "auditor.worlds.worlds": "Worlds",
    "reports.record.record": "Record",
    "reports.record.rows": "Finding",
    "targets.datasets.base": "Interactions",
    "targets.datasets.synthetic": "Synthetic",
    "targets.papers.dplcf.systems": "DplcfSp",
    "targets.papers.fmf_ldp.systems": "Fcf FmfLdp",
    "targets.transcript": "View",
}


@pytest.mark.parametrize("module", CALLED)
def test_what_users_call_has_an_example(module: str) -> None:
    found = import_module(f"fedrec_auditor.{module}")
    assert all(">>> " in getattr(found, name).__doc__ for name in CALLED[module].split())
