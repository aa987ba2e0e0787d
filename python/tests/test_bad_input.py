"""Bad arguments give exceptions, never a crash."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import _weft

EXPECTED = (weft.Error, TypeError, ValueError, OverflowError, MemoryError, OSError)

BAD_VALUES = [
    None,
    True,
    -1,
    0,
    2**31,
    2**32 - 1,
    2**32,
    2**64,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "x",
    "a\0b",
    "\ud800",
    "1e400GB",
    b"bytes",
    [],
    [None],
    ["x"],
    [float("nan")],
    [1, 2, 3],
    {},
    {"F": None},
    {"F": "x"},
    {"F": float("nan")},
    {"F": -1},
    {"F": []},
    {"F": [1, -2]},
    {"Q": 1},
    {1: 2},
    object(),
    lambda *args: None,
]

CALLS: dict[Any, dict[str, Any]] = {
    weft.plan: {"schedule": "zb-auto", "ranks": 2, "micros": 2},
    weft.tune: {"ranks": 2, "micros": 2, "iterations": 10},
    weft.compare: {"ranks": 2, "micros": 2},
    weft.simulate: {"schedule": "1f1b", "ranks": 2, "micros": 2},
    weft.partition: {"stages": 2, "layers": 4},
    weft.tune_layouts: {
        "global_batch": 2,
        "ranks": 2,
        "layers": 4,
        "iterations": 10,
        "seconds": 1,
    },
}


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """Lets huge allocations fail at once; a sanitizer reserves too much memory for that."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, old)


def attempt(function: Any, arguments: dict[str, Any]) -> None:
    """Calls a function that may raise an expected exception."""
    with contextlib.suppress(*EXPECTED):
        function(**arguments)


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_every_argument(function: Any) -> None:
    names = inspect.signature(function).parameters
    if function is weft.simulate:
        names = {**names, **inspect.signature(weft.plan).parameters}
    # A search for a huge problem may run for hours instead of failing.
    slow = {"iterations", "seconds"}
    for name in names:
        for value in BAD_VALUES:
            if name in slow and isinstance(value, (int, float)) and value > 100:
                continue
            if name == "options" or (name == "samples" and value == 2**31):
                continue
            attempt(function, {**CALLS[function], name: value})


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("generator", weft.schedules(), ids=lambda generator: generator.name)
def test_sizes(generator: weft.Generator) -> None:
    sizes = (0, 1, 2, 3, 2**24 + 1, 2**32 - 1)
    for ranks in sizes:
        for micros in sizes:
            if 10**6 < ranks * micros < 10**9:
                continue  # possible, but slow
            for chunks in (None, 0, 1, 2**32 - 1):
                attempt(
                    weft.plan,
                    {
                        "schedule": generator.name,
                        "ranks": ranks,
                        "micros": micros,
                        "chunks": chunks,
                    },
                )


def test_methods_of_plans() -> None:
    plan = weft.plan("zb-v", ranks=2, micros=3)
    for value in BAD_VALUES:
        attempt(plan.csv, {"format": value})
        attempt(plan.csv, {"lower": value})
        attempt(plan.check, {"channels": value})
        attempt(plan.check, {"transport": value})
        attempt(plan.check, {"lower": value})
        attempt(plan.svg, {"title": value})
        attempt(plan.svg, {"width": value})
        attempt(plan.svg, {"height": value})
        attempt(plan.svg, {"unit_seconds": value})
        attempt(weft.draw, {"format": value})
        if not isinstance(value, float) or value < 10:
            attempt(plan.bounds, {"effort": value})
        if not isinstance(value, (str, int, float)):
            attempt(weft.load, {"path": value})
            attempt(weft.check, {"schedule": value})
        attempt(weft.parse, {"content": value})
        attempt(weft.parse_trace, {"content": value})


def test_functions_of_the_extension() -> None:
    """The extension checks types itself."""
    plan = _weft.plan({"schedule": b"1f1b", "ranks": 2, "micros": 2})
    schedule = _weft.parse(b"0F0,0B0\n", b"x")
    trace = _weft.plan_trace(plan)
    values = [None, 0, -1, "x", b"x", b"", [], {}, [trace, 1], plan, schedule, trace, object()]
    functions = [getattr(_weft, name) for name in dir(_weft) if not name.startswith("__")]
    for function in functions:
        for first in values:
            for call in ((first,), (first, b"x"), (first, {}), (first, None, 1), ()):
                with contextlib.suppress(*EXPECTED):
                    function(*call)


def test_options_of_the_extension() -> None:
    names = """
    schedule given ranks micros chunks group pipes minimize f i w b fb hop
    forward_hop backward_hop mem_f mem_i mem_w mem_limit stage_costs model rows seq
    flops layers item_costs layer embedding head partition bytes_limit forward_only
    cluster unit_seconds speed bytes gradient_bytes transfers machine
    """
    for key in names.split():
        for value in [*BAD_VALUES, b"a\0b", [1.0] * 5, [1.0] * 3, [float("nan")] * 5]:
            options = {"schedule": b"zb-auto", "ranks": 2, "micros": 2, key: value}
            with contextlib.suppress(*EXPECTED):
                _weft.plan(options)


def test_damaged_schedules() -> None:
    """Random changes of a file give a schedule or an exception."""
    text = weft.plan("dualpipe-v", ranks=2, micros=5).csv(lower="weft")
    draw = random.Random(1)
    alphabet = "0123456789FBIWSENDRCV_(),;\n# \t-\x00\xe9"
    for _ in range(3000):
        characters = list(text)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(characters))
            characters[at] = draw.choice(alphabet)
        with contextlib.suppress(*EXPECTED):
            weft.parse("".join(characters)).check(channels="pair")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        weft.load(tmp_path)
    with pytest.raises(OSError):
        weft.load_trace(tmp_path / "missing.trace")
    binary = tmp_path / "x.csv"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(weft.ParseError):
        weft.load(binary)
    binary.write_bytes(b"")
    with pytest.raises(weft.Error):
        weft.load(binary)
