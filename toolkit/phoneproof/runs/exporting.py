"""The form in which a toolchain takes a source model: as it is, or exported first, once for all builds."""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.store import cache_key
from phoneproof.protocol.codec import to_dict
from phoneproof.recipes.runtime_table import ONNX_EXPORTERS
from phoneproof.recipes.table import Route, SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import AuditedModel
from phoneproof.runs.handed_over import HandedOver, check_onnx_export
from phoneproof.runs.once import OnceEach
from phoneproof.runs.planned import export_step
from phoneproof.runs.steps import RunContext
from phoneproof.workers.environments import environment_of

_ONNX_FILE: Final = "model.onnx"


class Exports:
    """What source models were exported to in this run. Safe for several threads: each export is made once."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._made: OnceEach[str, Path] = OnceEach()

    def request_for(self, model: AuditedModel, route: Route) -> dict[str, Any]:
        """How a toolchain's request names the source on this route. Raises what the export raised."""
        match route.through:
            case None:
                return model.source_request
            case SourceFormat.EXPORTED_PROGRAM:
                return model.program_request
            case SourceFormat.ONNX:
                path = self._made.get(model.section.key, lambda: self._export(model))
                return {"format": "onnx", "path": str(path), "shapes": {}}
            case _:
                raise ValueError(f"nothing is exported to {route.through}")

    @staticmethod
    def _source(model: AuditedModel) -> dict[str, Any]:
        is_program = model.section.format in (SourceFormat.PYTORCH, SourceFormat.EXPORTED_PROGRAM)
        return model.program_request if is_program else model.source_request

    def _export(self, model: AuditedModel) -> Path:
        toolchain = TOOLCHAINS[ONNX_EXPORTERS[model.section.format]]
        where = environment_of(toolchain, self._context.store.root)
        step = export_step(model.section.key)
        parts = {
            "source": model.facts.sha256,
            "inputs": to_dict(model.facts.inputs),
            "outputs": to_dict(model.facts.outputs),
            "signature": model.request.get("signature"),
        }
        key = cache_key({**parts, "versions": where.versions, "revision": toolchain.revision})

        def make() -> tuple[dict[str, Any], str]:
            def fill(staging: Path) -> None:
                request = {"source": self._source(model), "out": _ONNX_FILE}
                facts = self._context.call_in(where, step, toolchain.module, request, toolchain.memory_bytes)
                answer = HandedOver(toolchain.module, self._context.folder.work(step), facts)
                shutil.move(check_onnx_export(answer, _ONNX_FILE), staging / _ONNX_FILE)
                (staging / "facts.json").write_text(json.dumps(facts), encoding="utf-8")

            _, how = self._context.from_store("exports", key, fill)
            return {"store_key": key}, how

        self._context.step(step, key, make)
        return self._context.stored("exports", key, make) / _ONNX_FILE
