"""What `store list` shows of a store that was used, and what `store prune` takes away."""

from pathlib import Path

from tests.cli.conftest import Call
from tests.runs.project import Project


def test_only_entries_and_environments_are_listed(project: Project, call: Call) -> None:
    assert call("build", "--out", "run").code == 0
    environment = project.store / "toolchains" / "onnxruntime-0123456789ab"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").write_bytes(b"x" * 1_000)
    listed = call("store", "list", "--json").json["entries"]
    kinds = {entry["kind"] for entry in listed}
    assert kinds == {"toolchain", "builds", "ranges", "samples", "facts"}
    assert all(len(entry["key"]) == 64 for entry in listed if entry["kind"] != "toolchain")
    text = call("store", "list").out
    assert "toolchain   onnxruntime-0123456789ab  1.00 kB" in text.splitlines()
    assert f"{len(listed)} entries, " in text


def test_what_is_pruned_is_counted_and_environments_stay(project: Project, call: Call) -> None:
    project.make_lean()
    assert call("build", "--out", "run").code == 0
    environment = project.store / "toolchains" / "onnxruntime-0123456789ab"
    environment.mkdir(parents=True)
    before = len(call("store", "list", "--json").json["entries"])
    said = call("store", "prune", "--keep-gb", "0")
    assert said.out.startswith(f"Removed {before - 1} entries, ")
    assert said.out.rstrip().endswith("kB.")
    assert environment.is_dir()
    assert call("store", "list").out.splitlines()[-1].startswith("1 entry, 0 B, in ")
    assert call("store", "prune", "--keep-gb", "0").out == "Removed 0 entries, 0 B.\n"
    assert Path("run", "builds").is_dir()
