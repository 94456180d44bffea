"""Interfaces, addresses and the bridge that joins the hosts of a pod.

These are raw system calls, so that nothing needs to be installed: ioctls of netdevice(7), and one
rtnetlink(7) message for the pair of interfaces that leads from the bridge into a host. Each raises
OSError if it is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

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
    """Lead a link called `name` from the bridge into the network of process `pid`, where it is
    called eth0.
    """
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
