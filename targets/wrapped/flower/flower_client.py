"""A client of Flower as the client of a wrapped system: one message in, one out, no server."""

from __future__ import annotations

import hashlib
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
from fedrec_auditor.targets.wrapped.flower.mods import TRAIN, Chain, is_app, masks
from fedrec_auditor.targets.wrapped.flower.partition import Partition
from fedrec_auditor.targets.wrapped.history import History

METADATA = "metadata."
"""The beginning of names of what stands beside the arrays."""
LONGEST = 1_024
"""Numbers of a list, or bytes of a text, that are looked at one by one."""
_ALIKE = 1e-5  # seconds of a time to live that doubles lose
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
    are left out: what they mask is what this gives. With ``metadata`` all that stands beside the
    arrays is a part of the message, by record and key ("metadata.RECORD/KEY"): numbers as they are,
    lists and text as ``in_numbers`` makes them, and what an app may set of the reply's envelope.
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
                asked, reply = self._reply(app, model, state)
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
        arrays = arrays_of(reply.content)
        if list(arrays) == [str(at) for at in range(len(model))]:
            arrays = dict(zip(model, arrays.values(), strict=True))
        return {**arrays, **(dict(_beside(asked, reply)) if self.metadata else {})}

    def _app(self, history: History) -> Any:
        if is_app(self.app):
            return self.app
        from flwr.client import Client, NumPyClient
        from flwr.clientapp import ClientApp

        made = self.app(history)
        if is_app(made):
            if self.mods:
                raise InputError(
                    "Expected a client from your function of a history beside mods, got a "
                    "ClientApp. Give its mods to the ClientApp."
                )
            return made
        if not isinstance(made, Client | NumPyClient):
            raise InputError(
                f"Expected a NumPyClient, a Client or a ClientApp, got {type(made).__name__}. "
                "Return one from your function of a history."
            )
        client = made.to_client() if isinstance(made, NumPyClient) else made
        return ClientApp(client_fn=lambda context: client, mods=list(self.mods))

    def _reply(self, app: Any, model: Mapping[str, Any], state: dict[str, Any]) -> tuple[Any, Any]:
        """The message that the app is sent, and its reply."""
        from flwr.app import Context, RecordDict
        from flwr.client.mod import make_ffn

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
            return asked, app(asked, context)
        kept = [mod for mod in chain.mods if not masks(mod)]
        with app._lifespan(context):
            return asked, make_ffn(chain.call, kept)(asked, context)


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


def _beside(asked: Any, reply: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """All of a reply but its arrays: of a record without keys that it is there."""
    for records in (reply.content.metric_records, reply.content.config_records):
        for place, record in records.items():
            for name, value in record.items() if len(record) else [("", 0)]:
                yield f"{METADATA}{place}/{name}", in_numbers(value)
    before, after = asked.metadata, reply.metadata
    left = before.created_at + before.ttl - after.created_at  # seconds: what Flower sets itself
    words = (after.message_type, after.group_id, after.dst_node_id, after.src_node_id)
    yield f"{METADATA}envelope/words", in_numbers(repr(words))
    usual = abs(after.ttl - left) < _ALIKE
    yield f"{METADATA}envelope/ttl", np.array([-1.0 if usual else after.ttl])


def in_numbers(value: Any) -> NDArray[np.float64]:
    """A value of a record as numbers: a number (1,), a text or a list (LONGEST + 9,).

    These are the length, the first bytes or numbers, and eight bytes of a digest of the others, so
    that messages of any length have one shape. Whole numbers that no double holds are text.
    """
    values = value if isinstance(value, list) else [value]
    if all(isinstance(v, bool | int | float) and (float(v) == v or v != v) for v in values):
        numbers = np.array(values, np.float64)
        if not isinstance(value, list):
            return numbers
    else:
        text = value if isinstance(value, bytes) else str(value).encode()
        numbers = np.frombuffer(text, np.uint8).astype(np.float64)
    shown = np.zeros(LONGEST)
    shown[: len(numbers)] = numbers[:LONGEST]
    digest = hashlib.sha256(numbers[LONGEST:].tobytes()).digest()[:8]
    return np.concatenate([[len(numbers)], shown, np.frombuffer(digest, np.uint8)])


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the lines that mods log at every message."""
    logger = logging.getLogger("flwr")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
