#!/usr/bin/env python3
"""Writes src/training/data/unicode_tables.h: where utf8proc and the tokenizers library use
different versions of Unicode.

    make setup-hf && build/hf-venv/bin/python tools/unicode_tables.py

Run it again when the version of either changes.  The regular expressions of tokenizers 0.23.3
use Unicode 16, its normalization forms use Unicode 9, and Debian 12's utf8proc uses Unicode 15.
"""

import ctypes
import pathlib

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).parent.parent / "src/training/data/unicode_tables.h"
POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "LU LL LT LM LO MN MC ME ND NL NO PC PD PS PE PI PF PO SM SC SK SO".split()

utf8proc = ctypes.CDLL("libutf8proc.so.2")
utf8proc.utf8proc_unicode_version.restype = ctypes.c_char_p
libc = ctypes.CDLL(None)


def normalize(form, text):
    """Returns the text in a normalization form, by utf8proc."""
    function = getattr(utf8proc, "utf8proc_" + form)
    function.restype = ctypes.c_void_p
    memory = function(text.encode())
    out = ctypes.string_at(memory).decode()
    libc.free(ctypes.c_void_p(memory))
    return out


def find_new():
    """Returns {code point: category} of the characters that only tokenizers knows."""
    unknown = [c for c in POINTS if utf8proc.utf8proc_category(c) == 0]
    found = {}
    for category in CATEGORIES:
        pattern = Regex(r"\p{%s}" % category.capitalize())
        split = pre_tokenizers.Split(pattern, "isolated")
        for i in range(0, len(unknown), 1000):
            text = "".join(map(chr, unknown[i : i + 1000]))
            for piece, _ in split.pre_tokenize_str(text):
                if len(piece) == 1 and split.pre_tokenize_str("a" + piece)[0][0] == "a":
                    found[ord(piece)] = category
    return found


def find_inert():
    """Returns the characters that only utf8proc normalizes."""
    forms = [(f, getattr(normalizers, f)()) for f in ("NFC", "NFKC")]
    found = {0x11930, 0x11935, 0x11938}  # a composition of Unicode 13
    for c in POINTS:
        for text in (chr(c), "a\u0315" + chr(c) + "\u0300", "a\u0327" + chr(c)):
            if any(n.normalize_str(text) != normalize(f, text) for f, n in forms):
                found.add(c)
    return {c: "" for c in found}


def ranges(points):
    """Joins adjacent code points of the same value: [first, last, value]."""
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1 and out[-1][2] == points[c]:
            out[-1][1] = c
        else:
            out.append([c, c, points[c]])
    return out


def rows(items):
    """Returns the rows of a table, as many items per line as fit."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 1 > 96:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join([*lines, line])


def main():
    version = utf8proc.utf8proc_unicode_version().decode()
    new = [f"{{0x{a:X}, 0x{b:X}, UTF8PROC_CATEGORY_{k}}}," for a, b, k in ranges(find_new())]
    inert = [f"{{0x{a:X}, 0x{b:X}}}," for a, b, _ in ranges(find_inert())]
    OUT.write_text(f"""\
/* Where utf8proc (Unicode {version}) and the tokenizers library {tokenizers.__version__} differ.  Written by
 * tools/unicode_tables.py. */
#ifndef TRAINING_DATA_UNICODE_TABLES_H
#define TRAINING_DATA_UNICODE_TABLES_H

#include <utf8proc.h>

/* Characters that are new in Unicode 16, which utf8proc regards as unassigned. */
static const struct {{
    utf8proc_int32_t first, last;
    utf8proc_category_t category;
}} new_characters[] = {{
    /* clang-format off */
{rows(new)}
    /* clang-format on */
}};

/* Characters newer than Unicode 9, which the tokenizers library does not normalize. */
static const struct {{
    utf8proc_int32_t first, last;
}} inert_characters[] = {{
    /* clang-format off */
{rows(inert)}
    /* clang-format on */
}};

#endif
""")


if __name__ == "__main__":
    main()
