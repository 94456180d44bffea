"""Waits for a rank 0 that listens later, and for one that never does.

`python wait_for_first_rank.py` prints one line of JSON.
"""

from __future__ import annotations

import json
import socket
import time
from unittest import mock

from common.ranks import wait_for_first_rank

first = socket.socket()
first.bind(("127.0.0.1", 0))
address, port = first.getsockname()
looks: list[int] = []


def listen_at_the_third_look(_seconds: float) -> None:
    """Listen instead of pausing before the third look."""
    looks.append(len(looks) + 1)
    if len(looks) == 3:
        first.listen()


environ = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": address,
    "MASTER_PORT": str(port),
}
never = wait_for_first_rank(environ, patience_s=0.1)
elsewhere = wait_for_first_rank(environ | {"WORLD_SIZE": "4"})
with mock.patch.object(time, "sleep", listen_at_the_third_look):
    later = wait_for_first_rank(environ)
print(json.dumps({"never": never, "elsewhere": elsewhere, "later": later, "looks": looks}))
