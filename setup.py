"""The five folders at the top are the packages inside ``fedrec_auditor``: no copies, no links."""

from setuptools import find_packages, setup

ROOMS = ("accountants", "attacks", "auditor", "reports", "targets")
INSIDE = find_packages(include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")])

setup(
    packages=["fedrec_auditor", *(f"fedrec_auditor.{name}" for name in INSIDE)],
    package_dir={
        "fedrec_auditor": "src/fedrec_auditor",
        **{f"fedrec_auditor.{room}": room for room in ROOMS},
    },
)
