"""Conversion of arguments: numbers, byte counts, lists and costs.

A value of a wrong type raises TypeError, and a wrong value raises UsageError.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

from weft._errors import UsageError

Number = Union[int, float]
Numbers = Union[Number, Sequence[Number]]
Bytes = Union[int, float, str]
ByteList = Union[Bytes, Sequence[Bytes]]
PathLike = Union[str, "os.PathLike[str]"]

_UNITS = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
_BYTES = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kKMGT]?i?B)?\s*\Z")
MAX_COUNT = 2**32 - 1


def number(value: Any, what: str) -> float:
    """Returns a finite number."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what}: expected a number, not {type(value).__name__}")
    try:
        result = float(value)
    except OverflowError:
        raise UsageError(f"{what}: the number is too large") from None
    if not math.isfinite(result):
        raise UsageError(f"{what}: {result} is not finite")
    return result


def flag(value: Any, what: str) -> bool:
    """Returns True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{what}: expected True or False, not {type(value).__name__}")
    return value


def count(value: Any, what: str) -> int | None:
    """Returns a whole number from 0 to 2^32-1, or None."""
    if value is None:
        return None
    if isinstance(value, bool):
        raise TypeError(f"{what}: expected a whole number, not bool")
    try:
        result = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{what}: expected a whole number, not {type(value).__name__}"
        ) from None
    if not 0 <= result <= MAX_COUNT:
        raise UsageError(f"{what}: {result} is out of range (expected 0 to {MAX_COUNT})")
    return result


def byte_count(value: Any, what: str) -> float:
    """Returns a number of bytes, given as a number or as a text such as "60GB" or "24 GiB"."""
    if not isinstance(value, str):
        result = number(value, what)
    else:
        match = _BYTES.match(value)
        if match is None:
            raise UsageError(f"{what}: {value[:40]!r} is not a number of bytes such as '60GB'")
        try:
            result = float(match[1]) * _UNITS[match[2] or "B"]
        except (ValueError, KeyError):
            raise UsageError(f"{what}: {value[:40]!r} is not a number of bytes") from None
    if not 0 <= result <= 1e18:
        raise UsageError(f"{what}: {result:g} bytes are out of range (expected 0 to 1e18)")
    return result


def is_list(value: Any) -> bool:
    """Returns true for lists, tuples, arrays and tensors of one dimension."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def numbers(value: Any, what: str) -> list[float] | None:
    """Returns one number or a list of numbers as a list."""
    if value is None:
        return None
    if not is_list(value):
        return [number(value, what)]
    result = [number(item, what) for item in value]
    if not result:
        raise UsageError(f"{what}: the list is empty")
    return result


def byte_list(value: Any, what: str) -> list[float] | None:
    """Returns one number of bytes or a list of them as a list."""
    if value is None:
        return None
    if not is_list(value):
        return [byte_count(value, what)]
    result = [byte_count(item, what) for item in value]
    if not result:
        raise UsageError(f"{what}: the list is empty")
    return result


def text(value: Any, what: str) -> bytes | None:
    """Returns a text as the bytes that the C library takes."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{what}: expected a str, not {type(value).__name__}")
    if "\0" in value:
        raise UsageError(f"{what}: the text contains a NUL character")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{what}: the text is not valid Unicode") from None


def choice(value: Any, words: Sequence[str], what: str) -> str:
    """Returns one of several words."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: expected a str, not {type(value).__name__}")
    if value not in words:
        raise UsageError(f"{what}: {value[:40]!r} is not one of {', '.join(words)}")
    return value


def path_text(value: Any, what: str) -> str:
    """Returns a path as a str."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{what}: expected a path, not {type(value).__name__}")
    return os.fsdecode(value)


# -- costs -------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """The distribution of measured times: the number of events, mean, min, median and max."""

    n: int
    mean: float
    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Costs:
    """Times of the stages, and optionally the memory of their activations.

    A value is one number for all stages, or one number per stage.  F is the forward, I the
    input gradient, W the weight gradient, B the whole backward (default: I + W), FB an
    overlapped pair (default: F + B), and C the delay of a message between two ranks.
    `unit_seconds` is the length of a time unit, if it is known.  `memory` is the change of
    memory at each action, as the argument `mem` of weft.plan().  `spread` has the distribution
    of each measured kind, one per stage; that of "C" has one for all.  With
    first_backward_in_w, stage 0 computes its whole backward in W, as torch does: its I takes no
    time and its W the time of B.
    """

    F: Numbers | None = None
    I: Numbers | None = None  # noqa: E741
    W: Numbers | None = None
    B: Numbers | None = None
    FB: Numbers | None = None
    C: Number = 0.0
    unit_seconds: float = 0.0
    memory: Mapping[str, ByteList] | None = None
    spread: Mapping[str, Sequence[Spread]] = field(default_factory=dict)
    first_backward_in_w: bool = False


CostLike = Union[Costs, Mapping[str, Numbers]]
MemoryLike = Mapping[str, ByteList]
ItemLike = Mapping[str, Bytes]

_COST_KEYS = {"F": "f", "I": "i", "W": "w", "B": "b", "FB": "fb"}
_FIRST = "first_backward_in_w"
_ALL_COST_KEYS = (*_COST_KEYS, "C", _FIRST)
_MEMORY_KEYS = {"F": "mem_f", "I": "mem_i", "W": "mem_w"}


def _check_keys(value: Any, allowed: Iterable[str], what: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what}: expected a dict, not {type(value).__name__}")
    for key in value:
        if key not in allowed:
            raise UsageError(f"{what}: {key!r} is not one of {', '.join(allowed)}")


def _cost_mapping(cost: Any) -> Mapping[str, Any]:
    if isinstance(cost, Costs):
        return {key: getattr(cost, key) for key in _ALL_COST_KEYS}
    _check_keys(cost, _ALL_COST_KEYS, "cost")
    return cost  # type: ignore[no-any-return]


def _signed_bytes(value: Any, what: str) -> list[float]:
    """Reads a change of memory, which may be negative if it is a number."""
    items = list(value) if is_list(value) else [value]
    return [byte_count(x, what) if isinstance(x, str) else number(x, what) for x in items]


def _memory_options(mem: Any) -> dict[str, Any]:
    _check_keys(mem, tuple(_MEMORY_KEYS), "mem")
    return {
        name: _signed_bytes(mem[key], f"mem {key}")
        for key, name in _MEMORY_KEYS.items()
        if mem.get(key) is not None
    }


def cost_options(cost: Any, mem: Any, mem_limit: Any) -> dict[str, Any]:
    """Converts the arguments `cost`, `mem` and `mem_limit`."""
    options: dict[str, Any] = {}
    if cost is not None:
        given = _cost_mapping(cost)
        for key, name in _COST_KEYS.items():
            options[name] = numbers(given.get(key), f"cost {key}")
        options["hop"] = number(given.get("C") or 0, "cost C")
        options[_FIRST] = flag(given.get(_FIRST, False), f"cost {_FIRST}")
        options["stage_costs"] = True
    if mem is None and isinstance(cost, Costs):
        mem = cost.memory
    if mem is not None:
        options.update(_memory_options(mem))
    options["mem_limit"] = byte_list(mem_limit, "mem_limit")
    in_bytes = any(
        isinstance(x, str) for x in (mem_limit if is_list(mem_limit) else [mem_limit])
    )
    if in_bytes and mem is None:
        raise UsageError(
            "mem_limit is in bytes, but the bytes of an activation are unknown; give them "
            'per stage with mem=dict(F="1.5GB"), or use a number of activations as the limit'
        )
    return options


def item_values(item: Any, what: str, times: float) -> list[float] | None:
    """Converts the costs of a layer, the embedding or the head: F, I, W, bytes and act."""
    if item is None:
        return None
    _check_keys(item, ("F", "I", "W", "bytes", "act"), what)
    values = [number(item.get(key, times), f"{what} {key}") for key in ("F", "I", "W")]
    return values + [byte_count(item.get(key, 0), f"{what} {key}") for key in ("bytes", "act")]


def unit_of(unit: Any) -> float:
    """Returns the seconds of a unit of time: "s", "ms", "us" or "ns"."""
    units = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    return units[choice(unit, tuple(units), "unit")]


def options_of(**given: Any) -> dict[str, Any]:
    """Returns the arguments that are not None."""
    return {key: value for key, value in given.items() if value is not None}
