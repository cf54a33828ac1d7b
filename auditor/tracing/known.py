"""Table of the compiled functions that traced code may call: their results depend on arguments
alone.

Each entry is the function itself, as it was when this module was imported. These functions keep no
state between calls, read no clock and draw no random numbers. For arguments of the types that the
module ``gate`` allows, they call no methods that tracing cannot see.
"""

from __future__ import annotations

import abc
import base64
import binascii
import bisect
import builtins
import cmath
import collections
import collections.abc
import fractions
import hashlib
import heapq
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

from fedrec_auditor.targets.mechanisms.parts import bases


def split_names(text: str) -> set[str]:
    """Returns the names in ``text``, which are separated by spaces."""
    return set(text.split())


# Arithmetic, comparisons and text of built-in values, without ``id`` and ``hash``, which for text
# differs between processes.
_BUILTINS = (
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod float format "
    "frozenset hex int len list max min oct ord pow range repr round set slice sorted str sum tuple"
)
_OPERATOR = (
    "abs add and_ concat contains countOf eq floordiv ge getitem gt index indexOf inv invert is_ "
    "is_not le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor"
)
# Functions of arrays that return new arrays or views. Excluded are functions that take functions as
# arguments, and functions that return uninitialised memory (``empty``, ``resize`` of ``ndarray``).
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
_MODULES: dict[Any, str] = {
    builtins: _BUILTINS,
    operator: _OPERATOR,
    math: " ".join(n for n, f in vars(math).items() if n[0] != "_" and callable(f)),
    cmath: " ".join(n for n, f in vars(cmath).items() if n[0] != "_" and callable(f)),
    np: _NUMPY + " " + " ".join(n for n, f in vars(np).items() if type(f) is np.ufunc),
    np.linalg: _LINALG,
    # Functions from text or bytes to text or bytes. json calls methods only of other types.
    json: "dumps loads",
    struct: "pack unpack calcsize",
    zlib: "crc32 adler32",
    binascii: "hexlify unhexlify crc32",
    base64: "b64encode b64decode urlsafe_b64encode",
    string: "capwords",
    # Digests of bytes that use no random key.
    hashlib: "md5 sha1 sha224 sha256 sha384 sha512 blake2b blake2s sha3_256",
    # Searches in sorted lists, which compare values by built-in code.
    bisect: "bisect bisect_left bisect_right",
    # Compiled containers; the default factory of a dict is a class from this table.
    collections: "deque defaultdict",
    # Numbers that are computed from their operands.
    fractions: "Fraction",
    # Functions of this package that compute rates with 60 decimal digits, in a separate context.
    bases: "compute_flip_rate compute_input_ignore_prob round_up check_epsilon_range",
}
_CLASSES: tuple[Any, ...] = (
    int, float, bool, str, bytes, complex, list, tuple, dict, set, frozenset, object, type,
    type(None), bytearray, np.ndarray, np.generic, np.number, np.integer, np.floating, np.bool_,
    np.inexact, np.signedinteger, np.unsignedinteger, np.random.Generator,
)  # fmt: skip
# Compiled classes that traced code may use, by id.
KNOWN_CLASSES = {id(c): c for c in (*_CLASSES, *set(np.sctypeDict.values()))}
_BUILTIN_CLASSES = [c for c in vars(builtins).values() if isinstance(c, type)]
KNOWN_CLASSES |= {id(c): c for c in _BUILTIN_CLASSES if issubclass(c, Exception)}


def list_library_functions() -> dict[int, Any]:
    """Returns the element-wise functions of scipy.special and the hashes of xxhash, keyed by
    ``id``.

    Each library is included if it has been imported. Element-wise functions that accept arrays of
    objects are excluded, because they may call Python functions.
    """
    names = vars(sys.modules.get("scipy.special", math))
    ufuncs = [f for f in names.values() if type(f) is np.ufunc]
    functions = [f for f in ufuncs if not any("O" in t for t in f.types)]
    # xxhash computes digests of bytes and a seed; its objects change only by ``update``.
    for name, kind in vars(sys.modules.get("xxhash", math)).items():
        if name in ("xxh32", "xxh64", "xxh3_64", "xxh128"):
            ALLOWED_ATTRS[kind] = {"digest", "hexdigest", "intdigest", "seed"}
            XXHASH_TYPES.add(kind)
            functions.append(kind)
    return {id(function): function for function in functions}


# Digest classes of xxhash, added by ``list_library_functions`` if xxhash has been imported.
XXHASH_TYPES: set[type] = set()


ALLOWED_FUNCTIONS = {
    id(function): function
    for module, names in _MODULES.items()
    for function in (getattr(module, name, None) for name in names.split())
    if function is not None
}
_EXCLUDED = (type, np.ndarray, np.random.Generator)
ALLOWED_FUNCTIONS |= {i: c for i, c in KNOWN_CLASSES.items() if c not in _EXCLUDED}
"""Allowed compiled functions, by the function's id; ``gate`` checks their arguments."""
# Functions that change their first argument.
WRITING_FUNCTIONS = {
    id(f): f
    for f in (np.put, np.copyto, np.place, np.putmask, np.fill_diagonal, np.put_along_axis,
              np.random.shuffle, random.shuffle, heapq.heapify, heapq.heappush, heapq.heappop,
              heapq.heapreplace, heapq.heappushpop, bisect.insort)
}  # fmt: skip
# Global random functions of NumPy, by name, as they were at import; ``generator`` replaces them.
NUMPY_RANDOM = {
    name: f
    for name, f in vars(np.random).items()
    if name[0].islower() and callable(f) and type(f) is not types.FunctionType
}
# Global functions of Python's module ``random``, by name; ``generator`` replaces them, too.
RANDOM_FUNCTION_BY_NAME = {
    name: f
    for name, f in vars(random).items()
    if name[0].islower() and type(f) in (types.MethodType, types.BuiltinMethodType)
}
# Functions that make arrays, by name. The module ``arrays`` replaces them by functions that accept
# values that depend on random draws.
ARRAY_CONSTRUCTORS = {n: getattr(np, n) for n in ["array", "asarray", "zeros", "ones", "full"]}
ARRAY_CONSTRUCTORS |= {n: getattr(np, n) for n in ["zeros_like", "ones_like", "full_like"]}
# Functions of Python's module ``math``, by name, which the module ``arrays`` replaces likewise.
MATH_FUNCTIONS = {
    n: getattr(math, n) for n in ["log", "log1p", "floor", "ceil", "trunc", "copysign"]
}


def _public_names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


_NUMBER = split_names(
    "bit_length bit_count to_bytes as_integer_ratio is_integer hex conjugate real imag numerator "
    "denominator from_bytes fromhex"
)
_LIST = _public_names(list) | {"__getitem__", "__len__", "__contains__"}
_ARRAY = split_names(
    "T all any argmax argmin argpartition argsort astype choose clip compress conj copy cumprod "
    "cumsum diagonal dot dtype fill flatten imag item itemsize max mean min nbytes ndim nonzero "
    "partition prod ptp put ravel real repeat reshape round searchsorted shape size sort squeeze "
    "std sum swapaxes take tobytes tolist trace transpose var view is_integer as_integer_ratio "
    "bit_count conjugate hex kind name char type itemsize str eps tiny smallest_normal bits"
)
_DIGEST = {"update", "digest", "hexdigest", "digest_size", "copy", "name"}
ALLOWED_ATTRS: dict[Any, set[str]] = {k: _public_names(k) for k in (str, bytes, dict, set, deque)}
ALLOWED_ATTRS |= dict.fromkeys((int, float, bool, complex), _NUMBER)
ALLOWED_ATTRS |= dict.fromkeys((type(hashlib.sha256()), type(hashlib.blake2b())), _DIGEST)
ALLOWED_ATTRS |= dict.fromkeys((np.ndarray, np.iinfo, *set(np.sctypeDict.values())), _ARRAY)
ALLOWED_ATTRS |= {
    list: _LIST, bytearray: _LIST | {"hex", "decode"}, frozenset: ALLOWED_ATTRS[set],
    defaultdict: ALLOWED_ATTRS[dict], tuple: {"index", "count"}, np.errstate: set(),
    range: {"start", "stop", "step", "index", "count"}, slice: {"start", "stop", "step"},
    np.finfo: _ARRAY | {"resolution", "precision"},
    fractions.Fraction: {"numerator", "denominator", "limit_denominator"},
}  # fmt: skip
"""Allowed attributes of values, by their exact type; these methods run no traced code."""
_READING = {"index", "count", "copy", "__getitem__", "__len__", "__contains__", "maxlen"}
_SET_CHANGES = "add discard remove pop clear update difference_update intersection_update"
_CHANGES: dict[Any, set[str]] = {kind: ALLOWED_ATTRS[kind] - _READING for kind in (list, deque)}
_CHANGES |= {k: {"pop", "popitem", "setdefault", "update", "clear"} for k in (dict, defaultdict)}
_CHANGES |= {key: {"update"} for key in (type(hashlib.sha256()), type(hashlib.blake2b()))}
_CHANGES |= {
    bytearray: _LIST - _READING,
    set: split_names(_SET_CHANGES) | {"symmetric_difference_update"},
    np.ndarray: {"fill", "partition", "put", "sort"},
}
_ABCS = [c for m in (numbers, collections.abc) for c in vars(m).values() if type(c) is abc.ABCMeta]
# Whether a type is a subclass of an abstract class, by the ids of both classes.
SUBCLASS_TABLE = {
    (id(kind), id(part)): issubclass(kind, part)
    for kind in (*ALLOWED_ATTRS, type(None), types.FunctionType)
    for part in _ABCS
}


def is_mutating(kind: type, name: str) -> bool:
    """Whether the method ``name`` of the type ``kind`` changes the object on which it is called."""
    return name in _CHANGES.get(kind, ())


def _count_entries(shape: Any, *_: Any, **__: Any) -> int:
    return math.prod(shape) if type(shape) in (tuple, list) else int(shape)


def _count_range(low: Any = 0, high: Any = None, step: Any = 1, *_: Any, **__: Any) -> int:
    low, high = (0, low) if high is None else (low, high)
    return int((high - low) / step)


def _count_copies(value: Any, many: Any, *_: Any, **__: Any) -> int:
    return int(np.size(value)) * int(np.prod(many) if np.size(many) < 9 else np.sum(many))


_RULES: list[tuple[tuple[Any, ...], Any]] = [
    ((np.zeros, np.ones, np.full), _count_entries),
    ((np.arange,), _count_range),
    ((np.repeat, np.tile), _count_copies),
    ((np.eye, np.identity, np.tri), lambda n, m=None, *_, **__: int(n) * int(m or n)),
    ((np.linspace, np.logspace), lambda low, high=0, num=50, *_, **__: int(num)),
    ((np.outer, np.kron), lambda a, b, *_, **__: int(np.size(a)) * int(np.size(b))),
    (
        (np.bincount,),
        lambda v, weights=None, minlength=0: max(int(np.max(v, initial=0)), minlength),
    ),
    ((math.factorial, math.comb, math.perm), lambda n, *_: int(n) << 9),
    ((bytes, bytearray), lambda n=0, *_: n if type(n) is int else 0),
]
# Functions that estimate the number of entries of a result from the arguments of the call, by the
# id of the called function.
RESULT_SIZE_RULES = {id(function): rule for functions, rule in _RULES for function in functions}


def is_numba_compiled(value: Any) -> bool:
    """Whether Numba compiled the function ``value``; its Python code is then ``value.py_func``."""
    return str(type(value).__module__).startswith("numba.") and hasattr(value, "py_func")
