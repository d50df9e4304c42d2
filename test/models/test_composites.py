"""What the raising passes find in models as transformers writes them, with random weights."""

from collections.abc import Callable, Mapping

import pytest
import torch
import transformers as tf

import lpu_mlir

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
HEADS = {**SIZES, "num_attention_heads": 4}

MODELS: Mapping[str, tuple[Callable[[str], torch.nn.Module], Mapping[str, int]]] = {
    "llama": (
        lambda form: tf.LlamaForCausalLM(
            tf.LlamaConfig(**HEADS, num_key_value_heads=2, attn_implementation=form)
        ),
        {"attention": 1, "rms_norm": 3, "rope": 2},
    ),
    "bert": (
        lambda form: tf.BertModel(tf.BertConfig(**HEADS, attn_implementation=form)),
        {"attention": 1, "layer_norm": 3, '"gelu"': 1},
    ),
    "gpt2": (
        lambda form: tf.GPT2Model(
            tf.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=64, attn_implementation=form)
        ),
        {"attention": 1, "layer_norm": 3, '"gelu_tanh"': 1},
    ),
    "neox": (
        lambda form: tf.GPTNeoXModel(tf.GPTNeoXConfig(**HEADS, attn_implementation=form)),
        {"attention": 1, "layer_norm": 3, "rope": 2, '"gelu"': 1},
    ),
    "t5": (
        lambda form: tf.T5EncoderModel(
            tf.T5Config(
                d_model=32,
                d_kv=8,
                d_ff=48,
                num_layers=1,
                num_heads=4,
                vocab_size=64,
                attn_implementation=form,
            )
        ),
        {"attention": 1, "rms_norm": 3},
    ),
    "gemma2": (
        lambda form: tf.Gemma2ForCausalLM(
            tf.Gemma2Config(
                **HEADS,
                num_key_value_heads=2,
                head_dim=8,
                sliding_window=4,
                attn_implementation=form,
            )
        ),
        {"attention": 1, "rms_norm": 5, "rope": 2, '"gelu_tanh"': 1},
    ),
}
"""Model -> how it is made with a form of attention, and how often each composite is in it."""

QUICK = ("bert-sdpa",)
NO_SDPA = ("gemma2-sdpa",)


def parameters():
    for model in MODELS:
        for form in ("eager", "sdpa"):
            if (name := f"{model}-{form}") not in NO_SDPA:
                marks = () if name in QUICK else (pytest.mark.slow,)
                yield pytest.param(model, form, id=name, marks=marks)


@pytest.mark.parametrize(("model", "form"), [*parameters()])
def test_composites_are_raised(model: str, form: str):
    make, expected = MODELS[model]
    torch.manual_seed(0)
    torch._dynamo.reset()
    made = make(form).eval()
    extra = {} if model in ("bert", "t5") else {"use_cache": False}

    def run(ids: torch.Tensor) -> torch.Tensor:
        return made(ids, **extra)[0]

    ids = torch.randint(0, 64, (1, 7))
    compiled = torch.compile(run, backend="lpu_mlir", options={"fallback": "error"})
    with torch.no_grad(), lpu_mlir.Report() as report:
        got = compiled(ids)
    with torch.no_grad():
        torch.testing.assert_close(got, run(ids))
    ir = report.ir("raise-attention")
    found = {
        name: ir.count(f" {name}(" if '"' in name else f"lpu_graph.{name} ") for name in expected
    }
    assert found == expected
    assert "lpu_graph.softmax" not in ir
