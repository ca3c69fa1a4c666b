"""Configurations of a job in memory: one at a time, but for a benchmark's pair."""

import ctypes
import gc
import time
import traceback
from collections.abc import Collection, Mapping
from pathlib import Path

from phoneproof.harness.machine import PeakMemory
from phoneproof.protocol.job import Configuration, ModelFiles
from phoneproof.protocol.sample_files import file_path
from phoneproof.runtimes.registry import open_runtime
from phoneproof.runtimes.runtime import LoadRequest, Session


class Loaded:
    """A loaded configuration with what loading it cost."""

    def __init__(self, session: Session, load_ms: float, memory: PeakMemory) -> None:
        self.session = session
        self.load_ms = load_ms
        self.memory = memory

    def close(self) -> None:
        """Give the memory back. What the runtime raises goes to the log: the cases it ran are done."""
        try:
            self.session.close()
        except Exception:  # noqa: BLE001 - a runtime may raise anything
            traceback.print_exc()


def load_configuration(
    configuration: Configuration, files: Path, runtime_modules: Mapping[str, str]
) -> Loaded:
    """Load a build as its configuration says; whatever the runtime raises goes through."""
    runtime = open_runtime(configuration.runtime, runtime_modules)
    request = LoadRequest(
        model=model_path(configuration.model, files),
        accelerator=configuration.accelerator,
        allow_fallback=configuration.allow_fallback,
        threads=configuration.threads,
        options=configuration.options,
    )
    give_memory_back()
    memory = PeakMemory()
    begin = time.perf_counter_ns()
    session = runtime.load(request)
    return Loaded(session, (time.perf_counter_ns() - begin) / 1e6, memory)


def model_path(model: ModelFiles, files: Path) -> Path:
    """Path of a one-file model, or of the folder `entry` that the device laid out."""
    return files / model.entry if model.is_folder else file_path(files, model.files[0])


class OneAtATime:
    """Keeps the configuration last used loaded, and gives its memory back before the next."""

    def __init__(self, files: Path, runtime_modules: Mapping[str, str]) -> None:
        self._files = files
        self._runtime_modules = runtime_modules
        self._id: str | None = None
        self._loaded: Loaded | None = None

    def get(self, configuration: Configuration) -> Loaded:
        """The configuration, loaded."""
        if self._loaded is None or self._id != configuration.configuration_id:
            self.clear()
            self._loaded = load_configuration(configuration, self._files, self._runtime_modules)
            self._id = configuration.configuration_id
        return self._loaded

    def keep_only(self, configuration_ids: Collection[str]) -> None:
        """Close what is loaded unless it is one of these."""
        if self._id not in configuration_ids:
            self.clear()

    def clear(self) -> None:
        """Close what is loaded."""
        loaded = self._loaded
        self._loaded = self._id = None
        if loaded is not None:
            loaded.close()
        gc.collect()


def give_memory_back() -> None:
    """Return freed memory to the kernel, so that the next peak is not hidden in it (glibc only)."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return
