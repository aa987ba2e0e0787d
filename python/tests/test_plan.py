"""Plans: contents, metrics, proofs and output."""

from __future__ import annotations

import gc
import math
from pathlib import Path

import pytest

import weft

COST = {"F": 10, "I": 12, "W": 8, "C": 1}


def test_closed_form_of_1f1b() -> None:
    # (M + P - 1) * (F + B) with F = 1 and B = 2; min(P, M) activations on rank 0
    for ranks, micros in ((1, 4), (4, 2), (4, 8)):
        plan = weft.plan("1f1b", ranks=ranks, micros=micros)
        assert plan.metrics.makespan == (micros + ranks - 1) * 3
        assert plan.metrics.peak_activations[0] == min(ranks, micros)
        assert plan.metrics.bubble_ratio == (ranks - 1) / micros
        assert plan.metrics.efficiency == 1 - plan.metrics.bubble_ratio


def test_rows_and_events() -> None:
    plan = weft.plan("1f1b", ranks=2, micros=2)
    assert [[str(a) for a in row] for row in plan.rows] == [
        ["0F0", "0F1", "0B0", "0B1"],
        ["1F0", "1B0", "1F1", "1B1"],
    ]
    first = plan.events()[0]
    assert first == weft.Event(0.0, 0, 0, 0, 0, "F")
    assert [e.start for e in plan.events()] == sorted(e.start for e in plan.events())
    assert len(plan.events()) == plan.metrics.n_actions == 8


def test_rows_equal_the_csv_of_all_schedules() -> None:
    for generator in weft.schedules():
        chunks = 4 if generator.name == "bitpipe" else None
        plan = weft.plan(generator.name, ranks=4, micros=8, chunks=chunks)
        rows = [line for line in plan.csv().splitlines() if not line.startswith("#")]
        cells = [
            row.replace("(", "").replace(")OVERLAP_F_B", "").replace(";", ",") for row in rows
        ]
        assert cells == [",".join(map(str, row)) for row in plan.rows]
        assert weft.parse(plan.csv()).csv() == plan.csv()


def test_placement() -> None:
    plan = weft.plan("zb-v", ranks=2, micros=4)
    assert plan.placement == [0, 1, 1, 0]
    assert plan.placement_kind == "v"
    assert plan.stages_of(0) == [0, 3]
    with pytest.raises(weft.UsageError):
        plan.stages_of(2)
    two_pipes = weft.plan("chimera", ranks=4, micros=8)
    assert len(two_pipes.pipes) == 2
    with pytest.raises(weft.UsageError, match="pipes"):
        _ = two_pipes.placement


def test_bound_and_gap() -> None:
    plan = weft.plan("1f1b", ranks=4, micros=8, cost=COST)
    assert 0 < plan.metrics.bound <= plan.metrics.makespan
    gap = plan.metrics.makespan / plan.metrics.bound - 1
    assert plan.metrics.gap == pytest.approx(gap, abs=1e-9)
    assert plan.bounds().each_makespan["work"] <= plan.metrics.bound


def test_costs_per_stage() -> None:
    plan = weft.plan("1f1b", ranks=2, micros=1, cost={"F": [1, 2], "I": [3, 4], "W": [5, 6]})
    assert plan.metrics.makespan == 1 + 2 + (4 + 6) + (3 + 5)
    assert plan.costs.F == [1, 2]
    again = weft.plan(plan, cost={"F": 1})
    assert again.csv() == plan.csv()
    assert again.metrics.makespan == 1 + 1 + 2 + 2


def test_model_and_bytes() -> None:
    plan = weft.plan("1f1b", ranks=4, micros=8, model="gpt2-124m", partition="balanced")
    assert sum(stage.layers for stage in plan.partition) == 12
    assert plan.partition[0].embedding and plan.partition[-1].head
    assert all(t > s > 0 for t, s in zip(plan.metrics.bytes, plan.metrics.state_bytes))
    with pytest.raises(weft.UsageError, match="minimum is"):
        weft.plan(
            "1f1b",
            ranks=4,
            micros=8,
            model="gpt2-124m",
            partition="balanced",
            bytes_limit=10**6,
        )
    weft.plan(
        "1f1b", ranks=4, micros=8, model="gpt2-124m", partition="balanced", bytes_limit="60GB"
    )


def test_byte_texts() -> None:
    def peak(limit: object) -> float:
        memory = {"F": "1GB"}
        plan = weft.plan("zb-auto", ranks=4, micros=8, mem=memory, mem_limit=limit)  # type: ignore[arg-type]
        return max(plan.metrics.peak_memory)

    assert peak("3 GB") == peak(3e9) == peak("3000MB") <= 3e9
    assert peak("4GiB") <= 4 * 2**30
    for wrong in ("GB", "3 XB", "-1GB", "1e30GB", "3 GB x", ""):
        with pytest.raises(weft.UsageError):
            peak(wrong)
    with pytest.raises(weft.UsageError, match="bytes of an activation"):
        weft.plan("zb-auto", ranks=4, micros=8, mem_limit="60GB")


# -- proofs ------------------------------------------------------------------------------------


def test_check_of_all_schedules() -> None:
    for generator in weft.schedules():
        chunks = 4 if generator.name == "bitpipe" else None
        plan = weft.plan(generator.name, ranks=4, micros=8, chunks=chunks)
        for channels in ("direction", "pair"):
            if channels == "pair" and len(plan.pipes) > 1:
                with pytest.raises(weft.ScheduleError, match="stage on several ranks"):
                    plan.check(channels=channels)
                continue
            report = plan.check(channels=channels)
            assert report.ok and report.channels == channels
            assert report.lowering == ("weft" if channels == "direction" else "torch-2.10")
            assert report.n_messages == plan.metrics.n_messages


def test_check_finds_the_place() -> None:
    # The lowering of weft needs a queue per direction: with one queue, zb-v swaps messages.
    plan = weft.plan("zb-v", ranks=2, micros=3)
    with pytest.raises(weft.ScheduleError) as caught:
        plan.check(channels="pair", lower="weft")
    error = caught.value
    assert (error.rank, error.cause, error.status) == (1, "channel", "SCHEDULE")
    assert error.report is not None and error.report.findings[0].text in str(error)
    row = plan.csv(lower="weft").splitlines()[-1].split(",")
    assert error.position is not None and row[error.position] == error.action


def test_check_finds_a_deadlock(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    with pytest.raises(weft.ScheduleError) as caught:
        weft.check(path)
    assert caught.value.cause == "deadlock"
    assert caught.value.report is not None and len(caught.value.report.cycle) >= 2
    assert not weft.check(path, raises=False).ok
    with pytest.raises(weft.ScheduleError):
        weft.load(path)


def test_check_assumes_pairs_for_files_of_torch(tmp_path: Path) -> None:
    plan = weft.plan("zb-v", ranks=2, micros=3)
    text = plan.csv(lower="weft")
    with_header, rows = tmp_path / "a.csv", tmp_path / "b.csv"
    with_header.write_text(text)
    rows.write_text("".join(f"{x}\n" for x in text.splitlines() if not x.startswith("#")))
    assert weft.check(with_header).channels == "direction"
    with pytest.raises(weft.ScheduleError):
        weft.check(rows)
    assert weft.check(rows, channels="direction").ok


def test_transport() -> None:
    plan = weft.plan("1f1b", ranks=4, micros=8)
    with pytest.raises(weft.ScheduleError) as caught:
        plan.check(transport="rendezvous")
    report = caught.value.report
    assert report is not None and report.enough_depth > 0
    assert plan.check(transport=f"depth={report.enough_depth}").ok
    with pytest.raises(weft.UsageError, match="rendezvous"):
        plan.check(transport="carrier pigeon")


# -- files -------------------------------------------------------------------------------------


def test_csv_and_load(tmp_path: Path) -> None:
    plan = weft.plan("zb-v", ranks=4, micros=8, cost=COST)
    path = tmp_path / "plan.csv"
    assert plan.csv(path) == path.read_text()
    loaded = weft.load(path, cost=COST)
    assert loaded.csv() == plan.csv()
    assert loaded.metrics.makespan == plan.metrics.makespan
    assert weft.plan(str(path), cost=COST).metrics.makespan == plan.metrics.makespan
    plan.csv(path, format="pytorch")
    assert path.read_text().startswith("0F0,")
    assert weft.load(path).rows == plan.rows


def test_parse_error_has_a_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("0F0,0B0\n1F0,1X0\n")
    with pytest.raises(weft.ParseError) as caught:
        weft.load(path)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(path), 2, 5)
    assert str(error).startswith(f"{path}:2:5: ")
    with pytest.raises(FileNotFoundError):
        weft.load(tmp_path / "missing.csv")


def test_torch_files_that_would_train_wrong_are_refused() -> None:
    plan = weft.plan("zb-v", ranks=2, micros=3)
    with pytest.raises(weft.UsageError, match="cannot run weft's messages"):
        plan.csv(format="pytorch", lower="weft")
    with pytest.raises(weft.ScheduleError, match="its send is number") as caught:
        weft.parse(plan.csv(lower="weft")).csv(format="pytorch")
    assert caught.value.cause == "channel"
    rows = plan.csv(format="pytorch", lower="torch-2.10").replace("REDUCE_GRAD", "RESHARD")
    with pytest.raises(weft.ScheduleError, match="REDUCE_GRAD is missing"):
        weft.parse(rows).csv(format="pytorch")
    for name in ("chimera", "dualpipe"):
        with pytest.raises(weft.ScheduleError, match="a stage runs on several ranks"):
            weft.plan(name, ranks=4, micros=8).csv(format="pytorch")
    with pytest.raises(weft.ScheduleError, match="takes the loss") as caught:
        weft.parse("0F1,0F0,0B1,0B0\n").csv(format="pytorch")
    assert (caught.value.action, caught.value.cause) == ("0F1", "torch wrong")


def test_lowerings() -> None:
    assert weft.lowerings() == [
        "weft",
        "torch-2.10",
        "torch-2.15",
        "torch-2.10-late",
        "torch-2.15-late",
    ]
    plan = weft.plan("zb-v", ranks=2, micros=3)
    for how in weft.lowerings()[1:]:
        rows = plan.csv(format="pytorch", lower=how)
        assert ("WAIT_SEND_F" in rows) == ("2.15" in how)
        assert plan.check(channels="pair", lower=how).ok
        waits = [
            action for row in weft.parse(rows).rows for action in row if "WAIT" in action.kind
        ]
        assert all(str(wait) in rows for wait in waits)
        assert bool(waits) == ("2.15" in how)
    for old in ("pytorch", "torch-safe"):
        with pytest.raises(weft.UsageError):
            plan.csv(lower=old)


def test_first_backward_in_w() -> None:
    """torch computes the whole backward of stage 0 in its W."""
    cost = {"F": 10, "I": 12, "W": 8, "B": 18}
    told = weft.plan("zb-h1", ranks=2, micros=4, cost={**cost, "first_backward_in_w": True})
    lists = {"F": 10, "I": [0, 12], "W": [18, 8], "B": 18}
    same = weft.plan("zb-h1", ranks=2, micros=4, cost=lists)
    plain = weft.plan("zb-h1", ranks=2, micros=4, cost=cost)
    assert told.metrics.makespan == same.metrics.makespan != plain.metrics.makespan
    assert told.costs.first_backward_in_w and not plain.costs.first_backward_in_w
    assert weft.plan(told, cost=told.costs).metrics.makespan == told.metrics.makespan
    with pytest.raises(TypeError, match="True or False"):
        weft.plan("zb-h1", ranks=2, micros=4, cost={"F": 1, "first_backward_in_w": 1})


# -- pictures ----------------------------------------------------------------------------------


def test_pictures(tmp_path: Path) -> None:
    plan = weft.plan("1f1b", ranks=2, micros=4)
    assert plan.svg().startswith("<svg") or plan.svg().startswith("<?xml")
    page = tmp_path / "x.html"
    assert weft.draw(plan, path=page) == page.read_text()
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert "rank 0" in weft.draw(plan, format="text") or "0" in weft.draw(plan, format="text")
    assert '"traceEvents"' in weft.draw(plan, format="chrome")
    with pytest.raises(weft.UsageError):
        weft.draw(plan, path=tmp_path / "x.bmp")
    with pytest.raises(TypeError):
        weft.draw()


def test_notebook() -> None:
    text = weft.plan("zb-v", ranks=2, micros=4)._repr_html_()
    for word in ("<svg", "makespan", "bubble", "peak memory", "proven gap", "zb-v"):
        assert word in text
    large = weft.plan("1f1b", ranks=16, micros=1024)._repr_html_()
    assert "<svg" not in large and "makespan" in large


# -- other systems -----------------------------------------------------------------------------


def test_torchtitan() -> None:
    plan = weft.plan("v-half", ranks=2, micros=8, layers=8)
    config = plan.torchtitan()
    assert config.pipeline_parallel_schedule == "ZBVZeroBubble"
    assert (config.pipeline_parallel_degree, config.num_pp_microbatches) == (2, 8)
    assert config.module_fqns_per_model_part == [
        ["tok_embeddings", "layers.0", "layers.1"],
        ["layers.2", "layers.3"],
        ["layers.4", "layers.5"],
        ["layers.6", "layers.7", "norm", "lm_head"],
    ]
    assert 'pipeline_parallel_schedule_csv = "v-half.csv"' in str(config)
    assert config.pipeline_parallel_schedule_csv == "v-half.csv"
    assert config.version in str(config)
    names = {"1f1b": "1F1B", "zb-h1": "1F1B", "interleaved-1f1b": "PipelineScheduleMulti"}
    for name, wanted in names.items():
        made = weft.plan(name, ranks=2, micros=4).torchtitan()
        assert made.pipeline_parallel_schedule == wanted
        assert len(made.module_fqns_per_model_part) == weft.plan(name, ranks=2, micros=4).stages
    for refused in (
        weft.plan("wave", ranks=2, micros=4, chunks=4),
        weft.plan("chimera", ranks=4, micros=8),
    ):
        with pytest.raises(weft.UsageError, match="torchtitan"):
            refused.torchtitan()


def test_megatron() -> None:
    plain = weft.plan("1f1b", ranks=4, micros=8, layers=10).megatron()
    assert (plain.pipeline_model_parallel_size, plain.virtual_size) == (4, 1)
    assert (plain.group_size, plain.layers, plain.micros) == (0, 10, 8)
    assert f"--pipeline-model-parallel-layout '{plain.layout}'" in str(plain)
    cut = weft.partition(4, plain.layout, layers=10)
    assert (cut.counts, cut.layout) == ([3, 3, 2, 2], plain.layout)
    plan = weft.plan("interleaved-1f1b", ranks=2, micros=8, chunks=2, group=4)
    config = plan.megatron()
    assert (config.virtual_size, config.group_size) == (2, 4)
    assert "--microbatch-group-size-per-virtual-pipeline-stage 4" in str(config)
    assert config.version in str(config)
    for name in ("zb-h1", "zb-v", "interleaved-zb", "chimera"):
        with pytest.raises(weft.UsageError, match="Megatron-LM"):
            weft.plan(name, ranks=4, micros=8).megatron()


def test_handles_are_freed() -> None:
    for _ in range(50):
        plan = weft.plan("zb-v", ranks=4, micros=16)
        assert math.isfinite(plan.metrics.makespan)
        del plan
    gc.collect()
