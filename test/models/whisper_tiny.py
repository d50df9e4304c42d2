"""Whisper tiny.en from a CTranslate2 file, as transformers' model.

The file (see CTranslate2's serialization) is a header, then variables (name, dimensions, element
type, bytes), then aliases of variables.  CTranslate2 joins the projections of queries, keys and
values in one matrix, and those of keys and values where the decoder looks at the encoder.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import WhisperConfig, WhisperForConditionalGeneration

ELEMENTS = {0: "f4", 1: "i1", 2: "i2", 3: "i4", 4: "f2"}
"""CTranslate2's number of an element type -> NumPy's name."""

TEXT_END = 50256
TEXT_START = 50257


class _Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        size = struct.calcsize(f"<{form}")
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += size
        return value

    def name(self) -> str:
        """Its length counts the zero byte at its end."""
        return self.bytes(self.number("H"))[:-1].decode()

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def read_variables(path: Path) -> dict[str, Tensor]:
    """Every variable of a CTranslate2 file, in f32."""
    reader = _Reader(path.read_bytes())
    reader.number("I")  # the version of the format
    reader.name()  # the kind of model
    reader.number("I")  # its revision
    variables: dict[str, Tensor] = {}
    for _ in range(reader.number("I")):
        name = reader.name()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        element = ELEMENTS[reader.number("B")]
        values = np.frombuffer(reader.bytes(reader.number("I")), element).reshape(shape)
        variables[name] = torch.from_numpy(values.astype(np.float32))
    for _ in range(reader.number("I")):
        alias = reader.name()
        variables[alias] = variables[reader.name()]
    return variables


def _layers(variables: dict[str, Tensor], part: str) -> int:
    numbers = (re.match(f"{part}/layer_([0-9]+)/", name) for name in variables)
    return 1 + max(int(number[1]) for number in numbers if number is not None)


def _linear(v: dict[str, Tensor], theirs: str, ours: str) -> Iterator[tuple[str, Tensor]]:
    yield f"{ours}.weight", v[f"{theirs}/weight"]
    yield f"{ours}.bias", v[f"{theirs}/bias"]


def _norm(v: dict[str, Tensor], theirs: str, ours: str) -> Iterator[tuple[str, Tensor]]:
    yield f"{ours}.weight", v[f"{theirs}/gamma"]
    yield f"{ours}.bias", v[f"{theirs}/beta"]


def _projections(
    v: dict[str, Tensor], theirs: str, ours: str, which: Sequence[str]
) -> Iterator[tuple[str, Tensor]]:
    """The parts of a joined projection; Whisper's keys have no bias."""
    weights = v[f"{theirs}/weight"].chunk(len(which))
    biases = v[f"{theirs}/bias"].chunk(len(which))
    for name, weight, bias in zip(which, weights, biases, strict=True):
        yield f"{ours}.{name}_proj.weight", weight
        if name != "k":
            yield f"{ours}.{name}_proj.bias", bias


def _part(v: dict[str, Tensor], part: str) -> Iterator[tuple[str, Tensor]]:
    """The weights of the encoder or the decoder."""
    ours = f"model.{part}"
    yield f"{ours}.embed_positions.weight", v[f"{part}/position_encodings/encodings"]
    yield from _norm(v, f"{part}/layer_norm", f"{ours}.layer_norm")
    for i in range(_layers(v, part)):
        theirs, layer = f"{part}/layer_{i}", f"{ours}.layers.{i}"
        attention, out = f"{theirs}/self_attention", f"{layer}.self_attn"
        yield from _norm(v, f"{attention}/layer_norm", f"{layer}.self_attn_layer_norm")
        yield from _projections(v, f"{attention}/linear_0", out, "qkv")
        yield from _linear(v, f"{attention}/linear_1", f"{out}.out_proj")
        if part == "decoder":
            attention, out = f"{theirs}/attention", f"{layer}.encoder_attn"
            yield from _norm(v, f"{attention}/layer_norm", f"{layer}.encoder_attn_layer_norm")
            yield from _projections(v, f"{attention}/linear_0", out, "q")
            yield from _projections(v, f"{attention}/linear_1", out, "kv")
            yield from _linear(v, f"{attention}/linear_2", f"{out}.out_proj")
        yield from _norm(v, f"{theirs}/ffn/layer_norm", f"{layer}.final_layer_norm")
        yield from _linear(v, f"{theirs}/ffn/linear_0", f"{layer}.fc1")
        yield from _linear(v, f"{theirs}/ffn/linear_1", f"{layer}.fc2")


def load(folder: Path) -> tuple[Any, Tokenizer]:
    """(WhisperForConditionalGeneration in f32 and eval mode, tokenizer)."""
    v = read_variables(folder / "model.bin")
    tokens = v["decoder/embeddings/weight"]
    config = WhisperConfig(
        vocab_size=tokens.shape[0],
        d_model=tokens.shape[1],
        encoder_layers=_layers(v, "encoder"),
        decoder_layers=_layers(v, "decoder"),
        encoder_attention_heads=int(v["encoder/num_heads"]),
        decoder_attention_heads=int(v["encoder/num_heads"]),
        encoder_ffn_dim=4 * tokens.shape[1],
        decoder_ffn_dim=4 * tokens.shape[1],
        num_mel_bins=v["encoder/conv1/weight"].shape[1],
        decoder_start_token_id=TEXT_START,
        eos_token_id=TEXT_END,
        bos_token_id=TEXT_END,
        pad_token_id=TEXT_END,
    )
    weights = dict([*_part(v, "encoder"), *_part(v, "decoder")])
    for i in (1, 2):
        weights.update(_linear(v, f"encoder/conv{i}", f"model.encoder.conv{i}"))
    weights["model.decoder.embed_tokens.weight"] = weights["proj_out.weight"] = tokens
    model = WhisperForConditionalGeneration(config).eval()
    model.load_state_dict(weights)
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))
