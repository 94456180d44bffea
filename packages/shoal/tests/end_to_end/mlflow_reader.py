"""Prints what MLflow's client reads of an experiment, as JSON: run by the interpreter that has it,
with the server's address and the experiment's name.
"""

import json
import sys
from typing import Any

import mlflow


def seen(client: Any, run: Any) -> dict[str, Any]:
    """Return a run with the history of its metrics and the names of its files."""
    run_id = run.info.run_id
    return {
        "name": run.info.run_name,
        "status": run.info.status,
        "parameters": run.data.params,
        "tags": run.data.tags,
        "metrics": {
            name: [[each.step, each.value] for each in client.get_metric_history(run_id, name)]
            for name in run.data.metrics
        },
        "files": [each.path for each in client.list_artifacts(run_id)],
    }


if __name__ == "__main__":
    uri, experiment = sys.argv[1:]
    mlflow.set_tracking_uri(uri)
    client = mlflow.MlflowClient()
    number = client.get_experiment_by_name(experiment).experiment_id
    versions = client.search_model_versions(f"name = '{experiment}'")
    print(
        json.dumps(
            {
                "runs": [seen(client, run) for run in client.search_runs([number])],
                "versions": [[each.version, each.source, each.run_id] for each in versions],
            }
        )
    )
