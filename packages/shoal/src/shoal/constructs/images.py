"""The ECR repository of a recipe's images, and the CodeBuild project that builds one."""

import json
import shlex
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole, resource_policy
from shoal.constructs.shoal_stack import removal_policy
from shoal.constructs.storage import environment_key
from shoal.launch import recipes, tables
from shoal.settings.key_policy import image_key_statements
from shoal.settings.names import BUILDERS, Names
from shoal.settings.organisation import PackageIndex
from shoal.settings.parsing.plain_files import require_plain

KEPT_IMAGES = 100
"""Far more than the recipe changes while one image is deployed: ECR does not know which one is."""


class ImageRepository(Construct):
    """`repository` and `key`. Tags never move; every pushed image is scanned."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, image: str, use: str
    ) -> None:
        """`use` is what the recipe `image` is for: training, endpoint."""
        super().__init__(scope, construct_id)
        builder = names.role_arn(BUILDERS[use])
        part = "images" if use == "training" else f"{use}-images"
        protect = names.environment.protect
        removal = removal_policy(protect)
        self.key = environment_key(
            self,
            names,
            alias=f"{names.prefix}-{part}",
            description=f"Container images of {names.prefix}",
            statements=image_key_statements(names, use),
        )
        self.repository = ecr.Repository(
            self,
            "Repository",
            repository_name=names.repository(image),
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=self.key,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            empty_on_delete=not protect,
            removal_policy=removal,
        )
        self.repository.add_lifecycle_rule(
            description="Layers of pushes that failed",
            tag_status=ecr.TagStatus.UNTAGGED,
            max_image_age=cdk.Duration.days(1),
        )
        self.repository.add_lifecycle_rule(
            description=f"The newest {KEPT_IMAGES} images", max_image_count=KEPT_IMAGES
        )
        for statement in resource_policy("pushes", names, iam.AnyPrincipal(), builder=builder):
            self.repository.add_to_resource_policy(statement)


_BUILD = ("docker", "build", "--platform", "linux/amd64")
_SCRIPT = Path(__file__).with_name("image_build.sh")


class ImageBuild(Construct):
    """`project` builds the recipe for `use` (training, endpoint) of the repository at `root`.

    The build leaves the image's URI with its digest in an SSM parameter. The parameter's name
    contains a hash of the recipe: a checkout deploys the image of its own recipe, or CloudFormation
    does not find the parameter and changes nothing.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        use: str,
        root: Path,
        key: kms.Key | kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id)
        image = names.environment.built_images[use]
        require_plain(recipes.folder(image, root))
        self._names, self._image, self._key = names, image, key
        self._project_name, self._actor = names.build_project(use), BUILDERS[use]
        self._region = names.environment.region
        index = names.environment.organisation.package_index
        self.parameter = names.image_parameter(
            image, recipes.content_tag(image, self._region, root, index.place if index else "")
        )
        self._source = assets.Asset(
            self,
            "Recipe",
            path=str(recipes.folder(image, root)),
            exclude=["__pycache__"],
            display_name=image,
        )
        self._log = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/codebuild/{self._project_name}",
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role = self._role()
        self.project = self._project()
        self.project.node.add_dependency(self.role)

    def _project(self) -> codebuild.CfnProject:
        spec = {
            "version": "0.2",
            "env": {"shell": "bash"},
            "phases": {"build": {"commands": [self.script()]}},
        }
        # Privileged mode: docker build needs a Docker daemon, which CodeBuild starts in no other
        # mode.
        return codebuild.CfnProject(
            self,
            "Project",
            name=self._project_name,
            description=f"Builds images/{self._image} and publishes its digest in {self.parameter}",
            service_role=self.role.role_arn,
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                compute_type="BUILD_GENERAL1_LARGE",
                image="aws/codebuild/standard:7.0",
                privileged_mode=True,
            ),
            source=codebuild.CfnProject.SourceProperty(
                type="S3",
                location=f"{self._source.s3_bucket_name}/{self._source.s3_object_key}",
                build_spec=json.dumps(spec),
            ),
            encryption_key=self._key.key_arn,
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=self._log.log_group_name
                )
            ),
            concurrent_build_limit=1,
            timeout_in_minutes=BUILD_S // 60,
            queued_timeout_in_minutes=60,
        )

    def script(self) -> str:
        """Return the build's commands with every value in them: no variable can change one."""
        uri, tag = self._names.repository_uri(self._image), self.parameter.rpartition("/")[2]
        arguments = recipes.build_arguments(self._image, self._region)
        options = [
            part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")
        ]
        index = self._names.environment.organisation.package_index
        build = [shlex.join([*_BUILD, *options]), *([BUILD_OPTION] if index else [])]
        lines = _SCRIPT.read_text(encoding="utf-8").splitlines(keepends=True)
        registries = {uri.partition("/")[0]}
        # The image that the recipe extends needs a login, too, unless it is from Docker Hub.
        if recipes.recipe(self._image).base_repository:
            own = tables.registry(self._region)
            registries.add(f"{own}.dkr.ecr.{self._region}.amazonaws.com")
        return "".join(line for line in lines if not line.startswith("#")).format(
            repository=self._names.repository(self._image),
            tag=tag,
            uri=uri,
            parameter=self.parameter,
            tagged=self._tagged(f'{uri}@"$found"'),
            registries=shlex.join(sorted(registries)),
            index=index_login(index),
            build=" ".join([*build, shlex.join(["--tag", f"{uri}:{tag}", "."])]),
        )

    def _tagged(self, value: str) -> str:
        """Return the start of a command that makes the parameter with the tags, unless it is there:
        PutParameter takes no tags when it may overwrite (Systems Manager API reference).
        """
        if not (tags := self._names.environment.workload_tags):
            return ""
        options = ("--name", self.parameter, "--type", "String", "--tags")
        pairs = [f'Key="{key}",Value="{each}"' for key, each in tags.items()]
        made = shlex.join(["aws", "ssm", "put-parameter", *options, *pairs])
        return f"{made} --value {value} || "

    def _role(self) -> ActorRole:
        names = self._names
        role = ActorRole(
            self,
            "Role",
            names=names,
            actor=self._actor,
            service="codebuild",
            description=f"Builds images of {names.prefix}.",
            source=names.arn("codebuild", f"project/{self._project_name}"),
        )
        role.allow_part(
            "own-log",
            log_group=f"/aws/codebuild/{self._project_name}",
            owner="project",
            service="CodeBuild",
        )
        bucket, key = self._source.s3_bucket_name, self._source.s3_object_key
        role.allow_part("build-source", bucket=bucket, object=key)
        if base := recipes.recipe(self._image).base_repository:
            role.allow_part("pull-base", registry=tables.registry(self._region), base=base)
        role.allow_part(
            "push",
            repository=names.repository(self._image),
            parameter=self.parameter,
            key=self._key.key_arn,
        )
        role.allow_secrets_and_index()
        if names.environment.workload_tags:
            role.allow_part("tag-image", parameter=self.parameter)
        return role


BUILD_S = 7200
"""How long a build may take, and a token of CodeArtifact's is good for."""
BUILD_OPTION = '--secret id=pip,src="$settings"'
"""How `docker build` gets it."""
_LOGIN = """\
import json, sys, urllib.parse as urls
text = sys.stdin.read().strip()
try: value = json.loads(text)
except ValueError: value = None
is_pair = isinstance(value, dict)
pair = (value["username"], value["password"]) if is_pair else ("__token__", text)
print(":".join(urls.quote(each, safe="") for each in pair) + "@")
"""


def index_login(index: PackageIndex | None) -> str:
    """Return what a build runs first where the organisation has a package index: commands in bash,
    each with its indentation; "" where there is none.

    They write the file by which pip asks there, as a secret of BuildKit's, which is in no layer and
    no history. Each RUN of the Dockerfile gets the secret as pip's settings: a recipe need not know
    of it.
    """
    if index is None:
        return ""
    # who cannot read it would install from the public index
    mount = "--mount=type=secret,id=pip,target=/etc/pip.conf,required=true,mode=0444"
    lines = [
        *(_of_codeartifact(index.codeartifact) if index.codeartifact else _of_url(index)),
        "settings=$(mktemp)",
        'printf \'[global]\\nindex-url = %s\\n\' "$scheme://$login$place" > "$settings"',
        f"sed -i -E 's#^[[:space:]]*run[[:space:]]#RUN {mount} #I' Dockerfile",
    ]
    return "\n  ".join([*lines, ""])


def _of_codeartifact(arn: str) -> list[str]:
    _, _, _, region, owner, path = arn.split(":")
    _, domain, repository = path.split("/")
    of = ["--region", region, "--domain", domain, "--domain-owner", owner, "--output", "text"]
    ask = ["aws", "codeartifact"]
    token = [*ask, "get-authorization-token", *of, "--duration-seconds", str(BUILD_S)]
    place = [*ask, "get-repository-endpoint", *of, "--repository", repository, "--format", "pypi"]
    return [
        f"token=$({shlex.join([*token, '--query', 'authorizationToken'])})",
        f"place=$({shlex.join([*place, '--query', 'repositoryEndpoint'])})",
        'scheme=https login="aws:$token@" place="${place#https://}" place="${place%/}/simple/"',
    ]


def _of_url(index: PackageIndex) -> list[str]:
    scheme, _, place = str(index.url).partition("://")
    lines = [f"scheme={scheme} login= place={shlex.quote(place)}"]
    if index.secret:
        ask = ["aws", "secretsmanager", "get-secret-value", "--secret-id", index.secret]
        ask += ["--query", "SecretString", "--output", "text"]
        lines.append(f"login=$({shlex.join(ask)} | python3 -c {shlex.quote(_LOGIN)})")
    return lines
