"""What no teardown may touch: the endpoint that serves, and an execution that still runs, with an
endpoint older than its time to live.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from local_kit.control import eventually

if TYPE_CHECKING:
    from tests.chaos.world import World

_SERVING = "bystander-that-serves"
_LIMIT_S = 180.0


@dataclass
class Bystanders:
    """They are there before the first case and watched after each."""

    world: World
    execution: str
    before: dict[str, Any]

    @classmethod
    def settle(cls, world: World) -> Bystanders:
        """Start an execution that waits with its endpoint in service, and a serving endpoint with
        the same model.
        """
        sagemaker = world.client("sagemaker")
        arn = world.begin(with_wait(world.definition, ["sleep", "36000"]))
        waiting = cls(world, arn, {})
        own = f"{world.names.pipeline}-{waiting.id}"
        waiting._until_it_serves(own)
        config = sagemaker.describe_endpoint(EndpointName=own)["EndpointConfigName"]
        answer = sagemaker.describe_endpoint_config(EndpointConfigName=config)
        (variant,) = answer["ProductionVariants"]
        name = world.names.serving_endpoint
        model = sagemaker.describe_model(ModelName=variant["ModelName"])
        tags = [{"Key": "shoal:pipeline", "Value": world.names.pipeline}]
        sagemaker.create_model(
            ModelName=name,
            PrimaryContainer=model["PrimaryContainer"],
            ExecutionRoleArn=waiting._role_of_what_serves(model["ExecutionRoleArn"]),
            Tags=tags,
        )
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[{**variant, "ModelName": name}], Tags=tags
        )
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=tags)
        waiting._until_it_serves(name)
        waiting.before = waiting._look()
        assert waiting.before["execution"] == "Executing", (
            f"the bystander is {waiting.before['execution']}: {world.steps(arn)}"
        )
        return waiting

    def _role_of_what_serves(self, like: str) -> str:
        """Return a role with the rights of another, for the serving endpoint's log group."""
        iam, pipeline = self.world.client("iam"), self.world.names.pipeline
        name = like.rpartition("/")[2]
        trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        created = iam.create_role(RoleName=_SERVING, AssumeRolePolicyDocument=json.dumps(trust))
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            found = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            text = json.dumps(found).replace(f"Endpoints/{pipeline}-*", f"Endpoints/{pipeline}")
            iam.put_role_policy(RoleName=_SERVING, PolicyName=policy, PolicyDocument=text)
        return str(created["Role"]["Arn"])

    @property
    def id(self) -> str:
        return self.execution.rpartition("/")[2]

    def _look(self) -> dict[str, Any]:
        sagemaker = self.world.client("sagemaker")
        found: dict[str, Any] = {"execution": self.world.status(self.execution)}
        for name in (self.world.names.serving_endpoint, f"{self.world.names.pipeline}-{self.id}"):
            try:
                endpoint = sagemaker.describe_endpoint(EndpointName=name)
                parts = ("EndpointStatus", "CreationTime", "LastModifiedTime")
                found[name] = tuple(endpoint[part] for part in parts)
                config_name = endpoint["EndpointConfigName"]
                config = sagemaker.describe_endpoint_config(EndpointConfigName=config_name)
                model_name = config["ProductionVariants"][0]["ModelName"]
                model = sagemaker.describe_model(ModelName=model_name)
                found[f"model of {name}"] = model["CreationTime"]
            except ClientError as gone:
                found[name] = str(gone)
        return found

    def disturbed(self) -> list[str]:
        """What is not as it was."""
        now = self._look()
        return [
            f"a bystander was touched: {key} was {was}, is {now.get(key)}"
            for key, was in self.before.items()
            if was != now.get(key)
        ]

    def leave(self) -> list[str]:
        """Stop the execution, which teardown must clean up then, and remove what serves; what is
        left of them.
        """
        from tests.chaos.rig import left_in_the_account

        sagemaker = self.world.client("sagemaker")
        sagemaker.stop_pipeline_execution(PipelineExecutionArn=self.execution)
        eventually(lambda: not left_in_the_account(sagemaker, self.id), _LIMIT_S)
        left = left_in_the_account(sagemaker, self.id)
        name = self.world.names.serving_endpoint
        sagemaker.delete_endpoint(EndpointName=name)
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
        sagemaker.delete_model(ModelName=name)
        eventually(lambda: self._status_of(name) is None, _LIMIT_S)
        iam = self.world.client("iam")
        for policy in iam.list_role_policies(RoleName=_SERVING)["PolicyNames"]:
            iam.delete_role_policy(RoleName=_SERVING, PolicyName=policy)
        iam.delete_role(RoleName=_SERVING)
        return [f"of a stopped bystander there is {each}" for each in left]

    def _status_of(self, endpoint: str) -> str | None:
        pages = self.world.client("sagemaker").list_endpoints(NameContains=endpoint)["Endpoints"]
        statuses = {each["EndpointName"]: str(each["EndpointStatus"]) for each in pages}
        return statuses.get(endpoint)

    def _until_it_serves(self, endpoint: str) -> None:
        if not eventually(lambda: self._status_of(endpoint) == "InService", _LIMIT_S):
            raise TimeoutError(
                f"{endpoint} is {self._status_of(endpoint)}: {self.world.steps(self.execution)}"
            )


def with_wait(definition: dict[str, Any], command: list[str]) -> dict[str, Any]:
    """The definition with a job between the endpoint and the smoke test, which waits by a
    command.
    """
    changed = copy.deepcopy(definition)
    evaluate = next(each for each in changed["Steps"] if each["Name"] == "Evaluate")
    gate = next(each for each in changed["Steps"] if each["Name"] == "Gate")
    arguments = {
        key: value for key, value in evaluate["Arguments"].items() if key != "ProcessingInputs"
    }
    image = arguments["AppSpecification"]["ImageUri"]
    arguments["AppSpecification"] = {"ImageUri": image, "ContainerEntrypoint": command}
    branch = gate["Arguments"]["IfSteps"]
    position = [each["Name"] for each in branch].index("SmokeTest")
    branch[position]["DependsOn"] = ["Wait"]
    wait = {"Name": "Wait", "Type": "Processing", "DependsOn": ["CreateEndpoint"]}
    branch.insert(position, wait | {"Arguments": arguments})
    return changed
