"""The import path of processes that tests start."""

from pathlib import Path
from typing import Final

OWN_PATH: Final = {"PYTHONPATH": str(Path(__file__).parents[1])}
"""phoneproof and its tests alone. Not sys.path: tests of users' modules leave folders there, one with a
json.py."""
