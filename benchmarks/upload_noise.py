"""Time of clipping and Laplace noise on a round's uploads: numpy, one stream per device, and ours.

25 devices send an item table of MovieLens 1M, 3,706 x 64 floats each. numpy draws all noise from
one generator. With one stream per device, the same noise can be drawn again, entry by entry, and
need not be stored. The implementations take turns, so that the machine's load does not change the
ratio.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import Row, time_best
from fedrec_auditor.targets.noise_kernel import add_laplace
from fedrec_auditor.targets.streams import Streams

CLIENTS, SIZE, CLIP, SCALE = 25, 3706 * 64, 0.5, 1 / 60
JOB = f"{CLIENTS} uploads of {SIZE:,} entries"


def measure() -> tuple[Row, ...]:
    rng = np.random.default_rng(0)
    sent = rng.normal(size=(CLIENTS, SIZE)).astype(np.float32)
    streams, out = Streams.spawn(rng, CLIENTS), np.empty_like(sent)

    def add_by_generator() -> None:
        out[:] = np.clip(sent, -CLIP, CLIP) + rng.laplace(scale=SCALE, size=sent.shape)

    def add_by_streams() -> None:
        for client in range(CLIENTS):
            draws = streams.take(np.array([client])).draw_laplace(SIZE)[0]
            out[client] = np.clip(sent[client], -CLIP, CLIP) + SCALE * draws

    def add_fused() -> None:
        add_laplace(sent, streams.seeds, CLIP, SCALE, out)

    ways: dict[str, Callable[[], None]] = {
        "numpy, one generator": add_by_generator,
        "streams, in numpy": add_by_streams,
        "ours: streams, fused": add_fused,
    }
    add_fused()  # compiled before it is timed
    seconds = time_best(ways)
    return tuple(
        Row(job=JOB, way=way, seconds=seconds[way], work=sent.size, unit="entries") for way in ways
    )
