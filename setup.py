"""The five folders at the top are the packages inside ``fedrec_auditor``: no copies, no links."""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
ROOMS = ("accountants", "attacks", "auditor", "reports", "targets")
INSIDE = find_packages(include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")])
LINK = re.compile(r"(!?)\[([^]]*)\]\((?!\w+:|#)([^)]+)\)")


def readme() -> str:
    """Returns README.md for an index: its links and picture are those of this version's tag."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source, tag = project["urls"]["Repository"], f"v{project['version']}"

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({source}/{kind}/{tag}/{link[3]})"

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return LINK.sub(absolute, text).replace("<this repository>", source)


setup(
    packages=["fedrec_auditor", *(f"fedrec_auditor.{name}" for name in INSIDE)],
    package_dir={
        "fedrec_auditor": "src/fedrec_auditor",
        **{f"fedrec_auditor.{room}": room for room in ROOMS},
    },
    long_description=readme(),
    long_description_content_type="text/markdown",
)
