"""Lets workflows of GitHub or GitLab deploy without a secret: each host's identity provider, and
roles for each environment of an account. One stack per account and project, outside the stages: a
person deploys it once, before any workflow can deploy.
"""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from shoal.constructs.roles.delivery_roles import DeliveryRoles, identity_provider
from shoal.constructs.shoal_stack import tag
from shoal.settings.names import Names
from shoal.settings.settings import Environment


class DeliveryStack(cdk.Stack):
    """`environments` lie in one account and have a section `delivery` each."""

    def __init__(self, scope: Construct, *, environments: Sequence[Environment]) -> None:
        first = environments[0]
        super().__init__(
            scope,
            f"delivery-{first.account}",
            stack_name=f"shoal-{first.project}-delivery",
            env=cdk.Environment(account=first.account, region=first.region),
            synthesizer=cdk.DefaultStackSynthesizer(qualifier=Names(first).qualifier),
            termination_protection=any(each.protect for each in environments),
        )
        tag(self, first.tags)
        by_host: dict[str, list[Environment]] = {}
        for each in environments:
            if each.delivery:
                by_host.setdefault(each.delivery.host, []).append(each)
        for host, in_host in by_host.items():
            provider = identity_provider(self, host, in_host)
            for environment in in_host:
                roles = DeliveryRoles(self, names=Names(environment).shared, provider=provider)
                roles.add_deploy_role()
                roles.add_look_role()
                if environment.promoted_from is None:
                    roles.add_promotion_role()
