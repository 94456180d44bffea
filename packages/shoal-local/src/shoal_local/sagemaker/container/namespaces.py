"""The few Linux system calls that a container and its network are made of and Python 3.11 lacks.

They are raw, so that nothing needs to be installed. Each raises OSError if it is refused. Manual
pages: unshare(2), mount(2), mount_setattr(2), sethostname(2), prctl(2), user_namespaces(7);
netdevice(7) for interfaces, addresses and the bridge that joins the hosts of a pod, and
rtnetlink(7) for the pair of interfaces that leads from the bridge into a host.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USERS = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_PR_CAPBSET_DROP = 24
_DAC_READ_SEARCH, _SYS_PTRACE, _SYS_ADMIN, _MKNOD = 2, 19, 21, 27
_AT_FDCWD, _AT_RECURSIVE, _ATTR_READ_ONLY, _SYS_MOUNT_SETATTR = -100, 0x8000, 0x1, 442

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def unshare(namespaces: int) -> None:
    """Leave the namespaces that the flags name; NEW_PIDS takes effect for the next child."""
    _check(_libc.unshare(namespaces), "unshare")


def become_root_of_new_users(uid: int, gid: int) -> None:
    """Map the outer `uid` and `gid` to root after NEW_USERS; this needs no privilege."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def mount(source: str, target: Path, kind: str) -> None:
    result = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), 0, None)
    _check(result, f"mount {kind} on {target}")


def bind(source: Path, target: Path) -> None:
    """Show `source`, with what is mounted below it, at `target` too."""
    paths = os.fsencode(source), os.fsencode(target)
    _check(_libc.mount(*paths, None, _BIND | _RECURSIVE, None), f"bind {source} on {target}")


def make_mounts_private() -> None:
    """Keep what is mounted from now on invisible outside."""
    _check(_libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None), "make mounts private")


def make_everything_read_only() -> None:
    """Make everything read-only that is mounted now; needs Linux 5.12."""
    _set_read_only(Path("/"), clear=False, flags=_AT_RECURSIVE)


def make_writable(mount_point: Path) -> None:
    """Make one mount of ours writable, not what is mounted below it."""
    _set_read_only(mount_point, clear=True, flags=0)


def _set_read_only(path: Path, *, clear: bool, flags: int) -> None:
    attributes = struct.pack(
        "QQQQ", 0 if clear else _ATTR_READ_ONLY, _ATTR_READ_ONLY if clear else 0, 0, 0
    )
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes)
    )
    _check(result, f"mount_setattr {path}")


def set_hostname(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def die_with_parent() -> None:
    """Let the kernel kill this process when the one that forked it ends, however it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")


def forgo_what_uncovers() -> None:
    """Let what this process executes, root's too, not change mounts, nor read what they hide
    through another process, a file handle or a device (capabilities(7)). If refused, it may.
    """
    for capability in (_SYS_ADMIN, _SYS_PTRACE, _DAC_READ_SEARCH, _MKNOD):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


BRIDGE = "hosts"
INTERFACE = "eth0"
"""What a host calls its end, as SageMaker's hosts do (resourceconfig.json, network_interface_name).
"""
_NETMASK = "255.255.255.0"

_GET_FLAGS, _SET_FLAGS, _SET_ADDRESS, _SET_NETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_ADD_BRIDGE, _ADD_TO_BRIDGE = 0x89A0, 0x89A2
_UP = 0x1
_NEW_LINK, _ERROR = 16, 2
_REQUEST_ACKNOWLEDGED_CREATION = 0x1 | 0x4 | 0x400 | 0x200
_NAME, _LINK_INFO, _NETWORK_OF_PID = 3, 18, 19
_KIND, _DATA, _PEER = 1, 2, 1
_NO_LINK = struct.pack("BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)


def bring_up(interface: str) -> None:
    with _control() as control:
        name = interface.encode()
        answer = fcntl.ioctl(control, _GET_FLAGS, struct.pack("16sh22x", name, 0))
        flags = struct.unpack("16sh22x", answer)[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh22x", name, flags | _UP))


def give_address(interface: str, address: str) -> None:
    """Give the interface an address in a network of 254 hosts."""
    with _control() as control:
        for request, value in ((_SET_ADDRESS, address), (_SET_NETMASK, _NETMASK)):
            inet = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(control, request, struct.pack("16s16s8x", interface.encode(), inet))


def make_bridge() -> None:
    with _control() as control:
        fcntl.ioctl(control, _ADD_BRIDGE, BRIDGE.encode() + b"\0")
    bring_up(BRIDGE)


def join_bridge(name: str, pid: int) -> None:
    """Lead a link `name` from the bridge into the network of process `pid`, as its eth0."""
    _make_pair(name, pid)
    with _control() as control:
        request = struct.pack("16si20x", BRIDGE.encode(), socket.if_nametoindex(name))
        fcntl.ioctl(control, _ADD_TO_BRIDGE, request)
    bring_up(name)


def _control() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _make_pair(name: str, pid: int) -> None:
    peer = (
        _NO_LINK
        + _attribute(_NAME, INTERFACE.encode() + b"\0")
        + _attribute(_NETWORK_OF_PID, struct.pack("I", pid))
    )
    kind = _attribute(_KIND, b"veth\0") + _attribute(_DATA, _attribute(_PEER, peer))
    body = _NO_LINK + _attribute(_NAME, name.encode() + b"\0") + _attribute(_LINK_INFO, kind)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.bind((0, 0))
        flags = _REQUEST_ACKNOWLEDGED_CREATION
        netlink.send(struct.pack("IHHII", 16 + len(body), _NEW_LINK, flags, 1, 0) + body)
        answer = netlink.recv(4096)
    is_result = struct.unpack_from("H", answer, 4)[0] == _ERROR
    number = -struct.unpack_from("i", answer, 16)[0] if is_result else errno.EPROTO
    if number:
        raise OSError(number, f"make the link {name}: {os.strerror(number)}")


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)
