"""Runs function calls on the workers of a Dask or Ray cluster, with the same results as in one
process.

Workers use only the data that they receive, and neither read nor write files of the run directory.
If a worker is lost, another worker repeats the call.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

import cloudpickle

from fedrec_auditor.accountants.errors import AuditError, IncompleteError, InputError
from fedrec_auditor.auditor.plan.versions import get_versions, hash_source

# Type of the result of one call.
Result = TypeVar("Result")
_LOOK = 10  # seconds to wait for a cluster
_CALL_LOCK = threading.Lock()  # one call at a time: calls set thread limits and random states


class Cluster(Protocol):
    """Protocol of clusters: workers on any machines, each of which runs one function call at a
    time.
    """

    @property
    def name(self) -> str:
        """Name of the software that runs the cluster, such as "dask"."""

    def count_workers(self) -> int:
        """Returns the current number of workers."""

    def get_memory_bytes(self) -> float:
        """Returns the bytes of memory that all workers together may use."""

    def run_parallel(
        self, function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
    ) -> Iterator[Result]:
        """Calls ``function`` with each tuple of ``arguments``, and yields results as calls finish.

        At most ``jobs`` calls run at a time. Exceptions of calls are raised here. Raises InputError
        if a worker has other versions of packages on which results depend, and IncompleteError if
        the cluster loses a call repeatedly.
        """


@dataclass(frozen=True)
class DaskCluster:
    """Workers of a Dask scheduler, each with one thread, as a ``Cluster``.

    ``client``: ``distributed.Client`` that is connected to the scheduler.
    ``name``: name of the software that runs the cluster.
    """

    client: Any
    name: str = "dask"

    @classmethod
    def connect(cls, address: str) -> DaskCluster:
        """Connects to the Dask scheduler at ``address``.

        Raises InputError if dask is not installed, or if the scheduler does not answer, has no
        workers, or has workers with several threads.
        """
        try:
            from distributed import Client
            from distributed import comm as comms
        except ImportError as error:
            raise _make_install_error("dask") from error
        _check_reachable(address)

        async def greet() -> None:
            comm = await asyncio.wait_for(comms.connect(address, timeout=_LOOK), _LOOK)
            await comm.close()

        try:
            # A client would wait for ever for a server that is not a scheduler. The thread is for
            # callers with an event loop of their own, such as notebooks.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, greet()).result()
            client = Client(address, timeout=_LOOK, set_as_default=False)
            client.wait_for_workers(1, timeout=_LOOK)
        except (OSError, ValueError, AssertionError) as error:  # a busy scheduler asserts
            raise InputError(
                f"Expected a Dask scheduler and workers at {address!r}, got {type(error).__name__}"
                f" in {_LOOK} s. Start a scheduler and workers, or correct --address."
            ) from error
        threads = max(client.nthreads().values())
        if threads > 1:
            client.close()
            raise InputError(
                f"Expected Dask workers with one thread each, got a worker with {threads} threads. "
                "Start workers with --nthreads 1, and with the number of cores as --nworkers."
            )
        return cls(client)

    def count_workers(self) -> int:
        """Returns the current number of workers."""
        return len(self.client.nthreads())

    def get_memory_bytes(self) -> float:
        """Returns the sum of the workers' memory limits in bytes, or infinity if a worker has no
        limit.
        """
        known = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return sum(float(worker["memory_limit"] or math.inf) for worker in known)

    def run_parallel(
        self, function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
    ) -> Iterator[Result]:
        """Calls ``function`` on the workers with each tuple of ``arguments``, at most ``jobs`` at a
        time; yields results as calls finish.

        Raises exceptions of calls, and IncompleteError if the cluster loses a call repeatedly.
        """
        from distributed import CancelledError, KilledWorker, as_completed

        common, calls = _pack(function, list(arguments))
        # A task, not scattered data: Dask repeats it if every worker that holds its result is lost.
        shared = self.client.submit(_identity, common, pure=False)
        waiting = (self.client.submit(_run_call, shared, call, pure=False) for call in calls)
        first = islice(waiting, None if jobs >= self.count_workers() else jobs)
        running = as_completed(first, loop=self.client.loop)
        try:
            for future in running:
                yield future.result()
                for more in islice(waiting, 1):
                    running.add(more)
        except (KilledWorker, CancelledError) as error:
            raise _make_lost_error(error) from error
        finally:
            self.client.cancel([shared, *running.futures])


@dataclass(frozen=True)
class RayCluster:
    """Cores of the Ray cluster to which this process is connected, as a ``Cluster``.

    ``ray_module``: the module ray.
    ``name``: name of the software that runs the cluster.
    """

    ray_module: Any
    name: str = "ray"

    @classmethod
    def connect(cls, address: str | None) -> RayCluster:
        """Connects to the Ray cluster at ``address``, or on this machine if ``address`` is None.

        Raises InputError if ray is not installed, or if no cluster answers.
        """
        try:
            import ray
        except ImportError as error:
            raise _make_install_error("ray") from error
        if not ray.is_initialized():
            if address not in (None, "auto", "local"):
                _check_reachable(address)
            try:
                ray.init(address=address or "auto", log_to_driver=False)
            except (OSError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"Expected a Ray cluster at {address or 'this machine'!r}, got "
                    f"{type(error).__name__}. Run: ray start --head, or correct --address."
                ) from error
        return cls(ray)

    def count_workers(self) -> int:
        """Returns the current number of cores, each of which runs one call at a time."""
        return max(int(self.ray_module.cluster_resources().get("CPU", 0)), 1)

    def get_memory_bytes(self) -> float:
        """Returns the bytes of memory that Ray reserves for workers, or infinity if Ray does not
        state them.
        """
        return float(self.ray_module.cluster_resources().get("memory", math.inf))

    def run_parallel(
        self, function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
    ) -> Iterator[Result]:
        """Calls ``function`` on the workers with each tuple of ``arguments``, at most ``jobs`` at a
        time; yields results as calls finish.

        Raises exceptions of calls, and IncompleteError if the cluster loses a call repeatedly.
        """
        errors = self.ray_module.exceptions
        common, calls = _pack(function, list(arguments))
        shared = self.ray_module.put(common)
        remote = self.ray_module.remote(num_cpus=1, max_retries=3)(_run_call)
        waiting = (remote.remote(shared, call) for call in calls)
        running = list(islice(waiting, None if jobs >= self.count_workers() else jobs))
        try:
            while running:
                (ready,), running = self.ray_module.wait(running)
                yield self.ray_module.get(ready)
                running += islice(waiting, 1)
        except errors.RayTaskError as error:
            if isinstance(error.cause, AuditError):
                raise error.cause from None
            raise
        except errors.RayError as error:
            raise _make_lost_error(error) from error
        finally:
            for reference in running:
                self.ray_module.cancel(reference)


def connect_cluster(backend: str, address: str | None) -> Cluster | None:
    """Connects to a cluster of workers; returns None if the workers are processes of this machine.

    ``backend``: "dask" or "ray" for a cluster, "loky" for processes of this machine.
    ``address``: address of the cluster, or None.

    Raises InputError for an unknown or missing backend, or an address without a cluster.
    """
    if backend == "ray":
        return RayCluster.connect(address)
    if backend == "dask":
        if address is None:
            raise InputError(
                "Expected the address of a Dask scheduler, got none. Give --address, for example "
                "tcp://10.0.0.1:8786."
            )
        return DaskCluster.connect(address)
    if backend != "loky":
        raise InputError(f"Expected a backend among loky, dask, ray, got {backend!r}. Choose one.")
    if address is not None:
        raise InputError(
            f"Expected no address for workers of this machine, got {address!r}. Leave it out, or "
            "choose a cluster with --backend dask or ray."
        )
    return None


def _check_reachable(address: str) -> None:
    """Raises InputError if nothing accepts a connection at ``address``, which both libraries would
    try for half a minute.
    """
    parts = re.fullmatch(r"(?:(?:tcp|tls|ray)://)?\[?([^/\s]+?)]?:(\d{1,5})/?", address)
    try:
        if parts is None:
            raise ValueError("expected HOST:PORT, such as 10.0.0.1:8786")
        socket.create_connection((parts[1], int(parts[2])), timeout=_LOOK / 2).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(
            f"Expected the address HOST:PORT of a cluster, got {address!r} ({error}). Start the "
            "cluster, or correct --address."
        ) from error


def _pack(
    function: Callable[..., Any], arguments: list[tuple[Any, ...]]
) -> tuple[bytes, list[bytes]]:
    """Pickles the function and the arguments of several calls for workers.

    Returns one pickle of the function and of all arguments that are the same object in all calls,
    and one pickle of the other arguments per call.
    """
    first = arguments[0] if arguments else ()
    shared = {
        i: value for i, value in enumerate(first) if all(each[i] is value for each in arguments)
    }
    own = [{i: value for i, value in enumerate(each) if i not in shared} for each in arguments]
    return cloudpickle.dumps((function, shared, _versions())), [cloudpickle.dumps(o) for o in own]


def _identity(common: bytes) -> bytes:
    return common


def _run_call(common: bytes, own: bytes) -> Any:
    """Runs one call in a worker, while no other call runs in the worker's process.

    ``common``, ``own``: results of ``_pack``: the pickle for all calls, and the pickle for this
        call.

    Raises InputError if the worker has other versions of packages on which results depend.
    """
    function, shared, expected = cloudpickle.loads(common)
    differences = [
        f"{name} {_versions().get(name)} instead of {version}"
        for name, version in expected.items()
        if _versions().get(name) != version
    ]
    if differences:
        raise InputError(
            f"Expected workers with the packages of this machine, got {', '.join(differences)}. "
            "Install the same versions on the workers, because results might differ."
        )
    every = shared | cloudpickle.loads(own)
    with _CALL_LOCK:
        return function(*(every[place] for place in range(len(every))))


@functools.cache
def _versions() -> dict[str, str]:
    """Versions of packages on which results depend, and a digest of the auditor's source code."""
    return {**get_versions(), "source": hash_source()[:16]}


def _make_install_error(name: str) -> InputError:
    return InputError(
        f"Expected {name} to be installed for --backend {name}, got none. "
        f"Run: pip install fedrec-auditor[{name}]"
    )


def _make_lost_error(error: Exception) -> IncompleteError:
    return IncompleteError(
        f"Expected the cluster to finish every task, got {type(error).__name__}: a task was lost "
        "with each worker that ran it, perhaps for lack of memory. Finished tasks are stored; the "
        "same command runs the remaining tasks."
    )
