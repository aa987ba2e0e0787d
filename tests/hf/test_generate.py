"""weft generate and transformers' generate(): where they stop, and from what they draw."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)

PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A random Llama with 96 tokens, written by transformers."""
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=64, initializer_range=0.2,
        bos_token_id=None, eos_token_id=None, pad_token_id=None)
    path = tmp_path_factory.mktemp("model")
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    return path


def reload(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path).eval()


def run_hf(path, **options):
    ids = torch.tensor([PROMPT])
    out = reload(path).generate(ids, attention_mask=torch.ones_like(ids), **options)
    return out[0].tolist()[len(PROMPT):]


def run_ours(run_weft, path, *options):
    out = run_weft("generate", "--model", path, "--tokens", ",".join(map(str, PROMPT)), "--json",
                   "--threads", 1, *options)
    return json.loads(out)


# eos_token_id of config.json and generation_config.json: K is the third token of the greedy text.
STOPS = {
    "list in config": ([1, "K"], None),
    "number in config": ("K", None),
    "both, the second has the list": (1, {"eos_token_id": [1, "K"]}),
    "only generation_config": (None, {"eos_token_id": "K"}),
    "neither": (None, {}),
    "max_new_tokens": (None, {"max_new_tokens": 4}),
    "max_length": (None, {"max_length": 9}),
    "penalty": (None, {"repetition_penalty": 1.7}),
    "sampling keys without do_sample": (None, {"top_k": 1}),
}


@pytest.mark.parametrize("name", STOPS)
def test_stops(name, model_dir, run_weft, tmp_path):
    third = run_ours(run_weft, model_dir, "-n", 3, "--temperature", 0)["tokens"][2]

    def fill(value):
        text = json.dumps(value).replace('"K"', str(third))
        return json.loads(text)

    eos, generation = fill(STOPS[name])
    path = tmp_path / "model"
    path.mkdir()
    for file in model_dir.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    config = json.loads((path / "config.json").read_text())
    config["eos_token_id"] = eos
    (path / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (path / "generation_config.json").write_text(json.dumps(generation))

    limited = generation is not None and ("max_new_tokens" in generation or
                                          "max_length" in generation)
    options = {} if limited else {"max_new_tokens": 20}
    want = run_hf(path, do_sample=False, pad_token_id=0, **options)
    ours = run_ours(run_weft, path, "--temperature", 0, *([] if limited else ["-n", 20]))
    assert ours["tokens"] == want
    if third in want:
        assert len(want) <= 20


SAMPLING = {
    "temperature": {"temperature": 0.7, "top_k": 0},
    "top-k": {"temperature": 1.3, "top_k": 7},
    "top-p": {"temperature": 1.0, "top_k": 0, "top_p": 0.6},
    "top-k and top-p": {"temperature": 2.0, "top_k": 20, "top_p": 0.8},
    "min-p": {"temperature": 1.5, "top_k": 0, "min_p": 0.15},
    "all": {"temperature": 1.6, "top_k": 30, "top_p": 0.9, "min_p": 0.05,
            "repetition_penalty": 1.5},
}


@pytest.mark.parametrize("name", SAMPLING)
def test_sampling_distribution(name, model_dir, run_weft):
    """Draws one token 4000 times and compares with the scores of transformers."""
    options = SAMPLING[name]
    ids = torch.tensor([PROMPT])
    out = reload(model_dir).generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=1,
        output_scores=True, return_dict_in_generate=True, pad_token_id=0,
        **{"top_k": 0, **options})
    want = torch.softmax(out.scores[0][0].double(), -1)

    flags = []
    for key, value in options.items():
        flags += [f"--{key.replace('_', '-')}", value]
    n = 4000
    lines = run_weft("generate", "--model", model_dir, "--tokens", "5,6,7", "-n", 1, "--json",
                     "--threads", 1, "--samples", n, *flags).splitlines()
    got = torch.zeros_like(want)
    for line in lines:
        got[json.loads(line)["tokens"][0]] += 1
    assert got.sum() == n
    assert got[want == 0].sum() == 0  # only tokens that transformers keeps
    sigma = (n * want * (1 - want)).sqrt()
    assert ((got - n * want).abs() <= 5 * sigma + 1).all()


def test_logprobs(model_dir, run_weft):
    ours = run_ours(run_weft, model_dir, "-n", 5, "--logprobs", 96, "--seed", 11)
    tokens = torch.tensor([PROMPT + ours["tokens"]])
    with torch.no_grad():
        want = torch.log_softmax(reload(model_dir)(tokens).logits[0].double(), -1)
    for i, token in enumerate(ours["tokens"]):
        row = want[len(PROMPT) - 1 + i]
        assert abs(row[token] - ours["logprobs"][i]) < 1e-5
        for p in ours["top_logprobs"][i]:
            assert abs(row[p["token"]] - p["logprob"]) < 1e-5


@pytest.mark.parametrize("arch", ["gpt2", "llama"])
def test_tied_model_with_another_head(arch, run_weft, tmp_path):
    """transformers 4 and 5 disagree about such a model.  weft refuses it by the tensor's name."""
    from safetensors.torch import load_file, save_file

    sizes = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    if arch == "gpt2":
        config = transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=1, n_head=4,
                                         n_positions=64)
        model = transformers.GPT2LMHeadModel(config)
        embedding = "transformer.wte.weight"
    else:
        config = transformers.LlamaConfig(**sizes, intermediate_size=48, tie_word_embeddings=True,
                                          max_position_embeddings=64)
        model = transformers.LlamaForCausalLM(config)
        embedding = "model.embed_tokens.weight"
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for same in (True, False):
        head = weights[embedding].clone()
        if not same:
            head[3, 4] += 1
        save_file({**weights, "lm_head.weight": head}, tmp_path / "model.safetensors",
                  metadata={"format": "pt"})
        done = run_weft("generate", "--model", tmp_path, "--tokens", "1", "-n", 1, check=False)
        assert done.returncode == (0 if same else 4)
        if not same:
            assert "lm_head.weight differs from " + embedding in done.stderr
