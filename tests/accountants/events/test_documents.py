"""Tests of events as JSON: all kinds are read, and invalid documents are refused in one line."""

from __future__ import annotations

import json
from typing import Any

import attr
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, NoOpDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.documents import EVENT_CLASSES, read_event
from tests.contracts.events import LADDERS, USES

NOISE = {"type": "GaussianDpEvent", "noise_multiplier": 1.1}


def write_document(event: DpEvent) -> dict[str, Any]:
    """Document of an event, as a user would write it."""
    fields = {field.name: getattr(event, field.name) for field in attr.fields(type(event))}
    return {"type": type(event).__name__} | {
        name: write_document(value)
        if isinstance(value, DpEvent)
        else [write_document(part) for part in value]
        if name == "events"
        else value
        for name, value in fields.items()
    }


EVENTS = [
    *(use.event for use in USES.values()),
    ComposedDpEvent([SelfComposedDpEvent(USES["gaussian"].event, 7), NoOpDpEvent()]),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_events_are_read_from_their_documents(event: DpEvent) -> None:
    assert read_event(json.dumps(write_document(event))) == event


def test_every_tested_kind_of_event_is_read() -> None:
    tried = {type(event).__name__ for events in LADDERS.values() for event in events}
    assert tried <= set(EVENT_CLASSES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expected an event as JSON"),
        ("[]", "the name of an event as type"),
        ('{"type": 3}', "the name of an event as type"),
        ('{"type": "os.system"}', "one of: GaussianDpEvent"),
        ('{"type": "SingleEpochTreeAggregationDpEvent"}', "got type 'SingleEpochTree"),
        ('{"type": "GaussianDpEvent"}', "remove the field 'noise_multiplier'"),
        (json.dumps(NOISE | {"sigma": 1}), "remove the field 'sigma'"),
        (json.dumps(NOISE | {"noise_multiplier": "1"}), "Expected a number"),
        (json.dumps(NOISE | {"noise_multiplier": True}), "Expected a number"),
        (json.dumps(NOISE | {"noise_multiplier": float("nan")}), "got NaN"),
        (json.dumps(NOISE | {"noise_multiplier": 10**400}), "Expected a number"),
        (json.dumps({"type": "SelfComposedDpEvent", "event": NOISE, "count": 1.5}), "whole number"),
        (json.dumps({"type": "SelfComposedDpEvent", "event": NOISE, "count": 0}), "number >= 1"),
        ('{"type": "SelfComposedDpEvent", "event": 1, "count": 1}', "event as type"),
        ('{"type": "ComposedDpEvent", "events": {}}', "a list of events"),
        ('{"type": "ShuffledDpEvent", "epsilon": 1, "n_users": 9, "binary": 1}', "true or false"),
        (
            '{"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 1, '
            '"sensitivities": [0, "1"], "sampling_probs": [0.5, 0.5]}',
            "a list of numbers",
        ),
        ('{"type": "ComposedDpEvent", "events": [' * 5000, "fewer nested events"),
    ],
    ids=lambda text: text[:60],
)
def test_documents_that_are_not_events_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_event(text)
    assert "\n" not in str(caught.value)


def test_a_mixture_is_read() -> None:
    text = (
        '{"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 2, "sensitivities": [0, 1],'
        ' "sampling_probs": [0.9, 0.1]}'
    )
    assert read_event(text) == MixtureOfGaussiansDpEvent(2.0, (0.0, 1.0), (0.9, 0.1))
