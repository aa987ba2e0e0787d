"""Trains a small transformer with a searched pipeline schedule.

    torchrun --nproc-per-node 2 train_pipeline.py

The first steps run 1F1B on a V placement and measure the stages.  Then weft searches for the
best order for these stages, and new stages train with that order.
"""

import torch
import torch.distributed as dist
from torch import nn

import weft
import weft.torch as wt

LAYERS, WIDTH, VOCAB, MICROS, ROWS, SEQ = 8, 64, 128, 8, 2, 32


class Embed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table(tokens)


def part(stage: int, n_stages: int) -> nn.Module:
    """Returns the layers of one stage: the embedding is in the first, the head in the last."""
    torch.manual_seed(stage)
    first, last = stage * LAYERS // n_stages, (stage + 1) * LAYERS // n_stages
    layers: list[nn.Module] = [
        nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        for _ in range(first, last)
    ]
    if stage == 0:
        layers.insert(0, Embed())
    if stage == n_stages - 1:
        layers.append(nn.Linear(WIDTH, VOCAB))
    return nn.Sequential(*layers)


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


class Trainer:
    """This rank's stages of a plan, torch's runtime for it, and an optimizer."""

    def __init__(self, plan: weft.Plan) -> None:
        self.stages = wt.stages(plan, build=lambda s: part(s, plan.stages), device="cpu")
        self.schedule = wt.schedule(plan, self.stages, loss_fn=loss)
        params = [p for stage in self.stages for p in stage.submod.parameters()]
        self.optimizer = torch.optim.AdamW(params, lr=1e-3)

    def step(self, tokens: torch.Tensor, target: torch.Tensor) -> float | None:
        """Returns the mean loss on the rank of the last stage, None on the others."""
        losses: list[torch.Tensor] = []
        mine = [stage.stage_index for stage in self.stages]
        args = [tokens] if 0 in mine else []
        last = {"target": target, "losses": losses} if self.stages[-1].is_last else {}
        self.schedule.step(*args, **last)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return sum(float(x.detach()) for x in losses) / MICROS if losses else None


def main() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    ranks = dist.get_world_size()
    torch.manual_seed(0)
    tokens = torch.randint(VOCAB, (ROWS * MICROS, SEQ))
    target = tokens.roll(-1, 1)

    # 1. Measure the stages of a V placement, two per rank, with any correct order.
    start = weft.plan("1f1b-v", ranks=ranks, micros=MICROS)
    trainer = Trainer(start)
    trainer.step(tokens, target)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        trainer.step(tokens, target)
    trace = wt.trace(prof)

    # 2. Search with the measured costs.  Every rank searches; a limit by iterations makes all
    # of them find the same order.
    best = weft.tune(
        ranks=ranks, micros=MICROS, placement="v", cost=trace.costs(), iterations=20000
    )
    best.check(channels="pair")

    # 3. Train with exactly this order, and compare the measured step with the plan.
    trainer = Trainer(best)
    for step in range(3):
        value = trainer.step(tokens, target)
        if value is not None:
            print(f"step {step}: loss {value:.4f}", flush=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        trainer.step(tokens, target)
    measured = wt.trace(prof)
    if dist.get_rank() == 0:
        measured.over(best).save("step.html")
        best.csv("best.csv", format="pytorch")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
