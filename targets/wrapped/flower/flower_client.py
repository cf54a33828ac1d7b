"""A client of Flower as the client of a wrapped system: one message in, one out, no server."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.flower.mods import TRAIN, Chain, is_app, masks, surrounded
from fedrec_auditor.targets.wrapped.flower.partition import Partition
from fedrec_auditor.targets.wrapped.history import History

METADATA = "metadata."
"""What the names of numbers beside the arrays begin with."""
_STATUS = "fitres.status"
_CLIPPING = ("clip_inputs_inplace", "adaptive_clip_inputs_inplace")
_TTL = 1e6  # seconds: no message expires

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerClient:
    """``client(history, model, rng, state)`` of an app: the arrays of its reply to a TRAIN message.

    ``app`` is a ``ClientApp`` with a ``partition``, or a function of a history that makes a
    ``NumPyClient``, a ``Client`` or a ``ClientApp``; the first two run within ``mods``. Its context
    has ``node_config`` and ``run_config``, and the device's own state; "server-round" in the
    ``config`` that the server sends counts the messages to the device. Mods of secure aggregation
    are left out: what they mask is what this gives. With ``metadata`` the numbers beside the arrays
    are parts of the message, under names that begin with "metadata.".
    """

    app: Any
    mods: tuple[Any, ...] = ()
    partition: Partition | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    run_config: Mapping[str, Any] = field(default_factory=dict)
    node_config: Mapping[str, Any] = field(default_factory=dict)
    metadata: bool = False
    upload_seconds: ClassVar[float] = 1 / 256

    @property
    def __code__(self) -> CodeType | None:
        """That of the app's own function, so that errors name its lines."""
        function = Chain.of(self.app).own if is_app(self.app) else self.app
        found: CodeType | None = getattr(function, "__code__", None)
        return found

    def __call__(
        self, history: History, model: Mapping[str, Any], rng: object, state: dict[str, Any]
    ) -> Arrays:
        """The arrays that the app sends, named as those of ``model``."""
        app = self._app(history)
        held = nullcontext() if self.partition is None else self.partition.holding(history)
        state["asked"] = state.get("asked", 0) + 1
        with held, _quiet():
            try:
                reply = self._reply(app, model, state)
            except ZeroDivisionError as error:
                if traceback.extract_tb(error.__traceback__)[-1].name not in _CLIPPING:
                    raise
                raise InputError(
                    "Expected an update to clip, got none: Flower divides by its norm, which is 0 "
                    f"as the app leaves the model as it was for a history of {len(history)} items. "
                    "Let every device train, or leave it out before it is asked."
                ) from error
            if reply.has_error():
                raise InputError(f"Flower replies with an error: {reply.error.reason}")
        return self._taken(reply.content, model)

    def _app(self, history: History) -> Any:
        if is_app(self.app):
            return self.app
        from flwr.client import Client, NumPyClient
        from flwr.clientapp import ClientApp

        made = self.app(history)
        if is_app(made):
            return made
        if not isinstance(made, Client | NumPyClient):
            raise InputError(
                f"Expected a NumPyClient, a Client or a ClientApp, got {type(made).__name__}. "
                "Return one from your function of a history."
            )
        client = made.to_client() if isinstance(made, NumPyClient) else made
        return ClientApp(client_fn=lambda context: client, mods=list(self.mods))

    def _reply(self, app: Any, model: Mapping[str, Any], state: dict[str, Any]) -> Any:
        from flwr.app import Context, RecordDict

        chain = Chain.of(app)
        context = Context(
            run_id=1,
            node_id=1,
            node_config={"partition-id": 0, "num-partitions": 1, **self.node_config},
            state=state.setdefault("kept", RecordDict()),
            run_config=dict(self.run_config),
        )
        asked = message({"server-round": state["asked"], **self.config}, model, chain.legacy)
        if not any(map(masks, chain.mods)):
            return app(asked, context)
        kept = tuple(mod for mod in chain.mods if not masks(mod))
        with app._lifespan(context):
            return surrounded(chain.call, kept)(asked, context)

    def _taken(self, content: Any, model: Mapping[str, Any]) -> Arrays:
        arrays = arrays_of(content)
        if list(arrays) == [str(at) for at in range(len(model))]:
            arrays = dict(zip(model, arrays.values(), strict=True))
        return {**arrays, **(dict(_numbers(content)) if self.metadata else {})}


def message(config: Mapping[str, Any], model: Mapping[str, Any], legacy: bool) -> Any:
    """A TRAIN message of a server that sends ``model``: as a strategy of either API makes it."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    if legacy:
        from flwr.common import FitIns, ndarrays_to_parameters
        from flwr.compat.common.recorddict_compat import fitins_to_recorddict

        sent = FitIns(ndarrays_to_parameters(list(model.values())), dict(config))
        return envelope(fitins_to_recorddict(sent, keep_input=True))
    arrays = ArrayRecord({name: Array(np.asarray(each)) for name, each in model.items()})
    return envelope(RecordDict({"arrays": arrays, "config": ConfigRecord(dict(config))}))


def envelope(content: Any, node: int = 1) -> Any:
    """A message with this content, to or from a node, outside of any run of Flower."""
    from flwr.app import Metadata
    from flwr.app.message.message import make_message

    metadata = Metadata(
        run_id=1,
        message_id="",
        src_node_id=node,
        dst_node_id=node,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=_TTL,
        message_type=TRAIN,
    )
    return make_message(metadata=metadata, content=content)


def named(model: Any) -> Arrays:
    """A model's arrays by name: of a torch module, a state_dict, an ArrayRecord, or a list."""
    if hasattr(model, "state_dict"):
        model = model.state_dict()
    if isinstance(model, Mapping):
        return {str(name): _array(each) for name, each in model.items()}
    if not isinstance(model, list | tuple):
        model = [model]
    return {str(at): _array(each) for at, each in enumerate(model)}


def arrays_of(content: Any) -> Arrays:
    """The arrays of a message, named after their records too if there are several of these."""
    records = content.array_records
    if len(records) == 1:
        return named(next(iter(records.values())))
    return {f"{at}.{name}": a for at, each in records.items() for name, a in named(each).items()}


def _array(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _numbers(content: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    for records in (content.metric_records, content.config_records):
        for place, record in records.items():
            for name, value in record.items() if place != _STATUS else ():
                array = np.atleast_1d(np.asarray(value))
                if array.dtype.kind in "biuf":
                    yield METADATA + name, array.astype(np.float64)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the lines that mods log at every message."""
    logger = logging.getLogger("flwr")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
