"""Processes that run schedules in torch, and stay alive for many schedules.

A job is a function of this file; every worker calls it with the same arguments.  A job that
takes too long ends all workers: a hang is a failure, and the next job starts new ones.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
import warnings
from typing import Any

import weft

LAYERS = 16
WIDTH = 8
ROWS = 2


class Hang(Exception):
    """A job did not end in time."""


def _serve(rank: int, size: int, store: str, pipe: Any) -> None:
    """Runs jobs until the pipe closes."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    while True:
        try:
            name, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, globals()[name](*args)))
        except Exception:
            pipe.send((False, traceback.format_exc()))


class Workers:
    """A group of processes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder = tempfile.TemporaryDirectory()
        store = os.path.join(self.folder.name, "store")
        for rank in range(self.size):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, self.size, store, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def run(self, name: str, *args: Any, seconds: float = 300) -> list[Any]:
        """Runs a job on all workers and returns their results, by rank."""
        if not self.processes:
            self._start()
        for pipe in self.pipes:
            pipe.send((name, args))
        results, failures = [], []
        for rank, pipe in enumerate(self.pipes):
            if not pipe.poll(seconds):
                self.close()
                raise Hang(f"{name}{args}: rank {rank} of {self.size} did not answer")
            ok, result = pipe.recv()
            results.append(result)
            if not ok:
                failures.append(f"rank {rank}: {result}")
        if failures:
            self.close()  # the ranks may have stopped at different messages
            raise RuntimeError("\n".join(failures))
        return results

    def close(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            process.kill()
            process.join()
        self.pipes, self.processes = [], []
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = None


# -- the model ---------------------------------------------------------------------------------


def make_layers() -> list[Any]:
    """Makes the same layers on every rank."""
    from torch import manual_seed, nn

    manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]


def make_batch(micros: int, replicas: int = 1) -> tuple[Any, Any]:
    """Makes inputs and targets of a step."""
    import torch

    torch.manual_seed(micros)
    shape = (replicas * micros * ROWS, WIDTH)
    return torch.randn(shape), torch.randn(shape)


def cut(layers: list[Any], stage: int, stages: int) -> Any:
    """Returns the module of a stage."""
    from torch import nn

    n = len(layers)
    return nn.Sequential(*layers[stage * n // stages : (stage + 1) * n // stages])


def reference(micros: int, replicas: int = 1) -> tuple[list[float], list[Any]]:
    """Returns the loss of each micro-batch and the mean gradients, computed by one process."""
    from torch import nn

    layers = make_layers()
    model = nn.Sequential(*layers)
    x, y = make_batch(micros, replicas)
    n = micros * replicas
    losses = []
    for a, b in zip(x.chunk(n), y.chunk(n)):
        loss = nn.functional.mse_loss(model(a), b)
        losses.append(float(loss.detach()))
        (loss / n).backward()
    return losses, [parameter.grad for parameter in model.parameters()]


def gradient_error(layers: list[Any], stages: int, mine: list[int], wanted: list[Any]) -> float:
    """Returns the largest error of this rank's gradients, relative to the largest gradient."""
    n, worst = len(layers), 0.0
    for stage in mine:
        for i in range(stage * n // stages, (stage + 1) * n // stages):
            for parameter, want in zip(layers[i].parameters(), wanted[2 * i : 2 * i + 2]):
                if parameter.grad is None:
                    return float("inf")
                got = parameter.grad
                got = got.full_tensor() if hasattr(got, "full_tensor") else got
                worst = max(worst, float((got - want).abs().max() / want.abs().max()))
    return worst


def loss_error(losses: list[Any], wanted: list[float]) -> float:
    """Returns the largest relative error of the losses."""
    if len(losses) != len(wanted):
        return float("inf")
    return max(abs(float(a.detach()) / b - 1) for a, b in zip(losses, wanted))


def run_steps(
    schedule: Any, stages: int, mine: list[int], layers: list[Any], micros: int
) -> float:
    """Runs two steps and returns the largest error of losses and gradients."""
    x, y = make_batch(micros)
    wanted_losses, wanted = reference(micros)
    worst = 0.0
    for _ in range(2):
        for layer in layers:
            layer.zero_grad()
        losses: list[Any] = []
        inputs = [x] if 0 in mine else []
        last = {"target": y, "losses": losses} if stages - 1 in mine else {}
        schedule.step(*inputs, **last)
        if last:
            worst = max(worst, loss_error(losses, wanted_losses))
        worst = max(worst, gradient_error(layers, stages, mine, wanted))
    return worst


# -- jobs --------------------------------------------------------------------------------------


def train(table: str, lower: str | None = None) -> float:
    """Trains with a plan; returns the largest error."""
    from torch.nn.functional import mse_loss

    import weft.torch as wt

    plan = weft.parse(table)
    layers = make_layers()
    stages = wt.stages(plan, lambda s: cut(layers, s, plan.stages), "cpu")
    schedule = wt.schedule(plan, stages, loss_fn=mse_loss, lower=lower)
    mine = [stage.stage_index for stage in stages]
    return run_steps(schedule, plan.stages, mine, layers, plan.micros)


def own_schedule(name: str, chunks: int, micros: int, defer: bool) -> Any:
    """Makes one of torch's own schedules; returns it with its stages and layers."""
    import torch.distributed as dist
    from torch.distributed import pipelining
    from torch.nn.functional import mse_loss

    ranks, rank = dist.get_world_size(), dist.get_rank()
    layers, n = make_layers(), chunks * ranks
    v_shape = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    mine = [rank, n - 1 - rank] if v_shape else list(range(rank, n, ranks))
    stages = [pipelining.PipelineStage(cut(layers, s, n), s, n, "cpu") for s in mine]
    options = {"defer_pp_recv": True} if defer else {}
    schedule = getattr(pipelining, name)(stages, micros, loss_fn=mse_loss, **options)
    return schedule, n, mine, layers


def verify_and_run(name: str, chunks: int, micros: int, defer: bool) -> tuple[bool, float]:
    """Proves one of torch's own schedules, then runs it."""
    import weft.torch as wt

    schedule, n, mine, layers = own_schedule(name, chunks, micros, defer)
    proven = wt.verify(schedule, raises=False).ok
    return proven, run_steps(schedule, n, mine, layers, micros)


def train_sharded(table: str, reshard: bool) -> tuple[float, bool]:
    """Trains with FSDP2: 2 replicas of 2 ranks.  Returns the error and if weft warned."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.functional import mse_loss

    import weft.torch as wt

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    plan = weft.parse(table)
    layers = make_layers()

    def build(stage: int) -> Any:
        part = cut(layers, stage, plan.stages)
        for layer in part:
            fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=reshard)
        return fully_shard(part, mesh=mesh["dp"])

    stages = wt.stages(plan, build, "cpu", mesh["pp"].get_group())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        schedule = wt.schedule(plan, stages, loss_fn=mse_loss)
    mine = [stage.stage_index for stage in stages]
    x, y = make_batch(plan.micros, 2)
    replica = mesh["dp"].get_local_rank()
    half = slice(replica * len(x) // 2, (replica + 1) * len(x) // 2)
    losses: list[Any] = []
    last = {"target": y[half], "losses": losses} if plan.stages - 1 in mine else {}
    schedule.step(*([x[half]] if 0 in mine else []), **last)
    wanted_losses, wanted = reference(plan.micros, 2)
    worst = gradient_error(layers, plan.stages, mine, wanted)
    part = wanted_losses[replica * plan.micros : (replica + 1) * plan.micros]
    worst = max(worst, loss_error(losses, part)) if last else worst
    return worst, any("loses gradients" in str(warning.message) for warning in warned)


def profile(table: str, path: str) -> dict[str, Any]:
    """Profiles a step, and saves the trace over the plan."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import mse_loss

    import weft.torch as wt

    plan = weft.parse(table)
    layers = make_layers()
    stages = wt.stages(plan, lambda s: cut(layers, s, plan.stages), "cpu")
    schedule = wt.schedule(plan, stages, loss_fn=mse_loss)
    mine = [stage.stage_index for stage in stages]
    x, y = make_batch(plan.micros)
    with torch.profiler.profile() as prof:
        for _ in range(2):
            last = {"target": y} if plan.stages - 1 in mine else {}
            schedule.step(*([x] if 0 in mine else []), **last)
    trace = wt.trace(prof)
    if dist.get_rank() == 0:
        trace.over(plan).save(path)
    difference = trace.over(plan).difference()
    costs = trace.costs()
    return {
        "ranks": trace.ranks,
        "stages": trace.stages,
        "micros": trace.micros,
        "actions": [(event.rank, event.action) for event in trace.events()],
        "matched": difference.matched,
        "measured_only": difference.measured_only,
        "F": costs.F,
        "spread": sorted(costs.spread),
        "again": wt.trace(prof).text() == trace.text(),
    }


# -- a small GPT -------------------------------------------------------------------------------

GPT_LAYERS, GPT_WIDTH, GPT_VOCAB, GPT_SEQ = 8, 256, 1024, 128


def gpt_part(stage: int, stages: int) -> Any:
    """Returns a stage of a small GPT: blocks with causal attention, embedding and head."""
    import torch
    from torch import nn

    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(GPT_VOCAB, GPT_WIDTH)
            self.place = nn.Embedding(GPT_SEQ, GPT_WIDTH)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.token(tokens) + self.place.weight  # type: ignore[no-any-return]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(GPT_WIDTH), nn.LayerNorm(GPT_WIDTH)
            self.qkv = nn.Linear(GPT_WIDTH, 3 * GPT_WIDTH)
            self.out = nn.Linear(GPT_WIDTH, GPT_WIDTH)
            self.up = nn.Linear(GPT_WIDTH, 4 * GPT_WIDTH)
            self.down = nn.Linear(4 * GPT_WIDTH, GPT_WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = [
                part.unflatten(-1, (4, -1)).transpose(1, 2)
                for part in self.qkv(self.first(x)).chunk(3, -1)
            ]
            y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            z = nn.functional.gelu(self.up(self.second(x)))
            return x + self.down(z)  # type: ignore[no-any-return]

    torch.manual_seed(stage)
    first, last = stage * GPT_LAYERS // stages, (stage + 1) * GPT_LAYERS // stages
    parts: list[Any] = [Block() for _ in range(first, last)]
    parts = [Embedding(), *parts] if stage == 0 else parts
    if stage == stages - 1:
        parts += [nn.LayerNorm(GPT_WIDTH), nn.Linear(GPT_WIDTH, GPT_VOCAB)]
    return nn.Sequential(*parts).float()


def measure_gpt(table: str, path: str) -> tuple[float, float]:
    """Trains a small GPT with a plan; returns the measured and the simulated step, in ms.

    The page `path` shows the measured step over the plan.
    """
    import torch
    from torch import nn

    import weft.torch as wt

    def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())

    plan = weft.parse(table)
    stages = wt.stages(plan, lambda s: gpt_part(s, plan.stages), "cpu")
    schedule = wt.schedule(plan, stages, loss_fn=loss)
    optimizer = torch.optim.AdamW([p for s in stages for p in s.submod.parameters()])
    mine = [stage.stage_index for stage in stages]
    torch.manual_seed(0)
    tokens = torch.randint(GPT_VOCAB, (2 * plan.micros, GPT_SEQ))
    inputs = [tokens] if 0 in mine else []
    last = {"target": tokens.roll(-1, 1)} if plan.stages - 1 in mine else {}

    def step() -> None:
        schedule.step(*inputs, return_outputs=False, **last)
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(2):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        for _ in range(3):
            step()
    # The shortest of the three steps is the one that others disturbed least.
    traces = [wt.trace(prof, step=i) for i in range(3)]
    trace = min(traces, key=lambda t: t.summary.makespan)
    simulated = weft.plan(plan, cost=trace.costs())
    if 0 in mine:
        trace.over(simulated).save(path)
    return trace.summary.makespan, simulated.metrics.makespan
