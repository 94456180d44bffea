"""How a job ends that something ended early: a stop, a failure, or a bug of the emulator."""

from __future__ import annotations

import traceback
from pathlib import Path

from shoal_local.errors import AwsError
from shoal_local.sagemaker.container.launch import PodError
from shoal_local.sagemaker.jobs.base.job import JobFailedError, JobStoppedError
from shoal_local.sagemaker.jobs.base.runtime_build import BuildStoppedError, RuntimeBuildError
from shoal_local.sagemaker.jobs.base.storage import DataError


def ended_by(error: Exception, folder: Path) -> tuple[str, str]:
    """Return the status and the failure reason; a bug's traceback stays in the job's `folder`."""
    match error:
        case JobStoppedError() | BuildStoppedError():
            return "Stopped", ""
        case JobFailedError():
            return "Failed", str(error)
        case DataError() | PodError() | RuntimeBuildError() | AwsError():
            return "Failed", f"ClientError: {error}"
    (folder / "emulator-error.txt").write_text("".join(traceback.format_exception(error)))
    text = f"We encountered an internal error of the emulator: {error!r}"
    return "Failed", f"InternalServerError: {text}"
