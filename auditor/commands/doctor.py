"""``auditor doctor``: what this installation consists of."""

from __future__ import annotations

import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from fedrec_auditor.auditor.commands.options import AsJson

_PACKAGES = (
    "fedrec-auditor",
    "dp-accounting",
    "hypothesis",
    "numba",
    "numpy",
    "scikit-learn",
    "scipy",
    "torch",
)
_NEVER_CACHED = ("synthetic", "table")


def command(as_json: AsJson = False) -> None:
    """Show versions, cores, memory, the torch device, the data caches and broken plug-ins."""
    from fedrec_auditor.auditor.plan.families import FAMILIES
    from fedrec_auditor.targets.cache import cache, cached

    kept = [name for name in FAMILIES["datasets"].names() if name not in _NEVER_CACHED]
    facts = {
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "cores": str(os.cpu_count() or 1),
        "memory": _memory(),
        "torch device": _device(),
        "data cache": str(cache()),
        **{f"cached {name}": str(cached(name) or "no") for name in kept},
    }
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    for name, fact in facts.items():
        print(f"{name:<18}{fact}")
    for line in (line for family in FAMILIES.values() for line in family.left_out()):
        print(line)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _memory() -> str:
    from fedrec_auditor.auditor.run.resources import physical_memory

    size = physical_memory()
    return f"{size / 2**30:.1f} GiB" if size < math.inf else "unknown"


def _device() -> str:
    try:
        import torch
    except ImportError:
        return "none"
    return f"cuda ({torch.cuda.get_device_name()})" if torch.cuda.is_available() else "cpu"
