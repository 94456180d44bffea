"""Runs on every host by itself and prints its shard; with --kill HOST that host's first program is killed, and the others wait."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--kill", default="")
options, _ = parser.parse_known_args()
data = os.environ.get("SM_CHANNEL_TRAIN")
if data:
    print(f"shard={' '.join(sorted(path.name for path in Path(data).iterdir()))}", flush=True)
if options.kill == os.environ["SM_CURRENT_HOST"]:
    os.kill(os.getppid(), signal.SIGKILL)  # the toolkit, which the container started
if options.kill:
    time.sleep(600)
