"""Settings of torchtitan and Megatron-LM."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TorchTitan:
    """Values of `parallelism` in torchtitan's configuration.

    `pipeline_parallel_schedule` selects the placement of stages.
    `pipeline_parallel_schedule_csv` is a name for the file that replaces the order: write it
    with plan.csv(name, format="pytorch").  `module_fqns_per_model_part` are the modules of each
    stage; a plan without a model has one layer per stage.  str() gives a block to paste.
    torchtitan sets scale_grads=False itself.
    """

    pipeline_parallel_degree: int
    pipeline_parallel_schedule: str
    pipeline_parallel_schedule_csv: str
    num_pp_microbatches: int
    module_fqns_per_model_part: list[list[str]]
    version: str
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Megatron:
    """Arguments of Megatron-LM.

    `virtual_size` is the number of stages per rank, which Megatron derives from `layout`.
    `group_size` is 0 with one stage per rank.  A plan without a model has one layer per stage.
    `micros` is the number of micro-batches per pipeline: the global batch divided by the
    micro-batch size and the number of replicas.  str() gives a block to paste.
    """

    pipeline_model_parallel_size: int
    virtual_size: int
    group_size: int
    layout: str
    layers: int
    micros: int
    version: str
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text
