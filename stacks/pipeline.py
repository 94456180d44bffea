"""The pipeline of one workload with its roles, its functions and the teardown guard."""

from collections.abc import Sequence
from pathlib import Path

from constructs import Construct

from shoal.constructs.network import own_training_place
from shoal.constructs.pipeline.code_archive import CodeArchive
from shoal.constructs.pipeline.pipeline_functions import Compare, SmokeTest
from shoal.constructs.pipeline.pipeline_roles import JobRoles, PipelineRole
from shoal.constructs.pipeline.scoring import add_scoring
from shoal.constructs.pipeline.training_pipeline import (
    ModelRegistry,
    StepFunctions,
    TrainingPipeline,
    infrastructure,
)
from shoal.constructs.schedules import Schedules
from shoal.constructs.shoal_stack import ShoalStack
from shoal.constructs.storage import Seal
from shoal.constructs.teardown import TeardownGuard
from shoal.launch import Launch, watch
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names
from stacks.data import DataStack
from stacks.file_system import FileSystemStack
from stacks.images import ImageStack
from stacks.network import NetworkStack


class PipelineStack(ShoalStack):
    """Registry -> code -> functions of steps -> roles -> definition -> pipeline -> schedules.

    The registry outlives the stack of a protected environment; `consumers` serve what is in it.
    `requests` is what the smoke test sends; None where there is no endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        names: Names,
        launch: Launch,
        root: Path,
        requests: bytes | None,
        network: NetworkStack,
        data: DataStack,
        file_system: FileSystemStack | None = None,
        image: ImageStack | None = None,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        super().__init__(scope, "pipeline", names=names)
        self._names, self._key = names, data.key
        registry = ModelRegistry(self, "Registry", names=names, consumers=consumers)
        source_dir = root / names.environment.training.source_dir
        code = CodeArchive(self, "Code", source_dir=source_dir, watch=watch.files(launch.case))
        functions = self._step_functions(requests)

        training, hosting = own_training_place(self, names, network.training), network.hosting
        jobs = JobRoles(
            self, "JobRoles", names=names, key=data.key, training=training, hosting=hosting
        )
        built = image.uris_in(self) if image else {}
        refers_to = infrastructure(
            names,
            code=code,
            key=data.key,
            training=training,
            hosting=hosting,
            functions=functions,
            images=built,
            file_system=file_system.mounted_in(self) if file_system else None,
            mlflow_app_arn=data.mlflow_app.arn_in(self) if data.mlflow_app else None,
        )
        self.definition = definition = definition_of(names.environment, refers_to, launch, root)
        readable = image.names_of(built) if image else {}
        jobs.allow_definition(definition, readable, refers_to.mlflow_app_arn)
        role = PipelineRole(
            self,
            "PipelineRole",
            names=names,
            definition=definition,
            training=training,
            hosting=hosting,
            key=data.key,
            jobs=jobs.all,
            functions=functions.all,
            built=readable,
        )
        self.pipeline = TrainingPipeline(
            self, "TrainingPipeline", names=names, definition=definition, role=role
        )
        self.pipeline.node.add_dependency(jobs, *self._parts, registry)
        self.scoring = add_scoring(self, names, hosting, data.key, launch=launch, built=readable)
        self.functions = functions.all
        self.schedules = self._schedules()
        self._describe(code)

    def _step_functions(self, requests: bytes | None) -> StepFunctions:
        """Make the functions that the pipeline's steps call, and the teardown guard."""
        names = self._names
        seal = Seal(self, "Seal", names=names, key=self._key)
        smoke_test, compare, self._guard = None, None, None
        if requests is not None:
            smoke_test = SmokeTest(self, "SmokeTest", names=names, requests=requests)
            self._guard = TeardownGuard(self, "TeardownGuard", names=names)
        if names.environment.compared_metrics:
            compare = Compare(self, "Compare", names=names)
        self._parts = filter(None, (seal, smoke_test, self._guard, compare))
        return StepFunctions(
            seal=seal.sealer,
            smoke_test=smoke_test.caller if smoke_test else None,
            teardown=self._guard.deleter if self._guard else None,
            compare=compare.comparer if compare else None,
        )

    def _schedules(self) -> Schedules | None:
        """Make what starts the pipeline by itself; nothing where nothing does."""
        environment = self._names.environment
        if not environment.schedules and not environment.data.on_manifest:
            return None
        parameters = [each["Name"] for each in self.definition.get("Parameters", [])]
        schedules = Schedules(self, "Schedules", names=self._names, parameters=parameters)
        schedules.node.add_dependency(self.pipeline)
        self.functions.append(schedules.starter)
        return schedules

    def _describe(self, code: CodeArchive) -> None:
        """Add the stack's outputs."""
        names = self._names
        self.add_outputs(
            PipelineName=names.pipeline,
            PipelineArn=names.pipeline_arn,
            ModelPackageGroupName=names.model_package_group,
            CodeUri=code.uri,
        )
        if self._guard:
            self.add_outputs(TeardownDeadLetterQueueUrl=self._guard.dead_letters.queue_url)
