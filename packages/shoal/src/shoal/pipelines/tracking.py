"""What a training job is told of MLflow: which server, which experiment, which run."""

from __future__ import annotations

from typing import Any

from shoal.pipelines.expressions import EXECUTION_ARN, EXECUTION_ID, Join
from shoal.settings.names import Names

EXECUTION_TAG = "shoal.execution_arn"  # by which `shoal report --mlflow` finds the run


def add_to(request: dict[str, Any], names: Names, app_arn: str | None) -> None:
    """Add to CreateTrainingJob's request where it tracks; `app_arn` is the App that was made.

    MLflow reads all variables but the run's name (3.17.2, environment_variables.py). The request's
    MlflowConfig is left out: no page of AWS has it in a job with an image of one's own.
    """
    mlflow = names.environment.mlflow
    arn = mlflow and (mlflow.arn or app_arn)
    if mlflow is None or not (server := mlflow.tracking_uri or arn):
        return
    request["Environment"] = {
        "MLFLOW_TRACKING_URI": server,
        "MLFLOW_EXPERIMENT_NAME": names.pipeline,
        "MLFLOW_RUN_NAME": EXECUTION_ID,
        "MLFLOW_RUN_CONTEXT": Join("", (f'{{"{EXECUTION_TAG}": "', EXECUTION_ARN, '"}')),
        **request.get("Environment", {}),
    }
