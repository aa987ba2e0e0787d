"""The only file that uses private names of torch.

Each function describes the private names that it uses.  RELEASES has the releases of torch with
which they were tried; names() checks at run time that they exist.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any

# What was tried with each release.  "run": all tests of `make test-torch`, with real processes
# on CPUs (gloo).  "read": the names below were found in the sources of the release.
RELEASES = {
    (2, 10): "run, but stages that are placed as a V hang; torch's own V schedules do, too",
    (2, 11): "read",
    (2, 12): "read",
    (2, 13): "run",
    (2, 14): "run, without tables that weft lowered",
    (2, 15): "run",
}

# The private names, all in torch.distributed.pipelining.schedules.
_CLASS = "_PipelineScheduleRuntime"
_METHODS = ("_load_csv", "_prepare_schedule_with_comms")

_warned = False


def release(torch_version: str) -> tuple[int, int]:
    """Returns the major and minor number of a version such as "2.13.0+cpu"."""
    parts = torch_version.split("+", maxsplit=1)[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return (0, 0)


def names() -> Any:
    """Imports torch's schedules and checks the private names.

    Warns once if the release was not tried, and raises RuntimeError if a name is missing.
    """
    import torch
    from torch.distributed.pipelining import schedules

    global _warned  # noqa: PLW0603
    runtime = getattr(schedules, _CLASS, None)
    checked = [_CLASS, *(f"{_CLASS}.{name}" for name in _METHODS)]
    missing = [] if runtime is not None else [_CLASS]
    missing += [f"{_CLASS}.{name}" for name in _METHODS if not hasattr(runtime, name)]
    if missing:
        raise RuntimeError(
            f"torch {torch.__version__} does not have {', '.join(missing)}, which weft.torch "
            "uses; it was tried with torch 2.10 to 2.15"
        )
    if release(torch.__version__) not in RELEASES and not _warned:
        _warned = True
        warnings.warn(
            f"weft.torch was tried with torch 2.10 to 2.15, not with {torch.__version__}; "
            f"these private names exist: {', '.join(checked)}; the table that torch makes is "
            "proven in any case",
            stacklevel=3,
        )
    return schedules


def make_runtime(stages: list[Any], n_micros: int, options: dict[str, Any]) -> Any:
    """Makes torch's runtime for tables (_PipelineScheduleRuntime)."""
    return getattr(names(), _CLASS)(stages, n_micros, **options)


def dialect(torch_version: str) -> str:
    """Returns the lowering that is that of a release."""
    return "torch-2.15" if release(torch_version) >= (2, 15) else "torch-2.10"


def load_table(runtime: Any, table: str, lowered: bool = False) -> None:
    """Loads a table (_load_csv).  torch adds the messages if the table is not lowered."""
    file, path = tempfile.mkstemp(suffix=".csv")
    try:
        with os.fdopen(file, "w", encoding="ascii") as out:
            out.write(table)
        runtime._load_csv(path, format="compute_comms" if lowered else "compute_only")
    finally:
        os.unlink(path)


def reshards_after_forward(module: Any) -> bool:
    """Returns true if a submodule of FSDP2 frees its parameters after the forward.

    Uses _get_fsdp_state, _fsdp_param_group and post_forward_mesh_info of FSDP2.  Returns false
    if a release does not have them.
    """
    for part in module.modules():
        state = getattr(part, "_get_fsdp_state", None)
        if part is module or state is None:
            continue
        group = getattr(state(), "_fsdp_param_group", None)
        if getattr(group, "post_forward_mesh_info", None) is not None:
            return True
    return False


def lowered_table(schedule: Any) -> list[list[str]] | None:
    """Returns the table that torch runs (pipeline_order_with_comms), or None if it has none."""
    rows = getattr(schedule, "pipeline_order_with_comms", None)
    if rows is None:
        return None
    return [[str(action) for action in rows[rank]] for rank in sorted(rows)]


def compute_table(schedule: Any) -> list[list[str]]:
    """Returns the table without messages (pipeline_order); empty cells are left out."""
    rows = schedule.pipeline_order
    return [
        [str(action) for action in rows[rank] if action is not None] for rank in sorted(rows)
    ]
