"""Sounds for the models that listen: sentences spoken by eSpeak NG, and what is no speech.

The wheel `espeakng-loader` has eSpeak NG's library and voices; its C interface is
https://github.com/espeak-ng/espeak-ng/blob/master/src/include/espeak-ng/speak_lib.h
"""

from __future__ import annotations

import ctypes
import math

import torch
from torch import Tensor

RATE = 16_000
"""Samples a second of everything here."""

_SYNCHRONOUS, _UTF8, _SPEED = 2, 1, 1  # AUDIO_OUTPUT_SYNCHRONOUS, espeakCHARS_UTF8, espeakRATE


def speak(sentence: str, words_per_minute: int = 150) -> Tensor:
    """The sentence as f32 samples in [-1, 1]."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    data = espeakng_loader.get_data_path().encode()
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, data, 0)
    if rate <= 0:
        raise RuntimeError(f"eSpeak NG does not start: {rate}")
    heard: list[int] = []
    samples_type = ctypes.POINTER(ctypes.c_short)
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int, samples_type, ctypes.c_int, ctypes.c_void_p)

    def listen(samples, count: int, events: object) -> int:
        if count > 0:
            heard.extend(samples[:count])
        return 0

    callback = callback_type(listen)
    library.espeak_SetSynthCallback(callback)
    library.espeak_SetVoiceByName(b"en-us")
    library.espeak_SetParameter(_SPEED, words_per_minute, 0)
    text = sentence.encode() + b"\0"
    library.espeak_Synth(text, ctypes.c_size_t(len(text)), 0, 1, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    library.espeak_Terminate()
    return resample(torch.tensor(heard, dtype=torch.float32) / 32768, rate, RATE)


def resample(samples: Tensor, rate: int, wanted: int) -> Tensor:
    """Band-limited: the spectrum is cut off at half of the lower rate."""
    count = len(samples) * wanted // rate
    spectrum = torch.fft.rfft(samples)[: count // 2 + 1]
    return torch.fft.irfft(spectrum, n=count) * (count / len(samples))


def silence(seconds: float) -> Tensor:
    return torch.zeros(int(seconds * RATE))


def noise(seconds: float) -> Tensor:
    return torch.randn(int(seconds * RATE), generator=torch.Generator().manual_seed(0)) * 0.05


def tone(hertz: float, seconds: float) -> Tensor:
    return 0.5 * torch.sin(2 * math.pi * hertz * torch.arange(int(seconds * RATE)) / RATE)
