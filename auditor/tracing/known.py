"""Compiled functions that are known to be functions of their arguments alone.

An entry is the object itself, as it was when this module was imported. Everything here keeps
nothing between calls, looks at no clock, draws no coin, and calls back nothing of objects of the
fixed types that the gate lets through. Reasons stand at the groups.
"""

from __future__ import annotations

import abc
import base64
import binascii
import bisect
import builtins
import cmath
import collections.abc
import fractions
import hashlib
import heapq
import itertools
import json
import math
import numbers
import operator
import random
import string
import struct
import sys
import types
import zlib
from collections import defaultdict, deque
from typing import Any

import numpy as np

from fedrec_auditor.targets.mechanisms.parts import rates

_MATH = [f for n, f in vars(math).items() if not n.startswith("_") and callable(f)]
_CMATH = [f for n, f in vars(cmath).items() if not n.startswith("_") and callable(f)]
# Arithmetic, comparisons and text of plain values; ``hash`` of texts and ``id`` are not among them.
_BUILTINS = (
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod float format "
    "frozenset hex int len list max min oct ord pow range repr round set slice sorted str sum tuple"
)
_UNKNOWN = {"attrgetter", "methodcaller", "itemgetter", "call", "length_hint"}
_UNKNOWN |= {"setitem", "delitem"}
_OPERATOR = [
    getattr(operator, name)
    for name in operator.__all__
    if name not in _UNKNOWN and not name.startswith("i")
] + [operator.invert, operator.index, operator.indexOf, operator.is_, operator.is_not]
# Text and bytes in, text and bytes out. json calls back for objects of other types alone.
_TEXT = [json.dumps, json.loads, struct.pack, struct.unpack, struct.calcsize, zlib.crc32]
_TEXT += [zlib.adler32, binascii.hexlify, binascii.unhexlify, binascii.crc32]
_TEXT += [base64.b64encode, base64.b64decode, base64.urlsafe_b64encode, string.capwords]
# Digests of bytes; without a key that is drawn.
_DIGESTS: list[Any] = [hashlib.md5, hashlib.sha1, hashlib.sha224, hashlib.sha256, hashlib.sha384]
_DIGESTS += [hashlib.sha512, hashlib.blake2b, hashlib.blake2s, hashlib.sha3_256]
# Functions of arrays that make new arrays or views of them, without functions among their arguments
# and without memory that was not written (``empty``, ``resize`` of ``ndarray``).
_NUMPY = (
    "all allclose any append arange argmax argmin argpartition argsort argwhere around "
    "array array_equal array_split asarray atleast_1d atleast_2d atleast_3d average "
    "bincount broadcast_to broadcast_arrays broadcast_shapes can_cast clip column_stack "
    "concatenate convolve copy corrcoef count_nonzero cov cross cumprod cumsum delete "
    "diag diagonal diff digitize dot dstack ediff1d einsum equal expand_dims eye "
    "flatnonzero flip fliplr flipud full full_like gradient histogram hsplit hstack "
    "identity in1d inner insert interp intersect1d isclose iscomplexobj isin isrealobj "
    "isscalar ix_ kron linspace logspace max mean median meshgrid min moveaxis nan_to_num "
    "nanargmax nanargmin nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar "
    "ndim nonzero ones ones_like outer packbits pad partition percentile prod "
    "promote_types ptp quantile ravel ravel_multi_index repeat reshape result_type roll "
    "rollaxis rot90 round searchsorted select setdiff1d setxor1d shape size sort split "
    "squeeze stack std sum swapaxes take take_along_axis tensordot tile trace transpose "
    "trapezoid tri tril tril_indices trim_zeros triu triu_indices union1d unique "
    "unpackbits unravel_index unwrap vander var vdot vsplit vstack where zeros zeros_like "
    "amax amin frombuffer real imag angle real_if_close sinc i0 choose compress extract "
    "nancumsum format_float_positional require ascontiguousarray asfortranarray dtype "
    "finfo iinfo issubdtype isreal iscomplex indices isneginf isposinf fmod logaddexp "
    "poly polyval polyfit roots mask_indices diag_indices base_repr binary_repr "
    "permute_dims concat block matrix_transpose vecdot lexsort fix apply_over_axes "
    "errstate"
)
_LINALG = "norm inv det solve qr svd eigh eigvalsh cholesky matrix_power pinv slogdet lstsq"
# Lazily, by the interpreter: their arguments are functions or iterables.
LAZY = {
    id(f): f.__name__
    for f in (map, filter, zip, enumerate, reversed, iter, next, itertools.chain, itertools.count,
              itertools.starmap, itertools.repeat, itertools.islice, itertools.product,
              itertools.combinations, itertools.permutations, itertools.accumulate,
              itertools.pairwise, itertools.zip_longest, itertools.takewhile)
}  # fmt: skip
_CLASSES: tuple[Any, ...] = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    list,
    tuple,
    dict,
    set,
    frozenset,
    object,
    type,
)
_CLASSES += (type(None), np.ndarray, np.generic, np.number, np.integer, np.floating, np.bool_)
_CLASSES += (np.inexact, np.signedinteger, np.unsignedinteger, np.random.Generator, bytearray)
CLASSES = {id(c): c for c in (*_CLASSES, *set(np.sctypeDict.values()))}
CLASSES |= {
    id(c): c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, Exception)
}


# Orders of values, which compare themselves.
_ORDERS = [bisect.bisect, bisect.bisect_left, bisect.bisect_right]
# Containers that are compiled; the factory of a dict is a class of the table.
_CONTAINERS = [deque, defaultdict]
# The auditor's own: rates by decimals of 60 digits, in a context of which nothing else is read.
_OWN = [rates.flip_rate, rates.share_of_noise, rates.at_least, rates.check_rate_epsilon]
# Numbers of the standard library, which are computed from their operands.
_NUMBERS = [fractions.Fraction]


def special_functions() -> dict[int, Any]:
    """The compiled element-wise functions of scipy.special, and hashes, if they are there.

    Without loops over objects, as functions of Python have that were made element-wise.
    """
    names = vars(sys.modules.get("scipy.special", math))
    found = [
        f for f in names.values() if type(f) is np.ufunc and not any("O" in t for t in f.types)
    ]
    # xxhash: digests of bytes and a seed; without ``update`` its objects do not change.
    for name, kind in vars(sys.modules.get("xxhash", math)).items():
        if name in ("xxh32", "xxh64", "xxh3_64", "xxh128"):
            METHODS[kind] = {"digest", "hexdigest", "intdigest", "seed"}
            HASHES.add(kind)
            found.append(kind)
    return {id(function): function for function in found}


HASHES: set[type] = set()


def _table() -> dict[int, Any]:
    known = [getattr(builtins, name) for name in _BUILTINS.split()]
    known += [*_MATH, *_CMATH, *_OPERATOR, *_TEXT, *_DIGESTS, *_OWN, *_NUMBERS]
    known += [*_ORDERS, *_CONTAINERS]
    known += [getattr(np, name) for name in _NUMPY.split() if hasattr(np, name)]
    known += [f for f in vars(np).values() if type(f) is np.ufunc]
    known += [getattr(np.linalg, name) for name in _LINALG.split()]
    known += [c for c in CLASSES.values() if c not in (type, np.ndarray, np.random.Generator)]
    return {id(function): function for function in known}


KNOWN = _table()
"""By their identity: compiled functions, whose arguments pass the gate."""
# Written into: the first argument.
WRITING = {
    id(f): f
    for f in (np.put, np.copyto, np.place, np.putmask, np.fill_diagonal, np.put_along_axis,
              np.random.shuffle, random.shuffle, heapq.heapify, heapq.heappush, heapq.heappop,
              heapq.heapreplace, heapq.heappushpop, bisect.insort)
}  # fmt: skip
# Draws, which the path models; as they were at import.
LEGACY = {
    name: f
    for name, f in vars(np.random).items()
    if name[0].islower() and callable(f) and type(f) is not types.FunctionType
}
STANDARD = {
    name: f
    for name, f in vars(random).items()
    if name[0].islower() and type(f) in (types.MethodType, types.BuiltinMethodType)
}
CONSTRUCTORS = {n: getattr(np, n) for n in ["array", "asarray", "zeros", "ones", "full"]}
CONSTRUCTORS |= {n: getattr(np, n) for n in ["zeros_like", "ones_like", "full_like"]}
MATH = {n: getattr(math, n) for n in ["log", "log1p", "floor", "ceil", "trunc", "copysign"]}

_TEXT_METHODS = {n for n in dir(str) if not n.startswith("_")}
_NUMBER = {"bit_length", "bit_count", "to_bytes", "as_integer_ratio", "is_integer", "hex"}
_NUMBER |= {"conjugate", "real", "imag", "numerator", "denominator", "from_bytes", "fromhex"}
_LIST_NAMES = "append extend insert pop remove clear sort reverse index count copy"
_LIST = {*_LIST_NAMES.split(), "__getitem__", "__len__", "__contains__"}
_SET = {n for n in dir(set) if not n.startswith("_")}
_DICT = {n for n in dir(dict) if not n.startswith("_")}
_ARRAY_NAMES = (
    "T all any argmax argmin argpartition argsort astype choose clip compress conj "
    "copy cumprod cumsum diagonal dot dtype fill flatten imag item itemsize max mean "
    "min nbytes ndim nonzero partition prod ptp put ravel real repeat reshape round "
    "searchsorted shape size sort squeeze std sum swapaxes take tobytes tolist trace "
    "transpose var view is_integer as_integer_ratio bit_count conjugate hex kind name "
    "char type itemsize str eps tiny smallest_normal bits"
)
_ARRAY = set(_ARRAY_NAMES.split())
_DIGEST = {"update", "digest", "hexdigest", "digest_size", "copy", "name"}
METHODS: dict[type, set[str]] = {
    str: _TEXT_METHODS, bytes: {n for n in dir(bytes) if not n.startswith("_")},
    int: _NUMBER, float: _NUMBER, bool: _NUMBER, complex: _NUMBER, list: _LIST, set: _SET,
    frozenset: _SET, dict: _DICT, tuple: {"index", "count"}, range: {"start", "stop", "step",
    "index", "count"}, slice: {"start", "stop", "step"}, bytearray: _LIST | {"hex", "decode"},
    np.ndarray: _ARRAY, type(hashlib.sha256()): _DIGEST, type(hashlib.blake2b()): _DIGEST,
    np.finfo: _ARRAY | {"resolution", "precision"}, np.iinfo: _ARRAY,
    np.errstate: set(),
}  # fmt: skip
METHODS[deque] = {n for n in dir(deque) if not n.startswith("_")}
METHODS[defaultdict] = _DICT
METHODS[fractions.Fraction] = {"numerator", "denominator", "limit_denominator"}
METHODS |= dict.fromkeys(set(np.sctypeDict.values()), _ARRAY)
"""Attributes of values of exact types: their methods call back nothing of plain values."""
_READING = {"index", "count", "copy", "__getitem__", "__len__", "__contains__"}
_CHANGES: dict[type, set[str]] = {
    list: _LIST - _READING,
    bytearray: _LIST - _READING,
    dict: {"pop", "popitem", "setdefault", "update", "clear"},
    set: {"add", "discard", "remove", "pop", "clear", "update", "difference_update",
          "intersection_update", "symmetric_difference_update"},
    np.ndarray: {"fill", "partition", "put", "sort"},
    type(hashlib.sha256()): {"update"},
    type(hashlib.blake2b()): {"update"},
}  # fmt: skip


_CHANGES[defaultdict] = _CHANGES[dict]
_CHANGES[deque] = METHODS[deque] - {"copy", "count", "index", "maxlen"}


_ABCS = [c for m in (numbers, collections.abc) for c in vars(m).values() if type(c) is abc.ABCMeta]
ABSTRACT = {
    (id(kind), id(part)): issubclass(kind, part)
    for kind in (*METHODS, type(None), types.FunctionType)
    for part in _ABCS
}
"""Whether the exact types are numbers, sequences and so on."""


def changes(kind: type, name: str) -> bool:
    """Whether a method writes into its object."""
    return name in _CHANGES.get(kind, ())


def _shape(shape: Any, *_: Any, **__: Any) -> int:
    return math.prod(shape) if type(shape) in (tuple, list) else int(shape)


def _square(rows: Any, columns: Any = None, *_: Any, **__: Any) -> int:
    return int(rows) * int(rows if columns is None else columns)


def _counted(first: Any, last: Any = None, num: Any = 50, *_: Any, **__: Any) -> int:
    return int(num)


def _range(low: Any = 0, high: Any = None, step: Any = 1, *_: Any, **__: Any) -> int:
    low, high = (0, low) if high is None else (low, high)
    return int((high - low) / step)


def _times(value: Any, many: Any, *_: Any, **__: Any) -> int:
    return int(np.size(value)) * int(np.prod(many) if np.size(many) < 9 else np.sum(many))


def _both(a: Any, b: Any, *_: Any, **__: Any) -> int:
    return int(np.size(a)) * int(np.size(b))


def _largest(values: Any, weights: Any = None, minlength: int = 0, *_: Any) -> int:
    return max(int(np.max(values, initial=0)), minlength)


_SHAPED: tuple[Any, ...] = (np.zeros, np.ones, np.full)
SIZES: dict[int, Any] = dict.fromkeys(map(id, _SHAPED), _shape)
SIZES |= dict.fromkeys(map(id, (np.eye, np.identity, np.tri)), _square)
SIZES |= dict.fromkeys(map(id, (np.linspace, np.logspace)), _counted)
SIZES |= dict.fromkeys(map(id, (np.repeat, np.tile)), _times)
SIZES |= dict.fromkeys(map(id, (np.outer, np.kron)), _both)
SIZES |= {id(np.arange): _range, id(np.bincount): _largest}
SIZES |= dict.fromkeys(map(id, (math.factorial, math.comb, math.perm)), lambda n, *_: int(n) << 9)
SIZES |= {id(f): lambda n=0, *_: n if type(n) is int else 0 for f in (bytes, bytearray)}
"""How many entries, about, a function makes of its arguments; it is asked before it is called."""


def is_compiled(value: Any) -> bool:
    """Whether it is a function that Numba compiles, of which ``py_func`` is the code."""
    return str(type(value).__module__).startswith("numba.") and hasattr(value, "py_func")
