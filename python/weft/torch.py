"""Runs plans in torch.distributed.pipelining, proves what torch runs, and measures it.

    import weft, weft.torch as wt

    stages = wt.stages(plan, build=lambda s: part(s), device=device, group=pp_group)
    schedule = wt.schedule(plan, stages, loss_fn=loss)
    with torch.profiler.profile() as prof:
        schedule.step(x, target=y)
    trace = wt.trace(prof, group=pp_group)
    trace.over(plan).save("step.html")
    costs = trace.costs()

weft hands a table without messages to torch, torch adds the messages, and weft proves the
result: both sides of every pair of ranks list the same messages, and no rank waits forever.
Private names of torch are used in weft/_torch_private.py only.
"""

from __future__ import annotations

import os
import tempfile
import warnings
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft import _check, _torch_private, _weft
from weft._check import Report
from weft._errors import ScheduleError, UsageError
from weft._plan import Plan
from weft._trace import Trace, read_profile, read_profiles

if TYPE_CHECKING:
    import torch

__all__ = ["schedule", "stages", "trace", "verify"]

_PROFILE = "_weft_profile"  # the text of a profiler, which exports its trace only once


def stages(
    plan: Plan,
    build: Callable[[int], torch.nn.Module],
    device: torch.device | str,
    group: Any = None,
) -> list[Any]:
    """Makes this rank's stages, placed as the plan requires.

    `build(s)` returns the module of stage s; it is called for this rank's stages only.  `group`
    is the process group of the pipeline (default: all processes).
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage

    _check_plan(plan)
    size = dist.get_world_size(group)
    if size != plan.ranks:
        raise UsageError(
            f"{plan.name} has {plan.ranks} ranks, but the group has {size} processes"
        )
    mine = plan.stages_of(dist.get_rank(group))
    where = torch.device(device)
    return [PipelineStage(build(s), s, plan.stages, where, group=group) for s in mine]


def schedule(
    plan: Plan,
    stages: list[Any],
    loss_fn: Callable[..., Any] | None = None,
    lower: str | None = None,
    **options: Any,
) -> Any:
    """Returns torch's runtime with exactly the order of the plan.

    torch adds the messages, unless `lower` is one of weft.lowerings() for the installed
    release.  `options` are arguments of torch's schedules, such as scale_grads.  Raises
    ScheduleError if the table that torch runs is wrong, and UsageError if the stages are not
    those of the plan.  The result has the method step() of torch's schedules.
    """
    _check_plan(plan)
    wanted = sorted(stage.stage_index for stage in stages)
    if not any(wanted == plan.stages_of(rank) for rank in range(plan.ranks)):
        raise UsageError(f"the stages {wanted} are not those of a rank of {plan.name}")
    options["loss_fn"] = loss_fn
    runtime = _torch_private.make_runtime(stages, plan.micros, options)
    table = plan.csv(format="pytorch", lower=lower)
    _torch_private.load_table(runtime, table, lower is not None)
    if lower is None:
        rows = _torch_private.compute_table(runtime)
    else:
        rows = _torch_private.lowered_table(runtime) or []
    if "".join(",".join(row) + "\n" for row in rows) != table:
        raise ScheduleError(
            "torch changed the order of the table; this release is not supported"
        )
    verify(runtime)
    _warn_about_sharding(plan, stages)
    return runtime


def _warn_about_sharding(plan: Plan, stages: list[Any]) -> None:
    """Warns if FSDP2 would lose gradients.

    A split backward uses the parameters of the forward again, after the hooks of nested modules
    have freed them.
    """
    split = any(action.kind == "W" for row in plan.rows for action in row)
    if split and any(_torch_private.reshards_after_forward(s.submod) for s in stages):
        warnings.warn(
            f"{plan.name} splits backwards, and a nested module of FSDP2 frees its parameters "
            "after the forward: torch then loses gradients without an error; call "
            "fully_shard() with reshard_after_forward=False",
            stacklevel=3,
        )


def _check_plan(plan: Plan) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan: expected a weft.Plan, not {type(plan).__name__}")
    if plan.lowered:
        raise UsageError(f"{plan.name} has messages; torch adds them, so give a plan without")
    _check.require_torch(plan._handle, plan.name)


# -- proof -------------------------------------------------------------------------------------


def verify(
    schedule: Any,
    *,
    channels: str = "pair",
    transport: str = "buffered",
    raises: bool = True,
) -> Report:
    """Proves the table that torch runs, with the messages that torch added.

    `schedule` is any schedule of torch.distributed.pipelining that runs a table, or such a
    table: a list of cells per rank.  torch has one queue per pair of ranks and no tags, so the
    default of `channels` is "pair".  Also finds what torch refuses, and what it runs with wrong
    results: losses out of order and missing reductions.  Raises ScheduleError with rank, action
    and cause if the table is wrong, unless `raises` is false.
    """
    rows = schedule if isinstance(schedule, list) else _torch_private.lowered_table(schedule)
    name = "the table" if isinstance(schedule, list) else type(schedule).__name__
    if rows is None:
        raise UsageError(
            f"{name} runs without a table, so there is nothing to prove; the classes with "
            "several stages per rank and weft.torch.schedule() have one"
        )
    content = "".join(",".join(row) + "\n" for row in rows)
    handle = _weft.parse(content.encode("utf-8", "replace"), b"torch")
    report = _check.verify(handle, channels, transport, None)
    if report.ok:
        report = _check.check_torch(handle, report)
    if raises:
        report.raise_if_wrong(name)
    return report


# -- measurement -------------------------------------------------------------------------------


def trace(prof: Any, group: Any = None, step: int = -1) -> Trace:
    """Returns the trace of one step, with the events of all ranks of the pipeline.

    `prof` is a torch.profiler.profile of this rank that has ended, or a list of files with the
    profiles of all ranks.  All ranks of `group` call this function, and all get the whole
    trace. Waits for messages are taken out of the compute events.  Of a profile of several
    steps, `step` selects one.
    """
    if isinstance(prof, (list, tuple)):
        return read_profiles(prof, step)
    import torch.distributed as dist

    texts: list[Any] = [_profile_of(prof)]
    if dist.is_available() and dist.is_initialized():
        texts = [None] * dist.get_world_size(group)
        dist.all_gather_object(texts, _profile_of(prof), group=group)
    profiles = (
        (zlib.decompress(text), b"rank %d" % rank, rank) for rank, text in enumerate(texts)
    )
    return Trace(_weft.kineto_trace(profiles, step))


def _profile_of(prof: Any) -> bytes:
    """Returns the text of this rank's profile, compressed, because all ranks exchange it."""
    found: bytes | None = getattr(prof, _PROFILE, None)
    if found is None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            prof.export_chrome_trace(path)
            found = zlib.compress(read_profile(path), 1)
        setattr(prof, _PROFILE, found)
    return found
