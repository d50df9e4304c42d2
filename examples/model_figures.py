"""Kernels and DRAM bytes of four programs, beside what a program written by hand would need.

The models have random weights and two layers (ResNet-18: all); sizes are those of the published
ones.  The program by hand is counted from the model's structure, see `Hand`: it is an estimate of
what a careful kernel engineer would write for one chip, not a lower bound.

Usage: python examples/model_figures.py [NAME ...]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import nn

import lpu_mlir

LAYERS = 2
FLOAT = 4


@dataclass(frozen=True)
class Hand:
    """Kernels of a program written by hand, and the bytes these read and write."""

    kernels: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: Hand) -> Hand:
        return Hand(
            self.kernels + other.kernels, self.read + other.read, self.written + other.written
        )

    def __mul__(self, times: int) -> Hand:
        return Hand(self.kernels * times, self.read * times, self.written * times)


def kernel(read: int, written: int) -> Hand:
    """One kernel that reads and writes so many floats."""
    return Hand(1, FLOAT * read, FLOAT * written)


# --- programs by hand ---------------------------------------------------------------------------


def transformer_layer(rows: int, width: int, inner: int) -> Hand:
    """Five kernels: queries, keys and values; attention; its projection with the residual; the
    first half of the feed-forward network; the second, with the residual.  Norms are prologues:
    a kernel that reads a row can norm it.  Weights are read once, by each core its own part."""
    x = rows * width
    return (
        kernel(x + 3 * (width + 1) * width + 2 * width, 3 * x)
        + kernel(3 * x, x)
        + kernel(2 * x + (width + 1) * width, x)
        + kernel(x + (width + 1) * inner + 2 * width, rows * inner)
        + kernel(rows * inner + x + (inner + 1) * width, x)
    )


def bert_by_hand(rows: int, width: int, inner: int) -> Hand:
    """Around the layers: the sum of embeddings, the last norm, the pooler."""
    x = rows * width
    around = kernel(3 * x, x) + kernel(x + 2 * width, x)
    return around + transformer_layer(rows, width, inner) * LAYERS + kernel(width * width, width)


def vit_by_hand(rows: int, width: int, inner: int, pixels: int) -> Hand:
    """Around the layers: the patches' projection with positions, the last norm, the pooler."""
    x = rows * width
    patches = kernel(pixels + 16 * 16 * 3 * width + x, x)
    around = patches + kernel(x + 2 * width, x) + kernel(width * width, width)
    return around + transformer_layer(rows, width, inner) * LAYERS


def convolution(inputs: int, outputs: int, side: int, size: int, stride: int = 1) -> Hand:
    """A convolution with its norm and activation, on square pictures of `side`."""
    out = side // stride
    weights = inputs * outputs * size * size + 4 * outputs
    return kernel(inputs * side * side + weights, outputs * out * out)


def resnet_by_hand() -> Hand:
    """A kernel for each convolution, with norm, activation and residual; two pools, one line."""
    total = convolution(3, 64, 224, 7, 2) + kernel(64 * 112 * 112, 64 * 56 * 56)
    side, width = 56, 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            total += convolution(width, outputs, side, 3, stride)
            if stride == 2:
                total += convolution(width, outputs, side, 1, stride)
            side, width = side // stride, outputs
            total += convolution(outputs, outputs, side, 3)
            total += Hand(0, FLOAT * outputs * side * side, 0)  # the residual
    return total + kernel(512 * 7 * 7, 512) + kernel(512 * 1001, 1000)


def training_layer(rows: int, width: int, inner: int) -> Hand:
    """Forward as above; backward 13 kernels: for each of four products one for the gradient of its
    input (with what is element by element around it) and one for those of its weight and bias, two
    for attention (queries; keys and values), two for norms with the residual, and one for the sums
    over rows that these leave."""
    x, h = rows * width, rows * inner
    square, wide = width * width, width * inner
    backward = (
        kernel(x + wide + h, h)  # into the second half, through the activation
        + kernel(x + h, wide + width)
        + kernel(h + wide, x)  # into the first half
        + kernel(h + x, wide + inner)
        + kernel(3 * x, x)  # its norm, and the residual
        + kernel(x + square, x)  # into attention's projection
        + kernel(2 * x, square + width)
        + kernel(5 * x, x)  # queries
        + kernel(5 * x, 2 * x)  # keys and values
        + kernel(3 * x + 3 * square, x)  # into the norm before
        + kernel(4 * x, 3 * (square + width))
        + kernel(3 * x, x)
        + kernel(4 * x, 4 * width)
    )
    return transformer_layer(rows, width, inner) + backward


def training_by_hand(rows: int, width: int, inner: int, words: int) -> Hand:
    """Around the layers: embeddings, the last norm with the words' scores, the loss; backward the
    loss with the scores' gradients, two products, a norm, and the two embeddings' gradients."""
    x, scores, table = rows * width, rows * words, words * width
    forward = kernel(2 * x, x) + kernel(x + table, scores) + kernel(scores, 1)
    backward = (
        kernel(scores, scores)
        + kernel(scores + table, x)
        + kernel(scores + x, table)
        + kernel(2 * x, x)
        + kernel(x + table, table)
        + kernel(x, x)
    )
    return forward + backward + training_layer(rows, width, inner) * LAYERS


# --- our programs -------------------------------------------------------------------------------


def bert() -> lpu_mlir.Report:
    """BERT-base: 128 tokens."""
    model = hf.BertModel(hf.BertConfig(num_hidden_layers=LAYERS, vocab_size=1000))
    return infer(model, input_ids=torch.randint(0, 1000, (1, 128)))


def vit() -> lpu_mlir.Report:
    """ViT-B/16: one picture of 224 x 224."""
    model = hf.ViTModel(hf.ViTConfig(num_hidden_layers=LAYERS))
    return infer(model, pixel_values=torch.randn(1, 3, 224, 224))


def resnet() -> lpu_mlir.Report:
    """ResNet-18: one picture of 224 x 224."""
    config = hf.ResNetConfig(
        layer_type="basic",
        depths=[2, 2, 2, 2],
        hidden_sizes=[64, 128, 256, 512],
        embedding_size=64,
        num_labels=1000,
    )
    return infer(hf.ResNetForImageClassification(config), pixel_values=torch.randn(1, 3, 224, 224))


def training() -> lpu_mlir.Report:
    """GPT-2 without dropout, forward and backward: 128 tokens."""
    config = hf.GPT2Config(
        n_layer=LAYERS, vocab_size=1000, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = hf.GPT2LMHeadModel(config).train()
    ids = torch.randint(0, 1000, (1, 128))
    with lpu_mlir.Report() as report:
        torch.compile(model, backend="lpu_mlir")(input_ids=ids, labels=ids).loss.backward()
    return report


def infer(model: nn.Module, **inputs: Any) -> lpu_mlir.Report:
    with torch.no_grad(), lpu_mlir.Report() as report:
        torch.compile(model.eval(), backend="lpu_mlir")(**inputs)
    return report


PROGRAMS: Mapping[str, tuple[Callable[[], lpu_mlir.Report], Hand]] = {
    "BERT": (bert, bert_by_hand(128, 768, 3072)),
    "ViT": (vit, vit_by_hand(197, 768, 3072, 3 * 224 * 224)),
    "ResNet-18": (resnet, resnet_by_hand()),
    "GPT-2 training step": (training, training_by_hand(128, 768, 3072, 1000)),
}


def main(names: list[str]) -> int:
    warnings.filterwarnings("ignore")
    print("| program | kernels launched | by hand | MB read | by hand | MB written | by hand |")
    print("|---|---|---|---|---|---|---|")
    for name in names or PROGRAMS:
        run, hand = PROGRAMS[name]
        torch.manual_seed(0)
        report = run()
        if report.fallbacks:
            raise SystemExit(f"{name} has host calls: {report.fallbacks}")
        launches = sum(k.launches for k in report.kernels)
        read, written = (
            sum(getattr(k, which) for k in report.kernels) / 1e6
            for which in ("dram_read", "dram_written")
        )
        print(
            f"| {name} | {launches} | {hand.kernels} | {read:.1f} | {hand.read / 1e6:.1f} "
            f"| {written:.1f} | {hand.written / 1e6:.1f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
