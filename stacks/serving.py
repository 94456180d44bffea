"""The endpoint that serves a pinned release, deployed blue/green and proven."""

import aws_cdk as cdk
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.served_model import (
    CAPTURED,
    VARIANT,
    BroughtArchive,
    ServedModel,
    ServingRole,
)
from shoal.constructs.serving_endpoint import ServingAlarms, ServingEndpoint, ServingProof
from shoal.constructs.shoal_stack import ShoalStack
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.settings.sections.serving import Serving
from stacks.data import DataStack
from stacks.network import NetworkStack


class ServingStack(ShoalStack):
    """Archive -> role -> model -> configuration -> alarms -> endpoint -> proof.

    A new release is an update of this stack; `git revert` is another.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        names: Names,
        settings: Serving,
        release: Release,
        requests: bytes,
        network: NetworkStack,
        data: DataStack,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, "serving", names=names)
        self._names, self._settings, self._key = names, settings, data.key
        self.archive = BroughtArchive(self, "Archive", names=names, release=release, key=data.key)
        self._role = ServingRole(self, "Role", names=names, release=release, key=data.key)
        # While the archive is brought, IAM has time to apply the role's policy: each archive has
        # another role.
        self.archive.resource.node.add_dependency(self._role)
        self.served = ServedModel(
            self,
            "Served",
            names=names,
            settings=settings,
            release=release,
            archive=self.archive,
            role=self._role,
            place=network.hosting,
            key=data.key,
        )
        self.serving = self._endpoint(topic, network.hosting)
        self.proof = ServingProof(
            self,
            "Proof",
            names=names,
            requests=requests,
            release=release,
            served=self.served,
            key=data.key,
        )
        self.proof.resource.node.add_dependency(self.serving.endpoint)
        for resource in (self.served.model, self.served.config, self.serving.endpoint):
            cdk.Tags.of(resource).add("shoal:release", release.version)
        self.add_outputs(
            EndpointName=names.serving_endpoint,
            EndpointArn=names.serving_endpoint_arn,
            ModelPackageArn=release.model_package_arn,
        )

    def _endpoint(self, topic: sns.ITopic, place: Place) -> ServingEndpoint:
        """Make the alarms that roll a deployment back, and the endpoint, with the permissions that
        its role needs in addition to archive and image.
        """
        config_name = self.served.config.attr_endpoint_config_name
        alarms = ServingAlarms(
            self,
            "Alarms",
            names=self._names,
            limits=self._settings.alarms,
            variant=VARIANT,
            config_name=config_name,
            topic=topic,
        )
        self._role.allow_part("watch-alarms", alarms=alarms.names)
        if self._settings.serverless is None:
            self._role.allow_place(place)
        if self.served.has_encrypted_volumes:
            self._role.allow_part("volumes", key=self._key.key_arn)
        if self._settings.data_capture:
            folder = self._names.folder(CAPTURED)
            self._role.allow_part("capture", folder=folder, key=self._key.key_arn)
        serving = ServingEndpoint(
            self,
            "Serving",
            names=self._names,
            settings=self._settings,
            config_name=config_name,
            alarms=alarms.names,
        )
        # UpdateEndpoint refuses a deployment whose alarms do not exist.
        serving.endpoint.node.add_dependency(alarms, self._role)
        return serving
