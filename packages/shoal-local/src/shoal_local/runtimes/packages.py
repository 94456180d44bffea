"""Install Python packages with uv: in parallel, and from one cache for all environments.

Used by the builder of the runtimes and by the installer of a checkout (dev/tools/install.py), so it
needs the standard library alone, and a Python in which uv is installed.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_SECTIONS = ("global", "install", ":env:")
"""Of pip's configuration, the strongest last."""
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
"""pip's option -> uv's variable, and what separates several values in it."""
_MILESTONES = ("Resolved", "Downloading", "Building", "Prepared", "Installed")
_TAIL_LINES = 15


class InstallError(Exception):
    """Packages could not be installed; the text is the last lines that uv printed."""


def install(
    target: Path,
    arguments: Sequence[str],
    progress: Callable[[str], None],
    uv_python: str = sys.executable,
) -> None:
    """Install packages into the environment whose interpreter is `target`.

    No bytecode is compiled: what is imported is compiled then. Every index is asked for each
    package, as pip does it. `progress` gets uv's lines about what it downloads, with sizes.

    Raises InstallError.
    """
    options = ["--python", str(target), "--index-strategy", "unsafe-best-match", "--color", "never"]
    with subprocess.Popen(
        [uv_python, "-m", "uv", "pip", "install", *options, *arguments],
        env=uv_environment(uv_python),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        lines: list[str] = []
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if line.strip().startswith(_MILESTONES):
                progress(line.strip())
    if process.returncode != 0:
        raise InstallError("\n".join(lines[-_TAIL_LINES:]))


@functools.cache
def uv_environment(pip_python: str) -> Mapping[str, str]:
    """Return our environment with what pip is configured to use; uv does not read that itself."""
    command = [pip_python, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return variables_of(listed) | {"UV_LINK_MODE": "hardlink", **os.environ}


def variables_of(pip_configuration: str) -> dict[str, str]:
    """Return uv's variables for the output of `pip config list`."""
    lines = re.findall(r"^(global|install|:env:)\.([\w-]+)='(.*)'$", pip_configuration, re.M)
    variables = {}
    for _, name, value in sorted(lines, key=lambda line: _SECTIONS.index(line[0])):
        if name in _VARIABLES:
            variable, separator = _VARIABLES[name]
            variables[variable] = separator.join(value.replace("\\n", " ").split())
    return variables
