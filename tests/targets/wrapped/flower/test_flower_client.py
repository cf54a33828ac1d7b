"""Flower apps as clients: recorded messages, histories, mods and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.own import flower_app
from fedrec_auditor.targets.wrapped.client import CheckedClient
from fedrec_auditor.targets.wrapped.flower.flower_client import (
    FlowerClient,
    LoaderPatch,
    RecordUploads,
    make_flower_message,
    make_train_message,
    to_arrays,
)
from fedrec_auditor.targets.wrapped.structure import flatten
from tests.targets.wrapped.flower import apps


class RecordedLines:
    """The written lines in order; a broadcast is written once per round."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def round(self, number: int, broadcast: Any = None) -> None:
        if broadcast is None:
            self.lines.append(("round", number))
            return
        if any(line[:3] == ("round", number, "sent") for line in self.lines):
            raise InputError("Expected one broadcast, got a second one.")
        self.lines.append(("round", number, "sent", sorted(broadcast)))

    def upload(self, sender: Any, arrays: Any) -> None:
        name = sorted(arrays)[-1] if "item" in arrays else "0"
        self.lines.append((sender, np.asarray(arrays[name]).round(3).tolist()))

    def close(self, release: Any = None) -> None:
        self.lines.append(("release", None if release is None else sorted(release)))


@pytest.mark.parametrize("app", [apps.message_app, apps.legacy_app])
def test_mods_record_the_messages_of_devices(app: Any) -> None:
    from flwr.clientapp.mod import fixedclipping_mod

    lines = RecordedLines()
    mod = RecordUploads("run", n_items=6, sender="partition-id", writer=lines)
    partition = LoaderPatch.create(apps.load_data, lambda history: history.dense())
    state: dict[str, Any] = {}
    for device in (4, 7):
        client = FlowerClient(
            app=app([mod, fixedclipping_mod]),
            loader=partition,
            config={"clipping_norm": 0.5},
            node_config={"partition-id": device},
        )
        sent = client(apps.history(1), apps.model(), None, {} if device == 4 else state)["item"]
    kept = sent.round(3).tolist()
    names = ["bias", "item"] if app is apps.message_app else ["0", "1"]
    assert lines.lines == [("round", 1, "sent", names), (4, kept), ("round", 1), (7, kept)]


def test_messages_without_a_round_are_refused() -> None:
    asked = make_train_message({}, apps.model(), is_legacy=False)
    with pytest.raises(InputError, match="Expected the number of the round in a message"):
        RecordUploads("run", n_items=6, writer=RecordedLines())(asked, None, lambda *parts: None)


def _reply(node: int, shift: float) -> Any:
    from flwr.app import MetricRecord

    content = make_train_message(
        {}, {n: each + shift for n, each in apps.model().items()}, False
    ).content
    content["metrics"] = MetricRecord({"num-examples": 1})
    return make_flower_message(content, node)


def test_strategies_are_recorded() -> None:
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    class Configured(FedAvg):
        def configure_train(self, *parts: Any, **more: Any) -> Any:
            return ["configured"]

    lines = RecordedLines()
    recorder = RecordUploads("run", n_items=6, writer=lines)
    strategy = recorder.watch(Configured())
    sent = ArrayRecord(dict(make_train_message({}, apps.model(), False).content["arrays"]))
    assert strategy.configure_train(3, sent, {}, None) == ["configured"]
    made, _ = strategy.aggregate_train(3, [_reply(11, 0.0), _reply(12, 2.0)])
    np.testing.assert_allclose(made["item"].numpy(), apps.model()["item"] + 1.0, rtol=1e-6)
    recorder.close()
    item = apps.model()["item"]
    assert lines.lines == [
        ("round", 3, "sent", ["bias", "item"]),
        (11, item.round(3).tolist()),
        (12, (item + 2.0).round(3).tolist()),
        ("release", ["bias", "item"]),
    ]


def test_strategies_of_the_older_interface_are_recorded() -> None:
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.server.strategy import FedAvg

    class Proxy:
        cid = "9"

    lines = RecordedLines()
    strategy = RecordUploads("run", n_items=6, writer=lines).watch(FedAvg())
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([np.ones(2)]), 1, {})
    strategy.aggregate_fit(1, [(Proxy(), result)], [])
    assert lines.lines == [("9", [1.0, 1.0])]
    with pytest.raises(InputError, match="Expected a strategy of Flower to watch"):
        RecordUploads("run", n_items=6).watch(3)


def test_a_recording_is_written(tmp_path: Path) -> None:
    pytest.importorskip("fedrec_auditor.targets.recorded.recording_writer")
    recorder = RecordUploads(tmp_path / "run", n_items=6, sender="partition-id")
    for device in (0, 1):
        client = FlowerClient(
            app=apps.message_app([cloudpickle.loads(cloudpickle.dumps(recorder))]),
            loader=LoaderPatch.create(apps.load_data, lambda history: history.dense()),
            node_config={"partition-id": device},
        )
        client(apps.history(device), apps.model(), None, {})
    recorder.close()
    files = sorted(path.name for path in (tmp_path / "run" / "rounds" / "1").iterdir())
    assert len(files) == 3
    assert files[0] == "broadcast.safetensors"


def send(client: FlowerClient, *items: int, seed: int = 0, **state: Any) -> dict[str, np.ndarray]:
    np.random.seed(seed)  # noqa: NPY002
    return client(apps.history(*items), apps.model(), None, state)


def to_dense(history: Any) -> np.ndarray:
    return history.dense()


def wrap(app: Any, **more: Any) -> FlowerClient:
    return FlowerClient(app=app, loader=LoaderPatch.create(apps.load_data, to_dense), **more)


def make_data(history: Any) -> Any:
    return apps.numpy_client(history.dense())


@pytest.mark.parametrize(
    "client",
    [
        lambda: wrap(apps.message_app()),
        lambda: wrap(apps.legacy_app()),
        lambda: FlowerClient(app=make_data),
        lambda: FlowerClient(app=lambda h: make_data(h).to_client()),
        lambda: FlowerClient(app=lambda h: apps.message_app((), lambda partition: h.dense())),
    ],
)
def test_both_interfaces_send_what_the_app_trains(client: Callable[[], FlowerClient]) -> None:
    found = send(client(), 1, 4)
    expected = apps.model()
    expected["item"][[1, 4]] += 1.0
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in expected.items()
    }


@pytest.mark.parametrize("app", [apps.message_app, apps.legacy_app])
def test_numbers_beside_the_arrays_are_sent_on_demand(app: Callable[[], Any]) -> None:
    found = send(wrap(app(), has_metadata=True), 1, 4)
    numbers = {n.rpartition("/")[2]: v.tolist() for n, v in found.items() if v.shape == (1,)}
    assert numbers.pop("num-examples", None) or numbers.pop("num_examples") == [2.0]
    assert numbers.items() >= {"loss": [0.25], "ttl": [-1.0]}.items()
    assert set(numbers) - {"loss", "ttl"} in ({"bias"}, {"bias", "code"})


@pytest.mark.parametrize(
    "value",
    [
        lambda items: items,
        lambda items: [float(item) for item in items],
        lambda items: " ".join(map(str, items)),
        lambda items: bytes(items),
        lambda items: [str(item) for item in items],
        lambda items: [len(items) > 1, items[0] > 2],
        lambda items: sum(1 << (60 - item) for item in items) | 1,
        lambda items: "x" * 3_000 + str(items),
    ],
)
def test_all_parts_of_a_reply_are_in_its_message(value: Any) -> None:
    def add_note(message: Any, context: Any, call_next: Any) -> Any:
        from flwr.app import ConfigRecord

        reply = call_next(message, context)
        note = {"note": value([int(item) for item in np.flatnonzero(held[0])])}
        reply.content["more"] = ConfigRecord(note)
        return reply

    held: list[Any] = []
    client = wrap(apps.message_app([add_note]), has_metadata=True)
    notes = []
    for items in ((1, 2), (1, 2), (3,), (3, 4, 5)):
        held[:] = [apps.history(*items).dense()]
        notes.append(send(client, *items)["metadata.more/note"])
    assert len({each.shape for each in notes}) == 1
    np.testing.assert_array_equal(notes[0], notes[1])
    assert not np.array_equal(notes[0], notes[2])
    assert not np.array_equal(notes[2], notes[3])


def test_names_of_records_and_the_envelope_are_in_the_message() -> None:
    def send_changed(change: Callable[[Any], None]) -> dict[str, np.ndarray]:
        def mod(message: Any, context: Any, call_next: Any) -> Any:
            reply = call_next(message, context)
            change(reply)
            return reply

        return send(wrap(apps.message_app([mod]), has_metadata=True), 1)

    def add_record(reply: Any) -> None:
        from flwr.app import ConfigRecord

        reply.content["user-37"] = ConfigRecord()

    def set_ttl(reply: Any) -> None:
        reply.metadata.ttl = 37.0

    def group(reply: Any) -> None:
        reply.metadata.group_id = "37"

    usual = send_changed(lambda reply: None)
    again = send_changed(lambda reply: None)
    assert usual.keys() == again.keys()
    assert all(np.array_equal(usual[name], again[name]) for name in usual)
    assert send_changed(add_record).keys() - usual.keys() == {"metadata.user-37/"}
    for change, name in ((set_ttl, "metadata.envelope/ttl"), (group, "metadata.envelope/words")):
        assert not np.array_equal(send_changed(change)[name], usual[name])


def test_mods_with_an_app_factory_are_refused() -> None:
    from flwr.clientapp.mod import fixedclipping_mod

    client = FlowerClient(
        app=lambda history: apps.message_app((), lambda partition: history.dense()),
        mods=(fixedclipping_mod,),
    )
    with pytest.raises(InputError, match=r"got a ClientApp\. Give the mods to the ClientApp"):
        send(client, 1)


def test_mods_run_in_the_order_of_flower() -> None:
    calls = []

    def note_progress(name: str) -> Any:
        def mod(message: Any, context: Any, call_next: Any) -> Any:
            calls.append(f"{name} asks")
            reply = call_next(message, context)
            calls.append(f"{name} answers")
            return reply

        return mod

    mods = (note_progress("first"), note_progress("second"))
    expected = ["first asks", "second asks", "second answers", "first answers"]
    for client in (
        wrap(apps.message_app(mods)),
        wrap(apps.legacy_app(mods)),
        FlowerClient(app=make_data, mods=mods),
    ):
        calls.clear()
        send(client, 1)
        assert calls == expected


@pytest.mark.parametrize("app", [apps.message_app, apps.legacy_app])
def test_local_noise_is_that_of_the_mod(app: Callable[..., Any]) -> None:
    from flwr.clientapp.mod import LocalDpMod

    sigma = 0.3 * np.sqrt(2 * np.log(1.25 / 1e-5)) / 2.0
    client = wrap(app([LocalDpMod(0.7, 0.3, 2.0, 1e-5)]))
    draws = np.stack([send(client, 1, 4, seed=seed)["item"] for seed in range(400)])
    moved = draws - apps.model()["item"]
    error = sigma / np.sqrt(400)
    # The update is 1 in two entries, of norm sqrt(2): clipped at 0.7, 0.7 / sqrt(2) in each.
    expected = np.array([0, 0.7, 0, 0, 0.7, 0]) / np.sqrt(2)
    np.testing.assert_allclose(moved.mean(axis=0), expected, atol=5 * error)
    assert moved.std() == pytest.approx(np.hypot(sigma, expected.std()), rel=0.1)


def test_the_servers_config_reaches_the_mods() -> None:
    from flwr.clientapp.mod import fixedclipping_mod

    for app in (apps.message_app, apps.legacy_app):
        client = wrap(app([fixedclipping_mod]), config={"clipping_norm": 0.5})
        moved = send(client, 1, 4)["item"] - apps.model()["item"]
        assert np.linalg.norm(moved) == pytest.approx(0.5, rel=1e-5)


def test_mods_without_their_config_are_named() -> None:
    from flwr.clientapp.mod import fixedclipping_mod

    with pytest.raises(InputError, match="error: fixedclipping_mod requires the key"):
        send(wrap(apps.message_app([fixedclipping_mod])), 1)


def test_updates_that_flower_cannot_clip_are_named() -> None:
    from flwr.clientapp.mod import LocalDpMod

    client = wrap(apps.message_app([LocalDpMod(1.0, 2.0, 1.0, 1e-5)]))
    with pytest.raises(InputError, match="does not change the model for a history of 0"):
        send(client)


def test_secure_aggregation_is_left_out() -> None:
    from flwr.client.mod import secaggplus_mod
    from flwr.clientapp.mod import fixedclipping_mod

    for app in (apps.message_app, apps.legacy_app):
        client = wrap(app([secaggplus_mod, fixedclipping_mod]), config={"clipping_norm": 0.5})
        moved = send(client, 1, 4)["item"] - apps.model()["item"]
        assert np.linalg.norm(moved) == pytest.approx(0.5, rel=1e-5)


def test_a_device_keeps_its_context() -> None:
    def counting(message: Any, context: Any, call_next: Any) -> Any:
        from flwr.app import ConfigRecord

        seen = context.state.config_records.get("seen", ConfigRecord({"times": 0}))["times"]
        context.state["seen"] = ConfigRecord({"times": seen + 1})
        config = next(iter(message.content.config_records.values()))
        times.append((seen, config["server-round"], context.node_config["zone"]))
        return call_next(message, context)

    times: list[Any] = []
    client = wrap(apps.message_app([counting]), node_config={"zone": 3})
    state: dict[str, Any] = {}
    for _ in range(2):
        client(apps.history(1), apps.model(), None, state)
    client(apps.history(1), apps.model(), None, {})
    assert times == [(0, 1, 3), (1, 2, 3), (0, 1, 3)]


def test_errors_name_the_line_of_the_app() -> None:
    def broken(context: Any) -> Any:
        raise KeyError("learning-rate")

    for app in (apps.message_app((), broken), apps.legacy_app((), broken)):
        client = CheckedClient(FlowerClient(app=app))
        with pytest.raises(InputError, match=r"KeyError: 'learning-rate' \((apps|test_).*py:\d+\)"):
            client(apps.history(1), *flatten(apps.model(), "a model"), 0, {}, "")


@pytest.mark.parametrize("loader", ["load_data", "load_once", "load_there"])
def test_loaders_return_the_history(loader: str) -> None:
    function = getattr(apps, loader)
    for name in (function, *([f"{apps.__name__}:{loader}"] if loader != "load_there" else [])):
        partition = LoaderPatch.create(name, to_dense)
        for items in ([1], [2, 3]):
            with partition.replace_data(apps.history(*items)):
                assert np.flatnonzero(function(7)).tolist() == items
    with pytest.raises(FileNotFoundError):
        function(7)


def test_the_loader_is_the_same_function_wherever_it_is_imported() -> None:
    with LoaderPatch.create(f"{apps.__name__}.load_data", None).replace_data(apps.history(1)):
        assert apps.imported_elsewhere(1).items.tolist() == [1]


def test_the_adapted_history_may_depend_on_the_call() -> None:
    partition = LoaderPatch.create(apps.load_data, lambda h, partition_id, scale: scale * h.dense())
    client = FlowerClient(app=apps.message_app((), apps.load_data, 3.0), loader=partition)
    moved = send(client, 1)["item"] - apps.model()["item"]
    np.testing.assert_allclose(moved, [0, 3, 0, 0, 0, 0], atol=1e-6)


def test_the_loader_is_restored_when_the_app_fails() -> None:
    code = apps.load_data.__code__
    with (
        pytest.raises(ZeroDivisionError),
        LoaderPatch.create(apps.load_data, to_dense).replace_data(apps.history(1)),
    ):
        raise ZeroDivisionError
    assert apps.load_data.__code__ is code


def test_apps_that_do_not_load_the_audited_data_are_refused() -> None:
    client = wrap(apps.message_app((), lambda partition_id: np.ones(6)))
    with pytest.raises(InputError, match="Expected the app to load its data by load_data"):
        send(client, 1)


@pytest.mark.parametrize("data", ["no_such:module", "math:nothing", "math:sqrt", len])
def test_invalid_loaders_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="Expected data to"):
        LoaderPatch.create(data, None)


def test_models_are_named() -> None:
    torch = pytest.importorskip("torch")
    from flwr.app import ArrayRecord

    net = torch.nn.Linear(2, 1)
    expected = {name: each.tolist() for name, each in net.state_dict().items()}
    for given in (net, net.state_dict(), ArrayRecord(net.state_dict())):
        assert {name: each.tolist() for name, each in to_arrays(given).items()} == expected
    assert list(to_arrays([np.zeros(1), np.ones(2)])) == ["0", "1"]
    assert list(to_arrays(np.zeros(3))) == ["0"]


def test_messages_equal_those_of_flowers_server() -> None:
    """Compared with a training by Flower's own server."""
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.serverapp.strategy import FedAvg
    from flwr.supercore.task_identity import TaskIdentity

    class OneNode:
        def get_node_ids(self) -> list[int]:
            return [1]

    arrays = ArrayRecord(dict(make_train_message({}, apps.model(), False).content["arrays"]))
    strategy = FedAvg(min_train_nodes=1, min_available_nodes=1, fraction_evaluate=0.5)
    before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    try:
        (theirs,) = strategy.configure_train(1, arrays, ConfigRecord({"lr": 0.1}), OneNode())
    finally:
        TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before
    ours = make_train_message({"lr": 0.1, "server-round": 1}, apps.model(), is_legacy=False)
    assert ours.metadata.message_type == theirs.metadata.message_type
    assert list(ours.content) == list(theirs.content)
    assert dict(ours.content["config"]) == dict(theirs.content["config"])
    assert [a.numpy().tolist() for a in ours.content["arrays"].values()] == [
        a.numpy().tolist() for a in theirs.content["arrays"].values()
    ]


def test_incomplete_apps_are_refused() -> None:
    from flwr.clientapp import ClientApp

    app = apps.message_app()
    for wrong, expected in (
        ({"app": ClientApp(), "data": apps.load_data}, "Expected a ClientApp that trains"),
        ({"app": app}, "Expected data, the function by which the app loads"),
        ({"app": app, "data": apps.load_data, "mods": [len]}, "Expected the mods inside"),
        ({"app": make_data, "data": apps.load_data}, "Expected data only with a ClientApp"),
        ({"app": 3}, "Expected app as a ClientApp, or a function"),
    ):
        with pytest.raises(InputError, match=expected):
            flower_app.wrap(**wrong, model=apps.model)
    with pytest.raises(InputError, match="Expected a NumPyClient, a Client or a ClientApp"):
        send(FlowerClient(app=lambda history: 3), 1)
