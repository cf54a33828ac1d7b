"""Attribute inference with a decision tree on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.attacks.parts.decision_tree import DecisionTree, Part, SortedColumns
from fedrec_auditor.attacks.parts.inputs import Input
from fedrec_auditor.attacks.parts.supervised import Guess, Problem, SupervisedAttack


@dataclass(frozen=True, kw_only=True)
class AttributeTree(SupervisedAttack):
    """Table IV's decision tree, grown until its leaves are pure."""

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 5.8 (decision tree)"
    )
    reads_columns: ClassVar[bool] = True

    def table(self, read: Input) -> SortedColumns:
        """All columns, sorted: 6 bytes a number."""
        return SortedColumns.of(read.values())

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """The shares of classes in the leaf that each of the unknown comes to."""
        assert table is None or isinstance(table, SortedColumns)
        parts = _parts(problem, table)
        tree = DecisionTree([known for known, _ in parts], problem.codes, seed)
        shares = tree.shares([others for _, others in parts])
        return Guess(shares.argmax(axis=1), shares)


def _parts(problem: Problem, table: SortedColumns | None) -> list[tuple[Part, Part]]:
    """The columns of the known and of the unknown: those of uploads, and those beside."""
    groups = (problem.known, problem.unknown)
    (sent, known), (asked, others) = (problem.rows(users) for users in groups)
    if len(sent) + len(asked) < sum(map(len, groups)) and table is not None:  # some sent nothing
        whole = np.concatenate(problem.columns(table.values))
        k, again = len(problem.known), SortedColumns.of(whole)
        return [(Part(again, np.arange(k)), Part(again, np.arange(k, len(whole))))]
    parts = [] if table is None else [(Part(table, known), Part(table, others))]
    if problem.beside is not None:
        users = np.concatenate(groups)
        k, side = len(problem.known), SortedColumns.of(problem.beside[users].astype(np.float32))
        parts.append((Part(side, np.arange(k)), Part(side, np.arange(k, len(users)))))
    return parts
