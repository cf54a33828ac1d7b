"""Clients of a Flower app, run on one history each, and the parts of their replies."""

from __future__ import annotations

import hashlib
import inspect
import logging
import pkgutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.recorded.recording_writer import RecordingWriter
from fedrec_auditor.targets.wrapped.client import History, takes
from fedrec_auditor.targets.wrapped.flower.flower_promise import TRAIN, Chain, is_app, masks

_ANSWERS: list[_Answer] = []


@dataclass(frozen=True, slots=True)
class Partition:
    """A ``loader`` of an app, and what it returns instead while a history is audited.

    ``adapt(history)`` gives what the app expects; where it needs more arguments, it is given those
    of the app's call behind the history. The loader's code is exchanged, not its name: it is the
    same function wherever the app has imported it. What it caches (``functools.cache``) is cleared.
    """

    loader: Callable[..., Any]
    adapt: Callable[..., Any]

    @classmethod
    def of(cls, loader: str | Callable[..., Any], adapt: Callable[..., Any] | None) -> Partition:
        """Of a function, or of its name: "module:function" or "module.function".

        InputError if there is none, or if it is not written in Python.
        """
        found: Any = loader
        if isinstance(loader, str):
            try:
                found = pkgutil.resolve_name(loader)
            except (ImportError, AttributeError, ValueError) as error:
                raise InputError(
                    f"Expected data to name the function by which the app loads its partition, got "
                    f"{loader!r} ({error}). Write module:function."
                ) from error
        if not isinstance(inspect.unwrap(getattr(found, "__func__", found)), FunctionType):
            raise InputError(
                f"Expected data to be a function of the app in Python, got {found!r:.60}. Name the "
                "function that returns the device's data."
            )
        return cls(getattr(found, "__func__", found), adapt or (lambda history: history))

    @property
    def name(self) -> str:
        """Its name, for errors."""
        return str(self.loader.__qualname__)

    @contextmanager
    def holding(self, history: History) -> Iterator[None]:
        """The loader answers with this history; InputError if nobody asks it."""
        function: Any = inspect.unwrap(self.loader)
        answer, code = _Answer(self.adapt, history), function.__code__
        self._forget()
        _ANSWERS.append(answer)
        function.__code__ = _asking(code)
        try:
            yield
        finally:
            function.__code__ = code
            _ANSWERS.pop()
            self._forget()
        if not answer.asked:
            raise InputError(
                f"Expected the app to call {self.name} for its data, it did not: its message "
                "cannot depend on the history. Give as data the function by which it loads them."
            )

    def _forget(self) -> None:
        function: Any = self.loader
        while function is not None:
            if hasattr(function, "cache_clear"):
                function.cache_clear()
            function = getattr(function, "__wrapped__", None)


@dataclass(slots=True)
class _Answer:
    adapt: Callable[..., Any]
    history: History
    asked: bool = False


def answered(*args: Any, **more: Any) -> Any:
    """What the loader that is called with these arguments returns."""
    answer = _ANSWERS[-1]
    answer.asked = True
    if takes(answer.adapt, 2):
        return answer.adapt(answer.history, *args, **more)
    return answer.adapt(answer.history)


def _stub(*args: Any, **more: Any) -> Any:
    # The app's module has its globals.
    from fedrec_auditor.targets.wrapped.flower.flower_client import answered

    return answered(*args, **more)


def _asking(code: CodeType) -> CodeType:
    """Code that asks ``answered``, for a function with the free variables of ``code``."""
    return _stub.__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)


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
