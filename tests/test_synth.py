"""Every template passes all gates, and what would be deployed is what somebody reviewed."""

from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import environment_names, load_workloads
from shoal.settings.settings import Environment
from shoal.testing import require_snapshot
from tests.conftest import ROOT

SNAPSHOTS = ROOT / "tests" / "snapshots"
WORKLOADS = [each for name in environment_names(ROOT) for each in load_workloads(name, ROOT)]


def test_the_resources_are_those_of_the_snapshot(templates: dict[str, dict[str, Any]]) -> None:
    """A logical id that changes is a resource that CloudFormation deletes and creates again.

    The templates are there only if every environment passes cdk-nag and all other gates.
    """
    resources = {
        stack: {name: each["Type"] for name, each in template["Resources"].items()}
        for stack, template in templates.items()
    }
    require_snapshot(SNAPSHOTS / "resources.json", resources)


@pytest.mark.parametrize("workload", WORKLOADS, ids=[each.title for each in WORKLOADS])
def test_the_pipeline_is_that_of_the_snapshot(workload: Environment) -> None:
    """The check also proves the workload's contract: scripts, options, channels, gates, images."""
    definition = check(workload, ROOT).definition
    file = SNAPSHOTS / f"pipeline-{workload.title.replace(' ', '-')}.json"
    require_snapshot(file, definition)
