"""What of the network is more than a row of templates.yaml."""

from __future__ import annotations

import json
from pathlib import Path

from tests.stacks.conftest import StageOf, TemplateOf
from tests.stacks.reading import properties


def test_synth_asks_for_no_context(stage_of: StageOf) -> None:
    manifest = json.loads(Path(stage_of("dev").synth().directory, "manifest.json").read_text())
    assert "missing" not in manifest


def test_every_private_subnet_reaches_the_internet_through_the_nat_gateway_only(
    template_of: TemplateOf,
) -> None:
    routes = properties(template_of("connected", "network"), "AWS::EC2::Route")
    assert sum("NatGatewayId" in route for route in routes) == 3
    assert sum("GatewayId" in route for route in routes) == 1


def test_interface_endpoints_serve_only_our_own_instances(template_of: TemplateOf) -> None:
    ingress = [
        (rule["FromPort"], rule["ToPort"], "SourceSecurityGroupId" in rule)
        for rule in properties(
            template_of("connected", "network"), "AWS::EC2::SecurityGroupIngress"
        )
        if rule["IpProtocol"] == "tcp"
    ]
    assert ingress == [(443, 443, True)] * 2


def test_subnets_lie_in_the_zones_of_the_settings(template_of: TemplateOf) -> None:
    subnets = properties(template_of("dev", "network"), "AWS::EC2::Subnet")
    zones = [subnet["AvailabilityZoneId"] for subnet in subnets]
    assert zones == ["use1-az4", "use1-az1", "use1-az2"]
    services = properties(template_of("connected", "network"), "AWS::EC2::VPCEndpoint")
    assert len(services) == 4  # S3 and the three that are named
