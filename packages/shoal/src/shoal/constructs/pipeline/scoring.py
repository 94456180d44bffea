"""The pipeline that scores with an approved model, with roles, functions and a guard of its own.

Nothing of it is the training's: the training's role starts no transform, and this one's starts
neither training nor registration. What it makes carries its own name and tag.
"""

from collections.abc import Iterable, Mapping

from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.pipeline.pipeline_roles import PipelineRole
from shoal.constructs.pipeline.training_pipeline import TrainingPipeline
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.actor_role import SageMakerRole
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.schedules import Schedules
from shoal.constructs.teardown import TeardownGuard
from shoal.launch import Launch
from shoal.pipelines.requests import TRANSFORM_FOLDER
from shoal.pipelines.scoring import scoring_pipeline
from shoal.settings.names import SEALED, Names
from shoal.settings.sections.scoring import FOLDER, Scoring


class ScoringPipeline(Construct):
    """Role of the model -> functions -> pipeline -> schedules; `names` and all its `functions`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        settings: Scoring,
        place: Place,
        key: kms.IKey,
        images: Iterable[str],
    ) -> None:
        """`names` are those of scoring; `images` are what models of the registry answer in."""
        super().__init__(scope, construct_id)
        self.names = names
        role = _model_role(self, names, place, key)
        role.allow_pull(images)
        finder = PythonFunction(self, "Finder", names=names, purpose="find")
        finder.role.allow_part("compare")
        guard = TeardownGuard(self, "TeardownGuard", names=names)
        groups = list(place.security_group_ids)
        vpc = {"Subnets": list(place.subnet_ids), "SecurityGroupIds": groups}
        pipeline = scoring_pipeline(names, settings, key_arn=key.key_arn, vpc=vpc)
        definition = pipeline.to_dict()
        starter = PipelineRole(
            self,
            "PipelineRole",
            names=names,
            definition=definition,
            training=place,
            hosting=place,
            key=key,
            jobs=[role],
            functions=[finder, guard.deleter],
            built={},
        )
        made = TrainingPipeline(self, "Pipeline", names=names, definition=definition, role=starter)
        made.node.add_dependency(role, finder, guard)
        self.functions = [finder, guard.deleter]
        if settings.schedules:
            schedules = Schedules(self, "Schedules", names=names)
            schedules.node.add_dependency(made)
            self.functions.append(schedules.starter)


def add_scoring(
    scope: Construct,
    names: Names,
    place: Place,
    key: kms.IKey,
    *,
    launch: Launch,
    built: Mapping[str, str],
) -> ScoringPipeline | None:
    """Make what scores, where the environment has a section `scoring`; an older version may answer
    in AWS's image or in one that was built.
    """
    settings = names.environment.scoring
    if settings is None:
        return None
    return ScoringPipeline(
        scope,
        "Scoring",
        names=names.scoring,
        settings=settings,
        place=place,
        key=key,
        images=[launch.inference_image_uri, *built.values()],
    )


def _model_role(scope: Construct, names: Names, place: Place, key: kms.IKey) -> SageMakerRole:
    """Return the role under which a transform job runs: it reads sealed models and the rows to
    score, and writes results. Source: SageMaker developer guide, "SageMaker roles"; read.
    """
    role = SageMakerRole(
        scope,
        "Model",
        names=names,
        actor="model",
        log_group="TransformJobs",
        source="*",
        description="Runs transform jobs.",
        streams="pipelines-*",
    )
    role.allow_part("see-vpc")
    role.allow_part("see-vpc-endpoints")
    role.allow_interfaces(place)
    role.allow_part("transform", key=key.key_arn)
    artifacts, sealed = names.bucket("artifacts"), names.folder(SEALED)
    where = {"bucket": artifacts, "keys": f"{sealed}/*", "first": f"{sealed}/"}
    role.allow_part("endpoint", key=key.key_arn, **where)
    dataset = names.environment.data.dataset
    rows = [f"datasets/{each}/{FOLDER}/*" for each in (dataset, f"{dataset}.*")]
    role.allow_part("read", Purpose="Rows", bucket=names.bucket("data"), keys=rows, first=rows[0])
    folder = names.folder(TRANSFORM_FOLDER)
    role.allow_part("write", Purpose="Results", purpose=TRANSFORM_FOLDER, folder=folder)
    return role
