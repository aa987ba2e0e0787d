"""Compares the tokens of weft with those of the tokenizers library, for every family."""

from __future__ import annotations

import itertools
import json
import os
import unicodedata

import pytest

tokenizers = pytest.importorskip("tokenizers")

import families  # noqa: E402
import texts  # noqa: E402
from weft_tokenizer import WeftTokenizer  # noqa: E402

# Bytes of real text per family; the deep run has more than 50 MB.
REAL = int(os.environ.get("WEFT_TEST_BYTES", 3_000_000))
HOSTILE = int(os.environ.get("WEFT_TEST_TEXTS", 4000))


@pytest.fixture(scope="session")
def corpus():
    """Text to train the vocabularies."""
    sample = list(texts.real(3_000_000, seed=3)) + list(texts.hostile(2000, seed=5))
    return sample


@pytest.fixture(scope="session", params=sorted(families.FAMILIES))
def pair(request, corpus, library, tmp_path_factory):
    """A tokenizer of a family: its name, as the library reads it, as weft reads it."""
    folder = tmp_path_factory.mktemp(request.param)
    t = families.FAMILIES[request.param](corpus)
    families.write(t, folder)
    return request.param, tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), (
        WeftTokenizer(library, folder)
    )


def is_exception(name: str, text: str) -> bool:
    """True for characters whose Unicode data differs; docs/formats/tokenizer.md lists them."""
    if name in ("starcoder", "falcon", "smollm"):
        if any(ord(c) in texts.NEW_DIGITS for c in text):
            return True
    if name == "falcon":
        return any(ord(c) >= 0x80 and is_new_punctuation(c) for c in text)
    return False


def is_new_punctuation(c: str) -> bool:
    """True for punctuation that the Punctuation step of the library does not know, and for the
    two characters that were punctuation once."""
    split = tokenizers.pre_tokenizers.Punctuation("isolated")
    known = len(split.pre_tokenize_str("a" + c + "a")) == 3
    return known != (unicodedata.category(c)[0] == "P") or unicodedata.category(c) == "Cn"


def compare(pair, many, special=True):
    """Fails if the tokens of a text differ."""
    name, hf, weft = pair
    hf.encode_special_tokens = not special
    bad = []
    n = 0
    for text in many:
        n += 1
        want = hf.encode(text, add_special_tokens=False).ids
        have = weft.encode(text, special)
        if want != have and not is_exception(name, text):
            bad.append((text, want, have))
    hf.encode_special_tokens = False
    if bad:
        text, want, have = min(bad, key=lambda b: len(b[0]))
        pytest.fail(f"{len(bad)} of {n} texts differ: {text!r} {want[:50]} {have[:50]}")


def test_real_text(pair):
    compare(pair, texts.real(REAL))


def test_every_character(pair):
    compare(pair, texts.every_character())


def test_hostile_text(pair):
    compare(pair, texts.hostile(HOSTILE))


def test_special_names_as_text(pair):
    compare(pair, texts.hostile(HOSTILE, seed=11), special=False)


def test_long_words(pair):
    compare(pair, texts.long_words())


def test_decoding(pair):
    """Decoded tokens are the text as the library decodes them."""
    name, hf, weft = pair
    strips = name in ("llama2", "phi3", "mistral", "metaspace")
    for text in itertools.chain(texts.hostile(1500, seed=13), texts.real(100_000)):
        ids = weft.encode(text)
        have = weft.decode(ids)
        if strips and have.startswith(b" "):
            have = have[1:]
        want = hf.decode(ids, skip_special_tokens=False)
        if "\ufffd" not in want:
            assert have.decode(errors="replace") == want, text


def test_document_end(corpus, library, tmp_path):
    """The files beside a tokenizer name the end of a document, in this order."""
    t = families.qwen2(corpus[:50])
    ids = {name: t.token_to_id(name) for name in ("<|endoftext|>", "<|im_end|>", "<|im_start|>")}
    families.write(t, tmp_path)
    assert WeftTokenizer(library, tmp_path).end() == ids["<|endoftext|>"]
    generation = {"eos_token_id": ids["<|im_start|>"]}
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert WeftTokenizer(library, tmp_path).end() == ids["<|im_start|>"]
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": [ids["<|im_end|>"], 5]}))
    assert WeftTokenizer(library, tmp_path).end() == ids["<|im_end|>"]
    config = {"eos_token": {"content": "<|endoftext|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert WeftTokenizer(library, tmp_path).end() == ids["<|endoftext|>"]


def test_added_tokens_file(corpus, library, tmp_path):
    """vocab.json and merges.txt with added_tokens.json, as transformers reads them."""
    transformers = pytest.importorskip("transformers")
    families.gpt2(corpus[:200]).model.save(str(tmp_path))
    vocab = json.loads((tmp_path / "vocab.json").read_text())
    vocab["<|endoftext|>"] = len(vocab)
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    added = {" " * n: len(vocab) + n - 2 for n in range(2, 10)}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    hf = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    weft = WeftTokenizer(library, tmp_path)
    for text in ("def f(x):\n        return  x", "a   b", "\n\n    \t  x"):
        assert weft.encode(text, special=True) == hf.encode(text, add_special_tokens=False)
