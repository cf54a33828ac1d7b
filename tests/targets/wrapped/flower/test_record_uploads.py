from __future__ import annotations

from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.flower.flower_client import (
    FlowerClient,
    Partition,
    RecordUploads,
    envelope,
    message,
)
from tests.targets.wrapped.flower import apps


class Lines:
    """What is written, in order; a broadcast is written once a round."""

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
def test_a_mod_records_what_leaves_the_device(app: Any) -> None:
    from flwr.clientapp.mod import fixedclipping_mod

    lines = Lines()
    mod = RecordUploads("run", n_items=6, sender="partition-id", writer=lines)
    partition = Partition.of(apps.load_data, lambda history: history.dense())
    state: dict[str, Any] = {}
    for device in (4, 7):
        client = FlowerClient(
            app=app([mod, fixedclipping_mod]),
            partition=partition,
            config={"clipping_norm": 0.5},
            node_config={"partition-id": device},
        )
        sent = client(apps.history(1), apps.model(), None, {} if device == 4 else state)["item"]
    kept = sent.round(3).tolist()
    names = ["bias", "item"] if app is apps.message_app else ["0", "1"]
    assert lines.lines == [
        ("round", 1, "sent", names),
        (4, kept),
        ("round", 1),
        (7, kept),
    ]


def test_a_message_of_no_round_is_refused() -> None:
    asked = message({}, apps.model(), legacy=False)
    with pytest.raises(InputError, match="Expected the number of the round in a message"):
        RecordUploads("run", n_items=6, writer=Lines())(asked, None, lambda *parts: None)


def _reply(node: int, shift: float) -> Any:
    from flwr.app import MetricRecord

    content = message({}, {n: each + shift for n, each in apps.model().items()}, False).content
    content["metrics"] = MetricRecord({"num-examples": 1})
    return envelope(content, node)


def test_a_strategy_is_watched() -> None:
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    class Configured(FedAvg):
        def configure_train(self, *parts: Any, **more: Any) -> Any:
            return ["configured"]

    lines = Lines()
    recorder = RecordUploads("run", n_items=6, writer=lines)
    strategy = recorder.watch(Configured())
    sent = ArrayRecord(dict(message({}, apps.model(), False).content["arrays"]))
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


def test_a_strategy_of_the_older_interface_is_watched() -> None:
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.server.strategy import FedAvg

    class Proxy:
        cid = "9"

    lines = Lines()
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
            partition=Partition.of(apps.load_data, lambda history: history.dense()),
            node_config={"partition-id": device},
        )
        client(apps.history(device), apps.model(), None, {})
    recorder.close()
    files = sorted(path.name for path in (tmp_path / "run" / "rounds" / "1").iterdir())
    assert len(files) == 3
    assert files[0] == "broadcast.safetensors"
