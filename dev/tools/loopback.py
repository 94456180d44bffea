"""Runs a command where there is no network but loopback:

`python -m dev.tools.loopback COMMAND ...`; its exit code comes out.

The tests run like this, for two reasons: what reaches out by mistake fails, and servers of
libraries that listen on every interface (TensorFlow's, Open MPI's, torchrun's) are not reachable
from outside. Where Linux does not let us, the command runs plainly.
"""

from __future__ import annotations

import os
import sys

from shoal_local.sagemaker.container import namespaces, network


def main(command: list[str]) -> None:
    try:
        enter_own_network()
    except OSError as refused:
        print(f"no network of its own for {command[0]}: {refused}", file=sys.stderr, flush=True)
    os.execvp(command[0], command)  # noqa: S606 (becoming the command is the point)


def enter_own_network() -> None:
    """A new network namespace, with its loopback interface up.

    Raises OSError where that is refused.
    """
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.NEW_NETWORK | (namespaces.NEW_USERS if uid else 0))
    if uid:
        namespaces.become_root_of_new_users(uid, gid)
    network.bring_up("lo")


if __name__ == "__main__":
    main(sys.argv[1:])
