"""Event files as TensorBoard reads them: wall times, and a curve without repeated steps."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("tensorboard")


def test_curve_after_a_crash(run_weft, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (tmp_path / "text.txt").write_text("so the weft goes over the warp\n" * 200)
    run_weft("tokenize", tmp_path / "text.txt", "-o", tmp_path / "data")
    options = ["--model.arch=gpt2", "--model.layers=1", "--model.dim=16", "--model.heads=2",
               "--model.ctx=32", "--model.vocab=257", f"--data.train={tmp_path / 'data'}",
               "--data.batch=2", "--data.seq=16", "--parallel.micros=1", "--parallel.threads=1",
               "--checkpoint.every=10", "--log.tensorboard=true", f"--log.dir={tmp_path / 'run'}"]
    run_weft("train", *options, "--train.steps=27")
    # A killed run has steps after its newest checkpoint, and no model.
    shutil.rmtree(tmp_path / "run/model")
    for step in tmp_path.glob("run/checkpoints/step-*27"):
        shutil.rmtree(step)
    run_weft("train", *options, "--train.steps=40", "--checkpoint.resume=auto")

    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    points = events.Scalars("loss")
    assert [p.step for p in points] == list(range(1, 41))
    times = [p.wall_time for p in points]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
