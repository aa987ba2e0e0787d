"""Shows that defer_pp_recv=True exchanges messages in PyTorch 2.13 to 2.15.

    torchrun --nproc-per-node 2 defer_recv.py

Runs ScheduleZBVZeroBubble on two CPU processes with three micro-batches, without and with the
option, and prints the losses, those of one process, and what weft.torch.verify finds.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleZBVZeroBubble

import weft.torch as wt

MICROS, STAGES, WIDTH = 3, 4, 16
loss_fn = nn.functional.mse_loss


def show(what: str, losses: list[torch.Tensor]) -> None:
    print(f"{what:22}", *(f"{float(loss.detach()):.4f}" for loss in losses), flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)  # all processes make the same layers and data
    rank = dist.get_rank()
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(STAGES)]
    x, y = torch.randn(2 * MICROS, WIDTH), torch.randn(2 * MICROS, WIDTH)
    if rank == 0:
        model = nn.Sequential(*layers)
        pairs = zip(x.chunk(MICROS), y.chunk(MICROS))
        show("one process", [loss_fn(model(a), b) for a, b in pairs])

    mine = [rank, STAGES - 1 - rank]  # a V: rank 0 has the first and the last stage
    for defer in (False, True):
        stages = [PipelineStage(layers[s], s, STAGES, torch.device("cpu")) for s in mine]
        schedule = ScheduleZBVZeroBubble(stages, MICROS, loss_fn=loss_fn, defer_pp_recv=defer)
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(x, target=y, losses=losses)
            show(f"defer_pp_recv={defer}", losses)
            report = wt.verify(schedule, raises=False)
            print("   ", "correct" if report.ok else report.findings[0].text, flush=True)
        else:
            schedule.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
