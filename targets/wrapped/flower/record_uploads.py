"""Recordings of what crosses in a training of Flower, for ``auditor attack``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.recorded.recording_writer import RecordingWriter
from fedrec_auditor.targets.wrapped.flower.flower_client import arrays_of, named
from fedrec_auditor.targets.wrapped.flower.mods import TRAIN

_ROUND = "server-round"


class RecordUploads:
    """Writes the models that are sent down, and the updates that are sent up, to a recording.

    On clients it is a mod, the first of ``ClientApp(mods=[RecordUploads(...), ...])``: it sees what
    leaves the device, after all others. On the server ``watch(strategy)`` records instead what
    reaches a strategy. Numbers beside the arrays are not recorded.

    Parameters
    ----------
    path : the directory of the recording; all clients may write to the same one.
    n_items : number of items of the catalogue.
    sender : what names a client: a key of its ``node_config``, such as "partition-id", or None for
        the node's id. The server knows the latter only.
    writer : anything with the methods ``round(number, broadcast)``, ``upload(sender, arrays)`` and
        ``close(release)``; by default a ``RecordingWriter`` at ``path``.
    settings : of the ``RecordingWriter``, such as ``algorithm`` and ``items``.

    InputError for a message from which no round can be told, and for what the writer refuses.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_items: int,
        sender: str | None = None,
        writer: Any = None,
        **settings: Any,
    ) -> None:
        self.path = Path(path)
        self.sender = sender
        self._settings = {"n_items": n_items, "kinds": "model", **settings}
        self._given = writer
        self._made: Any = None
        self._release: dict[str, Any] | None = None

    def __call__(self, message: Any, context: Any, call_next: Callable[..., Any]) -> Any:
        """Record one TRAIN message and its reply, as a mod."""
        if message.metadata.message_type.partition(".")[0] != TRAIN:
            return call_next(message, context)
        number, model = _round(message), arrays_of(message.content)
        reply = call_next(message, context)
        if not reply.has_error():
            self._begin(number, model)
            node = context.node_id if self.sender is None else context.node_config[self.sender]
            self._writer.upload(node, arrays_of(reply.content))
        return reply

    def watch(self, strategy: Any) -> Any:
        """The same strategy, of either interface, which records each round that it aggregates."""
        for configure, aggregate, sent in (
            ("configure_train", "aggregate_train", self._replies),
            ("configure_fit", "aggregate_fit", self._results),
        ):
            if hasattr(strategy, aggregate):
                self._watch(strategy, configure, aggregate, sent)
                return strategy
        raise InputError(
            f"Expected a strategy of Flower to watch, got {type(strategy).__name__}. Give the one "
            "that your server runs."
        )

    def close(self) -> None:
        """End the recording, with the last model that a watched strategy made."""
        self._writer.close(self._release)

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens the recording anew."""
        return {**self.__dict__, "_made": None}

    @property
    def _writer(self) -> Any:
        if self._made is None:
            self._made = self._given or RecordingWriter(self.path, **self._settings)
        return self._made

    def _begin(self, number: int, model: Mapping[str, Any]) -> None:
        try:
            self._writer.round(number, model)
        except InputError:  # another client has written it
            self._writer.round(number)

    def _watch(
        self, strategy: Any, configure: str, aggregate: str, sent: Callable[..., Any]
    ) -> None:
        configured, aggregated = getattr(strategy, configure), getattr(strategy, aggregate)

        def configuring(server_round: int, model: Any, *more: Any, **others: Any) -> Any:
            self._writer.round(server_round, _model(model))
            return configured(server_round, model, *more, **others)

        def aggregating(server_round: int, replies: Iterable[Any], *more: Any) -> Any:
            listed = list(replies)
            for sender, arrays in sent(listed):
                self._writer.upload(sender, arrays)
            made = aggregated(server_round, listed, *more)
            self._release = None if made[0] is None else _model(made[0])
            return made

        setattr(strategy, configure, configuring)
        setattr(strategy, aggregate, aggregating)

    def _replies(self, replies: list[Any]) -> Iterable[tuple[int, dict[str, Any]]]:
        for reply in replies:
            if not reply.has_error():
                yield reply.metadata.src_node_id, arrays_of(reply.content)

    def _results(self, results: list[Any]) -> Iterable[tuple[Any, dict[str, Any]]]:
        for client, result in results:
            yield client.cid, _model(result.parameters)


def _model(model: Any) -> dict[str, Any]:
    """The arrays of an ArrayRecord, or of the Parameters of the older interface."""
    if isinstance(model, Mapping):
        return named(model)
    from flwr.common import parameters_to_ndarrays

    return named(parameters_to_ndarrays(model))


def _round(message: Any) -> int:
    for record in message.content.config_records.values():
        if _ROUND in record:
            return int(np.asarray(record[_ROUND]))
    if message.metadata.group_id.isdecimal():
        return int(message.metadata.group_id)
    raise InputError(
        f"Expected the number of the round in a message, as {_ROUND!r} of its config or as its "
        "group, got neither. Send one in the strategy's config."
    )
