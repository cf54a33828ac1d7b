"""What only affects the speed: workers, and where and how each simulates clients."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.run.clusters import Cluster, connect
from fedrec_auditor.targets.compute import DEFAULT, SHARE, Compute, reach


@dataclass(frozen=True, slots=True)
class Resources:
    """What only affects the speed: workers, and where and how each simulates clients.

    A training that by its settings takes more than ``memory`` bytes is refused. The last bits of
    floating-point results may depend on the device, which the record names. Workers are processes
    of this machine unless there is a ``cluster``.

    >>> make_resources(2).jobs
    2
    """

    jobs: int
    compute: Compute = DEFAULT
    memory: float = math.inf
    cluster: Cluster | None = None


def make_resources(
    jobs: int | None = None,
    device: str = "cpu",
    memory: float | None = None,
    backend: str = "loky",
    address: str | None = None,
) -> Resources:
    """Resources with ``jobs`` workers, by default one a core, that simulate on ``device``.

    ``memory`` is that of all together in GiB, by default this machine's; messages that exceed a
    quarter of a worker's share, and 2 GiB, are kept on disk. With ``backend`` "dask" or "ray" the
    workers are those of the cluster at ``address``, and by default all of them and their memory.
    InputError if jobs or memory are not positive, torch cannot reach the device, or no cluster
    answers.
    """
    cluster = connect(backend, address)
    if cluster is not None and device != "cpu":
        raise InputError(
            f"Expected the device cpu on a cluster, got {device!r}. Leave it out, or audit on this "
            "machine without --backend."
        )
    cores = (os.cpu_count() or 1) if cluster is None else cluster.workers()
    count = cores if jobs is None else jobs
    if count < 1:
        raise InputError(f"Expected jobs of at least 1, got jobs={count}. Leave it out for all.")
    if device != "cpu":
        reach(device)
    if memory is not None and not 0 < memory < math.inf:
        raise InputError(
            f"Expected a positive memory in GiB, got memory={memory!r}. Leave it out for all."
        )
    there = physical_memory() if cluster is None else cluster.memory()
    size = there if memory is None else memory * 2**30
    kept = int(min(DEFAULT.memory, size * SHARE / count))
    compute = Compute(device=device, memory=kept)
    return Resources(jobs=count, compute=compute, memory=size, cluster=cluster)


def physical_memory() -> float:
    """The bytes of memory of this machine; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
