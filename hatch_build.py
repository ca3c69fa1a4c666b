"""Build hooks: extras out of the pin files, and the schemas into the wheel."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PIN_FOLDER = Path("toolkit", "phoneproof", "toolchains", "pins")
SCHEMA_FOLDER = Path("protocol", "schema")


def read_pins(pin_file: Path) -> list[str]:
    """Return the requirement lines of a pin file, without comments and blank lines."""
    lines = (line.partition("#")[0].strip() for line in pin_file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


class PinFileExtras(MetadataHookInterface):
    """Sets the dynamic field optional-dependencies: extra NAME = the lines of pins/NAME.txt."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the extras to the project's metadata."""
        pin_files = sorted(Path(self.root, PIN_FOLDER).glob("*.txt"))
        metadata["optional-dependencies"] = {path.stem: read_pins(path) for path in pin_files}


class SchemasInWheel(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is hatchling's own business
    """Copies the schemas into a wheel. Not into an editable install, where the copy would grow old."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder to what goes into the wheel."""
        if version != "editable":
            source = str(Path(self.root, SCHEMA_FOLDER))
            build_data["force_include"][source] = "phoneproof/protocol/schema"
