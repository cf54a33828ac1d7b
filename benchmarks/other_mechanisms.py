"""Local randomizers of diffprivlib and OpenDP, each tested against its own library's claim.

``verify_ldp`` sees outputs of every mechanism, not its distribution. The claim is the library's for
the inputs shown: the requested epsilon (and delta) in diffprivlib, the value of the privacy map in
OpenDP. Both libraries draw one output at a time, in 2 to 120 microseconds, so samples are few. If
an OpenDP mechanism adds independent noise of one distribution to each entry of a vector, a vector
of equal inputs replaces many calls. diffprivlib draws from a seeded replacement of the system's
generator, and ``Staircase`` from numpy's. OpenDP's generator has no seed, so its rows change a
little from run to run. Each bound holds at 99.95%, so that the hundred of them hold together at
95%.
"""

from __future__ import annotations

import importlib
import time
from importlib import metadata
from pathlib import Path

from benchmarks.others.case import Case
from fedrec_auditor.accountants.verdict import Verdict

LIBRARIES = ("diffprivlib", "opendp")
RESULTS = Path(__file__).with_name("OTHER_MECHANISMS.md")


def format_row(case: Case) -> str:
    """One line of the table: the claim, the result of ``verify_ldp``, and a remark."""
    start = time.perf_counter()
    result = case.verify()
    seconds = time.perf_counter() - start
    claim = f"({case.epsilon:.4g}, {case.delta:g})" if case.delta else f"{case.epsilon:.4g}"
    is_own_sampler = case.inputs is None  # the sampler that the checks look at
    failed = "" if is_own_sampler else ", ".join(check.name for check in result.faults)
    accused = failed or result.verdict is Verdict.VIOLATED
    remark = case.remark or ("not explained yet" if accused else "")
    return " | ".join(
        [
            f"| {case.name}",
            case.setting,
            claim,
            str(result.verdict),
            f"{result.epsilon_lower:.3f}",
            "not run" if is_own_sampler else failed or "none",
            "exact" if result.exact else f"{case.samples:,}",
            f"{seconds:.1f} s",
            f"{remark} |",
        ]
    )


def format_page() -> str:
    """Markdown with a table per library, or a line if the library is not installed."""
    parts = ["# Other people's mechanisms", (__doc__ or "").strip()]
    for library in LIBRARIES:
        try:
            found = importlib.import_module(f"benchmarks.others.{library}").list_cases()
        except ImportError as error:
            parts.append(f"## {library}\n\nNot installed ({error}): pip install '.[peers]'.")
            continue
        lines = [
            "| mechanism | setting | claim | verdict | bound | failed checks | samples per input "
            "| time | remark |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for case in found:
            lines.append(format_row(case))
            print(lines[-1], flush=True)
        parts.append(f"## {library} {metadata.version(library)}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    RESULTS.write_text(format_page(), encoding="utf-8")
