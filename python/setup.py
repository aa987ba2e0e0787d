"""Builds the extension module from the C sources of weft.

The sources are those of libweft-plan without the files that need jansson or libyaml: Python
reads JSON itself.  Only a C compiler is needed.  The variables WEFT_CFLAGS and WEFT_LDFLAGS add
options, for example of a sanitizer.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# Files that need jansson or libyaml.
EXCLUDED = {
    "src/config/costfile.c",
    "src/config/json_input.c",
    "src/config/settings_file.c",
    "src/config/yaml.c",
    "src/planning/spec/hf_config.c",
}

# As in CMakeLists.txt: a fused multiply-add rounds once, so results would depend on the
# compiler.
FLAGS = [
    "-std=c11",
    "-O2",
    "-g0",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-Wno-sign-compare",  # an option of Python's own build, which weft does not use
]
# Functions that nothing calls are dropped, and with them all uses of the excluded files.
LINK_FLAGS = ["-Wl,--gc-sections", "-Wl,-z,noexecstack"]


def version() -> str:
    """Returns the version of the project."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    match = re.search(r"^project\(weft VERSION ([0-9.]+)", text, re.MULTILINE)
    if match is None:
        sys.exit("setup.py: CMakeLists.txt does not have the version")
    return match.group(1)


def sources() -> list[str]:
    """Returns the C sources, relative to this directory."""
    floors = [ROOT / "src" / name for name in ("base", "config", "planning")]
    files = [path for floor in floors for path in sorted(floor.rglob("*.c"))]
    names = [path.relative_to(ROOT).as_posix() for path in files]
    own = sorted(path.relative_to(HERE).as_posix() for path in (HERE / "src").glob("*.c"))
    return own + [f"../{name}" for name in names if name not in EXCLUDED]


def embed(target: Path) -> None:
    """Writes page.js and page.css as C arrays, like cmake/embed.cmake."""
    parts = ['#include "planning/draw/page_priv.h"\n']
    for name, file in (("wf_page_script", "page.js"), ("wf_page_style", "page.css")):
        data = (ROOT / "src/planning/draw" / file).read_bytes()
        parts.append(f"const unsigned char {name}[] = {{{','.join(map(str, data))}}};\n")
        parts.append(f"const size_t {name}_len = sizeof {name};\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(parts), encoding="ascii")


class BuildWeft(build_ext):
    """Compiles in parallel and embeds the files of the HTML page."""

    def build_extension(self, ext: Any) -> None:
        # Two levels deeper: objects of ../src stay inside the build directory.
        self.build_temp = os.path.join(self.build_temp, "python", "objects")
        page = Path(self.build_temp, "page_bytes.c")
        embed(page)
        ext.sources.append(os.path.relpath(page))
        compile_all = self.compiler.compile

        def compile_parallel(files: list[str], **how: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                objects = list(pool.map(lambda file: compile_all([file], **how), files))
            return [name for part in objects for name in part]

        self.compiler.compile = compile_parallel
        super().build_extension(ext)


def extension() -> Extension:
    """Describes the extension module."""
    return Extension(
        "weft._weft",
        sources(),
        include_dirs=["src", "../include", "../src"],
        define_macros=[
            ("Py_LIMITED_API", "0x03090000"),
            ("_POSIX_C_SOURCE", "200809L"),
            ("WEFT_VERSION", f'"{version()}"'),
            ("WEFT_COMPILER", '"Python extension"'),
            ("WEFT_BUILD_TYPE", '"Release"'),
        ],
        extra_compile_args=FLAGS + shlex.split(os.environ.get("WEFT_CFLAGS", "")),
        extra_link_args=[
            *LINK_FLAGS,
            "-Wl,--version-script=src/exports.map",
            *shlex.split(os.environ.get("WEFT_LDFLAGS", "")),
        ],
        libraries=["m"],
        py_limited_api=True,
    )


setup(
    version=version(),
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildWeft},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
