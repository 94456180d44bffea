"""Lets GitHub's workflows deploy without a secret: an account's identity provider, and roles for
each of its environments. One stack per account and project, outside the stages: a person deploys it
once, before any workflow can deploy.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from shoal.constructs.roles.delivery_roles import DeliveryRoles
from shoal.constructs.roles.github_role import identity_provider
from shoal.constructs.tags import tag
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
        provider = identity_provider(self, "GitHub", environments)
        for environment in environments:
            roles = DeliveryRoles(self, names=Names(environment).shared, provider=provider)
            roles.add_deploy_role()
            roles.add_look_role()
            if environment.promoted_from is None:
                roles.add_promotion_role()
