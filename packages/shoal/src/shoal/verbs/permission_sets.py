"""What people may do in an environment: a policy for each job, for IAM or a permission set."""

from collections.abc import Sequence
from typing import Any

from shoal.settings.names import RUNS, Names
from shoal.settings.parsing.yaml_file import conditions, filled, read_table

_TABLE: dict[str, Any] = read_table(__file__, "permission_sets.yaml")
JOBS: tuple[str, ...] = tuple(_TABLE["jobs"])


def policy_for(job: str, each: Sequence[Names]) -> dict[str, Any]:
    """Return the policy of who does `job` for workloads of one environment."""
    names, pipelines = each[0], [one.pipeline for one in each]
    values = {
        "account": names.environment.account,
        "artifacts": names.bucket("artifacts"),
        "code": names.code_bucket,
        "data": names.bucket("data"),
        "folders": [one.folder(kind) for one in each for kind in ("evaluation", RUNS)],
        "datasets": [one.environment.data.dataset for one in each],
        "groups": [one.model_package_group for one in each],
        "pages": [one.folder(RUNS) for one in each],
        "pipelines": pipelines,
        "region": names.environment.region,
        "stacks": [*dict.fromkeys((names.shared_prefix, *pipelines))],
    }
    statements = []
    for part in _TABLE["jobs"][job]:
        for sid, row in _TABLE[part].items():
            statement = {"Sid": sid, "Effect": "Allow", "Action": filled(row["allow"], values)}
            statement["Resource"] = filled(row["resources"], values)
            if "when" in row:
                statement["Condition"] = conditions(row["when"], values)
            statements.append(statement)
    return {"Version": "2012-10-17", "Statement": statements}
