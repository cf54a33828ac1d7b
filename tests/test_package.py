"""The public surface, as ``tests/public_surface.txt`` holds it, and what importing it costs.

``python -m tests.test_package`` writes the file.
"""

from __future__ import annotations

import difflib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import pytest
import typer

import fedrec_auditor
from fedrec_auditor.auditor.commands.command_line import app
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.plan.plugins import GROUP_ROOT

STORED = Path(__file__).with_name("public_surface.txt")
MODULES = ("fedrec_auditor", "fedrec_auditor.auditor.testing")


def fresh(code: str) -> str:
    """What these lines print in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def surface() -> Iterator[str]:
    """The lines of the file: names, options and fields that programs of others may rely on."""
    for module in map(import_module, MODULES):
        yield f"from {module.__name__} import"
        for name in sorted(module.__all__):
            yield from described(name, getattr(module, name))
    for name, command in sorted(typer.main.get_group(app).commands.items()):
        yield f"auditor {name}"
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        yield from (f"    {' '.join([*each.opts, *each.secondary_opts])}" for each in shown)
    yield "a plan"
    yield from (f"    {name}" for name in Plan.model_fields)
    yield "groups of entry points for plug-ins, then the entry points of the distribution"
    yield from (f"    {GROUP_ROOT}{kind}" for kind in FAMILIES)
    points = distribution("fedrec-auditor").entry_points
    yield from sorted(f"    {point.group}: {point.name}" for point in points)


def described(name: str, public: Any) -> Iterator[str]:
    """A name with its parameters; below it the further attributes of a class."""
    if name == "InputError" or not callable(public):
        yield f"    {name}"
        return
    taken = inspect.signature(public).parameters
    yield f"    {name}({', '.join(taken)})"
    if inspect.isclass(public):
        own = {each for each in vars(public) if not each.startswith(("_", "model_"))}
        yield from (f"        .{each}" for each in sorted(own - taken.keys()))


def test_the_public_surface_is_the_stored_one() -> None:
    stored, found = STORED.read_text(encoding="utf-8").splitlines(), [*surface()]
    assert stored == found, (
        "Expected the public names of tests/public_surface.txt, got others. If that is meant, run "
        "`python -m tests.test_package`, and say it in CHANGELOG.md. CONTRIBUTING.md (Versions) "
        "says when a name may go: somebody's program uses it.\n"
        + "\n".join(difflib.unified_diff(stored, found, "stored", "now", n=1, lineterm=""))
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_no_other_names(name: str) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = import_module(name).nothing


def test_completion_offers_the_public_names_before_any_is_used() -> None:
    shown = fresh("import fedrec_auditor as f; print(dir(f))")
    assert shown == str(sorted(fedrec_auditor.__all__))


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


if __name__ == "__main__":
    STORED.write_text("".join(f"{line}\n" for line in surface()), encoding="utf-8")
