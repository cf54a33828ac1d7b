"""A published data set: its files have known names, in a directory, an archive or the cache."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from fedrec_auditor.targets.cache import located
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.parts.source import Source
from fedrec_auditor.targets.tables import is_table


class PublishedDataset(ABC):
    """A data set called ``name`` in the cache, with the files of one of its ``layouts``.

    ``folder`` is what unpacking the official archive makes; ``remedy`` says where to get it.
    """

    __slots__ = ()

    name: ClassVar[str]
    title: ClassVar[str]
    remedy: ClassVar[str]
    layouts: ClassVar[tuple[tuple[str, ...], ...]]
    folder: ClassVar[str] = ""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` has the files of a layout, by name."""
        if os.path.isfile(path) and is_table(path):
            return False
        return Source(path, self.folder or self.name).holds(self.layouts)

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path``, else from the cache; InputError says where to get the files."""
        place = located(path, self.name, self.title, self.remedy)
        source = Source(place, self.folder or self.name)
        return self.read(source, source.layout(self.layouts))

    @abstractmethod
    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """The interactions in the files of this layout."""
