"""The file system's ports, and what waits for what. templates.yaml has the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.conftest import StageOf, TemplateOf
from tests.stacks.reading import definition, properties, resources


@pytest.mark.parametrize(
    ("direction", "peer"),
    [("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")],
)
def test_lustres_ports_are_open_between_servers_and_training_nodes_in_both_directions(
    template_of: TemplateOf, direction: str, peer: str
) -> None:
    rules = properties(template_of("lustre", "file-system"), f"AWS::EC2::SecurityGroup{direction}")
    ends = {
        (_end(rule["GroupId"]), _end(rule[peer]), rule["FromPort"], rule["ToPort"])
        for rule in rules
    }
    pairs = [("servers", "servers"), ("servers", "clients"), ("clients", "servers")]
    assert ends == {(*pair, *ports) for pair in pairs for ports in ((988, 988), (1018, 1023))}


def _end(group: dict[str, Any]) -> str:
    return "clients" if "Fn::ImportValue" in group else "servers"


def test_it_is_made_after_its_security_groups_rules_without_which_fsx_refuses_it(
    template_of: TemplateOf,
) -> None:
    file_system = template_of("lustre", "file-system")
    rules = {
        key
        for kind in ("Ingress", "Egress")
        for key in resources(file_system, f"AWS::EC2::SecurityGroup{kind}")
    }
    (resource,) = resources(file_system, "AWS::FSx::FileSystem").values()
    assert rules
    assert rules <= set(resource["DependsOn"])


def test_the_pipeline_reads_its_id_from_a_parameter_so_that_it_can_be_replaced(
    template_of: TemplateOf,
) -> None:
    template = template_of("lustre", "pipeline")
    parameters = template.to_json()["Parameters"]
    assert parameters["FileSystemId"]["Default"] == "/shoal/shoal-mnist-lustre/file-system/id"
    train, *_ = definition(template)["Steps"]
    (source,) = {
        channel["DataSource"]["FileSystemDataSource"]["FileSystemId"]
        for channel in train["Arguments"]["InputDataConfig"]
    }
    assert "FileSystemId" in source


def test_without_the_section_there_is_no_such_stack(stage_of: StageOf) -> None:
    assert [stage_of(name).file_system for name in ("dev", "prod")] == [None, None]
