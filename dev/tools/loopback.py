"""Run a command where there is no network but loopback, and exit with its exit code.

`python -m dev.tools.loopback COMMAND ...`

The tests run like this, for two reasons: what reaches out by mistake fails, and servers of
libraries that listen on every interface (TensorFlow's, Open MPI's, torchrun's) are not reachable
from outside. Where Linux refuses a network of its own, the command runs plainly.

Manual pages: unshare(2), user_namespaces(7), netdevice(7).
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_IFREQ = "16sh22x"
"""struct ifreq with its flags: the interface's name, and a short."""


def main(command: list[str]) -> None:
    """Become `command`, in a network of its own where Linux allows it."""
    try:
        enter_own_network()
    except OSError as error:
        print(f"no network of its own for {command[0]}: {error}", file=sys.stderr, flush=True)
    os.execvp(command[0], command)  # noqa: S606 (becoming the command is the point)


def enter_own_network() -> None:
    """Enter a new network namespace and bring up its loopback interface.

    Raises OSError where that is refused.
    """
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)  # os.unshare came with Python 3.12
    if libc.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if uid else 0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    if uid:  # a new user namespace needs no privilege, and its root may make a network
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack(_IFREQ, b"lo", 0))
        flags = struct.unpack(_IFREQ, answer)[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags | _IFF_UP))


if __name__ == "__main__":
    main(sys.argv[1:])
