"""Waits for a pod and says why it ended: by itself, stopped, interrupted or out of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from shoal_local.sagemaker.container.launch import Pod

_POLL_S = 0.05


class EndReason(Enum):
    EXITED = "by itself"
    STOPPED = "stopped"
    TIMED_OUT = "out of time"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Ending:
    """Why a pod ended, and each host's exit code (None: killed with the pod)."""

    reason: EndReason
    exit_codes: dict[str, int | None]

    @property
    def exit_code(self) -> int:
        """0 only if every host's command exited with 0.

        Otherwise the first other code, or 137 if all that is known is the kill.
        """
        if any(code for code in self.exit_codes.values()):
            return next(code for code in self.exit_codes.values() if code)
        return 0 if self.exit_codes and all(code == 0 for code in self.exit_codes.values()) else 137


@dataclass(frozen=True)
class Orders:
    """Orders from outside: `stop` (SIGTERM, then the grace) and `abandon` (SIGKILL at once, because
    the emulator stops).
    """

    stop: threading.Event = field(default_factory=threading.Event)
    abandon: threading.Event = field(default_factory=threading.Event)


def supervise(
    pod: Pod,
    orders: Orders,
    deadline_s: float,
    grace_s: float,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Ending:
    """Wait for the end of `pod`, and close it.

    After a stop, an interruption or `deadline_s` it gets SIGTERM, and after `grace_s` SIGKILL.
    """
    deadline = time.monotonic() + deadline_s
    reason = EndReason.EXITED
    try:
        while not pod.wait(_POLL_S):
            reason = _reason_to_end(orders, deadline, is_interrupted)
            if reason is not EndReason.EXITED:
                pod.terminate()
                _wait_grace(pod, orders.abandon, grace_s)
                break
    finally:
        pod.close()
    return Ending(reason, pod.exit_codes())


def _reason_to_end(
    orders: Orders, deadline: float, is_interrupted: Callable[[], bool]
) -> EndReason:
    """Return why the pod must end now; EXITED if it need not."""
    if orders.stop.is_set():
        return EndReason.STOPPED
    if time.monotonic() >= deadline:
        return EndReason.TIMED_OUT
    return EndReason.INTERRUPTED if is_interrupted() else EndReason.EXITED


def _wait_grace(pod: Pod, abandon: threading.Event, grace_s: float) -> None:
    deadline = time.monotonic() + grace_s
    while not abandon.is_set() and time.monotonic() < deadline:
        if pod.wait(_POLL_S):
            return
