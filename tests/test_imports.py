"""A folder's ``parts/`` and its underscore names are its own: no other folder imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("accountants", "attacks", "auditor", "reports", "targets")
VIOLATIONS = frozenset(
    {
        ("auditor/catalogue.py", "targets.catalogue.parts.privrec_tables"),
        (
            "auditor/demonstrations/hfl_counted_steps.py",
            "targets.systems.federated_mf.parts.noisy_horizontal",
        ),
        (
            "auditor/demonstrations/hfl_counted_steps.py",
            "targets.systems.federated_mf.parts.sgd_mf",
        ),
        (
            "auditor/demonstrations/hfl_divisor.py",
            "targets.systems.federated_mf.parts.noisy_horizontal",
        ),
        ("auditor/demonstrations/hfl_divisor.py", "targets.systems.federated_mf.parts.sgd_mf"),
        (
            "auditor/demonstrations/hfl_drawn_rows.py",
            "targets.systems.federated_mf.parts.noisy_horizontal",
        ),
        ("auditor/demonstrations/hfl_drawn_rows.py", "targets.systems.federated_mf.parts.sgd_mf"),
        (
            "auditor/demonstrations/hfl_fitted_embeddings.py",
            "targets.systems.federated_mf.parts.noisy_horizontal",
        ),
        (
            "auditor/demonstrations/hfl_fitted_embeddings.py",
            "targets.systems.federated_mf.parts.sgd_mf",
        ),
        (
            "auditor/demonstrations/hfl_fitted_embeddings.py",
            "targets.systems.federated_mf.parts.user_fit",
        ),
        (
            "auditor/demonstrations/lfl_replaced_noise.py",
            "targets.systems.federated_mf.parts.sgd_mf",
        ),
        (
            "auditor/demonstrations/lfl_turned_gradient.py",
            "targets.systems.federated_mf.parts.sgd_mf",
        ),
        ("auditor/demonstrations/parts/one_bit.py", "targets.systems.dplcf.parts.item_knn"),
        (
            "auditor/demonstrations/parts/side_by_side.py",
            "targets.systems.federated_mf.parts.horizontal_mf",
        ),
        (
            "auditor/demonstrations/parts/side_by_side.py",
            "targets.systems.federated_mf.parts.sgd_mf",
        ),
        ("auditor/games/attribute.py", "attacks.parts.uploads"),
        ("auditor/games/membership.py", "attacks.parts.uploads"),
        ("auditor/pieces.py", "auditor.demonstrations.parts"),
        ("auditor/plan.py", "auditor.demonstrations.parts"),
        ("targets/catalogue/dplcf.py", "targets.systems.dplcf.parts.collected_bits"),
        ("targets/catalogue/dplcf.py", "targets.systems.dplcf.parts.jaccard"),
        ("targets/catalogue/federated_mf.py", "targets.systems.federated_mf.parts.sgd_mf"),
        ("targets/catalogue/fedrec.py", "targets.systems.fedrec.parts.federated"),
        ("targets/catalogue/fmf_ldp.py", "targets.systems.fmf_ldp.parts.implicit_mf"),
        (
            "targets/catalogue/parts/federated_mf_numbers.py",
            "targets.systems.federated_mf.parts.local_laws",
        ),
        (
            "targets/catalogue/parts/federated_mf_numbers.py",
            "targets.systems.federated_mf.parts.sgd_mf",
        ),
        ("targets/catalogue/parts/gradients.py", "targets.systems.federated_mf.parts.sgd_mf"),
        ("targets/catalogue/parts/gradients.py", "targets.systems.federated_mf.parts.user_fit"),
        ("targets/catalogue/parts/privrec_tables.py", "targets.systems.privrec.parts.claims"),
        ("targets/catalogue/privrec.py", "targets.systems.privrec.parts.meta_learned"),
        (
            "targets/systems/federated_mf/lfl_sgdmf.py",
            "targets.mechanisms.parts.secure_aggregation",
        ),
        ("targets/systems/federated_mf/obj_pertb.py", "targets.mechanisms.parts.additive"),
        ("targets/systems/federated_mf/parts/dropouts.py", "targets.mechanisms.parts.additive"),
        (
            "targets/systems/federated_mf/parts/dropouts.py",
            "targets.mechanisms.parts.secure_aggregation",
        ),
        ("targets/systems/fedrec/parts/games.py", "targets.protections.parts.noise"),
        ("targets/systems/fmf_ldp/fmf_ldp.py", "targets.mechanisms.parts.coins"),
    }
)
"""Imports of today that break the rule, as (file, what it imports); to be emptied."""


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports, and the names of them, dotted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def private(name: str, folder: str) -> bool:
    """Whether ``name`` is private to another folder than ``folder`` (dotted, from the root).

    What is below ``x.parts`` is for modules in x and below it; so is what is below ``x._y``, and a
    name ``_y`` of a module in x.
    """
    words = name.split(".")
    for at, word in enumerate(words[1:], 1):
        if word == "parts" or (word.startswith("_") and not word.startswith("__")):
            owner = words[:at]
            module = ROOT.joinpath(*owner).with_suffix(".py").is_file()
            owner = owner[:-1] if module else owner
            return folder.split(".")[: len(owner)] != owner
    return False


def violations() -> set[tuple[str, str]]:
    """Every import that reaches into another folder."""
    found = set()
    for top in FOLDERS:
        for file in (ROOT / top).rglob("*.py"):
            place = file.relative_to(ROOT)
            for name in imported(ast.parse(file.read_text(encoding="utf-8"))):
                ours = name.removeprefix("fedrec_auditor.")
                if ours != name and private(ours, ".".join(place.parent.parts)):
                    found.add((place.as_posix(), ours))
    return {(file, name) for file, name in found if (file, name.rpartition(".")[0]) not in found}


def test_no_module_imports_what_is_private_to_another_folder() -> None:
    assert violations() == VIOLATIONS


def test_what_is_private_to_a_folder() -> None:
    assert private("targets.datasets.parts.source.Source", "auditor")
    assert private("targets.datasets.parts.source.Source", "targets.learners")
    assert private("attacks.base._hidden", "auditor")
    assert private("attacks._hidden.name", "auditor")
    assert not private("targets.datasets.parts.source.Source", "targets.datasets")
    assert not private("targets.datasets.parts.source.Source", "targets.datasets.parts")
    assert not private("attacks.base._hidden", "attacks")
    assert not private("attacks.base.__doc__", "auditor")
    assert not private("targets.datasets.base.Dataset", "auditor")
