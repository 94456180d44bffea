"""MLflow's client with SageMaker's plugin: logs a run to the tracking server whose ARN is the first
argument, and prints what it then reads there, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mlflow

if __name__ == "__main__":
    mlflow.set_tracking_uri(sys.argv[1])
    mlflow.set_experiment("digits")
    with mlflow.start_run() as run:
        mlflow.log_param("epochs", 2)
        for step, loss in enumerate((0.5, 0.25), 1):
            mlflow.log_metric("loss", loss, step=step)
        Path("notes.txt").write_text("seen")
        mlflow.log_artifact("notes.txt")
    client = mlflow.MlflowClient()
    read = client.get_run(run.info.run_id)
    client.create_registered_model("digits")
    version = client.create_model_version("digits", read.info.artifact_uri, run.info.run_id)
    losses = client.get_metric_history(run.info.run_id, "loss")
    print(
        json.dumps(
            {
                "status": read.info.status,
                "parameters": read.data.params,
                "loss": [[each.step, each.value] for each in losses],
                "artifacts": [each.path for each in client.list_artifacts(run.info.run_id)],
                "artifact_uri": read.info.artifact_uri,
                "version": [version.name, str(version.version), version.status],
            }
        )
    )
