"""Traces: timed events, planned or measured, and their pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft import _weft
from weft._errors import ParseError, UsageError
from weft._plan import Plan, plan, write_text
from weft._values import (
    Costs,
    Number,
    PathLike,
    Spread,
    choice,
    count,
    number,
    options_of,
    path_text,
    text,
)

_FORMATS = ("svg", "html", "text", "chrome", "trace")
_ENDINGS = {
    ".svg": "svg",
    ".html": "html",
    ".txt": "text",
    ".json": "chrome",
    ".trace": "trace",
}


class TraceEvent(NamedTuple):
    """One event: `action` is the text of the action.

    `lane` is "compute", "send", "receive", "collective" (UNSHARD, RESHARD, REDUCE_GRAD) or
    "wait".  The action of a wait is what the rank waits for.
    """

    start: float
    rank: int
    lane: str
    action: str
    length: float
    bytes: int
    peer: int | None


@dataclass(frozen=True)
class TraceSummary:
    """Metrics of a trace, named as in weft.Metrics."""

    makespan: float
    span: float
    bubble: float
    bubble_span: float
    n_compute: int
    n_messages: int
    bytes: int
    busy: list[float]
    idle: list[float]


@dataclass(frozen=True)
class Difference:
    """Differences between a planned and a measured trace, in the unit of the planned one."""

    planned: float
    measured: float
    matched: int
    planned_only: int
    measured_only: int
    planned_busy: float
    measured_busy: float
    max_start_diff: float
    max_length_diff: float


class Trace:
    """The actions of every rank with their times.

    `unit_seconds` is the length of a time unit; 0 means an abstract unit.
    """

    def __init__(self, handle: Any, unit_seconds: float = 0.0) -> None:
        info = _weft.trace_info(handle)
        self._handle = handle
        self._info = info
        self.name: str = info["name"]
        self.ranks: int = info["ranks"]
        self.stages: int = info["stages"]
        self.micros: int = info["micros"]
        self.unit_seconds: float = info["unit_seconds"] or unit_seconds

    def __repr__(self) -> str:
        return (
            f"<weft.Trace {self.name!r}: {self.ranks} ranks, {self.stages} stages, "
            f"{self.micros} micros, makespan {self.summary.makespan:g}>"
        )

    @property
    def summary(self) -> TraceSummary:
        """Times and sums."""
        names = TraceSummary.__dataclass_fields__
        return TraceSummary(**{name: self._info[name] for name in names})

    def events(self) -> list[TraceEvent]:
        """Returns all events, by rank, lane and start."""
        no_rank = 2**32 - 1
        events = _weft.trace_events(self._handle)
        return [
            TraceEvent(*event[:6], None if event[6] == no_rank else event[6])
            for event in events
        ]

    def text(self, path: PathLike | None = None) -> str:
        """Returns weft's trace format, and writes it to `path` if that is given."""
        result = _weft.trace_text(self._handle)
        if path is not None:
            write_text(path, result)
        return result

    def costs(self) -> Costs:
        """Returns the mean times of each stage and of a message, in the unit of the trace."""
        data = _weft.trace_costs(self._handle)
        return Costs(
            F=data["f"],
            I=data["i"],
            W=data["w"],
            B=data["b"],
            FB=data["fb"],
            C=data["hop"],
            unit_seconds=self.unit_seconds,
            spread={
                kind: [Spread(*spread) for spread in stages]
                for kind, stages in data["spread"].items()
                if any(n for n, *_ in stages)
            },
        )

    def over(self, planned: Plan) -> Overlay:
        """Lays this trace under a plan.

        A plan without a unit of time is timed with the costs of this trace.
        """
        if not isinstance(planned, Plan):
            raise TypeError("planned: expected a plan")
        if self.unit_seconds and not planned.unit_seconds:
            planned = plan(planned, cost=self.costs())
        return Overlay(planned.trace(), self)

    def svg(self, path: PathLike | None = None, **options: Any) -> str:
        """Returns the timeline as SVG, and writes it to `path` if that is given."""
        return draw(self, path=path, format="svg", **options)

    def html(self, path: PathLike | None = None, **options: Any) -> str:
        """Returns the timeline as an HTML page, and writes it to `path` if that is given."""
        return draw(self, path=path, format="html", **options)

    def _repr_html_(self) -> str:
        return self.svg()


@dataclass(frozen=True)
class Overlay:
    """A plan and a measured trace on one time axis."""

    planned: Trace
    measured: Trace

    def difference(self) -> Difference:
        """Compares matching events."""
        return Difference(**_weft.trace_compare(self.planned._handle, self.measured._handle))

    def save(self, path: PathLike, **options: Any) -> None:
        """Writes a picture; the ending of the file name selects the format."""
        draw(self.planned, self.measured, path=path, **options)

    def svg(self) -> str:
        """Returns the picture as SVG."""
        return draw(self.planned, self.measured, format="svg")

    def _repr_html_(self) -> str:
        return self.svg()


def _format_of(path: PathLike | None, form: str | None) -> str:
    if form is not None:
        return choice(form, _FORMATS, "format")
    if path is None:
        return "svg"
    ending = os.path.splitext(path_text(path, "path"))[1]
    if ending not in _ENDINGS:
        raise UsageError(f"path: {ending!r} is not one of {' '.join(_ENDINGS)}")
    return _ENDINGS[ending]


def _unit_for(traces: Sequence[Trace]) -> float | None:
    """Returns the unit of abstract traces that are drawn with measured ones."""
    units = {trace.unit_seconds for trace in traces if not trace._info["unit_seconds"]} - {0.0}
    mixed = {bool(trace._info["unit_seconds"]) for trace in traces} == {True, False}
    if len(units) > 1:
        raise UsageError("the plans have different units of time; draw them separately")
    if mixed and not units:
        raise UsageError(
            "some traces are in real time and others in abstract units; make the plan with "
            "costs that have a unit, such as trace.costs(), or give unit_seconds"
        )
    return next(iter(units), None)


def draw(
    *sources: Plan | Trace,
    path: PathLike | None = None,
    format: str | None = None,
    title: str | None = None,
    width: int | None = None,
    height: int | None = None,
    lanes: bool = False,
    unit_seconds: Number | None = None,
    colour: bool = False,
) -> str:
    """Draws plans and traces one above the other on one time axis.

    `format` is "svg", "html", "text", "chrome" (for Perfetto) or "trace"; the default is that
    of the ending of `path`, or "svg".  `width` and `height` are pixels, or columns of text.
    `lanes` draws sends and receives in separate rows.  Returns the picture, and writes it to
    `path` if that is given.
    """
    traces = [item.trace() if isinstance(item, Plan) else item for item in sources]
    if not traces or not all(isinstance(item, Trace) for item in traces):
        raise TypeError("draw: expected plans and traces")
    form = _format_of(path, format)
    unit = _unit_for(traces) if unit_seconds is None else number(unit_seconds, "unit_seconds")
    options = options_of(
        format=form.encode(),
        title=text(title, "title"),
        width=count(width, "width"),
        height=count(height, "height"),
        lanes=bool(lanes),
        unit_seconds=unit,
        columns=(count(width, "width") or 80) if form == "text" else None,
        colour=bool(colour),
    )
    result = _weft.draw([trace._handle for trace in traces], options)
    if path is not None:
        write_text(path, result)
    return result


def read_profile(path: PathLike) -> bytes:
    """Reads a profile of torch.profiler, which may be compressed with gzip."""
    name = path_text(path, "path")
    if not name.endswith(".gz"):
        with open(name, "rb") as file:
            return file.read()
    import gzip
    import zlib

    try:
        with gzip.open(name, "rb") as packed:
            return packed.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        failure = ParseError(f"{name}: {error}", "DATA")
        failure.file = name
        raise failure from None


def read_profiles(paths: Iterable[PathLike], step: int = -1) -> Trace:
    """Makes a trace of one step of the profiles of all ranks, which are read one by one."""
    profiles = ((read_profile(path), os.fsencode(path), None) for path in paths)
    return Trace(_weft.kineto_trace(profiles, step))


def load_trace(path: PathLike) -> Trace:
    """Reads a trace in weft's text form, or a profile of torch.profiler (.json, .json.gz).

    wt.trace() of weft.torch reads the profiles of several ranks.
    """
    name = path_text(path, "path")
    if name.endswith((".json", ".json.gz")):
        return read_profiles([name])
    with open(name, "rb") as file:
        return Trace(_weft.trace_parse(file.read(), os.fsencode(name)))


def parse_trace(content: str, source: str = "text") -> Trace:
    """Reads a trace from a text in weft's form."""
    data, name = text(content, "content"), text(source, "source")
    if data is None or name is None:
        raise TypeError("content and source: expected a str")
    return Trace(_weft.trace_parse(data, name))
