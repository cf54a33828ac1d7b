"""Deliberately broken data sets: a contract that passes one of them is itself broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic


@dataclass(frozen=True)
class _Drawn:
    """Synthetic data with one thing wrong in each heir."""

    def recognises(self, path: Path) -> bool:
        return False

    def load(self, path: Path | None = None) -> Interactions:
        return self._wrong(Synthetic(n_users=12, n_items=9, profile=4).load(path))

    def _wrong(self, data: Interactions) -> Interactions:
        return data


class RecognisesAll(_Drawn):
    """Takes every folder for its own."""

    def recognises(self, path: Path) -> bool:
        return True


class NewEveryTime(_Drawn):
    """Draws from the operating system's generator."""

    def load(self, path: Path | None = None) -> Interactions:
        seed = int(np.random.default_rng().integers(2**31))
        return Synthetic(n_users=12, n_items=9, profile=4, seed=seed).load(path)


class StoredZeros(_Drawn):
    """Keeps an entry that is no interaction."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.ratings.data[3] = 0.0
        return data


class UnsortedColumns(_Drawn):
    """Items of a user in any order, so that times and ratings may part."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.ratings.indices[:2] = data.ratings.indices[1::-1].copy()
        return data


class IdleUser(_Drawn):
    """A user without any interaction."""

    def _wrong(self, data: Interactions) -> Interactions:
        ratings = sparse.vstack([data.ratings, sparse.csr_array((1, data.n_items), dtype="f4")])
        attributes = {
            name: Attribute(codes=np.append(a.codes, 0), categories=a.categories)
            for name, a in data.attributes.items()
        }
        users = np.append(data.users, data.users[-1] + 1)
        return replace(data, users=users, ratings=sparse.csr_array(ratings), attributes=attributes)


class ShiftedTimes(_Drawn):
    """One timestamp too few."""

    def _wrong(self, data: Interactions) -> Interactions:
        return replace(data, timestamps=data.timestamps[1:])


class CodeBeyond(_Drawn):
    """An attribute code that is of no category."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.attributes["gender"].codes[0] = 2
        return data


class NoAge(_Drawn):
    """Lacks an attribute that the audit infers."""

    def _wrong(self, data: Interactions) -> Interactions:
        kept = {name: a for name, a in data.attributes.items() if name != "age_group"}
        return replace(data, attributes=kept)


class DoubleIds(_Drawn):
    """Two users of one name."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.users[1] = data.users[0]
        return data


BROKEN_DATASETS = tuple(broken() for broken in _Drawn.__subclasses__())
