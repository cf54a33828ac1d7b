"""A strategy of Flower as the server of a wrapped system."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.flower.flower_client import (
    METADATA,
    Arrays,
    _quiet,
    envelope,
    named,
)


@dataclass(frozen=True, slots=True)
class FlowerServer:
    """``server(model, uploads, rng)``: a strategy's aggregation, its clipping and noise included.

    Replies have the weights that clients send where these are parts of their messages
    (``metadata``), else weight 1. The number of sampled clients is that of the messages, so that
    noise has the deviation that is meant for them. Nothing is kept from round to round.
    """

    strategy: Any

    def __call__(
        self,
        model: Mapping[str, Any],
        uploads: Sequence[Mapping[str, Any]],
        rng: np.random.Generator,
    ) -> Arrays:
        """The next model; InputError if the strategy makes none."""
        strategy = copy.deepcopy(self.strategy)
        if hasattr(strategy, "num_sampled_clients"):
            strategy.num_sampled_clients = len(uploads)
        strategy.accountant = None
        np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
        with _quiet():
            if hasattr(strategy, "aggregate_train"):
                arrays = _newer(strategy, model, uploads)
            else:
                arrays = _legacy(strategy, model, uploads)
        if arrays is None:
            raise InputError(f"Expected a model from {strategy!r}, got none. Check its settings.")
        return arrays


def _newer(strategy: Any, model: Mapping[str, Any], uploads: Sequence[Any]) -> Arrays | None:
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    def record(arrays: Mapping[str, Any]) -> Any:
        return ArrayRecord({name: Array(np.asarray(arrays[name])) for name in model})

    strategy.current_arrays = record(model)
    replies = [
        envelope(
            RecordDict({"arrays": record(each), "metrics": MetricRecord(_metrics(each))}), node
        )
        for node, each in enumerate(uploads, 1)
    ]
    made, _ = strategy.aggregate_train(1, replies)
    return None if made is None else named(made)


def _legacy(strategy: Any, model: Mapping[str, Any], uploads: Sequence[Any]) -> Arrays | None:
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays

    strategy.current_round_params = list(model.values())
    results = []
    for each in uploads:
        metrics = _metrics(each)
        weight = int(metrics.pop("num-examples"))
        sent = ndarrays_to_parameters([np.asarray(each[name]) for name in model])
        result = FitRes(Status(Code.OK, ""), sent, weight, metrics)
        results.append((None, result))
    made, _ = strategy.aggregate_fit(1, results, [])
    return None if made is None else dict(zip(model, parameters_to_ndarrays(made), strict=True))


def _metrics(upload: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers beside the arrays, with the weight under the name that strategies look for."""
    found = {
        name.removeprefix(METADATA).rpartition("/")[2]: float(np.asarray(value).flat[0])
        for name, value in upload.items()
        if name.startswith(METADATA) and np.size(value) == 1
    }
    weight = found.pop("num_examples", found.pop("num-examples", 1.0))
    return {"norm_bit": 0, **found, "num-examples": weight}
