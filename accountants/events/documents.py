"""Events written as JSON: the name of a type and its fields; nothing is looked up or evaluated."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import attr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import check_parameters, leaves

READ: dict[str, type[dp.DpEvent]] = {
    kind.__name__: kind
    for kind in (
        dp.GaussianDpEvent,
        dp.LaplaceDpEvent,
        dp.RandomizedResponseDpEvent,
        dp.ZCDpEvent,
        dp.PoissonSampledDpEvent,
        dp.SampledWithoutReplacementDpEvent,
        dp.MixtureOfGaussiansDpEvent,
        dp.SelfComposedDpEvent,
        dp.ComposedDpEvent,
        dp.NoOpDpEvent,
        dp.NonPrivateDpEvent,
        dp.BitFlipDpEvent,
        dp.PureDpEvent,
        dp.ShuffledDpEvent,
        dp.RevealedSamplingDpEvent,
        dp.ReplacedSamplingDpEvent,
    )
}
"""The events that at least one accountant reads, by name."""
_TYPE = "type"
_COUNTS = ("count", "num_buckets", "n_users", "source_dataset_size", "sample_size")
_LISTS = ("sensitivities", "sampling_probs")
# Largest value of a count.
_MAX_COUNT = 10**15


def read_event(text: str) -> dp.DpEvent:
    """The event that a JSON document describes: ``type`` is its class, other keys are its fields.

    Sampled and composed events contain others: ``event`` is a document, ``events`` a list of
    documents. InputError if the text is not JSON, a type or field is not known, a field is missing,
    a value is of the wrong kind, or a number is out of its range.

    >>> read_event('{"type": "SelfComposedDpEvent", "count": 10, "event": '
    ...            '{"type": "GaussianDpEvent", "noise_multiplier": 1.1}}')
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=1.1), count=10)
    """
    try:
        event = _event(json.loads(text, parse_constant=_refuse_constant))
        for leaf, _ in leaves(event):
            check_parameters(leaf)
    except json.JSONDecodeError as error:
        raise InputError(f"Expected JSON, got invalid text: {error}. Correct the event.") from None
    except RecursionError:
        raise InputError("Expected at most 100 nested events, got more. Flatten them.") from None
    return event


def _event(document: Any) -> dp.DpEvent:
    if not isinstance(document, dict) or not isinstance(document.get(_TYPE), str):
        raise InputError(
            f'Expected an event such as {{"type": "GaussianDpEvent", "noise_multiplier": 1.1}}, '
            f"got {json.dumps(document)[:80]}. Name its type."
        )
    name = document[_TYPE]
    if name not in READ:
        raise InputError(
            f"Expected an event that an accountant reads, got type {name[:80]!r}. There are: "
            f"{', '.join(READ)}."
        )
    fields = {field.name: field for field in attr.fields(READ[name])}
    given = {key: value for key, value in document.items() if key != _TYPE}
    needed = [key for key, field in fields.items() if field.default is attr.NOTHING]
    wrong = [key for key in given if key not in fields] + [k for k in needed if k not in given]
    if wrong:
        raise InputError(
            f"Expected the fields {', '.join(fields) or 'none'} in {name}, got "
            f"{', '.join(given)[:200] or 'none'}. Correct {wrong[0][:80]!r}."
        )
    return READ[name](**{key: _value(name, key, value) for key, value in given.items()})


def _value(name: str, key: str, value: Any) -> Any:
    if key == "event":
        return _event(value)
    if key == "events" and isinstance(value, list):
        return [_event(part) for part in value]
    if key in _LISTS and isinstance(value, list) and all(map(_is_number, value)):
        return tuple(map(float, value))
    if key == "binary" and isinstance(value, bool):
        return value
    if key not in ("events", "binary", *_LISTS) and _is_number(value):
        if key not in _COUNTS:
            return float(value)
        if value == math.floor(value) and value <= _MAX_COUNT:
            return int(value)
    wanted = {
        "events": "a list of events",
        "binary": "true or false",
        **dict.fromkeys(_LISTS, "a list of numbers"),
        **dict.fromkeys(_COUNTS, f"a whole number up to {_MAX_COUNT:g}"),
    }.get(key, "a number")
    raise InputError(
        f"Expected {wanted} for {key} in {name}, got {json.dumps(value)[:80]}. Correct the event."
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max


def _refuse_constant(constant: str) -> Any:
    raise InputError(f"Expected a finite number, got {constant}. Correct the event.")
