"""The state directory: which emulator uses it, where that one listens, and how to clean up after a
crash.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_local.errors import EmulatorError
from shoal_local.processes import ProcessRegistry, started_at

STATE_FILE = "emulator.json"
# Marks a folder whose content an emulator may delete; the emulator that uses it has it locked.
MARKER = ".shoal-emulator"
POLL_S = 0.05
LOCK_LIMIT_S = 2.0
"""For an emulator that has stopped and whose process has not ended yet."""
SDK_SETTINGS = """SchemaVersion: "1.0"
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: sagemaker-{region}-{account}
"""
"""Without them SageMaker's SDKs report each job to AWS, and ask AWS's STS for the account of their
default bucket, whatever the endpoint.
"""


@dataclass(frozen=True)
class State:
    """One state directory."""

    folder: Path

    def claim(self) -> None:
        """Take the folder until this process ends, and empty it.

        Raises EmulatorError when the folder belongs to another user, when an emulator runs, starts
        or stops in it, or when it has files that no emulator made.
        """
        running = self.running()
        if running:
            raise EmulatorError(
                f"an emulator already runs with {self.folder}: {running['endpoint']} (pid"
                f" {running['pid']})"
            )
        is_used = self.folder.exists() and any(self.folder.iterdir())
        if is_used and not (self.folder / MARKER).exists():
            raise EmulatorError(
                f"{self.folder} has files that no emulator made; give an empty folder or one that"
                " does not exist"
            )
        self._lock()
        # end the children that a dead emulator left, and delete its files, but for the marker
        ProcessRegistry(self.folder).sweep()
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != MARKER:
                path.unlink(missing_ok=True)
        self.folder.chmod(0o700)  # credentials of roles, code and data of jobs lie here
        (self.folder / MARKER).write_text(
            "Everything in this folder belongs to Shoal's emulator and is deleted by it.\n"
        )

    def _lock(self) -> int:
        """Return the folder's marker as an open file, locked until it is closed or this process
        ends.

        Raises EmulatorError when another process has it.
        """
        deadline = time.monotonic() + LOCK_LIMIT_S
        while time.monotonic() < deadline:
            self.folder.mkdir(parents=True, exist_ok=True)
            marker = os.open(self.folder / MARKER, os.O_RDWR | os.O_CREAT, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(marker).st_nlink:  # else `down` has just deleted it
                    return marker
            os.close(marker)
            time.sleep(POLL_S)
        raise EmulatorError(
            f"another emulator starts or stops with {self.folder}; wait until it has"
        )

    def make(self, name: str) -> Path:
        """Create a folder in it."""
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def write(self, description: dict[str, Any]) -> None:
        """Write where the emulator is, atomically, and the settings of SageMaker's SDKs."""
        temporary = self.folder / f".{STATE_FILE}"
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(description, indent=1))
        temporary.replace(self.folder / STATE_FILE)
        for account in description["accounts"]:
            for region in description["regions"]:
                file = self.sdk_settings(account, region)
                file.touch(mode=0o600)
                file.write_text(SDK_SETTINGS.format(account=account, region=region))

    def sdk_settings(self, account: str, region: str) -> Path:
        """Return the settings file of SageMaker's SDKs (`SAGEMAKER_USER_CONFIG_OVERRIDE`)."""
        return self.folder / f"sagemaker-{region}-{account}.yaml"

    def variables(self, endpoint: str, account: str, region: str, secret: str) -> dict[str, str]:
        """Return the variables with which AWS clients use the emulator as an account's root."""
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ENDPOINT_URL_S3": endpoint,
            "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": endpoint,
            "AWS_ACCESS_KEY_ID": f"AKIA{account}ROOT",
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_DEFAULT_REGION": region,
            "SAGEMAKER_USER_CONFIG_OVERRIDE": str(self.sdk_settings(account, region)),
        }

    def withdraw(self) -> None:
        """Note that the emulator has stopped."""
        (self.folder / STATE_FILE).unlink(missing_ok=True)

    def running(self) -> dict[str, Any] | None:
        """Return the `description`; None unless that emulator still runs."""
        description = self.description()
        if description is None:
            return None
        now = started_at(int(description["pid"]))
        return description if now is not None and now == description["process_started_at"] else None

    def secret(self) -> str:
        """Return the secret access key of the accounts' roots; raise EmulatorError without one."""
        description = self.description()
        if description is None:
            raise EmulatorError(f"no emulator runs with {self.folder}")
        return str(description["secret_access_key"])

    def description(self) -> dict[str, Any] | None:
        """Return what the last emulator wrote, whether it runs or not.

        Raises EmulatorError when it cannot be a folder, or belongs to another user, who could name
        any endpoint and any process.
        """
        if self.folder.exists() and (owner := self.folder.stat().st_uid) != os.geteuid():
            raise EmulatorError(
                f"{self.folder} belongs to the user {owner}; give a folder of your own"
            )
        try:
            return dict(json.loads((self.folder / STATE_FILE).read_text()))
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise EmulatorError(f"{self.folder} cannot be the state directory: {error}") from error

    def clean(self) -> list[int]:
        """End the children that a dead emulator left, delete its files, and return the pids.

        Raises EmulatorError when an emulator starts or stops in the folder.
        """
        if not (self.folder / MARKER).exists():
            return []
        marker = self._lock()
        try:
            ended = ProcessRegistry(self.folder).sweep()
            shutil.rmtree(self.folder, ignore_errors=True)
            return ended
        finally:
            os.close(marker)

    def stop(self, limit_s: float) -> bool:
        """Ask the emulator to stop, kill it after the limit, clean up; return whether one ran."""
        running = self.running()
        if running:
            pid, start = int(running["pid"]), running["process_started_at"]
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + limit_s
            while started_at(pid) == start and time.monotonic() < deadline:
                time.sleep(POLL_S)
            if started_at(pid) == start:
                os.kill(pid, signal.SIGKILL)
        self.clean()
        return running is not None
