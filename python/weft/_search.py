"""Comparison, simulation, partitions, and the search for orders and layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft import _weft
from weft._errors import UsageError
from weft._plan import (
    Bounds,
    Plan,
    StageRange,
    model_options,
    partition_text,
    plan,
    size_options,
)
from weft._trace import Trace
from weft._values import (
    ByteList,
    Bytes,
    CostLike,
    Costs,
    ItemLike,
    MemoryLike,
    Number,
    Numbers,
    PathLike,
    byte_count,
    byte_list,
    choice,
    cost_options,
    count,
    number,
    numbers,
    options_of,
    text,
    unit_of,
)

Progress = Callable[[dict[str, Any]], Any]


def _machine_options(
    cluster: Any, unit: Any, bytes: Any, gradient_bytes: Any, speed: Any
) -> dict[str, Any]:
    return options_of(
        cluster=text(cluster, "cluster"),
        unit_seconds=unit_of(unit),
        bytes=byte_list(bytes, "bytes"),
        gradient_bytes=byte_list(gradient_bytes, "gradient_bytes"),
        speed=numbers(speed, "speed"),
        machine=True,
    )


def _check_cluster(cluster: Any, cost: dict[str, Any], model: Any, tflops: Any) -> None:
    if cluster is not None and cost.get("hop"):
        raise UsageError("cluster determines the times of hops; leave out C of cost")
    if cluster is not None and model is not None and tflops is None:
        raise UsageError("cluster with model needs tflops")


# -- orders ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """How weft.tune() found a plan.

    `bound` is a proven lower bound of the objective for every schedule with the same placement,
    costs and limits, `gap` the distance from it, and `proven` is true if the order is optimal.
    `start` is the best generator and its times.  `interrupted` is true if a KeyboardInterrupt
    ended the search.
    """

    minimize: str
    bound: float
    gap: float
    proven: bool
    origin: str
    start: str
    start_makespan: float
    start_span: float
    evaluations: int
    seconds: float
    interrupted: bool


def tune(
    *,
    ranks: int,
    micros: int,
    chunks: int | None = None,
    placement: str = "linear",
    whole: bool = False,
    cost: CostLike | None = None,
    mem: MemoryLike | None = None,
    mem_limit: ByteList | None = None,
    minimize: str = "makespan",
    seconds: Number | None = None,
    iterations: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Searches for the best order of actions under memory limits.

    The result is a plan; its attribute `search` has the bound, the gap and the history.
    `placement` is "linear", "loop", "v" or "wave".  The search ends after `seconds` (default:
    10) or `iterations`, or when the order is proven optimal.  `progress` is called with a dict
    several times per second; the search ends if it returns False.  A KeyboardInterrupt ends the
    search, too: the best plan so far is returned, and `plan.search.interrupted` is true.
    """
    if seconds is None and iterations is None:
        seconds = 10
    if seconds is not None and not 0 < number(seconds, "seconds") <= 1e9:
        raise UsageError(f"seconds: {seconds} is out of range (expected more than 0)")
    costs = cost_options(cost, mem, mem_limit)
    if costs.get("fb") and not isinstance(cost, Costs):
        raise UsageError("tune does not search for overlapped pairs; leave out FB")
    costs["fb"] = None
    options = {
        **size_options(ranks, micros, chunks, None, None),
        **costs,
        "placement": choice(placement, ("linear", "loop", "v", "wave"), "placement").encode(),
        "minimize": choice(minimize, ("span", "makespan"), "minimize").encode(),
        "whole": bool(whole),
        "seconds": None if seconds is None else number(seconds, "seconds"),
        "iterations": count(iterations, "iterations"),
        "seed": count(seed, "seed"),
    }
    found = _weft.tune(options, progress)
    best = Plan(found["plan"], cost.unit_seconds if isinstance(cost, Costs) else 0.0)
    best.name = "tune"
    best._bounds = Bounds(
        found["bound_makespan"], found["bound_span"], "search", "search", {}, {}
    )
    names = [name for name in Search.__dataclass_fields__ if name != "minimize"]
    best.search = Search(minimize, **{name: found[name] for name in names})
    return best


# -- layouts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """One arrangement of the ranks, with its predicted time and memory.

    `time` is the time of a step: makespan (or span) plus the reduction of gradients.  `rows` is
    the number of sequences per micro-batch.  `bound` is a lower bound of the makespan (or
    span).
    """

    plan: Plan
    schedule: str
    ranks: int
    replicas: int
    replicas_adjacent: bool
    chunks: int
    micros: int
    rows: int
    balanced: bool
    time: float
    makespan: float
    span: float
    bubble: float
    reduction: float
    bound: float
    peak_bytes: int
    message_bytes: float


@dataclass(frozen=True)
class Layouts:
    """The best layouts, the best first.  `stopped` is true if the search ended early."""

    layouts: list[Layout]
    tried: int
    pruned: int
    over_limit: int
    stopped: bool
    interrupted: bool


def tune_layouts(
    *,
    global_batch: int,
    ranks: int | None = None,
    layers: int | None = None,
    model: str | None = None,
    seq: int | None = None,
    tflops: Number | None = None,
    unit: str = "ms",
    layer_cost: ItemLike | None = None,
    embedding_cost: ItemLike | None = None,
    head_cost: ItemLike | None = None,
    hop: Number = 0,
    cluster: str | None = None,
    bytes_limit: Bytes | None = None,
    boundary_bytes: Bytes | None = None,
    max_chunks: int | None = None,
    minimize: str = "makespan",
    iterations: int | None = None,
    seconds: Number | None = None,
    top: int = 8,
    progress: Progress | None = None,
) -> Layouts:
    """Searches for the number of micro-batches, the chunks, the partition and the schedule.

    With `cluster`, such as "node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us", also for the
    number of replicas.  `progress` and KeyboardInterrupt work as in weft.tune().
    """
    _check_cluster(cluster, {"hop": hop}, model, tflops)
    if layers is None and model is None:
        raise UsageError("give layers or model")
    limit = None if bytes_limit is None else int(byte_count(bytes_limit, "bytes_limit"))
    options = {
        **model_options(
            layers, None, model, None, seq, tflops, layer_cost, embedding_cost, head_cost
        ),
        **_machine_options(cluster, unit, None, None, None),
        **options_of(
            ranks=count(ranks, "ranks"),
            global_batch=count(global_batch, "global_batch"),
            hop=number(hop, "hop"),
            layout_bytes=limit,
            max_chunks=count(max_chunks, "max_chunks"),
            iterations=count(iterations, "iterations"),
            top=count(top, "top"),
        ),
        "minimize": choice(minimize, ("span", "makespan"), "minimize").encode(),
    }
    if boundary_bytes is not None:
        options["boundary_bytes"] = byte_count(boundary_bytes, "boundary_bytes")
    if seconds is not None:
        options["seconds"] = number(seconds, "seconds")
    found = _weft.layouts(options, progress)
    time_unit = unit_of(unit) if tflops is not None or cluster is not None else 0.0
    layouts = [_layout(item, time_unit) for item in found.pop("layouts")]
    return Layouts(layouts=layouts, **found)


def _layout(item: dict[str, Any], unit_seconds: float) -> Layout:
    return Layout(plan=Plan(item.pop("plan"), unit_seconds, True), **item)


# -- comparison --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """The figures of one schedule.

    `copies` is the number of copies of the weights.  `peak_memory` is that of the rank with the
    highest peak.  `gap` is NaN if no bound is known.  `pareto` is true if no other schedule is
    better in time, memory and copies at once.
    """

    schedule: str
    chunks: int
    stages: int
    copies: int
    makespan: float
    span: float
    bubble: float
    bubble_span: float
    peak_memory: float
    messages: int
    bytes: float
    gap: float
    pareto: bool


class Omission(NamedTuple):
    """A schedule that could not be compared, and why."""

    schedule: str
    chunks: int
    reason: str


@dataclass(frozen=True)
class Comparison(Sequence[Row]):
    """A list of rows; `omitted` has the schedules without figures.

    `stopped` is true if the progress function or a KeyboardInterrupt ended the comparison.
    """

    rows: list[Row]
    omitted: list[Omission]
    in_bytes: bool
    stopped: bool
    interrupted: bool

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]


def compare(
    *,
    ranks: int,
    micros: int,
    chunks: Numbers | None = None,
    cost: CostLike | None = None,
    mem: MemoryLike | None = None,
    mem_limit: ByteList | None = None,
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
    cluster: str | None = None,
    bytes: ByteList | None = None,
    gradient_bytes: ByteList | None = None,
    speed: Numbers | None = None,
    sort: str = "time",
    progress: Progress | None = None,
) -> Comparison:
    """Compares all schedules for given numbers of ranks and micro-batches.

    All have the same ranks, model and batch: a single cost is that of 1/P of the model.  `sort`
    is "time", "span", "memory" or "name".  `progress` is called before each schedule; the
    comparison ends if it returns False, or after a KeyboardInterrupt, with the rows until then.
    """
    costs = cost_options(cost, mem, mem_limit)
    _check_cluster(cluster, costs, model, tflops)
    sizes = size_options(ranks, micros, None, None, None)
    if not sizes.get("ranks") or not sizes.get("micros"):
        raise UsageError("compare needs ranks and micros")
    options = {
        **sizes,
        **costs,
        **model_options(
            layers, partition, model, rows, seq, tflops, layer_cost, embedding_cost, head_cost
        ),
        **_machine_options(cluster, unit, bytes, gradient_bytes, speed),
        "bytes_limit": byte_list(bytes_limit, "bytes_limit"),
        "chunk_list": numbers(chunks, "chunks"),
        "sort": choice(sort, ("time", "span", "memory", "name"), "sort").encode(),
    }
    found = _weft.compare(options, progress)
    rows_found = [Row(**row) for row in found.pop("rows")]
    omitted = [Omission(*row) for row in found.pop("omitted")]
    return Comparison(rows_found, omitted, **found)


# -- simulation --------------------------------------------------------------------------------


class IdleTime(NamedTuple):
    """The causes of a rank's idle time."""

    warm_up: float
    drain: float
    communication: float
    imbalance: float
    data: float


class Link(NamedTuple):
    """The traffic of a directed pair of ranks."""

    source: int
    target: int
    messages: int
    forward_bytes: float
    backward_bytes: float
    busy: float


class CriticalPath(NamedTuple):
    """The parts of the critical path; their sum is the makespan."""

    compute: float
    hops: float
    wait: float


@dataclass(frozen=True)
class Samples:
    """Makespans of scenarios with varied times, in ascending order.

    `slow_rank` is the increase of the makespan if a rank is 10 % slower.
    """

    makespans: list[float]
    mean: float
    p5: float
    p50: float
    p95: float
    slow_rank: list[float]


@dataclass(frozen=True)
class Simulation:
    """A plan on a machine.  Lists have one value per rank.

    `bounds` has zeros if no bound is known, because ranks differ in speed.
    """

    plan: Plan
    makespan: float
    span: float
    bubble: float
    bubble_span: float
    busy: list[float]
    idle: list[float]
    causes: list[IdleTime]
    links: list[Link]
    path: CriticalPath
    peak_pending_w: list[int]
    peak_receive: list[int]
    bounds: Bounds
    samples: Samples | None
    trace: Trace

    @property
    def bound(self) -> float:
        """A lower bound of the makespan."""
        return self.bounds.makespan

    def svg(self, path: PathLike | None = None, **options: Any) -> str:
        """Returns the simulated timeline as SVG, and writes it to `path` if that is given."""
        return self.trace.svg(path, **options)

    def _repr_html_(self) -> str:
        return self.svg()


def simulate(
    schedule: str | PathLike | Plan,
    *,
    cluster: str | None = None,
    unit: str = "ms",
    bytes: ByteList | None = None,
    gradient_bytes: ByteList | None = None,
    speed: Numbers | None = None,
    transfers: str = "delay",
    samples: int = 0,
    jitter: Number = 0.05,
    seed: int = 1,
    **options: Any,
) -> Simulation:
    """Simulates a schedule on a cluster, with ranks of different speed and varied times.

    `schedule` is a plan, or a schedule for weft.plan(), which then takes the other `options`.
    `cluster` is a text such as "node:2 rank:4 intra:200GB/s,2us inter:25GB/s,8us"; without it a
    hop takes the time C of the costs.  `bytes` are those of a message to the next stage,
    `gradient_bytes` to the previous one.  `speed` is a time factor of each rank.  `transfers`
    is what a transfer occupies: "delay" (nothing), "link" or "ranks".  `samples` scenarios have
    times with a log-normal factor of deviation `jitter`.
    """
    if isinstance(schedule, Plan) and not options:
        base = schedule
    else:
        if options.get("tflops") is not None:
            options.setdefault("unit", unit)
        base = plan(schedule, **options)
    _check_cluster(cluster, {"hop": base.costs.C}, options.get("model"), options.get("tflops"))
    how = {
        **_machine_options(cluster, unit, bytes, gradient_bytes, speed),
        "transfers": choice(transfers, ("delay", "link", "ranks"), "transfers").encode(),
        "samples": count(samples, "samples"),
        "jitter": number(jitter, "jitter"),
        "seed": count(seed, "seed"),
    }
    data = _weft.simulate(base._handle, how)
    unit_seconds = unit_of(unit) if cluster is not None else base.unit_seconds
    shared = ("makespan", "span", "bubble", "bubble_span", "busy", "idle")
    sampled = data.get("samples")
    return Simulation(
        plan=base,
        **{name: data[name] for name in (*shared, "peak_pending_w", "peak_receive")},
        causes=[IdleTime(*cause) for cause in data["causes"]],
        links=[Link(*link) for link in data["links"]],
        path=CriticalPath(*data["path"]),
        bounds=Bounds(**data["bounds"]),
        samples=None if sampled is None else Samples(**sampled),
        trace=Trace(data["trace"], unit_seconds),
    )


# -- partitions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """The assignment of layers to stages, with the times and bytes of each stage.

    `layout` is the layout string of Megatron.
    """

    stages: list[StageRange]
    layout: str
    layers: int
    F: list[float]
    I: list[float]  # noqa: E741
    W: list[float]
    state_bytes: list[int]
    act_bytes: list[int]

    @property
    def counts(self) -> list[int]:
        """The number of layers of each stage."""
        return [stage.layers for stage in self.stages]


def partition(
    stages: int,
    how: str | list[int] = "balanced",
    *,
    layers: int | None = None,
    model: str | None = None,
    rows: int | None = None,
    seq: int | None = None,
    tflops: Number | None = None,
    unit: str = "ms",
    layer_cost: ItemLike | None = None,
    embedding_cost: ItemLike | None = None,
    head_cost: ItemLike | None = None,
) -> Partition:
    """Cuts a model into stages.

    `how` is "even", "balanced", a Megatron layout string, or the number of layers of each
    stage. weft.plan() with bytes_limit also keeps every rank within its memory.
    """
    options = {
        **model_options(
            layers, None, model, rows, seq, tflops, layer_cost, embedding_cost, head_cost
        ),
        "partition": partition_text(how),
        "unit_seconds": unit_of(unit),
        "machine": tflops is not None,
    }
    n = count(stages, "stages")
    if not n:
        raise UsageError("stages: expected at least 1")
    data = _weft.partition(options, n)
    return Partition(
        stages=[StageRange(*stage) for stage in data["stages"]],
        layout=data["layout"],
        layers=data["layers"],
        F=data["f"],
        I=data["i"],
        W=data["w"],
        state_bytes=data["state_bytes"],
        act_bytes=data["act_bytes"],
    )
