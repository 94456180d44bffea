"""Write down the shard of each of two hosts; the container of the host called --kill then dies,
when the other host is ready.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import time
from pathlib import Path

PORT = 7000
parser = argparse.ArgumentParser()
parser.add_argument("--kill", required=True)
options, _ = parser.parse_known_args()
# a file, because a line would have to get through the toolkit before that is killed
shard = sorted(path.name for path in Path(os.environ["SM_CHANNEL_TRAIN"]).iterdir())
Path(os.environ["SM_OUTPUT_DATA_DIR"], "shard.txt").write_text(" ".join(shard))
if options.kill != os.environ["SM_CURRENT_HOST"]:
    with socket.create_server(("", PORT)):
        time.sleep(600)
other = "algo-1" if options.kill == "algo-2" else "algo-2"
while True:
    try:
        socket.create_connection((other, PORT), timeout=1).close()
    except OSError:
        time.sleep(0.1)
    else:
        os.kill(os.getppid(), signal.SIGKILL)  # the toolkit, which the container started
