"""Settings that affect only the speed of a simulation: device, threads and memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, Whole, WholeOrZero

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(Checked):
    """Device, threads and memory of the simulation of clients.

    ``device`` is a torch device ("cpu", "cuda", "cuda:1") for targets whose clients are trained in
    torch. ``threads`` is the number of threads of one process. Uploads of a training that exceed
    ``memory`` bytes are stored in memory-mapped files under ``folder`` (a temporary one by default)
    and removed with the transcript. The last bits of floating-point results may depend on the
    device, which an audit's provenance names, but not on threads or memory.
    """

    device: str = "cpu"
    threads: Whole = 1
    memory: WholeOrZero = 1 << 31
    folder: Path | None = None


DEFAULT = Compute()
# Share of the memory of all workers that messages may use.
RAM_SHARE = 1 / 4


def iter_blocks(count: int, numbers: int, most: int) -> Iterator[slice]:
    """Splits ``count`` elements into slices of consecutive elements of limited size.

    An element consists of ``numbers`` numbers. A slice has at most ``most`` numbers, but at least
    one element.

    >>> list(iter_blocks(5, 4, most=8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, most // max(1, numbers))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def one_thread(user_api: Literal["blas", "openmp"] | None = "blas") -> AbstractContextManager[Any]:
    """Returns a context in which BLAS, or every thread pool (``user_api=None``), uses one thread.

    For small matrix products, threads cost more time than they save. Only pools that are already
    loaded are limited.
    """
    limit: AbstractContextManager[Any] = _pools(len(sys.modules)).limit(limits=1, user_api=user_api)
    return limit


@contextmanager
def set_torch_threads(count: int) -> Iterator[None]:
    """Returns a context in which torch uses ``count`` threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(1)
def _pools(modules: int) -> ThreadpoolController:
    """The thread pools of this process. A new number of loaded ``modules`` causes a new search."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def try_device(device: str) -> None:
    """Checks that torch can store a number on ``device``, and raises InputError if it cannot."""
    import torch

    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"Expected a device that torch can use, got device={device!r} ({first}). Choose a "
            "device that `auditor doctor` lists, or leave the option out to use the CPU."
        ) from error
