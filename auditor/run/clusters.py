"""Clusters: calls run by the workers of Dask or of Ray, with the answers of one process.

Nothing of this machine's is used there but what is sent: a worker reads and writes no file of the
run directory, so that none need be shared. What all calls have in common is sent once, and every
call takes a copy of its own of it. A call whose worker is lost is run again by another.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

import cloudpickle

from fedrec_auditor.accountants.errors import AuditError, IncompleteError, InputError
from fedrec_auditor.auditor.plan.versions import source_digest, versions

Result = TypeVar("Result")
_LOOK = 10  # seconds for which a cluster is looked for
_ALONE = threading.Lock()  # threads of a process share the number of threads and random states


class Cluster(Protocol):
    """Workers on any machines, each of which runs one call at a time."""

    @property
    def name(self) -> str:
        """Its backend's."""

    def workers(self) -> int:
        """How many there are now."""

    def memory(self) -> float:
        """The bytes that all of them together may take."""

    def results(
        self, function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
    ) -> Iterator[Result]:
        """``function`` of each of ``arguments``, as they finish, at most ``jobs`` at a time.

        What a call raises is raised here. InputError if a worker has other versions of what the
        numbers depend on; IncompleteError if the cluster loses a call again and again.
        """


@dataclass(frozen=True)
class DaskCluster:
    """The workers of a scheduler of Dask, each of one thread, by its client."""

    client: Any
    name: str = "dask"

    @classmethod
    def connected(cls, address: str) -> DaskCluster:
        """By ``address``; InputError if no scheduler or no worker of one thread is there."""
        try:
            from distributed import Client
        except ImportError as error:
            raise _not_installed("dask") from error
        try:
            client = Client(address, timeout=_LOOK, set_as_default=False)
            client.wait_for_workers(1, timeout=_LOOK)
        except (OSError, ValueError, AssertionError) as error:  # a busy one breaks its handshake
            raise InputError(
                f"Expected a scheduler of Dask with workers at {address!r}, got "
                f"{type(error).__name__} within {_LOOK} s. Start both, or mend --address."
            ) from error
        threads = max(client.nthreads().values())
        if threads > 1:
            client.close()
            raise InputError(
                f"Expected workers of Dask of one thread each, got one of {threads}. Start them "
                "with --nthreads 1, and as many as there are cores with --nworkers."
            )
        return cls(client)

    def workers(self) -> int:
        """How many there are now."""
        return len(self.client.nthreads())

    def memory(self) -> float:
        """The sum of their limits; infinite if one has none."""
        known = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return sum(float(worker["memory_limit"] or math.inf) for worker in known)

    def results(
        self, function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
    ) -> Iterator[Result]:
        """See ``Cluster``."""
        from distributed import CancelledError, KilledWorker, as_completed

        common, calls = _packed(function, list(arguments))
        # A task, not scattered data: it is made again when every worker that holds it is lost.
        shared = self.client.submit(_same, common, pure=False)
        waiting = (self.client.submit(_call, shared, call, pure=False) for call in calls)
        first = islice(waiting, None if jobs >= self.workers() else jobs)
        running = as_completed(first, loop=self.client.loop)
        try:
            for future in running:
                yield future.result()
                for more in islice(waiting, 1):
                    running.add(more)
        except (KilledWorker, CancelledError) as error:
            raise _lost(error) from error
        finally:
            self.client.cancel([shared, *running.futures])


@dataclass(frozen=True)
class RayCluster:
    """The cores of a cluster of Ray, to which this process is connected."""

    ray: Any
    name: str = "ray"

    @classmethod
    def connected(cls, address: str | None) -> RayCluster:
        """By ``address``, by default the one that runs on this machine; InputError without one."""
        try:
            import ray
        except ImportError as error:
            raise _not_installed("ray") from error
        if not ray.is_initialized():
            try:
                ray.init(address=address or "auto", log_to_driver=False)
            except (OSError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"Expected a cluster of Ray at {address or 'this machine'!r}, got "
                    f"{type(error).__name__}. Start one with ray start --head, or mend --address."
                ) from error
        return cls(ray)

    def workers(self) -> int:
        """The cores there are now."""
        return max(int(self.ray.cluster_resources().get("CPU", 0)), 1)

    def memory(self) -> float:
        """What Ray counts as the memory of workers."""
        return float(self.ray.cluster_resources().get("memory", math.inf))

    def results(
        self, function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], *, jobs: int
    ) -> Iterator[Result]:
        """See ``Cluster``."""
        errors = self.ray.exceptions
        common, calls = _packed(function, list(arguments))
        shared = self.ray.put(common)
        remote = self.ray.remote(num_cpus=1, max_retries=3)(_call)
        waiting = (remote.remote(shared, call) for call in calls)
        running = list(islice(waiting, None if jobs >= self.workers() else jobs))
        try:
            while running:
                (ready,), running = self.ray.wait(running)
                yield self.ray.get(ready)
                running += islice(waiting, 1)
        except errors.RayTaskError as error:
            if isinstance(error.cause, AuditError):
                raise error.cause from None
            raise
        except errors.RayError as error:
            raise _lost(error) from error
        finally:
            for reference in running:
                self.ray.cancel(reference)


def connect(backend: str, address: str | None) -> Cluster | None:
    """The cluster at ``address``; None for "loky", which is worker processes of this machine.

    InputError for another backend, one that is not installed, or an address where none answers.
    """
    if backend == "ray":
        return RayCluster.connected(address)
    if backend == "dask":
        if address is None:
            raise InputError(
                "Expected the address of a scheduler of Dask, got none. Give it with --address, "
                "for example tcp://10.0.0.1:8786."
            )
        return DaskCluster.connected(address)
    if backend != "loky":
        raise InputError(f"Expected a backend among loky, dask, ray, got {backend!r}. Choose one.")
    if address is not None:
        raise InputError(
            f"Expected no address for workers of this machine, got {address!r}. Leave it out, or "
            "name a cluster with --backend dask or ray."
        )
    return None


def _packed(
    function: Callable[..., Any], arguments: list[tuple[Any, ...]]
) -> tuple[bytes, list[bytes]]:
    """What all calls have in common, the very same objects, and what each has of its own."""
    first = arguments[0] if arguments else ()
    alike = {
        place: value
        for place, value in enumerate(first)
        if all(each[place] is value for each in arguments)
    }
    own = [
        {place: value for place, value in enumerate(each) if place not in alike}
        for each in arguments
    ]
    return cloudpickle.dumps((function, alike, _numbers())), [cloudpickle.dumps(o) for o in own]


def _same(common: bytes) -> bytes:
    return common


def _call(common: bytes, own: bytes) -> Any:
    """Run one call in a worker, alone in its process."""
    function, alike, expected = cloudpickle.loads(common)
    others = [
        f"{name} {_numbers().get(name)} instead of {version}"
        for name, version in expected.items()
        if _numbers().get(name) != version
    ]
    if others:
        raise InputError(
            f"Expected workers with what is installed here, got {', '.join(others)}. Install the "
            "same there: results might differ."
        )
    every = alike | cloudpickle.loads(own)
    with _ALONE:
        return function(*(every[place] for place in range(len(every))))


@functools.cache
def _numbers() -> dict[str, str]:
    """The versions of all that the numbers depend on, our own source included."""
    return {**versions(), "source": source_digest()[:16]}


def _not_installed(name: str) -> InputError:
    return InputError(
        f"Expected {name} to be installed for --backend {name}, got none. "
        f"Run: pip install fedrec-auditor[{name}]"
    )


def _lost(error: Exception) -> IncompleteError:
    return IncompleteError(
        f"Expected the cluster to finish every task, got {type(error).__name__}: a task was lost "
        "with each worker that ran it, perhaps for want of memory. Finished tasks are kept; the "
        "same command runs the others."
    )
