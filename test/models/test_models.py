"""The part of scripts/check-models that is quick enough for every change."""

import subprocess
from pathlib import Path

import check_models
import pytest
from catalogue import FAMILIES
from training import TRAININGS

pytestmark = [
    pytest.mark.slow,
    # Of the libraries that are used: transformers' and PyTorch's own deprecations.
    pytest.mark.filterwarnings("ignore"),
]

ON_THE_HOST = {
    "forward/mixtral": {"aten.topk"},  # which of equal values come first is eager's secret
    "training/gpt2_dropout": {"aten.bernoulli"},
    "training/gpt2_dropout_checkpointing": {
        "aten.bernoulli",
        "lpu_mlir.get_rng_state",
        "lpu_mlir.set_rng_state",
    },
}
"""Operators that a case runs in eager PyTorch; the other cases run none."""

QUICK_TRAINED = ("minilm", "silero_vad")


@pytest.mark.parametrize(
    "case",
    [
        *(f"forward/{name}" for name in FAMILIES),
        *(f"training/{name}" for name in TRAININGS),
        *(f"trained/{name}" for name in QUICK_TRAINED),
    ],
)
def test_model(case: str):
    record = check_models.run(case)
    assert record.verdict == "right"
    assert set(record.host) == ON_THE_HOST.get(case, set())


def test_the_script_lists_these_cases():
    script = Path(__file__).parents[2] / "scripts/check-models"
    listed = subprocess.run([script, "--list"], check=True, capture_output=True, text=True)
    assert listed.stdout.split() == list(check_models.cases())


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch):
    """The checks can fail: a model whose compiled form differs is not right."""
    original = check_models.tensors
    calls: list[int] = []

    def off_by_a_little(outputs: object):
        calls.append(1)
        found = original(outputs)
        return [t + 1e-3 for t in found] if len(calls) == 2 else found

    monkeypatch.setattr(check_models, "tensors", off_by_a_little)
    assert "Tensor-likes are not close" in check_models.run("forward/mlp_batch_norm").verdict
