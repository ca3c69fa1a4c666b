"""Ranges of activations: one pass over a model's calibration set serves all methods that are wanted."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.store import cache_key
from phoneproof.data.values import layout_of
from phoneproof.errors import StorageError
from phoneproof.plan.model import Plan
from phoneproof.protocol.codec import to_dict
from phoneproof.recipes.table import Method, RecipeOptions
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import Audit, AuditedModel
from phoneproof.runs.exporting import Exports
from phoneproof.runs.handed_over import HandedOver, check_ranges
from phoneproof.runs.once import OnceEach
from phoneproof.runs.planned import calibrated_by, calibration_of, ranges_step, takes_ranges
from phoneproof.runs.steps import RunContext
from phoneproof.runs.wanted import WantedBuild
from phoneproof.workers.environments import environment_of

RANGES_REVISION: Final = 1
"""Part of the key of ranges: raised when the same request would give other ranges."""

RESULT_FILE: Final = "result.json"


class CalibratedRanges:
    """The ranges of a run's builds, collected when the first of them asks. Safe for several threads."""

    def __init__(
        self,
        context: RunContext,
        plan: Plan,
        audit: Audit,
        exports: Exports,
        wanted: Sequence[WantedBuild],
    ) -> None:
        self._context = context
        self._plan = plan
        self._audit = audit
        self._exports = exports
        self._wanted = wanted
        self._folders: OnceEach[tuple[str, str], Path] = OnceEach()

    def file_for(self, build: WantedBuild) -> Path | None:
        """The ranges file of a build; None where its toolchain needs none. Raises what calibration did."""
        if not takes_ranges(build) or build.route is None:
            return None
        found = self._folders.get(
            calibration_of(build), lambda: self._make(calibrated_by(build, self._wanted))
        )
        method, percentile = _method(build.options)
        for entry in json.loads((found / RESULT_FILE).read_text(encoding="utf-8"))["ranges"]:
            if entry["method"] == method and (entry["percentile"] or 0.0) == percentile:
                return found / str(entry["file"])
        raise StorageError("The stored ranges lack a method.", where=str(found))

    def samples_request(self, model: AuditedModel) -> dict[str, Any]:
        """The calibration set as requests name it (toolchains/request.py)."""
        if model.calibration is None:
            raise StorageError("No calibration set was stored.", where=model.section.name)
        preprocess = self._plan.data.preprocess
        if preprocess is None:
            return {"path": str(model.calibration.path), "preprocess": None, "layout": None}
        (tensor,) = model.facts.inputs  # a preprocess makes one input: data/store_writer.py
        layout = layout_of(tensor, preprocess).value
        return {"path": str(model.calibration.path), "preprocess": preprocess.to_dict(), "layout": layout}

    def _methods(self, key: tuple[str, str]) -> list[tuple[str, float]]:
        return sorted(
            {
                _method(build.options)
                for build in self._wanted
                if takes_ranges(build) and calibration_of(build) == key
            }
        )

    def _make(self, build: WantedBuild) -> Path:
        model, row, route = self._audit.models[build.model], TOOLCHAINS[build.toolchain], build.route
        if route is None:
            raise ValueError(f"{build.build_id} has no route")
        module = next(iter(row.calibration.values()))
        methods = self._methods((model.section.key, module))
        environment = environment_of(row, self._context.store.root)
        samples = self.samples_request(model)
        digest = "" if model.calibration is None else model.calibration.digest
        parts = {
            "calibration_sha256": digest,
            "methods": [{"method": m, "percentile": p or None} for m, p in methods],
            "preprocess": samples["preprocess"],
        }
        key = cache_key(
            {
                **parts,
                "module": module,
                "source": model.facts.sha256,
                "inputs": to_dict(model.facts.inputs),
                "signature": model.request.get("signature"),
                "versions": environment.versions,
                "revision": RANGES_REVISION,
            }
        )
        step = ranges_step(model.section.key, build.toolchain)

        def make() -> tuple[dict[str, Any], str]:
            def fill(staging: Path) -> None:
                source = self._exports.request_for(model, route)
                request = {
                    **parts,
                    "source": source,
                    "samples": samples["path"],
                    "layout": samples["layout"],
                }
                result = self._context.call_in(environment, step, module, request, row.memory_bytes)
                answer = HandedOver(module, self._context.folder.work(step), result)
                for path in check_ranges(answer, [(m, p or None) for m, p in methods], digest):
                    shutil.move(path, staging)
                (staging / RESULT_FILE).write_text(json.dumps(result), encoding="utf-8")

            _, how = self._context.from_store("ranges", key, fill)
            return {"store_key": key}, how

        self._context.step(step, key, make)
        return self._context.stored("ranges", key, make)


def _method(options: RecipeOptions) -> tuple[str, float]:
    """(method, percentile), with 0 where the method has none: sortable, for keys and look-up."""
    return options.method.value, options.percentile if options.method is Method.PERCENTILE else 0.0
