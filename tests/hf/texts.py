"""Texts for comparisons: real files of this machine, and generated hostile ones."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

# Characters at which the Unicode data of the two libraries differs; docs/formats/tokenizer.md lists
# them.  Digits of tokenizers 0.23.3 follow Unicode 17, its Punctuation is older than Unicode 9.
NEW_DIGITS = {*range(0x11DE0, 0x11DEA), *range(0x16FF4, 0x16FF7)}

FOLDERS = ["/usr/share/doc", "/usr/share/common-licenses", "/usr/lib/python3", "/usr/include",
           "/usr/share/perl", "/usr/share/i18n"]


def real(limit: int, seed: int = 1) -> Iterator[str]:
    """Yields texts of real files until they have `limit` bytes."""
    paths = sorted(
        p for f in FOLDERS for p in pathlib.Path(f).rglob("*") if p.is_file() and not p.is_symlink()
    )
    random.Random(seed).shuffle(paths)
    total = 0
    for path in paths:
        try:
            text = path.read_bytes()[:200000].decode()
        except (OSError, UnicodeDecodeError):
            continue
        if not text or "\0" in text:
            continue
        total += len(text.encode())
        yield text
        if total >= limit:
            return


CONTEXTS = ("a{}a", " {} ", "{}{}", "\n{}1", "a{}\u0301\u0327b")


def every_character() -> Iterator[str]:
    """Yields texts with every character in several contexts, 64 characters each."""
    chars = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    for i in range(0, len(chars), 64):
        for context in CONTEXTS:
            yield "".join(context.format(chr(c), chr(c)) for c in chars[i : i + 64])


POOLS = [
    "abcXYZ", " \t\n\r\u00a0\u3000\u2028", "0123456789\u0663\u00bd\u216b", "'s't're've'll'd'S'T\u017f",
    "\u0300\u0301\u0327\u0323\u0338\u1dc0\u20d0\u3099\u0345", "\u00e9\u0065\u0301\u212b\u1e9b\ufb01\uff21",
    "\u1100\u1161\u11a8\uac00\uac01\ud7a3", "\u65e5\u672c\u8a9e\u3042\u30ab\u3002\uff0c", ".,!?;:()[]{}<>|/\\\"#$%&*+-=@^_`~",
    "\U0001f600\U0001f468\u200d\U0001f469\ufe0f\U0001f1e9\U0001f3fd", "\u0627\u0644\u0639\u0644\u064a\u0629\u200f\u05d0\u05b7",
    "\u2581\u2581 \u2581a", "<|>_", "\x01\x02\x03\x7f\x1c\x1f\u0085\u00ad\ufeff\u200b", "\u0e01\u0e33\u0e49\u0915\u094d\u0937\u093f",
]
NAMES = ["<|endoftext|>", "<|im_start|>", "</s>", "<s>", "<mask>", "<a>", "<a><b>", "word", "caf\u00e9",
         "cafe\u0301", "newtoken", "<0x0A>", "<|user|>", "<tool_call>", "[INST]", "    ", "  ", "\u2581",
         "<\uff5cUser\uff5c>", "|||IP_ADDRESS|||", "<|begin_of_text|>", "<start_of_turn>", "hello", " the"]


def hostile(count: int, seed: int = 7) -> Iterator[str]:
    """Yields random texts of difficult characters and names of tokens."""
    r = random.Random(seed)
    for _ in range(count):
        pools = r.sample(POOLS, r.randint(1, 4))
        parts = []
        for _ in range(r.randint(0, 60)):
            kind = r.random()
            if kind < 0.12:
                parts.append(r.choice(NAMES))
            elif kind < 0.17:
                parts.append(chr(r.choice([r.randint(1, 0xD7FF), r.randint(0xE000, 0x10FFFF)])))
            else:
                pool = r.choice(pools)
                parts.append("".join(r.choice(pool) for _ in range(r.randint(1, 6))))
        yield "".join(parts)


def long_words() -> Iterator[str]:
    """Yields texts without a place to split them."""
    yield "a" * 100000
    yield "ab" * 30000 + "\u0301" * 20000
    yield "\u0323\u0301" * 20000
    yield " " * 50000 + "x"
    yield "\n" * 30000
    yield "1" * 50000
    yield "\u65e5" * 30000
    yield "<" * 20000 + "|" * 20000
