"""Writes tests/data/tokenizer/*.json and *.jsonl: small tokenizers of some families, and texts with
their tokens, for tests without the tokenizers library.

    build/hf-venv/bin/python tests/hf/record.py
"""

from __future__ import annotations

import json
import pathlib

import families
import texts

OUT = pathlib.Path(__file__).parent.parent / "data/tokenizer"
NAMES = ["qwen2", "deepseek", "starcoder", "falcon", "flags", "gpt2_prefix", "llama2", "phi3",
         "mistral", "metaspace", "gemma", "claude"]
SENTENCES = [
    "The quick brown fox jumps over the lazy dog. It's 12345 o'clock; we'll see!",
    "def f(x):\n    return x + 1  # caf\u00e9 na\u00efve\n\n\nif a  ==   b:\n\tpass\n",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\n\u7b2c\u4e8c\u884c\u3001\ud55c\uad6d\uc5b4 text 3.14",
]


def main() -> None:
    base = families.byte_level
    sentence = families.sentencepiece
    families.byte_level = lambda *a, **k: base(*a, **{**k, "vocab": 300})
    families.sentencepiece = lambda *a, **k: sentence(*a, **{**k, "vocab": 160})
    for name in NAMES:
        t = families.FAMILIES[name](SENTENCES * 20)
        (OUT / f"{name}.json").write_text(t.to_str(), encoding="utf-8")
        with open(OUT / f"{name}.jsonl", "w", encoding="utf-8") as out:
            for text in [*SENTENCES, *(h[:70] for h in texts.hostile(16, seed=17))]:
                t.encode_special_tokens = False
                special = t.encode(text, add_special_tokens=False).ids
                t.encode_special_tokens = True
                plain = t.encode(text, add_special_tokens=False).ids
                row = {"text": text, "ids": plain, "special": special}
                out.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
