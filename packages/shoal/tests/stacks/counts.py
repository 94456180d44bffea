"""Synthesises `dev` without the gates, in a process of its own, and prints what that took:

`python -m tests.stacks.counts FOLDER`.
"""

from __future__ import annotations

import json
import sys

from local_kit.counting import calls_of
from shoal.constructs.node import use_installed_node
from shoal.settings.loading.loader import load_environment

use_installed_node()

from tests.app import ShoalApp  # noqa: E402 - starts Node.js
from tests.repository import ROOT  # noqa: E402


def main(folder: str) -> None:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]

    def synth() -> None:
        app = ShoalApp(outdir=folder, context=context, checked=False)
        app.add_environment([load_environment("dev", ROOT)], root=ROOT)
        app.synth()

    counted = calls_of(synth)
    # Each is a message to Node.js, where the CDK's library runs, and its answer: the larger part of
    # what our code costs.
    print(
        json.dumps({"python_calls": counted.total(), "jsii_messages": counted["process.py:send"]})
    )


if __name__ == "__main__":
    main(sys.argv[1])
