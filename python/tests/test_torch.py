"""Plans in torch: results of real processes, proofs of torch's tables, and profiles."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.torch as wt  # noqa: E402
from weft import _torch_private  # noqa: E402

if TYPE_CHECKING:
    from workers import Workers

pytestmark = pytest.mark.torch

TOLERANCE = 1e-12
SECONDS = 300  # a job takes a fraction of a second; more is a hang
MICROS = {2: (1, 2, 3, 4, 7), 4: (2, 4, 5, 8, 9)}
CHUNKS = {
    "interleaved-1f1b": (2, 3),
    "interleaved-zb": (2, 3),
    "looped-bfs": (2, 3),
    "gpipe": (1, 2),
    "wave": (2, 4),
}
SEVERAL_PIPES = ("chimera", "dualpipe", "bitpipe")
EXPRESSIBLE = [row.name for row in weft.schedules() if row.name not in SEVERAL_PIPES]


def plans(name: str, ranks: int) -> list[weft.Plan]:
    """Returns the plans of a schedule for several sizes; sizes that it refuses are left out."""
    result = []
    for chunks in CHUNKS.get(name, (None,)):
        for micros in (*MICROS[ranks], 2 * ranks):
            try:
                result.append(weft.plan(name, ranks=ranks, micros=micros, chunks=chunks))
            except weft.UsageError:
                continue
    return result


def train_all(workers: Workers, all_plans: list[weft.Plan], lower: str | None = None) -> None:
    """Trains with every plan, and compares losses and gradients with those of one process."""
    for plan in all_plans:
        errors = workers.run("train", plan.csv(), lower, seconds=SECONDS)
        assert max(errors) <= TOLERANCE, (plan, lower, errors)


# The messages: torch's, those of this release written by weft, and late receives.
DIALECT = _torch_private.dialect(torch.__version__)
LOWERINGS = [None, DIALECT, f"{DIALECT}-late"]


@pytest.mark.parametrize("lower", LOWERINGS)
@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_two_processes(name: str, lower: str | None, two: Workers) -> None:
    assert plans(name, 2)
    train_all(two, plans(name, 2), lower)


@pytest.mark.parametrize("lower", LOWERINGS)
@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_four_processes(name: str, lower: str | None, four: Workers) -> None:
    assert plans(name, 4)
    train_all(four, plans(name, 4), lower)


def test_number_of_runs() -> None:
    # The sweeps above must not become empty: 247 schedules ran when they were measured first.
    runs = sum(len(plans(name, ranks)) for name in EXPRESSIBLE for ranks in (2, 4))
    print(f"{runs} schedules, each with {len(LOWERINGS)} kinds of messages")
    assert runs >= 240


@pytest.mark.parametrize("ranks", [2, 4])
def test_searched_plans(ranks: int, two: Workers, four: Workers) -> None:
    cost = {"F": 10, "I": 12, "W": 8, "C": 1}
    kinds: list[dict[str, Any]] = [
        {"placement": "linear", "mem_limit": 3},
        {"placement": "linear", "whole": True},
        {"placement": "v", "mem_limit": 5},
        {"placement": "loop", "chunks": 2},
        {"placement": "wave", "chunks": 4},
        {"placement": "linear", "minimize": "span"},
    ]
    found = [
        weft.tune(ranks=ranks, micros=6, cost=cost, iterations=500, **kind) for kind in kinds
    ]
    train_all(two if ranks == 2 else four, found)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-v"])
def test_fsdp(name: str, four: Workers) -> None:
    plan = weft.plan(name, ranks=2, micros=4)
    results = four.run("train_sharded", plan.csv(), False, seconds=SECONDS)
    assert all(error <= TOLERANCE and not warned for error, warned in results), results


def test_fsdp_that_loses_gradients(four: Workers) -> None:
    """A split backward needs the parameters of nested modules after the forward."""
    whole = weft.plan("1f1b", ranks=2, micros=4)
    results = four.run("train_sharded", whole.csv(), True, seconds=SECONDS)
    assert all(error <= TOLERANCE and not warned for error, warned in results), results
    split = weft.plan("zb-v", ranks=2, micros=4)
    results = four.run("train_sharded", split.csv(), True, seconds=SECONDS)
    assert all(error > TOLERANCE and warned for error, warned in results), results


@pytest.mark.parametrize("name", SEVERAL_PIPES)
def test_refused_schedules(name: str) -> None:
    chunks = 4 if name == "bitpipe" else None
    plan = weft.plan(name, ranks=4, micros=8, chunks=chunks)
    with pytest.raises(weft.ScheduleError, match="a stage runs on several ranks"):
        wt.stages(plan, lambda s: torch.nn.Identity(), "cpu")


# -- torch's own tables ------------------------------------------------------------------------


class StubStage:
    """What torch's schedules need of a stage to make their tables."""

    def __init__(self, index: int, stages: int, rank: int, ranks: int) -> None:
        self.stage_index, self.num_stages = index, stages
        self.group_rank, self.group_size = rank, ranks
        self.is_first, self.is_last = index == 0, index == stages - 1
        self.stage_index_to_group_rank: dict[int, int] = {}
        self.has_backward = True
        self.submod = torch.nn.Identity()
        self.group = None


TORCH_CLASSES = {
    "ScheduleInterleaved1F1B": ("interleaved-1f1b", (1, 2, 3, 4)),
    "ScheduleLoopedBFS": ("looped-bfs", (1, 2, 3, 4)),
    "ScheduleInterleavedZeroBubble": ("interleaved-zb", (1, 2, 3, 4)),
    "ScheduleZBVZeroBubble": ("zb-v", (2,)),
    "ScheduleDualPipeV": ("dualpipe-v", (2,)),
}


def make_torch_schedule(name: str, ranks: int, chunks: int, micros: int, **options: Any) -> Any:
    """Makes a schedule of torch without processes; None if torch refuses the size."""
    from torch.distributed import pipelining

    n = ranks * chunks
    v_shape = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    mine = [0, n - 1] if v_shape else list(range(0, n, ranks))
    stages = [StubStage(index, n, 0, ranks) for index in mine]
    try:
        return getattr(pipelining, name)(stages, micros, loss_fn=None, **options)
    except ValueError:
        return None


def compare_with_torch(name: str) -> int:
    """Compares weft's orders and messages with those of a class of torch, for all sizes."""
    generator, all_chunks = TORCH_CLASSES[name]
    compared = 0
    for ranks in (1, 2, 3, 4, 8):
        for chunks in all_chunks:
            for micros in sorted({*range(1, 13), ranks, ranks + 1, 2 * ranks, 16, 24, 32}):
                schedule = make_torch_schedule(name, ranks, chunks, micros)
                if schedule is None:
                    continue
                used = chunks if len(all_chunks) > 1 else None
                plan = weft.plan(generator, ranks=ranks, micros=micros, chunks=used)
                size = (name, ranks, chunks, micros)
                rows = _torch_private.compute_table(schedule)
                assert plan.csv(format="pytorch") == join(rows), size
                assert wt.verify(schedule).ok
                lowered = _torch_private.lowered_table(schedule)
                assert lowered is not None
                assert plan.csv(format="pytorch", lower=DIALECT) == join(lowered), size
                compared += 1
    return compared


def join(rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def test_tables_equal_those_of_torch() -> None:
    compared = {name: compare_with_torch(name) for name in TORCH_CLASSES}
    print(f"equal orders and messages: {sum(compared.values())} sizes: {compared}")
    assert min(compared.values()) >= 40
    assert sum(compared.values()) >= 900


def test_defer_pp_recv(two: Workers, four: Workers) -> None:
    """A table is refused by the proof exactly if running it gives wrong results."""
    cases = [
        *(("ScheduleZBVZeroBubble", 2, 2, m) for m in range(1, 13)),
        *(("ScheduleZBVZeroBubble", 4, 2, m) for m in range(1, 13)),
        *(("ScheduleInterleavedZeroBubble", 2, 2, m) for m in range(2, 14, 2)),
        *(("ScheduleInterleavedZeroBubble", 4, 2, m) for m in (4, 8, 12)),
        *(("ScheduleInterleaved1F1B", 2, 2, m) for m in range(2, 12, 2)),
        *(("ScheduleInterleaved1F1B", 4, 2, m) for m in (4, 8, 12)),
        *(("ScheduleLoopedBFS", 2, 2, m) for m in (1, 2, 3, 4, 5)),
        *(("ScheduleDualPipeV", 2, 2, m) for m in (4, 5, 6, 7)),
        *(("ScheduleDualPipeV", 4, 2, m) for m in (8, 9)),
    ]
    right = wrong = 0
    for name, ranks, chunks, micros in cases:
        workers = two if ranks == 2 else four
        results = workers.run("verify_and_run", name, chunks, micros, True, seconds=SECONDS)
        proven = {result[0] for result in results}
        error = max(result[1] for result in results)
        assert proven == {error <= TOLERANCE}, (name, ranks, micros, proven, error)
        right += error <= TOLERANCE
        wrong += error > TOLERANCE
    print(f"defer_pp_recv: {right} right, {wrong} wrong")
    assert right >= 20 and wrong >= 20, (right, wrong)


@pytest.mark.parametrize("name", TORCH_CLASSES)
def test_plain_tables_are_right(name: str, two: Workers) -> None:
    for micros in (4, 6):
        results = two.run("verify_and_run", name, 2, micros, False, seconds=SECONDS)
        assert all(proven and error <= TOLERANCE for proven, error in results), results


# -- proofs ------------------------------------------------------------------------------------


def test_swapped_receives_have_a_place() -> None:
    rows = [
        ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1"],
        ["1RECV_F1", "1RECV_F0", "1F0", "1F1", "1B0", "1SEND_B0", "1B1", "1SEND_B1"],
    ]
    with pytest.raises(weft.ScheduleError) as caught:
        wt.verify(rows)
    assert caught.value.rank == 1
    assert caught.value.position == 0
    assert caught.value.action == "1RECV_F1"
    assert caught.value.cause == "channel"


def test_losses_out_of_order() -> None:
    rows = [["0F0", "0F1", "0B1", "0B0"]]
    assert weft.parse("0F1,0F0,0B1,0B0\n").check().ok
    assert wt.verify(rows).ok
    with pytest.raises(
        weft.ScheduleError, match="takes the loss of one for the other"
    ) as caught:
        wt.verify([["0F1", "0F0", "0B1", "0B0"]])
    assert (caught.value.rank, caught.value.position, caught.value.action) == (0, 0, "0F1")


def test_schedules_without_a_table() -> None:
    from torch.distributed.pipelining import Schedule1F1B

    with pytest.raises(weft.UsageError, match="without a table"):
        wt.verify(Schedule1F1B(StubStage(0, 1, 0, 1), 2))


def test_wrong_stages() -> None:
    plan = weft.plan("zb-v", ranks=2, micros=3)
    with pytest.raises(weft.UsageError, match="not those of a rank"):
        wt.schedule(plan, [StubStage(s, 4, 0, 2) for s in (0, 2)])
    with pytest.raises(TypeError):
        wt.schedule("zb-v", [])  # type: ignore[arg-type]


def test_deferred_receives_are_refused() -> None:
    plan = weft.plan("zb-v", ranks=2, micros=3)
    stages = [StubStage(s, 4, 0, 2) for s in (0, 3)]
    wt.schedule(plan, stages)
    with pytest.raises(weft.ScheduleError) as caught:
        wt.schedule(plan, stages, defer_pp_recv=True)
    assert caught.value.cause == "channel"
    assert caught.value.action == "2RECV_B0"


# -- releases ----------------------------------------------------------------------------------


def test_known_release() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _torch_private.names()


def test_unknown_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    monkeypatch.setattr(_torch_private, "_warned", False)
    with pytest.warns(UserWarning, match=r"2\.99\.0.*_PipelineScheduleRuntime\._load_csv"):
        _torch_private.names()


def test_missing_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.pipelining import schedules

    monkeypatch.delattr(schedules, "_PipelineScheduleRuntime")
    with pytest.raises(RuntimeError, match="_PipelineScheduleRuntime"):
        _torch_private.names()


# -- profiles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1f1b", "zb-v"])
def test_profile(name: str, two: Workers, tmp_path: Any) -> None:
    plan = weft.plan(name, ranks=2, micros=4)
    page = tmp_path / "step.html"
    results = two.run("profile", plan.csv(), str(page), seconds=SECONDS)
    first = results[0]
    assert results[1]["actions"] == first["actions"]  # every rank has the whole trace
    assert (first["ranks"], first["stages"], first["micros"]) == (2, plan.stages, 4)
    wanted = {(r, str(action)) for r, row in enumerate(plan.rows) for action in row}
    assert wanted <= set(first["actions"])
    assert first["matched"] == sum(len(row) for row in plan.rows)
    assert all(time > 0 for time in first["F"])
    assert "F" in first["spread"]
    assert first["again"]  # torch exports a profile only once
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-v"])
def test_simulated_step(name: str, two: Workers, tmp_path: Any) -> None:
    """A step that is simulated with its own measured costs takes about as long as measured.

    The bound is loose, and a disturbed measurement is repeated, because other processes may use
    the machine.
    """
    plan = weft.plan(name, ranks=2, micros=8)
    page = tmp_path / "step.html"
    error = 1.0
    for _ in range(3):
        results = two.run("measure_gpt", plan.csv(), str(page), seconds=SECONDS)
        assert results[1] == results[0]
        measured, simulated = results[0]
        error = simulated / measured - 1
        print(f"{name}: measured {measured:.1f} ms, simulated {simulated:.1f} ms, {error:+.1%}")
        if abs(error) < 0.3:
            break
    assert abs(error) < 0.3
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


# -- the examples of docs/pytorch.md -----------------------------------------------------------

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run_example(name: str, folder: Path) -> str:
    """Runs an example on two processes, and returns its output."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    source = Path(weft.__file__).resolve().parent.parent
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", str(EXAMPLES / name)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_of_training(tmp_path: Path) -> None:
    output = run_example("train_pipeline.py", tmp_path)
    losses = [float(line.split()[-1]) for line in output.splitlines() if "loss" in line]
    assert len(losses) == 3 and losses[2] < losses[0]
    assert (tmp_path / "step.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    plan = weft.load(tmp_path / "best.csv")
    assert (plan.ranks, plan.stages, plan.micros) == (2, 4, 8)


def test_example_of_deferred_receives(tmp_path: Path) -> None:
    lines = run_example("defer_recv.py", tmp_path).splitlines()
    alone, plain, verdict, deferred, finding = lines
    assert alone.split()[2:] == plain.split()[1:] and verdict.strip() == "correct"
    assert deferred.split()[1:] != plain.split()[1:]
    assert "2RECV_B0 is receive 2 of the channel from rank 0" in finding
