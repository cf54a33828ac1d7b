"""Settings that affect only the speed of a simulation, and helpers for blocks, threads and
devices.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, Count, CountOrZero

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Checked):
    """Device, threads and memory that a simulation of clients may use.

    device: torch device ("cpu", "cuda", "cuda:1") for systems whose clients are trained in torch;
        the last bits of results may depend on it
    threads: number of threads of one process
    memory: maximum size in bytes of a training's uploads in memory; further uploads are in
        memory-mapped files
    folder: directory of the memory-mapped files; None means a temporary one
    """

    device: str = "cpu"
    threads: Count = 1
    memory: CountOrZero = 1 << 31
    folder: Path | None = None


# The machine that computations use if the caller states none.
DEFAULT_MACHINE = Machine()
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_threads: ContextVar[int] = ContextVar("threads", default=1)
# Share of the memory of all workers that messages may use.
UPLOAD_RAM_SHARE = 1 / 4
_DEVICES = ("cpu", "cuda", "hpu", "mps", "mtia", "xla", "xpu")  # torch's devices that compute


def iter_blocks(count: int, element_size: int, max_size: int) -> Iterator[slice]:
    """Splits ``count`` elements into slices of consecutive elements that fit in memory.

    count: number of elements
    element_size: number of values per element
    max_size: maximum number of values per slice; only a slice of one element may have more

    >>> list(iter_blocks(5, 4, max_size=8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, max_size // max(1, element_size))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Returns a context in which ``map_in_threads`` uses ``count`` threads."""
    token = _threads.set(count)
    try:
        yield
    finally:
        _threads.reset(token)


def map_in_threads(
    function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int | None = None
) -> Iterator[_Result]:
    """Yields ``function(item)`` for each of ``items`` in order, computed in ``threads`` threads.

    If ``threads`` is None, the number of threads is set by ``use_threads``, and is 1 outside of
    that context.

    >>> with use_threads(2):
    ...     list(map_in_threads(abs, [-3, 1, -2]))
    [3, 1, 2]
    """
    if (count := threads or _threads.get()) == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(count) as pool:
        pending = deque[Future[_Result]]()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > count:  # at most one result per thread waits for the caller
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def limit_to_one_thread(
    user_api: Literal["blas", "openmp"] | None = "blas",
) -> AbstractContextManager[Any]:
    """Returns a context in which BLAS or OpenMP uses only one thread.

    ``user_api`` names the library; None means every library with a thread pool. Only libraries that
    are already loaded are limited.
    """
    # For small matrix products, several threads cost more time than they save.
    limit: AbstractContextManager[Any] = _pools(len(sys.modules)).limit(limits=1, user_api=user_api)
    return limit


@contextmanager
def limit_torch_threads() -> Iterator[None]:
    """Returns a context in which torch uses only one thread.

    For the small networks of clients, several threads cost more time than they save.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(1)
def _pools(modules: int) -> ThreadpoolController:
    """Returns the thread pools of this process.

    ``modules`` is the number of loaded modules: a new number causes a new search for pools.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def check_device(device: str) -> None:
    """Raises InputError if torch cannot store a number on ``device``, such as "cuda:1"."""
    try:
        kind = device.partition(":")[0]
        if kind not in _DEVICES:
            raise RuntimeError(f"expected a device type among {', '.join(_DEVICES)}")
        if kind == "cuda" and version("torch").endswith("+cpu"):
            # This check spares the import of torch, which takes seconds.
            raise RuntimeError("the installed torch is built for CPUs only")
        import torch

        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"Expected a device that torch can use, got device={device!r} ({first}). Choose a "
            "device that `auditor doctor` lists, or leave the option out to use the CPU."
        ) from error
