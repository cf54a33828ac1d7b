"""What is offered by the names that users import, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import fedrec_auditor

SURFACE = {
    "fedrec_auditor": [
        "Account", "Claim", "InputError", "Record", "RecordingWriter", "Sweep", "Verification",
        "__version__", "account", "attack_recording", "audit", "audit_system", "from_scores",
        "record_uploads", "sweep", "verify_ldp", "wrap_system", "wrap_torch",
    ],
    "fedrec_auditor.auditor.testing": ["Case", "MechanismContract", "assert_ldp", "inputs_of"],
}  # fmt: skip


def fresh(code: str) -> str:
    """What these lines print in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", SURFACE)
def test_the_public_names_are_these(name: str) -> None:
    """A name that is taken away or renamed breaks somebody's program: say so in CHANGELOG.md."""
    module = import_module(name)
    assert sorted(module.__all__) == SURFACE[name]
    assert all(getattr(module, each) is not None for each in SURFACE[name])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_completion_offers_the_public_names_before_any_is_used() -> None:
    shown = fresh("import fedrec_auditor as f; print(dir(f))")
    assert shown == str(SURFACE["fedrec_auditor"])


def test_the_version_is_that_of_the_distribution() -> None:
    assert fedrec_auditor.__version__ == version("fedrec-auditor")


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("fedrec_auditor", ("numba", "numpy", "pytest")),
        ("fedrec_auditor.auditor.testing", ("numba", "numpy", "pytest")),
        ("fedrec_auditor.auditor.commands.command_line", ("matplotlib",)),
    ],
)
def test_importing_it_imports_nothing_heavy(module: str, more: tuple[str, ...]) -> None:
    heavy = ("torch", "scipy", "sklearn", "dp_accounting", *more)
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    assert fresh(code) == "[]"
