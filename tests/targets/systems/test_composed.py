"""A paper's table of composed systems: classes like any other, and what is wrong in it is named."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.papers.fedrec_apm import systems as fedrec_apm
from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.routes.shuffler import Shuffler
from fedrec_auditor.targets.systems.base import Evaluation, Population, Split

CLAIMS = """
claim = []
[paper]
title = "Somebody: Theirs, 2030"
symbols = {}
threat = { place = "section 1", adversary = "the server", trusted = "nobody" }
"""
PRINTED = """
[[table]]
place = "Table 1"
data = "theirs"
protocol = "all items"
columns = ["HR@5"]
[table.rows]
Their-MF = [0.5]
"""
TABLE = """
evaluation = { split = "held-out ratings", cutoffs = [5] }
[system.their-mf]
type = "TheirMf"
summary = "Theirs."
doc = "And more."
place = "section 2"
unprotected = "fedmf"
settings.rounds = 3
settings.route = "shuffler"
settings.learner = { name = "mf", dimension = 4 }
settings.protection = { name = "laplace", epsilon = 2.0, every_epoch = true }
"""
MODULE = """
from fedrec_auditor.targets.systems.federated import composed
__getattr__ = composed(__name__)
"""
Write = Callable[[str], ModuleType]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """The ``systems`` of a paper of another distribution that has this table."""
    folder = tmp_path / f"paper_{tmp_path.name}"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(table: str) -> ModuleType:
        files = {"__init__.py": "", "systems.py": MODULE, "systems.toml": table}
        for name, text in (files | {"claims.toml": CLAIMS, "printed.toml": PRINTED}).items():
            (folder / name).write_text(text, "utf-8")
        return importlib.import_module(f"{folder.name}.systems")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


def test_a_line_of_a_table_is_a_system_of_its_paper(written: Write) -> None:
    module = written(TABLE)
    kind = module.TheirMf
    system = kind()
    assert system == kind(
        rounds=3,
        learner=Mf(dimension=4),
        protection=LaplaceProtection(epsilon=2.0, every_epoch=True),
        route=Shuffler(),
    )
    assert (kind.__name__, kind.__module__) == ("TheirMf", module.__name__)
    assert inspect.getdoc(kind) == "Theirs.\n\nAnd more."
    assert (system.name, system.unprotected) == ("their-mf", "fedmf")
    assert system.evaluation == Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=(5,))
    assert system.paper == "Somebody: Theirs, 2030"
    assert [(one.metric, one.value, one.note) for one in system.reported] == [
        ("HR@5", 0.5, "theirs")
    ]
    claims = system.scoped_claims(Population(n_users=9, n_items=4))
    assert claims[0].claim.epsilon == 2.0
    assert {scoped.claim.source for scoped in claims} == {"Somebody: Theirs, 2030, section 2"}


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_it_is_found_again_by_name(written: Write, dumps: Callable[[object], bytes]) -> None:
    changed = written(TABLE).TheirMf(rounds=7)
    assert pickle.loads(dumps(changed)) == changed  # noqa: S301
    assert len(dumps(changed)) < 2_000  # by reference, not by value


def test_what_extends_one_has_a_name_of_its_own() -> None:
    class Mine(fedrec_apm.FedRec):
        """Another."""

    assert Mine().name == "test-composed"
    assert Mine().paper == fedrec_apm.FedRec().paper


def test_a_family_lists_and_finds_them() -> None:
    family = FAMILIES["targets"]
    assert family.member("fedncf-apm") is fedrec_apm.FedNcfApm
    assert family.summary("fedncf-apm") == fedrec_apm.FedNcfApm.__doc__.partition("\n")[0]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"mf"', '"mff"', "mff"),
        ("dimension", "dimensions", "dimensions"),
        ("epsilon = 2.0", "epsilon = -2.0", "epsilon=-2.0"),
        ("rounds", "turns", "turns"),
        ("place", "plaice", "plaice"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(
    written: Write, right: str, wrong: str, said: str
) -> None:
    module = written(TABLE.replace(right, wrong))
    with pytest.raises(InputError, match=said) as caught:
        _ = module.TheirMf
    assert "systems.toml" in str(caught.value)


def test_a_module_has_no_other_names(written: Write) -> None:
    module = written(TABLE)
    assert not hasattr(module, "TheirNcf")
