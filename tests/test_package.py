"""What is offered by the names that users import, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import fedrec_auditor
from fedrec_auditor.auditor import testing

SURFACE = {
    "fedrec_auditor": [
        "Account",
        "Claim",
        "InputError",
        "Record",
        "RecordingWriter",
        "Sweep",
        "Verification",
        "__version__",
        "account",
        "attack_recording",
        "audit",
        "audit_system",
        "from_scores",
        "record_uploads",
        "sweep",
        "verify_ldp",
        "wrap_system",
        "wrap_torch",
    ],
    "fedrec_auditor.auditor.testing": ["Case", "MechanismContract", "assert_ldp", "inputs_of"],
}
SUITES = [path.stem for path in Path(testing.__file__).parent.glob("*s.py")]


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


@pytest.mark.parametrize("family", SUITES)
def test_every_family_has_a_suite_with_one_entry(family: str) -> None:
    suite = import_module(f"{testing.__name__}.{family}")
    contract = getattr(suite, f"{family.removesuffix('s').capitalize()}Contract")
    assert ">>> " in (contract.__doc__ + (getattr(suite, "check_attack", contract).__doc__ or ""))
    tests = {name.removeprefix("test_") for name in vars(contract) if name.startswith("test_")}
    assert tests == {law.__name__.removeprefix("check_") for law in contract.laws} != set()


def test_the_suites_run_where_pytest_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from fedrec_auditor.auditor.testing.routes import RouteContract\n"
        "from fedrec_auditor.auditor.testing.protections import ProtectionContract\n"
        "from fedrec_auditor.targets.routes.direct import Direct\n"
        "from fedrec_auditor.targets.protections.unprotected import Unprotected\n"
        "print(RouteContract.check(Direct()), *ProtectionContract.check(Unprotected()))"
    )
    assert fresh(code) == "() check_sampled_distribution: it states no distribution of an entry"
