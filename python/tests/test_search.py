"""Long calls, simulation, partitions and traces."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import weft

if TYPE_CHECKING:
    from collections.abc import Callable

COST = {"F": 10, "I": 12, "W": 8, "C": 1}


# -- search ------------------------------------------------------------------------------------


def test_tune() -> None:
    start = weft.plan("zb-v", ranks=4, micros=8, cost=COST)
    best = weft.tune(ranks=4, micros=8, placement="v", cost=COST, iterations=2000)
    assert best.metrics.makespan <= start.metrics.makespan
    assert best.check(channels="pair").ok
    search = best.search
    assert search is not None and not search.interrupted
    assert search.bound <= best.metrics.makespan
    assert search.gap == pytest.approx(best.metrics.gap)
    again = weft.tune(ranks=4, micros=8, placement="v", cost=COST, iterations=2000)
    assert again.csv() == best.csv()


def test_tune_within_memory() -> None:
    best = weft.tune(ranks=4, micros=8, cost=COST, mem_limit=3, iterations=500)
    assert max(best.metrics.peak_activations) <= 3
    in_bytes = weft.tune(
        ranks=4, micros=8, cost=COST, mem={"F": "2GB"}, mem_limit="6GB", iterations=500
    )
    assert max(in_bytes.metrics.peak_memory) <= 6e9
    assert in_bytes.csv() == best.csv()


# A problem that the search does not solve in seconds.
HARD: dict[str, Any] = {
    "ranks": 8,
    "micros": 64,
    "placement": "v",
    "cost": {"F": list(range(10, 26)), "I": 13, "W": 7, "C": 3},
    "mem_limit": 11,
    "seconds": 600,
}


def test_progress_and_stop() -> None:
    seen: list[dict[str, Any]] = []

    def progress(report: dict[str, Any]) -> bool:
        seen.append(report)
        return len(seen) < 2

    best = weft.tune(**HARD, progress=progress)
    assert len(seen) == 2
    assert {"seconds", "makespan", "bound", "evaluations", "origin"} <= set(seen[0])
    assert best.check().ok and best.search is not None and not best.search.interrupted


def test_progress_exception() -> None:
    def progress(report: dict[str, Any]) -> None:
        raise KeyError("mine")

    for call in (
        lambda: weft.tune(**HARD, progress=progress),
        lambda: weft.compare(ranks=4, micros=8, progress=progress),
        lambda: weft.tune_layouts(
            global_batch=64, ranks=8, layers=48, progress=progress, iterations=0
        ),
    ):
        with pytest.raises(KeyError, match="mine"):
            call()


def interrupt_if(condition: Callable[[dict[str, Any]], bool]) -> Any:
    """Returns a progress function that sends SIGINT once."""
    sent: list[bool] = []

    def progress(report: dict[str, Any]) -> None:
        if not sent and condition(report):
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    return progress


def test_interrupt_keeps_the_best() -> None:
    best = weft.tune(**HARD, progress=interrupt_if(lambda report: True))
    assert best.search is not None and best.search.interrupted
    assert best.check(channels="pair").ok

    rows = weft.compare(
        ranks=4, micros=8, progress=interrupt_if(lambda report: report["share"] > 0.3)
    )
    assert len(rows) > 0
    assert rows.interrupted and rows.stopped

    done = weft.tune_layouts(
        global_batch=64,
        ranks=8,
        layers=64,
        iterations=0,
        progress=interrupt_if(lambda r: r["time"] > 0),
    )
    assert done.interrupted and done.stopped and done.layouts


def test_interrupt_without_a_result() -> None:
    with pytest.raises(KeyboardInterrupt):
        weft.tune_layouts(
            global_batch=64, ranks=8, layers=64, progress=interrupt_if(lambda report: True)
        )


def test_interrupt_without_a_callback() -> None:
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    best = weft.tune(**HARD)
    timer.join()
    assert best.search is not None and best.search.interrupted


def test_other_threads_run_during_a_search() -> None:
    counted = 0
    running = True

    def count() -> None:
        nonlocal counted
        while running:
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    weft.tune(**{**HARD, "seconds": 1})
    running = False
    thread.join()
    assert counted - before > 10  # it would be about 0 with the lock held


def test_compare() -> None:
    reports: list[dict[str, Any]] = []
    rows = weft.compare(ranks=4, micros=8, cost=COST, progress=reports.append)
    assert [row.makespan for row in rows] == sorted(row.makespan for row in rows)
    assert any(row.pareto for row in rows) and not rows.stopped
    assert {report["schedule"] for report in reports} == {g.name for g in weft.schedules()}
    one = next(row for row in rows if row.schedule == "1f1b")
    assert one.makespan == weft.plan("1f1b", ranks=4, micros=8, cost=COST).metrics.makespan
    by_memory = weft.compare(ranks=4, micros=8, cost=COST, sort="memory")
    assert by_memory[0].peak_memory == min(row.peak_memory for row in rows)
    few = weft.compare(ranks=4, micros=8, cost=COST, mem_limit=3)
    assert all(row.peak_memory <= 3 for row in few)
    assert any("limit" in omission.reason for omission in few.omitted)


def test_compare_stops() -> None:
    rows = weft.compare(ranks=4, micros=8, progress=lambda r: r["share"] < 0.5)
    assert rows.stopped and not rows.interrupted
    assert 0 < len(rows) < len(weft.compare(ranks=4, micros=8))


def test_layouts() -> None:
    found = weft.tune_layouts(global_batch=8, ranks=4, model="gpt2-124m", iterations=0, top=3)
    assert len(found.layouts) == 3 and found.tried >= 3
    for layout in found.layouts:
        assert layout.rows * layout.micros == 8
        assert layout.plan.metrics.makespan == pytest.approx(layout.makespan)
        assert max(layout.plan.metrics.bytes) == layout.peak_bytes
    cluster = "node:2 rank:2 intra:200GB/s,2us inter:25GB/s,8us"
    placed = weft.tune_layouts(
        global_batch=8, model="gpt2-124m", tflops=100, cluster=cluster, iterations=0, top=4
    )
    for layout in placed.layouts:
        assert layout.plan.metrics.makespan == pytest.approx(layout.makespan)
        assert layout.ranks * layout.replicas == 4


# -- simulation and partitions -----------------------------------------------------------------


def test_simulate() -> None:
    plan = weft.plan("1f1b", ranks=4, micros=8, cost={"F": 10, "I": 10, "W": 10})
    free = weft.simulate(plan)
    assert free.makespan == plan.metrics.makespan
    assert sum(free.path) == pytest.approx(free.makespan)
    for idle, causes in zip(free.idle, free.causes):
        assert sum(causes) == pytest.approx(idle)
    cluster = "node:2 rank:2 intra:200GB/s,2us inter:25GB/s,8us"
    slow = weft.simulate(plan, cluster=cluster, bytes="16MB", samples=64)
    assert slow.makespan > free.makespan
    assert slow.samples is not None and len(slow.samples.makespans) == 64
    assert {(link.source, link.target) for link in slow.links} >= {(0, 1), (1, 0), (2, 3)}
    assert all(link.forward_bytes + link.backward_bytes == 8 * 16e6 for link in slow.links)
    named = weft.simulate("1f1b", ranks=4, micros=8, cost={"F": 10, "I": 10, "W": 10})
    assert named.makespan == free.makespan
    assert weft.simulate(plan, speed=[1, 1, 2, 1]).makespan > free.makespan
    with pytest.raises(weft.UsageError, match="hops"):
        weft.simulate("1f1b", ranks=4, micros=8, cost=COST, cluster=cluster)


def test_partition() -> None:
    even = weft.partition(4, "even", layers=10)
    assert even.counts == [3, 3, 2, 2]
    assert even.layout == "Et*3|t*3|tt|ttL"
    assert weft.partition(4, [1, 2, 3, 4]).counts == [1, 2, 3, 4]
    heavy = weft.partition(4, layers=8, head_cost={"F": 2, "I": 2, "W": 2})
    assert heavy.counts[-1] < 2
    assert sum(heavy.F) == 8 + 2
    with pytest.raises(weft.UsageError, match="column"):
        weft.partition(2, "Et*3|tx|L")


# -- traces ------------------------------------------------------------------------------------


def test_trace_round_trip(tmp_path: Path) -> None:
    plan = weft.plan("zb-v", ranks=2, micros=4, cost=COST)
    trace = plan.trace()
    path = tmp_path / "plan.trace"
    assert trace.text(path) == path.read_text()
    assert weft.load_trace(path).text() == trace.text()
    assert trace.summary.makespan == plan.metrics.makespan
    assert trace.costs().F == [10.0] * 4
    assert trace.over(plan).difference().matched == plan.metrics.n_actions
    with pytest.raises(weft.ParseError) as caught:
        weft.parse_trace("# weft trace 1\n# weft ranks x\n", "a.trace")
    assert caught.value.line == 2


def pp_event(name: str, start: float, length: float, **more: Any) -> dict[str, Any]:
    """Makes an event of torch.profiler; times are in microseconds."""
    event = {"ph": "X", "cat": "user_annotation", "name": name, "ts": start, "dur": length}
    return {**event, "tid": 1, **more}


def write_profiles(folder: Path) -> list[Path]:
    """Writes the profiles of two ranks: a forward waits 20 us for its message."""
    rank0 = [
        pp_event("PP:0F0", 0, 100),
        pp_event("aten::mm", 0, 90, cat="cpu_op"),
        pp_event("PP:0SEND_F0", 100, 2),
        pp_event("PP:0RECV_B0", 102, 2),
        pp_event("PP:0UNSHARD", 0, 1),
        pp_event("PP:0B0", 104, 320),
        pp_event("aten::mm", 326, 90, cat="cpu_op"),
    ]
    rank1 = [
        pp_event("PP:1RECV_F0", 10, 2),
        pp_event("PP:1F0", 90, 130),
        pp_event("aten::mm", 110, 90, cat="cpu_op"),
        pp_event("PP:1B0", 220, 100),
        pp_event("aten::mm", 220, 90, cat="cpu_op"),
        pp_event("PP:1SEND_B0", 320, 2),
        pp_event("gloo:send", 320, 2),
    ]
    paths = []
    for rank, events in enumerate((rank0, rank1)):
        data = {
            "traceEvents": [{"ph": "M"}, *events],
            "distributedInfo": {"rank": rank},
            "baseTimeNanoseconds": 10**18,
        }
        path = folder / f"rank{rank}.json"
        path.write_text(json.dumps(data))
        paths.append(path)
    return paths


def test_profiles(tmp_path: Path) -> None:
    import weft.torch as wt

    trace = wt.trace([str(path) for path in write_profiles(tmp_path)])
    events = {event.action: event for event in trace.events() if event.lane != "wait"}
    waits = {event.action: event.length for event in trace.events() if event.lane == "wait"}
    assert (trace.ranks, trace.stages, trace.micros) == (2, 2, 1)
    assert waits == {"1F0": pytest.approx(0.020), "0B0": pytest.approx(0.222)}
    assert events["0UNSHARD"].lane == "collective"
    assert events["1F0"].start == pytest.approx(0.110) and events["1F0"].rank == 1
    assert events["1F0"].length == pytest.approx(0.110)  # without the wait of 20 us
    assert events["0B0"].length == pytest.approx(0.098)  # without the wait of 222 us
    assert events["1RECV_F0"].lane == "receive" and events["0SEND_F0"].lane == "send"
    assert trace.unit_seconds == 1e-3
    costs = trace.costs()
    assert pytest.approx([0.1, 0.11]) == costs.F
    assert pytest.approx(0.008) == costs.C  # the mean of 10 us and 6 us
    assert costs.spread["F"][1].n == 1 and costs.spread["C"][0].n == 2
    assert costs.spread["C"][0].max == pytest.approx(0.010)
    assert sorted(costs.spread) == ["B", "C", "F"]
    plan = weft.plan("1f1b", ranks=2, micros=1, cost=costs)
    assert plan.metrics.makespan == pytest.approx(0.1 + 0.11 + 0.1 + 0.098 + 2 * 0.008)
    assert plan.unit_seconds == 1e-3
    overlay = trace.over(weft.plan("1f1b", ranks=2, micros=1))
    assert overlay.difference().matched == 4
    overlay.save(tmp_path / "both.html")
    assert (tmp_path / "both.html").read_text().startswith("<!DOCTYPE html>")


def test_compressed_profile(tmp_path: Path) -> None:
    path = write_profiles(tmp_path)[0]
    packed = tmp_path / "rank0.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert weft.load_trace(packed).text() == weft.load_trace(path).text()


def test_wait_without_operations(tmp_path: Path) -> None:
    """The input gradient of stage 0 computes nothing: all of it is a wait."""
    import weft.torch as wt

    events = [
        pp_event("PP:0F0", 0, 10),
        pp_event("aten::mm", 1, 5, cat="cpu_op"),
        pp_event("gloo:recv", 12, 88),
        pp_event("PP:0I0", 20, 81),
        pp_event("PP:0W0", 101, 20),
        pp_event("aten::mm", 101, 5, cat="cpu_op"),
    ]
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"traceEvents": events}))
    events_of = {(event.lane, event.action): event for event in wt.trace([path]).events()}
    lengths = {cell: e.length for (lane, cell), e in events_of.items() if lane == "compute"}
    assert events_of["wait", "0I0"].length == pytest.approx(0.081)
    assert lengths["0I0"] == 0
    assert lengths["0W0"] == pytest.approx(0.020)


def test_several_steps(tmp_path: Path) -> None:
    import weft.torch as wt

    events = [pp_event("PP:0F0", t, 10 + t) for t in (0, 100, 200)]
    events += [pp_event("PP:0B0", 50 + t, 20) for t in (0, 100, 200)]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert wt.trace([path]).events()[0].length == pytest.approx(0.210)
    assert wt.trace([path], step=0).events()[0].length == pytest.approx(0.010)
    with pytest.raises(weft.Error, match="complete steps: 3"):
        wt.trace([path], step=3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"traceEvents": 7}',
        b'{"traceEvents": [7]}',
        b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": 3}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "PP:0F0"}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "PP:0F0", '
        b'"ts": "x", "dur": 1}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "PP:0F0", '
        b'"ts": NaN, "dur": 1}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "PP:0F0", '
        b'"ts": 0, "dur": -5}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", '
        b'"name": "PP:99999999999F0", "ts": 0, "dur": 1}]}',
        b'{"traceEvents": []}',
        b"[" * 100000,
    ],
)
def test_damaged_profiles(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(weft.Error):
        weft.load_trace(path)
