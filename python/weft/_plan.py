"""Plans: schedules that are proven and timed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from weft import _check, _weft
from weft._errors import UsageError
from weft._export import Megatron, TorchTitan
from weft._values import (
    ByteList,
    CostLike,
    Costs,
    ItemLike,
    MemoryLike,
    Number,
    PathLike,
    byte_list,
    choice,
    cost_options,
    count,
    is_list,
    item_values,
    number,
    options_of,
    path_text,
    text,
    unit_of,
)

if TYPE_CHECKING:
    from weft._search import Search
    from weft._trace import Trace

KINDS: list[str] = _weft.action_kinds()
_WITHOUT_MICRO = frozenset(("REDUCE_GRAD", "UNSHARD", "RESHARD", "WAIT_REDUCE_GRAD", ""))
# A page draws at most this number of actions.
_MAX_PICTURE = 20000


class Action(NamedTuple):
    """One action of a rank.

    `kind` is F (forward), B (whole backward), I (input gradient), W (weight gradient), SEND_F,
    RECV_F, SEND_B, RECV_B or REDUCE_GRAD, or another kind of a lowered table.  `paired` is true
    if the action runs together with the next one of its row.
    """

    kind: str
    stage: int
    micro: int
    paired: bool = False

    def __str__(self) -> str:
        if self.kind == "":
            return ""
        return f"{self.stage}{self.kind}{'' if self.kind in _WITHOUT_MICRO else self.micro}"


class Event(NamedTuple):
    """A compute action and its start time."""

    start: float
    rank: int
    stage: int
    chunk: int
    micro: int
    kind: str


class StageRange(NamedTuple):
    """The layers of a stage: first_layer .. end_layer - 1, and embedding or head."""

    first_layer: int
    end_layer: int
    embedding: bool
    head: bool

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.end_layer - self.first_layer


@dataclass(frozen=True)
class Bounds:
    """Lower bounds for every order of the same work on the same placement and memory.

    `makespan_by` and `span_by` name the kinds of the best bounds; `each_makespan` and
    `each_span` have all of them.
    """

    makespan: float
    span: float
    makespan_by: str
    span_by: str
    each_makespan: dict[str, float]
    each_span: dict[str, float]


@dataclass(frozen=True)
class Metrics:
    """Times and peaks of a plan.

    makespan is the time from 0 to the end of the last action; span the longest time of one rank
    from its first start to its last end; bubble and bubble_span the idle shares of both;
    bubble_ratio the closed form (P - 1) / M, and efficiency 1 - bubble_ratio.  Lists have one
    value per rank.  peak_memory is in the units of the memory costs.  state_bytes and bytes are
    empty unless the model has bytes.  bound is a proven lower bound of the makespan, and gap
    the relative distance of the makespan from it; both are computed at the first access.
    """

    makespan: float
    span: float
    bubble: float
    bubble_span: float
    bubble_ratio: float
    efficiency: float
    n_actions: int
    n_messages: int
    busy: list[float]
    idle: list[float]
    rank_span: list[float]
    peak_memory: list[float]
    peak_activations: list[int]
    state_bytes: list[int]
    bytes: list[int]
    _plan: Plan = field(repr=False, compare=False)

    @property
    def bound(self) -> float:
        """A lower bound of the makespan."""
        return self._plan.bounds().makespan

    @property
    def gap(self) -> float:
        """The relative distance of the makespan from its bound."""
        return gap_of(self.makespan, self.bound)


def gap_of(time: float, bound: float) -> float:
    """Returns the relative distance of a time from its bound."""
    return time / bound - 1 if 0 < bound * (1 + 1e-9) < time else 0.0


class Plan:
    """A schedule that is proven and timed.

    weft.plan(), weft.tune() and weft.load() make plans.  A plan never changes.
    """

    name: str
    ranks: int
    stages: int
    micros: int
    chunks: int
    placement_kind: str
    pipes: list[list[int]]
    lowered: bool
    forward_only: bool
    unit_seconds: float

    def __init__(self, handle: Any, unit_seconds: float = 0.0, cut: bool = False) -> None:
        info = _weft.schedule_info(handle)
        self._handle = handle
        self._cut = cut  # the partition was given or follows from a model
        self._rows: list[list[Action]] | None = None
        self._info: dict[str, Any] | None = None
        self._bounds: Bounds | None = None
        self.unit_seconds = unit_seconds
        self.search: Search | None = None
        for key in ("name", "ranks", "stages", "micros", "chunks", "placement_kind", "pipes"):
            setattr(self, key, info[key])
        self.lowered, self.forward_only = info["lowered"], info["forward_only"]

    def __repr__(self) -> str:
        return (
            f"<weft.Plan {self.name!r}: {self.ranks} ranks, {self.stages} stages, "
            f"{self.micros} micros, makespan {self.metrics.makespan:g}>"
        )

    # -- contents --

    @property
    def _data(self) -> dict[str, Any]:
        if self._info is None:
            self._info = _weft.plan_info(self._handle)
        return self._info

    @property
    def placement(self) -> list[int]:
        """The rank of each stage.  A schedule with several pipes has one list per pipe."""
        if len(self.pipes) > 1:
            raise UsageError(f"{self.name} has {len(self.pipes)} pipes: use pipes")
        return self.pipes[0]

    @property
    def rows(self) -> list[list[Action]]:
        """The actions of each rank, in order."""
        if self._rows is None:
            self._rows = [
                [
                    Action(KINDS[kind], stage, micro, paired)
                    for kind, stage, micro, paired in _weft.schedule_row(self._handle, r)
                ]
                for r in range(self.ranks)
            ]
        return self._rows

    def stages_of(self, rank: int) -> list[int]:
        """Returns the stages of a rank, in ascending order."""
        if not 0 <= rank < self.ranks:
            raise UsageError(f"rank {rank} is out of range (the plan has {self.ranks} ranks)")
        return sorted(
            {s for pipe in self.pipes for s, owner in enumerate(pipe) if owner == rank}
        )

    @property
    def partition(self) -> list[StageRange]:
        """The layers of each stage."""
        return [StageRange(*stage) for stage in self._data["partition"]]

    @property
    def has_model(self) -> bool:
        """True if the layers of the model were given."""
        return self._cut

    @property
    def costs(self) -> Costs:
        """The times of the stages."""
        data = self._data
        lists: dict[str, Any] = {
            name: data[name.lower()] or None for name in ("F", "I", "W", "B", "FB")
        }
        memory = {name: data[f"mem_{name.lower()}"] for name in ("F", "I", "W")}
        given = {name: value for name, value in memory.items() if value}
        return Costs(
            **lists,
            C=data["hop"],
            unit_seconds=self.unit_seconds,
            memory=given or None,
            first_backward_in_w=data["first_backward_in_w"],
        )

    @property
    def metrics(self) -> Metrics:
        """Times and peaks."""
        data = self._data
        names = [name for name in Metrics.__dataclass_fields__ if name in data]
        return Metrics(
            **{name: data[name] for name in names}, bytes=data["total_bytes"], _plan=self
        )

    def bounds(self, effort: Number = 0) -> Bounds:
        """Computes lower bounds.  A larger `effort` takes longer; 0 means 0.2."""
        if self._bounds is None or effort:
            value = number(effort, "effort") or 0.2
            self._bounds = Bounds(**_weft.plan_bounds(self._handle, value))
        return self._bounds

    def events(self) -> list[Event]:
        """Returns the compute actions with their start times, in order of time."""
        events = _weft.plan_events(self._handle)
        return [Event(*event[:5], KINDS[event[5]]) for event in events]

    def trace(self) -> Trace:
        """Returns the planned times as a trace."""
        from weft._trace import Trace

        return Trace(_weft.plan_trace(self._handle), self.unit_seconds)

    # -- proof --

    def check(
        self,
        channels: str = "direction",
        transport: str = "buffered",
        lower: str | None = None,
    ) -> _check.Report:
        """Proves the schedule with its messages, and raises ScheduleError if it is wrong.

        With channels="direction", each direction of data between two ranks has its own queue;
        with "pair", both directions share one queue, as in torch.  `transport` is "buffered",
        "rendezvous" or "depth=N".  If the plan has no messages, `lower` adds them; the default
        fits the channels.
        """
        report = _check.verify(self._handle, channels, transport, lower)
        report.raise_if_wrong(self.name)
        return report

    # -- output --

    def csv(
        self, path: PathLike | None = None, format: str = "weft", lower: str | None = None
    ) -> str:
        """Returns the schedule as CSV, and writes it to `path` if that is given.

        format="weft" has a header; format="pytorch" has rows only, which torch reads as a
        "compute_only" table.  `lower` adds the messages (see weft.lowerings()).  Raises
        ScheduleError if torch would refuse the rows or run them with wrong results.
        """
        pytorch = choice(format, ("weft", "pytorch"), "format") == "pytorch"
        handle = self._handle if lower is None else _check.lower(self._handle, lower)
        if pytorch and lower == "weft":
            raise UsageError(
                "PyTorch cannot run weft's messages; use another of weft.lowerings(), or leave "
                "out lower: PyTorch adds its own"
            )
        if pytorch:
            _check.require_torch(handle, self.name)
        result = _weft.schedule_text(handle, pytorch)
        if path is not None:
            write_text(path, result)
        return result

    def svg(self, path: PathLike | None = None, **options: Any) -> str:
        """Returns the timeline as SVG, and writes it to `path` if that is given."""
        return self.trace().svg(path, **options)

    def html(self, path: PathLike | None = None, **options: Any) -> str:
        """Returns the timeline as an HTML page, and writes it to `path` if that is given."""
        return self.trace().html(path, **options)

    def _repr_html_(self) -> str:
        import html

        metrics = self.metrics
        figures = {
            "makespan": f"{metrics.makespan:g}",
            "bubble": f"{100 * metrics.bubble:.1f} %",
            "peak activations": str(max(metrics.peak_activations)),
            "peak memory": f"{max(metrics.peak_memory):g}",
            "bound": f"{metrics.bound:g}",
            "proven gap": f"{100 * metrics.gap:.1f} %",
        }
        if metrics.bytes:
            figures["peak bytes"] = f"{max(metrics.bytes):,}"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in figures)
        row = "".join(f"<td>{html.escape(value)}</td>" for value in figures.values())
        title = (
            f"{html.escape(self.name)}: {self.ranks} ranks, {self.stages} stages, "
            f"{self.micros} micro-batches"
        )
        picture = self.svg() if metrics.n_actions <= _MAX_PICTURE else ""
        return f"<p>{title}</p>{picture}<table><tr>{head}</tr><tr>{row}</tr></table>"

    def torchtitan(self) -> TorchTitan:
        """Returns the settings of torchtitan, or raises UsageError with the reason."""
        return TorchTitan(**_weft.torchtitan(self._handle))

    def megatron(self) -> Megatron:
        """Returns the arguments of Megatron-LM, or raises UsageError with the reason."""
        return Megatron(**_weft.megatron(self._handle))


# -- input -------------------------------------------------------------------------------------


def write_text(path: PathLike, content: str) -> None:
    """Writes a file."""
    with open(path_text(path, "path"), "w", encoding="utf-8", newline="") as file:
        file.write(content)


def partition_text(partition: Any) -> bytes | None:
    """Converts a partition: a word, a layout string, or the number of layers of each stage."""
    if partition is None or isinstance(partition, str):
        return text(partition, "partition")
    if not is_list(partition):
        raise TypeError("partition: expected a str or a list of whole numbers")
    counts = [count(value, "partition") for value in partition]
    if not counts or None in counts:
        raise UsageError("partition: expected the number of layers of each stage")
    return ",".join(map(str, counts)).encode()


def model_options(
    layers: Any,
    partition: Any,
    model: Any,
    rows: Any,
    seq: Any,
    tflops: Any,
    layer_cost: Any,
    embedding_cost: Any,
    head_cost: Any,
) -> dict[str, Any]:
    """Converts the arguments of the model, and checks that they fit together."""
    items = (layer_cost, embedding_cost, head_cost)
    if model is not None and any(item is not None for item in items):
        raise UsageError(
            "model determines the costs of items; leave out layer_cost and the others"
        )
    if model is None and any(value is not None for value in (rows, seq, tflops)):
        raise UsageError("rows, seq and tflops need model")
    speed = None if tflops is None else number(tflops, "tflops") * 1e12
    if speed is not None and not 0 < speed <= 1e21:
        raise UsageError(
            f"tflops: {tflops} is out of range (expected more than 0, at most 1e9)"
        )
    return options_of(
        layers=count(layers, "layers"),
        partition=partition_text(partition),
        model=text(model, "model"),
        rows=count(rows, "rows"),
        seq=count(seq, "seq"),
        flops=speed,
        layer=item_values(layer_cost, "layer_cost", 1),
        embedding=item_values(embedding_cost, "embedding_cost", 0),
        head=item_values(head_cost, "head_cost", 0),
        item_costs=any(item is not None for item in items) or None,
    )


def size_options(
    ranks: Any, micros: Any, chunks: Any, group: Any, pipes: Any
) -> dict[str, Any]:
    """Converts the sizes of a schedule."""
    return options_of(
        ranks=count(ranks, "ranks"),
        micros=count(micros, "micros"),
        chunks=count(chunks, "chunks"),
        group=count(group, "group"),
        pipes=count(pipes, "pipes"),
    )


def _schedule_options(schedule: Any) -> dict[str, Any]:
    """Converts a schedule: a name, a plan, or the path of a CSV file."""
    if isinstance(schedule, Plan):
        return {
            "schedule": text(schedule.name, "schedule") or b"plan",
            "given": schedule._handle,
        }
    if isinstance(schedule, os.PathLike):
        path = path_text(schedule, "schedule")
        return {"schedule": text(path, "schedule"), "given": read_schedule(path)}
    name = text(schedule, "schedule")
    if name is None:
        raise TypeError("schedule: expected a name, a path or a plan")
    if schedule.endswith(".csv"):
        return {"schedule": name, "given": read_schedule(schedule)}
    if schedule not in {row[0] for row in _weft.generators()}:
        raise UsageError(f"there is no schedule {schedule[:40]!r} (weft.schedules() lists all)")
    return {"schedule": name}


def read_schedule(path: PathLike) -> Any:
    """Reads a schedule file and returns its handle."""
    name = path_text(path, "path")
    with open(name, "rb") as file:
        return _weft.parse(file.read(), os.fsencode(name))


def _unit_seconds(cost: Any, tflops: Any, unit: Any) -> float:
    if isinstance(cost, Costs):
        return cost.unit_seconds
    return unit_of(unit) if tflops is not None else 0.0


def plan(
    schedule: str | PathLike | Plan,
    *,
    ranks: int | None = None,
    micros: int | None = None,
    chunks: int | None = None,
    group: int | None = None,
    pipes: int | None = None,
    forward_only: bool = False,
    cost: CostLike | None = None,
    mem: MemoryLike | None = None,
    mem_limit: ByteList | None = None,
    minimize: str = "span",
    layers: int | None = None,
    partition: str | list[int] | None = None,
    model: str | None = None,
    rows: int | None = None,
    seq: int | None = None,
    tflops: Number | None = None,
    unit: str = "ms",
    layer_cost: ItemLike | None = None,
    embedding_cost: ItemLike | None = None,
    head_cost: ItemLike | None = None,
    bytes_limit: ByteList | None = None,
) -> Plan:
    """Generates, proves and times a schedule.

    `schedule` is a name of weft.schedules(), the path of a CSV file, or a plan, which is timed
    again with other costs.  `cost` has the times of the stages, such as dict(F=10, I=12, W=8,
    C=1) or dict(F=[11, 8, 12]); weft.Costs describes the keys.  `mem` is the change of memory
    at each action, such as dict(F=1, I=0, W=-1), and `mem_limit` the maximum of a rank.
    `partition` is "even", "balanced", a Megatron layout string, or the number of layers of each
    stage.  Bytes are numbers or texts such as "60GB".  The other arguments are those of `weft
    plan --help`.
    """
    options = {
        **_schedule_options(schedule),
        **size_options(ranks, micros, chunks, group, pipes),
        **cost_options(cost, mem, mem_limit),
        **model_options(
            layers, partition, model, rows, seq, tflops, layer_cost, embedding_cost, head_cost
        ),
        "minimize": choice(minimize, ("span", "makespan"), "minimize").encode(),
        "forward_only": bool(forward_only),
        "bytes_limit": byte_list(bytes_limit, "bytes_limit"),
        "unit_seconds": unit_of(unit),
        "machine": tflops is not None,
    }
    if "given" not in options and (not options.get("ranks") or not options.get("micros")):
        raise UsageError(f"{schedule} needs ranks and micros")
    given = any(value is not None for value in (layers, partition, model, layer_cost))
    return Plan(_weft.plan(options), _unit_seconds(cost, tflops, unit), given)


def load(
    path: PathLike,
    *,
    cost: CostLike | None = None,
    mem: MemoryLike | None = None,
) -> Plan:
    """Reads a schedule in weft's or PyTorch's CSV form, proves it and times it.

    Raises ParseError with line and column if the file is not a schedule, and ScheduleError if
    the schedule is wrong.
    """
    handle = read_schedule(path)
    report = _check.verify(handle, "direction", "buffered", None)
    if any(finding.rule != "channel" for finding in report.findings):
        report.raise_if_wrong(path_text(path, "path"))
    options = {
        "schedule": os.fsencode(path_text(path, "path")),
        "given": handle,
        **cost_options(cost, mem, None),
    }
    return Plan(_weft.plan(options), _unit_seconds(cost, None, "ms"))


def parse(content: str, *, cost: CostLike | None = None, source: str = "text") -> Plan:
    """Reads a schedule from a text; see weft.load()."""
    data = text(content, "content")
    name = text(source, "source")
    if data is None or name is None:
        raise TypeError("content and source: expected a str")
    options = {
        "schedule": name,
        "given": _weft.parse(data, name),
        **cost_options(cost, None, None),
    }
    return Plan(_weft.plan(options), _unit_seconds(cost, None, "ms"))


def check(
    schedule: PathLike | Plan,
    *,
    channels: str | None = None,
    transport: str = "buffered",
    lower: str | None = None,
    raises: bool = True,
) -> _check.Report:
    """Proves a schedule file or a plan, and returns the report.

    Raises ScheduleError with rank, action and cause if the schedule is wrong, unless `raises`
    is false.  The default of `channels` is "pair" for a file of PyTorch, which has no header,
    and "direction" otherwise.  Plan.check() describes the other arguments.
    """
    if isinstance(schedule, Plan):
        handle, name, header = schedule._handle, schedule.name, True
    else:
        name = path_text(schedule, "schedule")
        with open(name, "rb") as file:
            content = file.read()
        header = content.startswith(b"# weft")
        handle = _weft.parse(content, os.fsencode(name))
    model = channels if channels is not None else "direction" if header else "pair"
    report = _check.verify(handle, model, transport, lower)
    if raises:
        report.raise_if_wrong(name)
    return report


class Generator(NamedTuple):
    """A schedule that weft generates."""

    name: str
    help: str
    limits: str
    chunks: int


def schedules() -> list[Generator]:
    """Returns all schedules that weft generates."""
    return [Generator(*row[:4]) for row in _weft.generators()]


class Model(NamedTuple):
    """A named model."""

    name: str
    help: str


def models() -> list[Model]:
    """Returns the named models for the argument `model`.  "dN" is GPT-2 with N layers."""
    return [Model(*row) for row in _weft.models()]
