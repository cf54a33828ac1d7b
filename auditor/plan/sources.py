"""Loads interactions from a source: a data set by its name, a path whose files are recognised, or
an object in memory.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, suggest_names
from fedrec_auditor.targets.cache import check_cached_data
from fedrec_auditor.targets.tables import is_table_path

if TYPE_CHECKING:
    from fedrec_auditor.targets.datasets.base import Dataset, Interactions

logger = logging.getLogger(__name__)

# Formats of a table, for error messages.
TABLE_DESCRIPTION = "a table (text with one row per line, Parquet, Feather or lines of JSON)"


def read_data_object(
    data: Any, columns: Mapping[str, str] | None = None
) -> tuple[Interactions | None, str]:
    """Returns the interactions of ``data`` if they are in memory, otherwise None; and the name of
    the data.

    ``data``: a name or path, interactions, a matrix of ratings (users x items), dense or sparse, or
        a DataFrame (of pandas, polars or any library with the interchange protocol).
    ``columns``: names of a DataFrame's columns for user, item, rating and timestamp.

    Raises InputError for any other object.
    """
    if isinstance(data, str | Path):
        return None, str(data)
    import numpy as np
    from scipy import sparse

    from fedrec_auditor.targets.datasets.base import Interactions

    if isinstance(data, Interactions):
        return data, data.name
    if isinstance(data, np.ndarray) or sparse.issparse(data):
        table: Any = data
        if len(table.shape) != 2:
            raise InputError(
                f"Expected data as a matrix of ratings (users x items), got an array of shape "
                f"{table.shape}. Give a matrix with one row per user."
            )
        return Interactions.create(table), "table"
    if hasattr(data, "__dataframe__"):
        with open_as_file(data, "data") as path:
            loader: Dataset = FAMILIES["datasets"].load_class("table")(columns=columns)
            return replace(loader.load(path), name="table"), "table"
    raise InputError(
        f"Expected data as a DataFrame, a matrix of ratings, Interactions, a name or a path, got "
        f"{type(data).__name__}. Give data of one of these types."
    )


@contextmanager
def open_as_file(data: Any, name: str) -> Iterator[Path]:
    """Context manager that yields the path of a table file, or of a temporary file with the rows of
    a DataFrame.

    ``data``: the path or the DataFrame.
    ``name``: name of the argument, for errors.

    Raises InputError for any other object.
    """
    if isinstance(data, str | Path):
        yield Path(data)
        return
    from pyarrow import parquet
    from pyarrow.interchange import from_dataframe

    if not hasattr(data, "__dataframe__"):
        raise InputError(
            f"Expected {name} as a DataFrame or a path, got {type(data).__name__}. "
            "Give one of these types."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path = path.with_suffix(".parquet")
        parquet.write_table(from_dataframe(data), path)
        try:
            yield path
        except InputError as error:
            message = str(error).replace(str(path), f"the DataFrame {name}")
            raise InputError(message.replace(path.name, f"the DataFrame {name}")) from error


def check_source(
    data: str, columns: Mapping[str, str] | None = None, tables: Sequence[str | None] = ()
) -> None:
    """Raises InputError unless ``data`` is the name of a data set or an existing path, and all
    tables exist.

    ``columns``: names of columns, which are valid only if ``data`` is a table.
    ``tables``: paths of tables of users and items; None for a table that is not given.
    """
    for table in tables:
        if table is not None and not _is_table(table):
            kind = f"{TABLE_DESCRIPTION} of users or items"
            raise InputError(f"Expected {kind}, got {table!r}. Give such a path.")
    names, path = FAMILIES["datasets"].list_names(), Path(data)
    exists = os.path.exists(path)  # unlike Path.exists, this accepts names that are too long
    if data not in names and exists and not (path.is_file() or path.is_dir()):
        raise InputError(
            f"Expected data in a file or a directory, got {data!r}, which is "
            "a device, a FIFO or a socket. Copy its content into a file."
        )
    if data not in names and not exists:
        hint = suggest_names(data, names, "Data sets", max_names=1)
        raise InputError(f"Expected a data set or a path, got {data!r}, which is not there. {hint}")
    if columns is not None and not _is_table(data):
        raise InputError(
            f"Expected columns for {TABLE_DESCRIPTION} only, got data {data!r}. Leave the columns "
            "out, or give the path of such a file."
        )


def _is_table(data: str) -> bool:
    return data not in FAMILIES["datasets"].list_names() and is_table_path(Path(data))


def load_data(data: str, columns: Mapping[str, str] | None = None) -> Interactions:
    """Loads a data set by its name, or from a directory, an archive or a table.

    ``columns``: options for reading a table, such as names of its columns
        (``targets.datasets.table.Table``).

    Raises InputError if the data or the columns are wrong.
    """
    check_source(data, columns)
    family, path = FAMILIES["datasets"], Path(data)
    dataset: Dataset
    if data in family.list_names():
        interactions: Interactions = family.load_class(data)().load()
        check_cached_data(interactions, data)
        return interactions
    for name in family.list_loadable_names() if columns is None else ():
        dataset = family.load_class(name)()
        if name != "table" and _recognises(dataset, path):
            return dataset.load(path)
    if is_table_path(path):
        dataset = family.load_class("table")(columns=columns)
        return dataset.load(path)
    raise InputError(
        f"Expected {TABLE_DESCRIPTION}, or a directory or archive of a data set, got {data!r} "
        "without such files. Give the unpacked file of a table, such as ratings.csv, or the folder "
        f"of MovieLens 100K or 1M. Data sets: {', '.join(family.list_names())}."
    )


def _recognises(dataset: Dataset, path: Path) -> bool:
    """Whether the files at ``path`` have the format of a data set. Returns false, and logs a
    warning, if a plug-in fails.
    """
    try:
        return dataset.recognises(path)
    except Exception as error:
        if (plugin := FAMILIES["datasets"].find_plugin(type(dataset))) is None:
            raise
        logger.warning("Left out: the dataset %s, %s: %s", plugin, type(error).__name__, error)
        return False
