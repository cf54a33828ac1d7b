"""What an answer is made of must not tell its input."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.verification.checks.claim import Event, words
from fedrec_auditor.auditor.verification.checks.shared_evidence import SharedEvidence
from fedrec_auditor.auditor.worlds.sampler import Sampler

_LOOKS = 48
_COUNTED = 1 << 13
_SEVERAL = 3
_DEPTH = 4


def output_type(evidence: SharedEvidence) -> Check:
    """Type, dtype, shape, keys and attributes of the raw answers do not depend on the input.

    Nor do parts beside the numbers themselves: entries of tuples and dictionaries, masks, fields,
    objects; nor, where the types of answers vary, type and value together. What a part was several
    times in a few answers for one input and never for another is counted in fresh answers, and
    fails if the counts refute the claim. Answers are of one output each, for the type of several in
    one array says of all of them what the claim says of one. Inputs that mix whole numbers and
    fractions are tried as floats, for their own type is not the mechanism's fault.
    """
    sampler, probes, claim = evidence.own("output type"), _alike(evidence.inputs), evidence.claim
    first, second = evidence.seeds["output type"].spawn(2)
    looks = _parts(sampler, probes, first, _LOOKS)
    mass, path, chosen, a, b = max(
        (
            (sum(look[path][token] for token in tokens), path, tokens, a, b)
            for a, b in itertools.permutations(range(len(probes)), 2)
            for look, other in [(looks[a], looks[b])]
            for path in {*look, *other}
            for tokens in [
                tuple(t for t, n in look[path].items() if n >= _SEVERAL and not other[path][t])
            ]
        ),
        default=(0, "", (), 0, 0),
        key=lambda found: (found[0], -len(found[1]), found[1:]),
    )
    if mass < _LOOKS // 4:
        return Check.passed("Answers have the same type and form for every input tried.")
    counted = int(min(_COUNTED, sampler.allowance.left // 2))
    fresh = _parts(sampler, [probes[a], probes[b]], second, counted)
    hits, misses = (sum(part[path][token] for token in chosen) for part in fresh)
    usual = fresh[1][path].most_common(1)[0][0]
    name = f"{f'part {path} of the answer' if path else 'the answer'} as {' or '.join(chosen[:3])}"
    event = Event(name, (probes[a], probes[b]), hits, misses, counted)
    told = f"{event}, where it is mostly {usual}"
    if claim.refuted_by(event):
        return Check.failed(f"{told}. Return the noisy numbers alone, in one form.")
    if misses:
        return Check.passed(f"{told}, as a claim of {claim.epsilon:g} allows.")
    return Check.not_run(f"{told}: too few to tell whether a claim of {claim.epsilon:g} allows it.")


def _alike(inputs: list[Any]) -> list[Any]:
    try:
        arrays = [np.asarray(value) for value in inputs]
    except ValueError:
        return inputs
    if len({array.dtype for array in arrays}) == 1 or any(
        a.dtype.kind not in "iuf" for a in arrays
    ):
        return inputs
    return [float(a) if a.ndim == 0 else a.astype(np.float64) for a in arrays]


_Parts = defaultdict[str, Counter[str]]


def _parts(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, looks: int
) -> list[_Parts]:
    """How often each part of the answer was what, over ``looks`` answers an input, in turn."""
    rng = np.random.default_rng(seed)
    found: list[_Parts] = [defaultdict(lambda: Counter({_ABSENT: looks})) for _ in inputs]
    for place in rng.permutation(np.repeat(np.arange(len(inputs)), looks)).tolist():
        answer = sampler.answer(inputs[place], rng, 1)
        for path, token in _walk(answer if sampler.sized else answer[0], "", False, 0):
            found[place][path][token] += 1
            found[place][path][_ABSENT] -= 1
    for parts in found:
        if len(parts[""]) == 2:  # of one type, and absent never
            parts.pop(_TYPED, None)
    return found


_ABSENT = "absent"
_TYPED = "(type and value)"


def _walk(part: Any, path: str, inner: bool, depth: int) -> Iterator[tuple[str, str]]:
    """Paths into an answer with what is there; values only of what is not the noisy number itself.

    ``inner`` says that the part lies beside others in a record.
    """
    form = type(part).__name__
    if depth > _DEPTH:
        return
    if isinstance(part, (list, tuple, dict)):
        yield path, f"{form} of length {len(part)}"
        items = part.items() if isinstance(part, dict) else enumerate(part[:64])
        for key, child in items:
            beside = inner or not isinstance(part, list)
            yield from _walk(child, f"{path}[{key!r}]", beside, depth + 1)
    elif isinstance(part, type):
        yield path, f"class {part.__name__}"
        return
    elif hasattr(part, "dtype") and hasattr(part, "shape"):
        kind = {"U": "words", "S": "bytes"}.get(getattr(part.dtype, "kind", ""), str(part.dtype))
        yield path, f"{form} of {kind}, shape {tuple(part.shape)}"
        if isinstance(part, (np.ndarray, np.generic)):
            yield from _inside(np.asanyarray(part), path, inner, depth)
    elif isinstance(part, (bool, int, float, str, bytes, type(None))):
        yield path, form
        if inner:
            yield f"{path} (value)", words(part)
        elif not path:
            yield _TYPED, f"{form} {words(part)}"
    else:
        yield path, form
    attributes = {} if isinstance(part, np.ma.MaskedArray) else getattr(part, "__dict__", {})
    for name, child in attributes.items():
        yield from _walk(child, f"{path}.{name}", True, depth + 1)


def _inside(array: Any, path: str, inner: bool, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(array, np.ma.MaskedArray):
        yield f"{path}.mask", words(np.ma.getmaskarray(array).tolist())
    if array.dtype.kind == "O":
        for place, child in enumerate(array.ravel()[:64].tolist()):
            yield from _walk(child, f"{path}[{place}]", inner, depth + 1)
    elif array.dtype.names:
        for name in array.dtype.names:
            yield from _walk(np.asarray(array[name]), f"{path}[{name!r}]", True, depth + 1)
    elif inner:
        yield f"{path} (value)", words(array.tolist())
