"""Sounds made by arithmetic, since no installed package brings recordings: notes and voiced syllables."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

HARMONICS: Final = 8


def notes(draw: np.random.Generator, samples: int, rate: int, events: int) -> NDArray[np.float32]:
    """float32 [samples] within ±1: plucked tones of random pitch, onset and loudness.

    rate: samples per second. Pitches are MIDI 40 to 84, over faint noise. A tone is HARMONICS
    partials that fade as strings do: the higher, the sooner.
    """
    time = np.arange(samples) / rate
    sound = draw.normal(0, 0.002, samples)
    for _ in range(events):
        pitch = 440 * 2 ** ((draw.integers(40, 85) - 69) / 12)
        since = time - draw.uniform(-0.3, time[-1])
        for partial in range(1, HARMONICS + 1):
            if pitch * partial < rate / 2:
                level = np.where(since > 0, np.exp(-np.maximum(since, 0) * 2 * partial), 0) / partial
                sound += draw.uniform(0.05, 0.25) * level * np.sin(2 * np.pi * pitch * partial * since)
    return (sound / max(1.0, float(np.abs(sound).max()))).astype(np.float32)


def syllables(draw: np.random.Generator, samples: int, rate: int) -> NDArray[np.float32]:
    """float32 [samples] within ±1: a pulse train through moving formants, as voices are, with pauses.

    Glottal pulses of 90 to 220 Hz, three resonances (500, 1500, 2500 Hz and around), syllables of 0.2 s, over
    faint noise.
    """
    time = np.arange(samples) / rate
    pitch = 150 + 60 * np.sin(2 * np.pi * draw.uniform(0.2, 0.6) * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    sound = np.zeros(samples)
    for partial in range(1, 40):
        frequency = pitch * partial
        gain = np.zeros(samples)
        for formant, width in ((500, 90), (1500, 150), (2500, 200)):
            centre = formant * (1 + 0.25 * np.sin(2 * np.pi * draw.uniform(1, 3) * time))
            gain += 1 / (1 + ((frequency - centre) / width) ** 2)
        sound += gain * np.sin(partial * phase) / partial
    voiced = (np.sin(2 * np.pi * 2.5 * time + draw.uniform(0, 6)) > -0.2) * (np.sin(time) > -0.5)
    sound = sound * voiced + draw.normal(0, 0.003, samples)
    loud: NDArray[np.float32] = (0.6 * sound / np.abs(sound).max()).astype(np.float32)
    return loud
