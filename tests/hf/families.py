"""Tokenizers of well-known model families, trained on local text.

The vocabularies are small; everything around them (normalizer, pre-tokenizer, decoder, settings of
the model, added tokens) is what the published files of these families contain.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterable

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
BAR = "\u2581"


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    """A Split by a regular expression, each match a piece of its own."""
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def bytes_after(*steps: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
    """The steps, then ByteLevel without a pattern."""
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*steps, last])


def special(name: str, **flags: bool) -> AddedToken:
    """A special token."""
    return AddedToken(name, special=True, normalized=False, **flags)


def byte_level(
    texts: Iterable[str],
    pre: pre_tokenizers.PreTokenizer,
    end: str,
    normalizer: normalizers.Normalizer | None = None,
    added: Iterable[AddedToken] = (),
    alphabet: Iterable[str] | None = None,
    vocab: int = 3000,
    **model: object,
) -> Tokenizer:
    """Byte-level BPE."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    if normalizer is not None:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    every = pre_tokenizers.ByteLevel.alphabet() if alphabet is None else list(alphabet)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, initial_alphabet=every, special_tokens=[], show_progress=False
    )
    t.train_from_iterator(texts, trainer)
    t.add_tokens([special(end), *added])
    return with_model(t, **model)


def with_model(t: Tokenizer, **changes: object) -> Tokenizer:
    """The tokenizer with other settings of its model."""
    data = json.loads(t.to_str())
    data["model"].update(changes)
    return Tokenizer.from_str(json.dumps(data))


def sentencepiece(
    texts: Iterable[str],
    normalizer: normalizers.Normalizer | None,
    pre: pre_tokenizers.PreTokenizer | None,
    decoder: decoders.Decoder,
    added: Iterable[AddedToken] = (),
    vocab: int = 3000,
) -> Tokenizer:
    """BPE over characters with byte fallback, as converted from SentencePiece."""
    learn = Tokenizer(models.BPE())
    learn.normalizer = normalizers.Replace(" ", BAR)
    learn.pre_tokenizer = pre_tokenizers.Split(Regex(BAR + "+[^" + BAR + "]*"), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=vocab, limit_alphabet=500, show_progress=False)
    # no vocabulary of this kind has a merge that makes the token of a byte
    learn.train_from_iterator((" " + text.replace("<0x", "") for text in texts), trainer)

    data = json.loads(learn.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    names += sorted(data["vocab"], key=data["vocab"].get)
    if BAR not in data["vocab"]:
        names.append(BAR)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in data["merges"]]
    # a run of blanks is a token, as in all these vocabularies
    merges += [(BAR, BAR), (BAR * 2, BAR * 2)]
    names += [BAR * 2, BAR * 4]
    ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
    model = models.BPE(
        vocab=ids,
        merges=list(dict.fromkeys(merges)),
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    t = Tokenizer(model)
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.add_tokens([special("<unk>"), special("<s>"), special("</s>"), *added])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", ids["<s>"])]
    )
    return t


LLAMA2_DECODER = decoders.Sequence(
    [decoders.Replace(BAR, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
GEMMA_DECODER = decoders.Sequence(
    [decoders.Replace(BAR, " "), decoders.ByteFallback(), decoders.Fuse()]
)
BLANKS = [AddedToken(" " * n, normalized=True) for n in range(2, 25)]
CHAT = [special("<|im_start|>"), special("<|im_end|>")]
TOOLS = [AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)]


def gpt2(texts):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return byte_level(texts, pre, "<|endoftext|>")


def gpt2_prefix(texts):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return byte_level(texts, pre, "<|endoftext|>", added=[AddedToken("newtoken")])


def llama3(texts):
    header = [special("<|begin_of_text|>"), special("<|start_header_id|>"), special("<|eot_id|>")]
    t = byte_level(
        texts, bytes_after(split(LLAMA3)), "<|end_of_text|>", added=header, ignore_merges=True
    )
    bos = ("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A",
        pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[bos],
    )
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return t


def qwen2(texts):
    return byte_level(
        texts,
        bytes_after(split(QWEN2)),
        "<|endoftext|>",
        normalizer=normalizers.NFC(),
        added=[*CHAT, *TOOLS],
    )


def deepseek(texts):
    pre = bytes_after(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK))
    names = [special("<｜begin▁of▁sentence｜>"), AddedToken("<｜User｜>", normalized=False)]
    return byte_level(
        texts, pre, "<｜end▁of▁sentence｜>", normalizer=normalizers.Sequence([]), added=names
    )


def starcoder(texts):
    pre = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    unused = {"\u00c0", "\u00c1", *(chr(c) for c in range(0xF5, 0x100))}
    return byte_level(
        texts,
        pre,
        "<|endoftext|>",
        added=[special("<fim_prefix>"), special("<fim_middle>")],
        alphabet=[c for c in alphabet if c not in unused],
    )


def falcon(texts):
    pre = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            split("[0-9][0-9][0-9]"),
        ]
    )
    # The real vocabulary has no token for some control characters: they disappear.
    alphabet = [c for c in pre_tokenizers.ByteLevel.alphabet() if c not in ("\u0103", "\u0104")]
    return byte_level(texts, pre, "<|endoftext|>", alphabet=alphabet)


def neox(texts):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return byte_level(texts, pre, "<|endoftext|>", normalizer=normalizers.NFC(), added=BLANKS)


def olmo(texts):
    masked = AddedToken("|||IP_ADDRESS|||", normalized=False, special=False)
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return byte_level(
        texts, pre, "<|endoftext|>", normalizer=normalizers.NFC(), added=[masked, *BLANKS]
    )


def olmo2(texts):
    return byte_level(texts, bytes_after(split(LLAMA3)), "<|endoftext|>", added=BLANKS)


def smollm(texts):
    pre = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return byte_level(texts, pre, "<|endoftext|>", added=CHAT)


def claude(texts):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return byte_level(texts, pre, "<EOT>", normalizer=normalizers.NFKC())


def gpt4(texts):
    return byte_level(texts, bytes_after(split(CL100K)), "<|endoftext|>")


def gpt4o(texts):
    return byte_level(texts, bytes_after(split(O200K)), "<|endoftext|>")


def flags(texts):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    added = [
        special("<mask>", lstrip=True),
        special("<|user|>", rstrip=True),
        AddedToken("word", single_word=True),
        AddedToken("caf\u00e9", normalized=True),
        AddedToken("<a>", normalized=False, lstrip=True, rstrip=True),
        AddedToken("<a><b>", normalized=False),
    ]
    return byte_level(
        texts, pre, "<|endoftext|>", normalizer=normalizers.NFC(), added=added
    )


def llama2(texts):
    normalizer = normalizers.Sequence([normalizers.Prepend(BAR), normalizers.Replace(" ", BAR)])
    return sentencepiece(texts, normalizer, None, LLAMA2_DECODER)


def phi3(texts):
    normalizer = normalizers.Sequence([normalizers.Prepend(BAR), normalizers.Replace(" ", BAR)])
    added = [special("<|user|>", rstrip=True), special("<|end|>", rstrip=True)]
    return sentencepiece(texts, normalizer, None, LLAMA2_DECODER, added=added)


def mistral(texts):
    pre = pre_tokenizers.Metaspace(BAR, prepend_scheme="first", split=False)
    added = [special("[INST]"), special("[/INST]")]
    return sentencepiece(texts, None, pre, LLAMA2_DECODER, added=added)


def metaspace(texts):
    pre = pre_tokenizers.Metaspace(BAR, prepend_scheme="always", split=True)
    decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(BAR, prepend_scheme="always")]
    )
    return sentencepiece(texts, None, pre, decoder, added=[AddedToken("newtoken")])


def gemma(texts):
    pre = pre_tokenizers.Split(" ", "merged_with_previous")
    added = [special("<start_of_turn>"), AddedToken("<unused0>", normalized=False)]
    return sentencepiece(texts, normalizers.Replace(" ", BAR), pre, GEMMA_DECODER, added=added)


FAMILIES: dict[str, Callable[[Iterable[str]], Tokenizer]] = {
    f.__name__: f
    for f in (
        gpt2,
        gpt2_prefix,
        llama3,
        qwen2,
        deepseek,
        starcoder,
        falcon,
        neox,
        olmo,
        olmo2,
        smollm,
        claude,
        gpt4,
        gpt4o,
        flags,
        llama2,
        phi3,
        mistral,
        metaspace,
        gemma,
    )
}


def write(t: Tokenizer, folder: pathlib.Path, end: str | None = None) -> None:
    """Writes tokenizer.json and, with the name of the end of a document, its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    t.save(str(folder / "tokenizer.json"))
    if end is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
