"""The model families that people bring, small and with random weights: one entry each.

A model is built after a seed, in eval mode; its inputs are keyword arguments.  Families are those
of `transformers`; the others are plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 96
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """How a model and its inputs are made, and how near to eager its results must be."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    relative: float = 1e-4
    absolute: float = 2e-5
    """Of f32 results: some hundred products and sums in a row, each rounded differently."""

    def make(self, seed: int = 0) -> tuple[nn.Module, Inputs]:
        torch.manual_seed(seed)
        model = self.build().eval()
        return model, self.inputs()


# --- inputs -------------------------------------------------------------------------------------


def tokens(length: int = 7, batch: int = 2) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def padded_text() -> Inputs:
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 4:] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def prompt() -> Inputs:
    return {"input_ids": tokens(), "use_cache": False}


def text_to_text() -> Inputs:
    return {**padded_text(), "decoder_input_ids": tokens(5), "use_cache": False}


def images(size: int = 32) -> Callable[[], Inputs]:
    return lambda: {"pixel_values": torch.randn(2, 3, size, size)}


def audio() -> Inputs:
    return {"input_values": torch.randn(2, 800)}


def spectrogram() -> Inputs:
    return {
        "input_features": torch.randn(2, 8, 40),
        "decoder_input_ids": tokens(5),
        "use_cache": False,
    }


def image_and_text() -> Inputs:
    return {**padded_text(), **images(32)()}


# --- plain PyTorch ------------------------------------------------------------------------------


class DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """Two levels down by max pooling, two up by transposed convolution and by interpolation."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.deepest = (
            DoubleConv(3, 8),
            DoubleConv(8, 16),
            DoubleConv(16, 32),
        )
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.left, self.right = DoubleConv(32, 16), DoubleConv(24, 8)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        one = self.first(pixel_values)
        two = self.second(F.max_pool2d(one, 2))
        deep = self.up(self.deepest(F.max_pool2d(two, 2)))
        wide = self.left(torch.cat([deep, two], 1))
        wide = F.interpolate(wide, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(self.right(torch.cat([wide, one], 1)))


class Encoder(nn.Module):
    def __init__(self, norm_first: bool):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first, activation="gelu"
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.layers(x, src_key_padding_mask=padding)


class CellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(6, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(x.shape[1], 16), torch.zeros(x.shape[1], 16)
        outputs: list[Tensor] = []
        for step in x:
            h, c = self.cell(step, (h, c))
            outputs.append(self.out(h))
        return torch.stack(outputs)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]):
        super().__init__()
        self.rnn = kind(6, 16, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(10, 24),
            nn.BatchNorm1d(24),
            nn.ReLU(),
            nn.Linear(24, 24),
            nn.BatchNorm1d(24),
            nn.GELU(),
            nn.Linear(24, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def encoder_inputs() -> Inputs:
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 6:] = True
    return {"x": torch.randn(2, 9, 32), "padding": padding}


# --- the table ----------------------------------------------------------------------------------

SMALL: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
VISION: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def gpt2(**changes: Any) -> nn.Module:
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, **changes
        )
    )


def opt() -> nn.Module:
    changes = {"ffn_dim": 64, "word_embed_proj_dim": 32}
    return hf.OPTForCausalLM(hf.OPTConfig(**SMALL, **changes))


def llama(**changes: Any) -> nn.Module:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, num_key_value_heads=2, **changes))


def mistral() -> nn.Module:
    return hf.MistralForCausalLM(hf.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=4))


def qwen2() -> nn.Module:
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**SMALL, num_key_value_heads=2))


def gemma2() -> nn.Module:
    return hf.Gemma2ForCausalLM(
        hf.Gemma2Config(
            **SMALL,
            num_key_value_heads=2,
            head_dim=8,
            sliding_window=4,
            query_pre_attn_scalar=8,
            attn_implementation="eager",
        )
    )


def mixtral() -> nn.Module:
    return hf.MixtralForCausalLM(
        hf.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)
    )


def mamba() -> nn.Module:
    return hf.MambaForCausalLM(
        hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2)
    )


def deberta_v2() -> nn.Module:
    return hf.DebertaV2Model(
        hf.DebertaV2Config(
            **SMALL,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=16,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            type_vocab_size=0,
        )
    )


def t5() -> nn.Module:
    return hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )


def swin() -> nn.Module:
    return hf.SwinModel(
        hf.SwinConfig(
            image_size=32,
            patch_size=2,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        )
    )


def convnext() -> nn.Module:
    return hf.ConvNextModel(
        hf.ConvNextConfig(
            num_channels=3, num_stages=2, hidden_sizes=[16, 32], depths=[1, 1], image_size=32
        )
    )


def resnet() -> nn.Module:
    return hf.ResNetForImageClassification(
        hf.ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            num_labels=5,
            layer_type="basic",
        )
    )


def mobilenet_v2() -> nn.Module:
    return hf.MobileNetV2Model(hf.MobileNetV2Config(image_size=32, depth_multiplier=0.25))


def clip() -> nn.Module:
    text = {**SMALL, "projection_dim": 16}
    return hf.CLIPModel(
        hf.CLIPConfig(text_config=text, vision_config=dict(VISION), projection_dim=16)
    )


def whisper() -> nn.Module:
    return hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            vocab_size=VOCABULARY,
            num_mel_bins=8,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_source_positions=20,
            max_target_positions=20,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    )


def wav2vec2() -> nn.Module:
    return hf.Wav2Vec2Model(
        hf.Wav2Vec2Config(
            **SMALL,
            conv_dim=[16, 16, 16],
            conv_stride=[5, 2, 2],
            conv_kernel=[10, 3, 3],
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
        )
    )


FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(gpt2, prompt),
    "opt": Family(opt, prompt),
    "gpt_neox": Family(lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SMALL)), prompt),
    "llama": Family(llama, prompt),
    "mistral": Family(mistral, prompt),
    "qwen2": Family(qwen2, prompt),
    "gemma2": Family(gemma2, prompt),
    "phi3": Family(lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**SMALL)), prompt),
    "mixtral": Family(mixtral, prompt),
    "mamba": Family(mamba, prompt),
    "bert": Family(lambda: hf.BertModel(hf.BertConfig(**SMALL)), padded_text),
    "deberta_v2": Family(deberta_v2, padded_text),
    "t5": Family(t5, text_to_text),
    "vit": Family(lambda: hf.ViTModel(hf.ViTConfig(**VISION)), images()),
    "swin": Family(swin, images()),
    "convnext": Family(convnext, images()),
    "resnet": Family(resnet, images()),
    "mobilenet_v2": Family(mobilenet_v2, images()),
    "clip": Family(clip, image_and_text),
    "whisper": Family(whisper, spectrogram),
    "wav2vec2": Family(wav2vec2, audio),
    "unet": Family(UNet, images()),
    "transformer_encoder": Family(lambda: Encoder(norm_first=False), encoder_inputs),
    "transformer_encoder_pre_norm": Family(lambda: Encoder(norm_first=True), encoder_inputs),
    "lstm_cell_loop": Family(CellLoop, lambda: {"x": torch.randn(5, 2, 6)}),
    "lstm": Family(lambda: Recurrent(nn.LSTM), lambda: {"x": torch.randn(2, 5, 6)}),
    "gru": Family(lambda: Recurrent(nn.GRU), lambda: {"x": torch.randn(2, 5, 6)}),
    "mlp_batch_norm": Family(Perceptron, lambda: {"x": torch.randn(8, 10)}),
}
