"""Build hook: one extra per pin file, so that a pin is written in one place only."""

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PIN_FOLDER = Path("toolkit", "phoneproof", "toolchains", "pins")


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
