"""JSON form of accounting events (descriptions of composed mechanisms): an object with the name of
the event class and its fields.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import attr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import check_parameters, list_leaves

# Event classes that at least one accountant supports, by class name.
EVENT_CLASSES: dict[str, type[dp.DpEvent]] = {
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
_TYPE = "type"
_COUNTS = ("count", "num_buckets", "n_users", "source_dataset_size", "sample_size")
_LISTS = ("sensitivities", "sampling_probs")
# Largest allowed value of an integer field.
_MAX_COUNT = 10**15


def read_event(text: str) -> dp.DpEvent:
    """Parses an accounting event from JSON: the key ``type`` names the event class, and the other
    keys are its fields.

    For a sampled or repeated event, the key ``event`` holds a JSON object. For a composition, the
    key ``events`` holds a list of objects. The classes must be in ``EVENT_CLASSES``. Raises
    InputError if the text is not such an event, or a value is invalid.

    >>> read_event('{"type": "SelfComposedDpEvent", "count": 10, "event": '
    ...            '{"type": "GaussianDpEvent", "noise_multiplier": 1.1}}')
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=1.1), count=10)
    """
    try:
        event = _read_event(json.loads(text, parse_constant=_refuse_constant))
        for leaf, _ in list_leaves(event):
            check_parameters(leaf)
    except json.JSONDecodeError as error:
        raise InputError(f"Expected an event as JSON, got: {error}. Correct this JSON.") from None
    except RecursionError:
        raise InputError("Expected fewer nested events, got too many levels. Nest fewer.") from None
    return event


def _read_event(document: Any) -> dp.DpEvent:
    if not isinstance(document, dict) or not isinstance(document.get(_TYPE), str):
        raise InputError(
            f'Expected an event such as {{"type": "GaussianDpEvent", "noise_multiplier": 1.1}}, '
            f"got {json.dumps(document)[:80]}. Write an object with the name of an event as type."
        )
    name = document[_TYPE]
    if name not in EVENT_CLASSES:
        raise InputError(
            f"Expected a type of event that an accountant supports, got type {name[:80]!r}. Give "
            f"one of: {', '.join(EVENT_CLASSES)}."
        )
    fields = {field.name: field for field in attr.fields(EVENT_CLASSES[name])}
    given = {key: value for key, value in document.items() if key != _TYPE}
    needed = [key for key, field in fields.items() if field.default is attr.NOTHING]
    wrong = [key for key in given if key not in fields] + [k for k in needed if k not in given]
    if wrong:
        raise InputError(
            f"Expected the fields {', '.join(fields) or 'none'} in {name}, got "
            f"{', '.join(given)[:200] or 'none'}. Add or remove the field {wrong[0][:80]!r}."
        )
    return EVENT_CLASSES[name](**{key: _read(name, key, value) for key, value in given.items()})


def _read(name: str, key: str, value: Any) -> Any:
    if key == "event":
        return _read_event(value)
    if key == "events" and isinstance(value, list):
        return [_read_event(part) for part in value]
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
        f"Expected {wanted} for {key} in {name}, got {json.dumps(value)[:80]}. Correct {key}."
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max


def _refuse_constant(constant: str) -> Any:
    raise InputError(f"Expected finite numbers in the event, got {constant}. Give finite ones.")
