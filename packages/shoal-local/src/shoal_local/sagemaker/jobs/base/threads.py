"""The threads of one kind of job: started with the job, told to stop, joined when the service
closes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from shoal_local.sagemaker.jobs.base.job import Job


class JobThreads:
    """The jobs whose thread is alive, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[Job, threading.Thread]] = {}
        self._lock = threading.Lock()

    def start(self, job: Job, run: Callable[[], None]) -> None:
        def body() -> None:
            try:
                run()
            finally:
                with self._lock:
                    self._jobs.pop(job.name, None)

        thread = threading.Thread(target=body, name=job.name, daemon=True)
        with self._lock:
            self._jobs[job.name] = (job, thread)
        thread.start()

    def stop(self, name: str) -> None:
        """Order a job to stop; its thread does the rest.

        A job that has just ended is left alone.
        """
        with self._lock:
            entry = self._jobs.get(name)
        if entry:
            entry[0].orders.stop.set()

    def close(self) -> None:
        """Kill the running jobs and wait for the end of each thread."""
        with self._lock:
            entries = list(self._jobs.values())
        for job, _ in entries:
            job.orders.abandon.set()
            job.orders.stop.set()
        for _, thread in entries:
            thread.join(timeout=30)
