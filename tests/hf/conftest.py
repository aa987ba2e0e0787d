"""Fixtures of the tests that compare weft with the Hugging Face libraries (make test-hf)."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def program() -> pathlib.Path:
    """The program: $WEFT, or that of the release build."""
    path = pathlib.Path(os.environ.get("WEFT", ROOT / "build/release/weft"))
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    return path


@pytest.fixture(scope="session")
def run_weft(program):
    """Runs weft and returns its standard output.  A failure ends the test, unless `check` is
    false; the result is then the completed process."""

    def run(*args, check=True, cwd=None, stdin=None):
        done = subprocess.run(
            [program, *map(str, args)], capture_output=True, text=True, cwd=cwd, input=stdin
        )
        if not check:
            return done
        if done.returncode != 0:
            pytest.fail(f"weft {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout

    return run


@pytest.fixture(scope="session")
def library(program) -> pathlib.Path:
    """The shared library beside the program."""
    path = program.parent / "libweft.so"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    return path
