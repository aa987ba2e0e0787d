"""Models of weft with block attention residuals, for transformers 4 and 5.

The input of every attention and every MLP is a mix of the embedding, the outputs of all finished
blocks of K layers, and the sum of the current block.  Everything else equals GPT-2 (model_type
weft_gpt2) or Llama (weft_llama).  Load a model with

    AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True)

There is no cache of keys and values: generate() processes the whole sequence for every token.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, GPT2Config, LlamaConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class WeftGPT2Config(GPT2Config):
    """GPT-2's configuration; residual_block_layers is the number of layers per block."""

    model_type = "weft_gpt2"


class WeftLlamaConfig(LlamaConfig):
    """Llama's configuration; residual_block_layers is the number of layers per block."""

    model_type = "weft_llama"


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Mix(nn.Module):
    """Mixes vectors with the softmax of their normalized products with a query as weights."""

    def __init__(self, dim, eps):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(dim))
        self.norm = Norm(dim, eps)

    def forward(self, vectors):
        v = torch.stack(vectors)
        weights = torch.softmax((self.norm(v) * self.query).sum(-1, keepdim=True), dim=0)
        return (weights * v).sum(0)


class Conv1D(nn.Module):
    """A linear layer whose weight has the shape (inputs, outputs), as in GPT-2."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(q, k, v, mask):
    """Returns softmax(q k^T / sqrt(head)) v, with the heads side by side in the last dimension."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.transpose(1, 2).flatten(2)


def split(x, heads):
    """Returns (batch, heads, tokens, head) of (batch, tokens, heads * head)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class GPT2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.n_head
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)

    def forward(self, x, mask, rotate):
        q, k, v = (split(y, self.heads) for y in self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(attend(q, k, v, mask))


class GPT2MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.c_fc = Conv1D(config.n_embd, inner)
        self.c_proj = Conv1D(inner, config.n_embd)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim, self.heads = config.hidden_size, config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        kv = dim // self.heads * self.kv_heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv, bias=False)
        self.v_proj = nn.Linear(dim, kv, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask, rotate):
        q = rotate(split(self.q_proj(x), self.heads))
        k = rotate(split(self.k_proj(x), self.kv_heads))
        v = split(self.v_proj(x), self.kv_heads)
        return self.o_proj(attend(q, k, v, mask))


class LlamaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(dim, inner, bias=False)
        self.up_proj = nn.Linear(dim, inner, bias=False)
        self.down_proj = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One layer, with the names of the tensors of GPT-2 or Llama."""

    def __init__(self, config, index):
        super().__init__()
        self.opens_block = index % config.residual_block_layers == 0
        self.gpt2 = config.model_type == "weft_gpt2"
        dim = config.hidden_size
        if self.gpt2:
            eps = config.layer_norm_epsilon
            self.ln_1, self.ln_2 = nn.LayerNorm(dim, eps=eps), nn.LayerNorm(dim, eps=eps)
            self.attn, self.mlp = GPT2Attention(config), GPT2MLP(config)
        else:
            eps = config.rms_norm_eps
            self.input_layernorm = Norm(dim, eps)
            self.post_attention_layernorm = Norm(dim, eps)
            self.self_attn, self.mlp = LlamaAttention(config), LlamaMLP(config)
        self.attn_residual, self.mlp_residual = Mix(dim, eps), Mix(dim, eps)

    def forward(self, blocks, current, mask, rotate):
        if self.gpt2:
            norms, attention = (self.ln_1, self.ln_2), self.attn
        else:
            norms = (self.input_layernorm, self.post_attention_layernorm)
            attention = self.self_attn
        if self.opens_block:
            current = attention(norms[0](self.attn_residual(blocks)), mask, rotate)
        else:
            mixed = self.attn_residual(blocks + [current])
            current = current + attention(norms[0](mixed), mask, rotate)
        return current + self.mlp(norms[1](self.mlp_residual(blocks + [current])))


def frequencies(rope, head):
    """Returns the angle per position of each pair of a head's elements."""
    theta = rope["rope_theta"] ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    if rope["rope_type"] == "linear":
        theta = theta / rope["factor"]
    elif rope["rope_type"] == "llama3":
        turns = rope["original_max_position_embeddings"] * theta / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        theta = theta * ((1 - smooth) / rope["factor"] + smooth)
    return theta


def rotation(config, positions, dtype):
    """Returns a function that rotates queries and keys by their positions."""
    head = config.hidden_size // config.num_attention_heads
    angles = positions[:, None, :, None].double() * frequencies(
        config.rope_parameters, head).to(positions.device)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    return rotate


class WeftModel(PreTrainedModel, GenerationMixin):
    """The parts that both models share.  A model has a ModuleDict with the names of its tensors."""

    base_model_prefix = ""
    _supports_sdpa = True

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def body(self):
        """Returns the module with the layers, and the names of its embedding, layers and norm."""
        raise NotImplementedError

    def get_input_embeddings(self):
        module, (embedding, _, _) = self.body()
        return module[embedding]

    def set_input_embeddings(self, value):
        module, (embedding, _, _) = self.body()
        module[embedding] = value

    def place(self, x, positions):
        """Returns the input of the first layer, and the rotation of queries and keys or None."""
        raise NotImplementedError

    def forward(self, input_ids, attention_mask=None, labels=None, **unused):
        n = input_ids.shape[1]
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        causal = torch.ones(n, n, dtype=torch.bool, device=input_ids.device).tril()
        # Padding may attend to itself, because a softmax over nothing is not a number.
        mask = (causal & attention_mask[:, None, None, :].bool()) | torch.eye(
            n, dtype=torch.bool, device=input_ids.device)

        module, (embedding, layers, norm) = self.body()
        x, rotate = self.place(module[embedding](input_ids), positions)
        blocks, current = [x], None
        for i, layer in enumerate(module[layers]):
            if i > 0 and layer.opens_block:
                blocks.append(current)
            current = layer(blocks, current, mask, rotate)
        x = module[norm](module["output_residual"](blocks + [current]))

        logits = self.lm_head(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **unused):
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class WeftGPT2ForCausalLM(WeftModel):
    config_class = WeftGPT2Config
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}

    def __init__(self, config):
        super().__init__(config)
        dim, eps = config.n_embd, config.layer_norm_epsilon
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config.vocab_size, dim),
            "wpe": nn.Embedding(config.n_positions, dim),
            "h": nn.ModuleList(Layer(config, i) for i in range(config.n_layer)),
            "output_residual": Mix(dim, eps),
            "ln_f": nn.LayerNorm(dim, eps=eps),
        })
        self.lm_head = nn.Linear(dim, config.vocab_size, bias=False)
        self.post_init()

    def body(self):
        return self.transformer, ("wte", "h", "ln_f")

    def place(self, x, positions):
        return x + self.transformer["wpe"](positions), None


class WeftLlamaForCausalLM(WeftModel):
    config_class = WeftLlamaConfig
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        dim, eps = config.hidden_size, config.rms_norm_eps
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(config.vocab_size, dim),
            "layers": nn.ModuleList(Layer(config, i) for i in range(config.num_hidden_layers)),
            "output_residual": Mix(dim, eps),
            "norm": Norm(dim, eps),
        })
        self.lm_head = nn.Linear(dim, config.vocab_size, bias=False)
        self.post_init()

    def body(self):
        return self.model, ("embed_tokens", "layers", "norm")

    def place(self, x, positions):
        return x, rotation(self.config, positions, x.dtype)
