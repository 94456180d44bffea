"""The dev environment with other sections. No gate is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from shoal.settings.loading.loader import load
from shoal.settings.settings import Environment
from tests.repository import ROOT
from tests.settings.environment_file import write_settings


def variant(folder: Path, name: str, **sections: Any) -> Environment:
    """Return dev under another name, with whole sections replaced."""
    content = yaml.safe_load((ROOT / "environments" / "dev.yaml").read_text(encoding="utf-8"))
    file = write_settings(folder, {**content, "name": name, **sections}, name)
    return load(file, root=ROOT)
