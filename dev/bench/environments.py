"""The Python environment of the bench's peers, apart from what Shoal uses.

Its packages are locked in dev/bench/requirements-peers.txt (`make lock`) and installed into
.shoal/bench-peers. Nightly tests compare with them: `python -m dev.bench.environments` installs
them, while there is a network.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

from dev.bench.rounds import REPOSITORY

LOCK = REPOSITORY / "dev" / "bench" / "requirements-peers.txt"
PEERS = REPOSITORY / ".shoal" / "bench-peers"


def peers() -> Path:
    """Return the interpreter that has PyTorch, transformers and the other peers; install them if
    that is not done.
    """
    python, stamp = PEERS / "bin" / "python", PEERS / ".stamp"
    identity = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    PEERS.parent.mkdir(exist_ok=True)
    with PEERS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one test installs, the others wait
        if not stamp.exists() or stamp.read_text() != identity:
            print(f"installing {LOCK.name} into {PEERS.relative_to(REPOSITORY)} ...", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", PEERS], check=True)
            options = ("-qq", "--disable-pip-version-check", "-r", LOCK)
            subprocess.run([python, "-m", "pip", "install", *options], check=True)
            stamp.write_text(identity)
    return python


if __name__ == "__main__":
    print(peers())
