"""The sample sets of a job: what is in the store, named for the builds that read it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from phoneproof.data.shards import table_bytes
from phoneproof.data.store import RAW, SampleStore
from phoneproof.data.values import layout_of, value_table
from phoneproof.plan.model import Plan
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.job import FileRef, RawInput, SampleSet, TableInput
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import write_bytes_atomically


@dataclass
class JobInputs:
    """Sample sets by what builds take, each once, and where their files lie.

    folder: where the tables are written, one for each input dtype and quantization.
    """

    plan: Plan
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    _sets: dict[str, SampleSet] = field(default_factory=dict)

    def set_for(
        self, store: SampleStore, inputs: tuple[TensorSpec, ...], names: Mapping[str, str] | None = None
    ) -> SampleSet:
        """The stored samples as a build with these inputs reads them.

        names: the stored name of each input that the build calls otherwise.
        DataError where the stored samples do not fit the inputs and no exact table connects the two.
        """
        stored = names or {}
        key = json.dumps([store.digest, to_dict(inputs), dict(stored)])
        if key not in self._sets:
            samples_id = f"s{len(self._sets):02d}"
            named = tuple(
                replace(
                    self._input(store, replace(t, name=stored.get(t.name, t.name))),
                    name=t.name,
                )
                for t in inputs
            )
            self._sets[key] = SampleSet(samples_id, store.count, named)
        return self._sets[key]

    def _input(self, store: SampleStore, tensor: TensorSpec) -> RawInput | TableInput:
        preprocess = self.plan.data.preprocess
        if preprocess is None or store.input(tensor.name).encoding == RAW:  # edge inputs may be numbers
            found = store.job_input(tensor)
        else:
            table = value_table(preprocess, tensor)
            reference = self._write_table(table_bytes(table))
            found = store.job_input(tensor, layout_of(tensor, preprocess), reference)
        for shard in found.shards:
            self.files[shard.file.sha256] = store.path / shard.file.name
        return found

    def _write_table(self, content: bytes) -> FileRef:
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"{digest[:16]}.table"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes_atomically(path, content)
        self.files[digest] = path
        return FileRef(path.name, digest, len(content))
