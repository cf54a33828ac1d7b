"""Resources of an audit: number of workers, device, memory and cluster."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.run.clusters import Cluster, connect_cluster
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, UPLOAD_RAM_SHARE, Machine, check_device

# Maximum number of threads of a worker, which use the cores of workers that have finished. Each
# thread holds up to 30 MiB of messages.
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class Resources:
    """Workers, device and memory of an audit.

    - ``jobs``: number of workers.
    - ``machine``: device of each worker, and its memory for stored messages. The device may affect
      the last bits of floating-point results.
    - ``max_bytes``: limit of the memory of a training, in bytes. A training whose settings need
      more is refused.
    - ``cluster``: cluster of the workers, or None for processes of this machine.

    >>> make_resources(2).jobs
    2
    """

    jobs: int
    machine: Machine = DEFAULT_MACHINE
    max_bytes: float = math.inf
    cluster: Cluster | None = None


def make_resources(
    jobs: int | None = None,
    device: str = "cpu",
    memory: float | None = None,
    backend: str = "loky",
    address: str | None = None,
) -> Resources:
    """Creates the resources of an audit.

    - ``jobs``: number of workers. The default is the number of cores, or of workers of the cluster.
    - ``device``: device on which each worker simulates clients, as torch names it.
    - ``memory``: memory that all workers together may use, in GiB. The default is the memory of
      this machine or of the cluster.
    - ``backend``: "loky" for processes of this machine, "dask" or "ray" for a cluster.
    - ``address``: address of the cluster.

    Raises InputError for invalid arguments, or if no cluster answers.
    """
    cluster = connect_cluster(backend, address)
    if cluster is not None and device != "cpu":
        raise InputError(
            f"Expected --device cpu on a cluster, got {device!r}. Leave --device out, or leave "
            "--backend out to audit on this machine."
        )
    cores = (os.cpu_count() or 1) if cluster is None else cluster.count_workers()
    count = cores if jobs is None else jobs
    if count < 1:
        raise InputError(f"Expected jobs >= 1, got jobs={count}. Omit jobs to use all cores.")
    if device != "cpu":
        check_device(device)
    if memory is not None and not 0 < memory < math.inf:
        raise InputError(
            f"Expected a positive memory in GiB, got memory={memory!r}. Omit memory to use all."
        )
    available = detect_memory_bytes() if cluster is None else cluster.get_memory_bytes()
    size = available if memory is None else memory * 2**30
    # A worker keeps messages in a quarter of its share, and at most 2 GiB; the rest goes to disk.
    stored = int(min(DEFAULT_MACHINE.memory, size * UPLOAD_RAM_SHARE / count))
    threads = min(count, _MAX_THREADS) if cluster is None else 1
    machine = Machine(device=device, threads=threads, memory=stored)
    return Resources(jobs=count, machine=machine, max_bytes=size, cluster=cluster)


def detect_memory_bytes() -> float:
    """Returns the bytes of memory of this machine; infinity if the operating system does not report
    the number.
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
