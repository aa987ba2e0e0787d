"""Models that weft writes: transformers reads them with the same tokens, logits and text.

Every model is trained for some steps, written by `weft train` and converted to bf16 and to several
files.  AutoTokenizer and AutoModelForCausalLM load each directory without further settings.
"""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
torch.set_num_threads(1)

TEXT = [f"the thread number {i} goes over the warp, naïve ☃ {i * 37}" for i in range(150)]
PROMPTS = ["the thread", "Ünï☃\n 123 don't", "number 12 <|endoftext|", " "]

SPECS = {
    "gpt2": ["--model.arch=gpt2"],
    "gpt2-untied": ["--model.arch=gpt2", "--model.tied=false", "--model.ffn=56"],
    "gpt2-blocks": ["--model.arch=gpt2", "--model.residual_block_layers=2"],
    "llama": ["--model.arch=llama", "--model.ffn=56"],
    "llama-tied-gqa": ["--model.arch=llama", "--model.ffn=56", "--model.tied=true",
                       "--model.kv_heads=2"],
    "llama-mqa": ["--model.arch=llama", "--model.ffn=40", "--model.kv_heads=1"],
    "llama-blocks": ["--model.arch=llama", "--model.ffn=56", "--model.residual_block_layers=2"],
    "llama-blocks-tied": ["--model.arch=llama", "--model.ffn=56", "--model.tied=true",
                          "--model.kv_heads=2", "--model.residual_block_layers=3"],
}

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def train_llama3(path):
    """Writes a small tokenizer with Llama 3's pattern and names of special tokens."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|begin_of_text|>", "<|end_of_text|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.save(str(path))


@pytest.fixture(scope="module")
def data(run_weft, tmp_path_factory):
    """Shards by kind of tokenizer.  Short documents, so that models learn to end them."""
    root = tmp_path_factory.mktemp("data")
    lines = root / "lines.jsonl"
    lines.write_text("".join(json.dumps({"text": line}) + "\n" for line in TEXT))
    train_llama3(root / "llama3.json")
    kinds = {"bytes": [], "learned": ["--train-bpe", 290],
             "llama3": ["--tokenizer", root / "llama3.json"]}
    for kind, options in kinds.items():
        run_weft("tokenize", lines, "-o", root / kind, *options)
    return root


@pytest.fixture(scope="module", params=[f"{s} {k}" for s in SPECS
                                        for k in ("bytes", "learned", "llama3")])
def directories(request, data, run_weft, tmp_path_factory):
    """The directories of one model: in fp32, in bf16, and in several files."""
    spec, kind = request.param.split()
    root = tmp_path_factory.mktemp(f"{spec}-{kind}")
    run_weft("train", *SPECS[spec], "--model.layers=5", "--model.dim=32", "--model.heads=4",
             "--model.ctx=96", "--model.vocab=320", f"--data.train={data / kind}",
             "--data.batch=4", "--data.seq=48", "--parallel.micros=1", "--parallel.threads=1",
             "--optim.lr=5e-3", "--train.steps=10", f"--log.dir={root / 'run'}")
    run_weft("convert", root / "run", root / "bf16", "--type", "bf16")
    run_weft("convert", root / "run", root / "files", "--shard-bytes", "40kB")
    return {"fp32": root / "run/model", "bf16": root / "bf16", "files": root / "files"}


def generate(run_weft, path, prompt, n, *options):
    out = run_weft("generate", "--model", path, "-p", prompt, "-n", n, "--temperature", 0,
                   "--json", "--threads", 1, *options)
    return json.loads(out)


def load(path):
    trust = json.loads((path / "config.json").read_text())["model_type"].startswith("weft_")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=trust)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        path, trust_remote_code=trust, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    return tokenizer, model.float().eval()


def test_tokens_logits_and_text(directories, run_weft):
    for form, path in directories.items():
        tokenizer, model = load(path)
        vocab = model.config.vocab_size
        assert len(tokenizer) <= vocab
        assert tokenizer.model_max_length == 96
        end = tokenizer.eos_token_id
        assert end is not None and tokenizer.bos_token_id == tokenizer.pad_token_id == end
        for config in (model.config, model.generation_config):
            assert config.eos_token_id == config.bos_token_id == config.pad_token_id == end

        for prompt in PROMPTS if form == "fp32" else PROMPTS[:1]:
            out = generate(run_weft, path, prompt, 20, "--logprobs", vocab)
            ids = tokenizer(prompt)["input_ids"]
            assert ids == out["prompt"], (form, prompt)
            assert tokenizer.decode(ids) == prompt

            # Log-probabilities of every generated position, for all tokens of the vocabulary.
            with torch.no_grad():
                logits = model(torch.tensor([ids + out["tokens"]])).logits[0].double()
            logprobs = torch.log_softmax(logits, -1)[len(ids) - 1:-1]
            ours = torch.zeros_like(logprobs)
            for row, top in zip(ours, out["top_logprobs"]):
                row[[p["token"] for p in top]] = torch.tensor(
                    [p["logprob"] for p in top], dtype=torch.float64)
            assert (ours - logprobs).abs().max() < 1e-5, (form, prompt)

            new = model.generate(
                torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=20, do_sample=False)[0].tolist()[len(ids):]
            assert new == out["tokens"], (form, prompt)
            text = tokenizer.decode(new, skip_special_tokens=True,
                                    clean_up_tokenization_spaces=False)
            if "\ufffd" not in text:
                assert text == out["text"]


def test_generation_stops_at_the_end(data, run_weft, tmp_path):
    """A model that has learned to end its documents ends them in transformers, too."""
    words = tmp_path / "words.jsonl"
    words.write_text(json.dumps({"text": "count: 1 2 3 end."}) + "\n" +
                     (json.dumps({"text": "count: 1 2 3 end."}) + "\n") * 200)
    run_weft("tokenize", words, "-o", tmp_path / "data", "--train-bpe", 280)
    for arch in ("gpt2", "llama"):
        run = tmp_path / arch
        run_weft("train", f"--model.arch={arch}", "--model.layers=2", "--model.dim=32",
                 "--model.ffn=64", "--model.heads=4", "--model.ctx=64", "--model.vocab=280",
                 f"--data.train={tmp_path / 'data'}", "--data.batch=8", "--data.seq=32",
                 "--parallel.micros=1", "--parallel.threads=1", "--optim.lr=5e-3",
                 "--train.steps=60", f"--log.dir={run}")
        out = generate(run_weft, run, "count:", 40)
        assert out["stopped"] == "end of document" and len(out["tokens"]) < 20
        tokenizer, model = load(run / "model")
        new = model.generate(**tokenizer("count:", return_tensors="pt"), max_new_tokens=40,
                             do_sample=False)[0].tolist()
        assert new == out["prompt"] + out["tokens"]
        assert out["text"] == " 1 2 3 end."
        # A batch of different lengths can be padded.
        batch = tokenizer(["count:", "count: 1 2"], padding=True, return_tensors="pt")
        assert batch["attention_mask"].sum(-1).min() < batch["attention_mask"].shape[1]


def test_block_residuals_are_refused_without_trust(data, run_weft, tmp_path):
    run_weft("train", "--model.arch=llama", "--model.ffn=32", "--model.layers=2", "--model.dim=16",
             "--model.heads=2", "--model.ctx=32", "--model.vocab=257",
             "--model.residual_block_layers=1", f"--data.train={data / 'bytes'}", "--data.batch=2",
             "--data.seq=16", "--parallel.micros=1", "--train.steps=1",
             f"--log.dir={tmp_path / 'run'}")
    with pytest.raises(ValueError, match="trust_remote_code"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run/model",
                                                          trust_remote_code=False)
    with pytest.raises((ValueError, KeyError, OSError)):
        path = tmp_path / "run/model/config.json"
        config = json.loads(path.read_text())
        del config["auto_map"]
        path.write_text(json.dumps(config))
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run/model")
