"""A client function that runs a Flower app on one history, and a recorder of the app's uploads."""

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
from fedrec_auditor.targets.wrapped.client import History, requires_arguments
from fedrec_auditor.targets.wrapped.flower.flower_promise import (
    TRAIN_MESSAGE_TYPE,
    ModChain,
    is_app,
    is_secagg_mod,
)

_ANSWERS: list[_Answer] = []


# The code object of the loader is replaced instead of its name, so that the replacement works
# wherever the app has imported the function.
@dataclass(frozen=True, slots=True)
class LoaderPatch:
    """Temporary replacement of a Flower app's data loader by a function that returns given data.

    loader: the app's function that loads its data; its caches (``functools.cache``) are cleared
    adapt_history: function that converts a history to the form that the app expects. A function
        that requires two or more arguments also gets the arguments of the loader
    """

    loader: Callable[..., Any]
    adapt_history: Callable[..., Any]

    @classmethod
    def create(
        cls, loader: str | Callable[..., Any], adapt_history: Callable[..., Any] | None
    ) -> LoaderPatch:
        """Creates a replacement of the function by which a Flower app loads its data.

        loader: the app's function, or its name as "module:function" or "module.function"
        adapt_history: function that converts a user's history to the form that the app expects;
            None if the app takes a history unconverted

        Raises InputError if the loader does not exist, or is not written in Python.
        """
        function: Any = loader
        if isinstance(loader, str):
            try:
                function = pkgutil.resolve_name(loader)
            except (ImportError, AttributeError, ValueError) as error:
                raise InputError(
                    f"Expected data to name the function by which the app loads its partition, got "
                    f"{loader!r} ({error}). Write the name as module:function."
                ) from error
        if not isinstance(inspect.unwrap(getattr(function, "__func__", function)), FunctionType):
            raise InputError(
                f"Expected data to name a function written in Python, got {function!r:.60}. Name "
                "the app's function that returns the device's data."
            )
        return cls(getattr(function, "__func__", function), adapt_history or (lambda h: h))

    @property
    def name(self) -> str:
        """Qualified name of the app's loader, for error messages."""
        return str(self.loader.__qualname__)

    @contextmanager
    def replace_data(self, history: History) -> Iterator[None]:
        """Context in which the app's loader returns the data of ``history``.

        At its end, the context raises InputError if the app has not called the loader.
        """
        function: Any = inspect.unwrap(self.loader)
        answer, code = _Answer(self.adapt_history, history), function.__code__
        self._clear_caches()
        _ANSWERS.append(answer)
        function.__code__ = _make_stub_code(code)
        try:
            yield
        finally:
            function.__code__ = code
            _ANSWERS.pop()
            self._clear_caches()
        if not answer.is_used:
            raise InputError(
                f"Expected the app to load its data by {self.name} (argument data), got no call of "
                "it. Set data to the function that the app calls to load its data."
            )

    def _clear_caches(self) -> None:
        function: Any = self.loader
        while function is not None:
            if hasattr(function, "cache_clear"):
                function.cache_clear()
            function = getattr(function, "__wrapped__", None)


@dataclass(slots=True)
class _Answer:
    adapt: Callable[..., Any]
    history: History
    is_used: bool = False


def load_history(*args: Any, **more: Any) -> Any:
    """Returns the data of the history under test, in the form that the app expects.

    In the context ``LoaderPatch.replace_data``, the app's loader calls this function. ``args`` and
    ``more`` are the arguments that the app passes to its loader.
    """
    answer = _ANSWERS[-1]
    answer.is_used = True
    if requires_arguments(answer.adapt, 2):
        return answer.adapt(answer.history, *args, **more)
    return answer.adapt(answer.history)


def _stub(*args: Any, **more: Any) -> Any:
    # This code runs with the globals of the app's module.
    from fedrec_auditor.targets.wrapped.flower.flower_client import load_history

    return load_history(*args, **more)


def _make_stub_code(code: CodeType) -> CodeType:
    """Returns code that calls ``load_history``, for a function with the free variables of
    ``code``.
    """
    return _stub.__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)


# Beginning of the names of a reply's metadata (data other than the trained arrays).
METADATA_PREFIX = "metadata."
# Number of elements of a list, or of bytes of a text, that ``encode_value`` keeps unchanged.
MAX_METADATA_ELEMENTS = 1_024
_ALIKE = 1e-5  # rounding error of a time to live, in seconds
_CLIPPING = ("clip_inputs_inplace", "adaptive_clip_inputs_inplace")
_TTL = 1e6  # seconds: no message expires

# Arrays of a Flower message, by name.
ArraysByName = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerClient:
    """A Flower app as a client function: it returns the app's reply to a TRAIN message, before
    masking.

    app: a ``ClientApp`` that loads its data by a ``loader``, or a function of a history that
        creates a ``NumPyClient``, a ``Client`` or a ``ClientApp``
    mods: mods (wrappers) around a ``NumPyClient`` or a ``Client``. Mods for secure aggregation are
        left out
    loader: replacement of the function by which the app loads its data; None if ``app`` is a
        function of a history
    config: configuration that the server sends; its entry "server-round" counts the messages to
        this device
    run_config, node_config: configurations in the app's context, which also has the device's state
    has_metadata: whether the upload also contains the metadata of the reply: data other than the
        trained arrays, and fields of Flower's envelope that an app may set. Metadata have names
        such as "metadata.RECORD/KEY"
    upload_seconds: estimated time to compute one upload, in seconds (class attribute)
    """

    app: Any
    mods: tuple[Any, ...] = ()
    loader: LoaderPatch | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    run_config: Mapping[str, Any] = field(default_factory=dict)
    node_config: Mapping[str, Any] = field(default_factory=dict)
    has_metadata: bool = False
    upload_seconds: ClassVar[float] = 1 / 256

    @property
    def __code__(self) -> CodeType | None:
        """Code of the function that the app's owner wrote, whose lines error messages state.

        None if the function is not written in Python.
        """
        function = ModChain.from_app(self.app).owner_function if is_app(self.app) else self.app
        code: CodeType | None = getattr(function, "__code__", None)
        return code

    def __call__(
        self, history: History, model: Mapping[str, Any], rng: object, state: dict[str, Any]
    ) -> ArraysByName:
        """Trains the app on ``history``, and returns the arrays of its reply by name.

        model: the broadcast model, as arrays by name. An unnamed reply of the same length gets
            these names
        rng: not used
        state: the device's dictionary, which persists between rounds

        Raises InputError if the app replies with an error, or if Flower divides by the norm 0 of an
        update.
        """
        app = self._make_app(history)
        loading = nullcontext() if self.loader is None else self.loader.replace_data(history)
        state["asked"] = state.get("asked", 0) + 1
        with loading, _silence_log():
            try:
                request, reply = self._invoke(app, model, state)
            except ZeroDivisionError as error:
                if traceback.extract_tb(error.__traceback__)[-1].name not in _CLIPPING:
                    raise
                raise InputError(
                    "Expected an update to clip, got an update of norm 0, by which Flower divides: "
                    f"the app does not change the model for a history of {len(history)} "
                    "items. Let every device train, or exclude such devices from the round."
                ) from error
            if reply.has_error():
                got = f"got an error: {reply.error.reason.rstrip('.')}."
                raise InputError(f"Expected a reply of the app, {got} Correct the app.")
        arrays = read_arrays(reply.content)
        if list(arrays) == [str(at) for at in range(len(model))]:
            arrays = dict(zip(model, arrays.values(), strict=True))
        return {**arrays, **(dict(_iter_metadata(request, reply)) if self.has_metadata else {})}

    def _make_app(self, history: History) -> Any:
        if is_app(self.app):
            return self.app
        from flwr.client import Client, NumPyClient
        from flwr.clientapp import ClientApp

        made = self.app(history)
        if is_app(made):
            if self.mods:
                raise InputError(
                    "Expected a Client or NumPyClient from your function if mods are given, got a "
                    "ClientApp. Give the mods to the ClientApp."
                )
            return made
        if not isinstance(made, Client | NumPyClient):
            raise InputError(
                f"Expected a NumPyClient, a Client or a ClientApp, got {type(made).__name__}. "
                "Return one of these from your function of a history."
            )
        client = made.to_client() if isinstance(made, NumPyClient) else made
        return ClientApp(client_fn=lambda context: client, mods=list(self.mods))

    def _invoke(self, app: Any, model: Mapping[str, Any], state: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the TRAIN message to the app, and the app's reply."""
        from flwr.app import Context, RecordDict
        from flwr.client.mod import make_ffn

        chain = ModChain.from_app(app)
        context = Context(
            run_id=1,
            node_id=1,
            node_config={"partition-id": 0, "num-partitions": 1, **self.node_config},
            state=state.setdefault("kept", RecordDict()),
            run_config=dict(self.run_config),
        )
        config = {"server-round": state["asked"], **self.config}
        request = make_train_message(config, model, chain.is_legacy)
        if not any(map(is_secagg_mod, chain.mods)):
            return request, app(request, context)
        mods = [mod for mod in chain.mods if not is_secagg_mod(mod)]
        with app._lifespan(context):
            return request, make_ffn(chain.inner_function, mods)(request, context)


def make_train_message(config: Mapping[str, Any], model: Mapping[str, Any], is_legacy: bool) -> Any:
    """Creates Flower's TRAIN message, by which a server sends a model to a client.

    config: configuration for the client
    model: arrays of the model, by name
    is_legacy: whether the message gets the form of Flower's older interface
    """
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    if is_legacy:
        from flwr.common import FitIns, ndarrays_to_parameters
        from flwr.compat.common.recorddict_compat import fitins_to_recorddict

        sent = FitIns(ndarrays_to_parameters(list(model.values())), dict(config))
        return make_flower_message(fitins_to_recorddict(sent, keep_input=True))
    arrays = ArrayRecord({name: Array(np.asarray(each)) for name, each in model.items()})
    return make_flower_message(RecordDict({"arrays": arrays, "config": ConfigRecord(dict(config))}))


def make_flower_message(content: Any, node: int = 1) -> Any:
    """Creates a Flower message with the given content, outside a run of Flower.

    ``node`` is the identifier of the client that sends or receives it.
    """
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
        message_type=TRAIN_MESSAGE_TYPE,
    )
    return make_message(metadata=metadata, content=content)


def to_arrays(model: Any) -> ArraysByName:
    """Converts a model to numpy arrays by name.

    The model is a torch module, a state_dict, an ArrayRecord, a list of arrays, or one array.
    """
    if hasattr(model, "state_dict"):
        model = model.state_dict()
    if isinstance(model, Mapping):
        return {str(name): _to_array(each) for name, each in model.items()}
    if not isinstance(model, list | tuple):
        model = [model]
    return {str(at): _to_array(each) for at, each in enumerate(model)}


def read_arrays(content: Any) -> ArraysByName:
    """Returns the arrays of a Flower message by name, as numpy arrays.

    ``content`` is the content of the message. If it has several records of arrays, names begin with
    the record's name.
    """
    records = content.array_records
    if len(records) == 1:
        return to_arrays(next(iter(records.values())))
    return {f"{at}.{n}": a for at, each in records.items() for n, a in to_arrays(each).items()}


def _to_array(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _iter_metadata(request: Any, reply: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the metadata of a reply (data other than its arrays) as names and numbers.

    A record without keys becomes a 0.
    """
    for records in (reply.content.metric_records, reply.content.config_records):
        for place, record in records.items():
            for name, value in record.items() if len(record) else [("", 0)]:
                yield f"{METADATA_PREFIX}{place}/{name}", encode_value(value)
    before, after = request.metadata, reply.metadata
    default = before.created_at + before.ttl - after.created_at  # seconds, as Flower sets it
    words = (after.message_type, after.group_id, after.dst_node_id, after.src_node_id)
    yield f"{METADATA_PREFIX}envelope/words", encode_value(repr(words))
    usual = abs(after.ttl - default) < _ALIKE
    yield f"{METADATA_PREFIX}envelope/ttl", np.array([-1.0 if usual else after.ttl])


def encode_value(value: Any) -> NDArray[np.float64]:
    """Converts a value of a Flower record (number, text or list) to an array of numbers.

    - A number becomes an array of shape (1,). An integer that a double cannot represent is
      converted as text.
    - A text or a list becomes an array of shape (MAX_METADATA_ELEMENTS + 9,): the length, the first
      ``MAX_METADATA_ELEMENTS`` bytes or numbers, and an 8-byte digest of the remaining ones.
    """
    values = value if isinstance(value, list) else [value]
    if all(isinstance(v, bool | int | float) and (float(v) == v or v != v) for v in values):
        numbers = np.array(values, np.float64)
        if not isinstance(value, list):
            return numbers
    else:
        text = value if isinstance(value, bytes) else str(value).encode()
        numbers = np.frombuffer(text, np.uint8).astype(np.float64)
    first = np.zeros(MAX_METADATA_ELEMENTS)
    first[: len(numbers)] = numbers[:MAX_METADATA_ELEMENTS]
    digest = hashlib.sha256(numbers[MAX_METADATA_ELEMENTS:].tobytes()).digest()[:8]
    return np.concatenate([[len(numbers)], first, np.frombuffer(digest, np.uint8)])


@contextmanager
def _silence_log() -> Iterator[None]:
    """Context in which the log lines that mods write for every message are suppressed."""
    logger = logging.getLogger("flwr")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


_ROUND = "server-round"


class RecordUploads:
    """Recorder that writes the broadcasts and uploads of a Flower app to a directory.

    - On a client, use the recorder as the first mod (wrapper of the training),
      ``ClientApp(mods=[RecordUploads(...), ...])``, so that it gets the upload as it leaves the
      device.
    - On the server, call ``watch(strategy)``, which records the uploads that reach the strategy.

    Only arrays are recorded, without metadata.

    Parameters
    ----------
    path : the directory of the recording; all clients may write to one directory.
    n_items : number of items in the catalogue.
    sender : the key of a client's ``node_config`` that identifies the client, such as
        "partition-id"; None for Flower's node id. Not used on the server.
    writer : an object with the methods ``round(number, broadcast)``, ``upload(sender, arrays)`` and
        ``close(release)``; None means a ``RecordingWriter`` at ``path``.
    settings : settings of the ``RecordingWriter``, such as ``algorithm`` and ``items``.

    Raises InputError for a message that does not state its round, and for data that the writer
    refuses.
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
        """Records one TRAIN message and the app's reply, and returns the reply.

        message: the message from the server
        context: the app's context, which identifies the client
        call_next: the next mod or the training function, which returns the reply
        """
        if message.metadata.message_type.partition(".")[0] != TRAIN_MESSAGE_TYPE:
            return call_next(message, context)
        number, model = _find_round(message), read_arrays(message.content)
        reply = call_next(message, context)
        if not reply.has_error():
            self._begin_round(number, model)
            node = context.node_id if self.sender is None else context.node_config[self.sender]
            self._writer.upload(node, read_arrays(reply.content))
        return reply

    def watch(self, strategy: Any) -> Any:
        """Makes a server's strategy record each round that it aggregates, and returns the strategy.

        Raises InputError if ``strategy`` is not a strategy of Flower.
        """
        for configure, aggregate, sent in (
            ("configure_train", "aggregate_train", self._read_replies),
            ("configure_fit", "aggregate_fit", self._read_results),
        ):
            if hasattr(strategy, aggregate):
                self._watch_strategy(strategy, configure, aggregate, sent)
                return strategy
        raise InputError(
            f"Expected a strategy of Flower to watch, got {type(strategy).__name__}. Give the "
            "strategy of your server."
        )

    def close(self) -> None:
        """Ends the recording.

        The last model of a strategy that was given to ``watch`` is recorded as the published model.
        """
        self._writer.close(self._release)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the attributes that pickle copies to another process, without open files.

        The other process opens the recording again.
        """
        return {**self.__dict__, "_made": None}

    @property
    def _writer(self) -> Any:
        if self._made is None:
            self._made = self._given or RecordingWriter(self.path, **self._settings)
        return self._made

    def _begin_round(self, number: int, model: Mapping[str, Any]) -> None:
        try:
            self._writer.round(number, model)
        except InputError:  # another client has written it
            self._writer.round(number)

    def _watch_strategy(
        self, strategy: Any, configure: str, aggregate: str, sent: Callable[..., Any]
    ) -> None:
        configured, aggregated = getattr(strategy, configure), getattr(strategy, aggregate)

        def configuring(server_round: int, model: Any, *more: Any, **others: Any) -> Any:
            self._writer.round(server_round, _read_model(model))
            return configured(server_round, model, *more, **others)

        def aggregating(server_round: int, replies: Iterable[Any], *more: Any) -> Any:
            listed = list(replies)
            for sender, arrays in sent(listed):
                self._writer.upload(sender, arrays)
            made = aggregated(server_round, listed, *more)
            self._release = None if made[0] is None else _read_model(made[0])
            return made

        setattr(strategy, configure, configuring)
        setattr(strategy, aggregate, aggregating)

    def _read_replies(self, replies: list[Any]) -> Iterable[tuple[int, dict[str, Any]]]:
        for reply in replies:
            if not reply.has_error():
                yield reply.metadata.src_node_id, read_arrays(reply.content)

    def _read_results(self, results: list[Any]) -> Iterable[tuple[Any, dict[str, Any]]]:
        for client, result in results:
            yield client.cid, _read_model(result.parameters)


def _read_model(model: Any) -> dict[str, Any]:
    """Returns the arrays of an ArrayRecord, or of older Flower's Parameters, by name."""
    if isinstance(model, Mapping):
        return to_arrays(model)
    from flwr.common import parameters_to_ndarrays

    return to_arrays(parameters_to_ndarrays(model))


def _find_round(message: Any) -> int:
    for record in message.content.config_records.values():
        if _ROUND in record:
            return int(np.asarray(record[_ROUND]))
    if message.metadata.group_id.isdecimal():
        return int(message.metadata.group_id)
    raise InputError(
        f"Expected the number of the round in a message, as {_ROUND!r} of its config or as its "
        "group id, got neither. Send the number in the strategy's config."
    )
