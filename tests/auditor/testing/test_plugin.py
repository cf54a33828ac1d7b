"""Tests of the pytest plugin in other projects."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

USER_TESTS = """
    import numpy as np

    def response(x, rng, size):
        return np.where(rng.random(size) < 0.8, x, 1 - x)

    def test_sound(assert_ldp):
        assert assert_ldp(response, epsilon=1.5, trace=False).samples == 8_000

    def test_said(assert_ldp):
        assert assert_ldp(response, epsilon=1.5, samples=2_000, trace=False).samples == 4_000

    def test_broken(assert_ldp):
        assert_ldp(response, epsilon=1.0, trace=False)
"""


def test_the_fixture_needs_no_import_and_follows_the_options(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USER_TESTS)
    words = ("--ldp-samples", "4000", "--ldp-seed", "3", "--ldp-confidence", "0.9")
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", *words)
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "E *AssertionError: response",
            "E *False: epsilon 1 at delta 0 is refuted*",
            "E *how *at confidence 0.9:*",
            "E *inputs *against*",
        ]
    )
    assert "__tracebackhide__" not in done.stdout.str()


def test_the_plugin_is_installed_once_and_has_light_imports() -> None:
    named = [each.value for each in entry_points(group="pytest11") if "auditor" in each.value]
    assert set(named) == {"fedrec_auditor.auditor.testing.plugin"}
    code = "import sys, pytest; before = set(sys.modules)\n"
    code += "import fedrec_auditor.auditor.testing.plugin\n"
    code += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    root = "fedrec_auditor"
    folder = f"{root}.auditor.testing"
    assert done.stdout.split() == [root, f"{root}.auditor", folder, f"{folder}.plugin"]


def test_a_broken_contract_states_the_comparison(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import numpy as np
        from fedrec_auditor.auditor.testing import Case, MechanismContract
        from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip

        class NoSize(BitFlip):
            def randomize(self, value, rng, size=None):
                return super().randomize(value, rng)

        bits = np.array([0, 1])

        class TestBitFlip(MechanismContract):
            subject = Case(BitFlip(0.9, 0.3), bits, bits)

        class TestNoSize(MechanismContract):
            subject = Case(NoSize(0.9, 0.3), bits, bits)
    """)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-v")
    done.assert_outcomes(passed=13, failed=3)
    done.stdout.fnmatch_lines(
        ["*::TestBitFlip::test_shapes PASSED*", "*::TestNoSize::test_shapes FAILED*"]
    )
    done.stdout.fnmatch_lines(["E *assert () == (4, 5)*"])
