#!/usr/bin/env python3
"""Renders the templates and expressions of tests/data/chat with jinja2, as transformers sets it up.

    python3 tests/chat/record.py tests/data/chat

Reads the conversations and expressions of rendered.json and rewrites the expected outputs in it.
"""
import json
import pathlib
import sys

import jinja2
from jinja2 import ext, nodes, sandbox


class Generation(ext.Extension):
    """The statement {% generation %}, whose output is that of its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    made = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


def render(template, tokens, record, prompt):
    variables = dict(tokens, messages=record["messages"], tools=record.get("tools"),
                     documents=None, add_generation_prompt=prompt)
    try:
        return {"want": template.render(**variables)}
    except Exception as error:  # any error of Python is a refusal
        return {"error": f"{type(error).__name__}: {error}"}


def main(folder):
    path = folder / "rendered.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["templates"] = {
        file.stem: [
            {"case": name, "prompt": prompt,
             **render(environment().from_string(file.read_text(encoding="utf-8")),
                      data["tokens"], record, prompt)}
            for name, record in data["conversations"].items()
            for prompt in (False, True)
        ]
        for file in sorted(folder.glob("*.jinja"))
    }
    for each in data["expressions"]:
        each["want"] = environment().from_string(each["template"]).render()
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
