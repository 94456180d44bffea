"""Find out everything that can be known before money is spent: one finding per question.

AWS is only asked, never changed. EC2 says where an instance type is offered; SageMaker has no API
for that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
)

from shoal.aws.objects import EcrImage, has_files, parameter
from shoal.aws.target import Target, items
from shoal.errors import error_code, refusal
from shoal.launch import Launch
from shoal.settings.external_data import ExternalFolder, external_folders
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names
from shoal.settings.organisation import bootstrap_version
from shoal.settings.settings import Environment
from shoal.verbs.doctor import Finding, State, failed, ok
from shoal.verbs.doctor.capacity_check import (
    Use,
    build_findings,
    only_for,
    plan_findings,
    quota_findings,
    uses_of,
    vpc_findings,
)
from shoal.verbs.doctor.network_check import check_network
from shoal.verbs.doctor.organisation_check import (
    asset_mistakes,
    bucket_findings,
    key_findings,
    other_qualifiers,
    role_findings,
)
from shoal.verbs.image import Image

MIN_BOOTSTRAP_VERSION = 6
"""The version that the templates' own rule demands (aws-cdk-lib, DefaultStackSynthesizer)."""
_ENABLED_STATUSES = ("opt-in-not-required", "opted-in")
_REGION_OFF_CODES = (
    "InvalidClientTokenId",
    "OptInRequired",
    "RegionDisabledException",
    "UnrecognizedClientException",
)
"""How AWS refuses good credentials where the region is not enabled for the account.

InvalidClientTokenId is from users' reports and RegionDisabledException from the STS API reference;
other services use the others.
"""


@dataclass(frozen=True)
class Doctor:
    """The questions about one environment at one target."""

    target: Target
    environment: Environment
    launch: Launch
    built: tuple[Image, ...] = ()
    """The images that the environment builds."""
    consumers: tuple[Consumer, ...] = ()
    """The environments of other accounts that an organisation's key must serve, too."""

    def findings(self) -> Iterator[Finding]:
        """Yield every answer in order; with wrong credentials, ask nothing else."""
        first = self._answers("credentials", self._credentials)
        yield from first
        if any(each.state is State.FAILED for each in first):
            return
        for question, check in (
            ("region", self._region),
            ("bootstrap", self._bootstrap),
            ("network", self._network),
            ("instance types in their zones", self._offerings),
            ("quotas", partial(quota_findings, self.target, self.environment)),
            ("training plans", partial(plan_findings, self.target, self.environment)),
            ("quota: VPCs per Region", partial(vpc_findings, self.target, self.environment)),
            ("quota: builds", partial(build_findings, self.target, self.environment)),
            ("images", self._images),
            ("permissions boundary", self._boundary),
            ("roles", partial(role_findings, self.target, self.environment)),
            ("key", partial(key_findings, self.target, self.environment, self.consumers)),
            ("data bucket", partial(bucket_findings, self.target, self.environment)),
            ("dataset", self._dataset),
            ("channels", partial(external_findings, self.target, self.environment)),
            ("secrets", self._secrets),
        ):
            yield from self._answers(question, check)

    def _answers(self, question: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
        """Return the findings, by default about `question`, or one that says why there are none.

        A missing permission is no reason to stop.
        """
        try:
            return [replace(each, question=each.question or question) for each in check()]
        except (ClientError, BotoCoreError) as error:
            state = State.FAILED if question == "credentials" else State.UNKNOWN
            return [Finding(question, state, refusal(error), self._login_advice(error))]

    def _login_advice(self, error: ClientError | BotoCoreError) -> str:
        """Return advice for when AWS did not answer.

        Good credentials are refused too, in a region that is not enabled.
        """
        region, log_in = self.environment.region, "log in to the account, with a role that may read"
        if isinstance(error, ClientError) and error_code(error) in _REGION_OFF_CODES:
            return (
                f"{log_in}; if you did, {region} may not be enabled for the account: enable it, or"
                " choose another region"
            )
        if isinstance(error, ConnectTimeoutError | EndpointConnectionError):
            return (
                f"see whether this machine reaches AWS in {region}: name service, proxy, firewall"
            )
        return log_in

    def _credentials(self) -> Iterator[Finding]:
        caller = self.target.client("sts").get_caller_identity()
        account = self.environment.account
        if caller["Account"] == account:
            yield ok(caller["Arn"])
        else:
            message = f"they belong to account {caller['Account']}, the environment to {account}"
            advice = f"use credentials of account {account}, or correct the key account"
            yield failed(message, advice)

    def _region(self) -> Iterator[Finding]:
        name, ec2 = self.environment.region, self.target.client("ec2")
        regions = ec2.describe_regions(RegionNames=[name], AllRegions=True)["Regions"]
        status = regions[0].get("OptInStatus", "opt-in-not-required") if regions else "not known"
        if status in _ENABLED_STATUSES:
            yield ok(f"{name} ({status})")
        else:
            advice = "enable the region for the account, or choose another"
            yield failed(f"{name} is {status}", advice)

    def _bootstrap(self) -> Iterator[Finding]:
        version = parameter(self.target, bootstrap_version(self._qualifier))
        others = other_qualifiers(self.target, self._qualifier) if version is None else []
        if others:
            place = f"aws://{self.environment.account}/{self.environment.region}"
            yield failed(
                f"the CDK is bootstrapped with the qualifier {', '.join(others)} only, not with"
                f" {self._qualifier}",
                f"set organisation.bootstrap_qualifier to {others[0]}, or bootstrap a second time:"
                f" .venv/bin/cdk bootstrap {place} --toolkit-stack-name CDKToolkit-shoal"
                f" --qualifier {self._qualifier}",
            )
            return
        if version is None:
            advice = (
                "`shoal deploy` bootstraps it; `shoal docs operate` shows how to do it with"
                " restricted policies"
            )
            yield Finding("", State.WARNING, "the CDK is not bootstrapped here yet", advice)
            return
        if int(version) < MIN_BOOTSTRAP_VERSION:
            yield failed(
                f"version {version} is older than {MIN_BOOTSTRAP_VERSION}, which the templates"
                " need",
                "bootstrap again: .venv/bin/cdk bootstrap",
            )
            return
        mistakes = list(asset_mistakes(self.target, self.environment))
        yield from (failed(*mistake) for mistake in mistakes)
        if not mistakes:
            yield ok(f"version {version}")

    @property
    def _qualifier(self) -> str:
        return self.environment.organisation.bootstrap_qualifier

    def _network(self) -> Iterator[Finding]:
        problems = check_network(self.target, self.environment)
        for problem in problems:
            message = f"{problem.key} = {problem.value}: {problem.message}"
            yield failed(message, problem.advice)
        if not problems:
            network = self.environment.network
            existing = network.existing
            kind = f"{existing.vpc_id} fits" if existing else "a new VPC; its zones exist"
            yield ok(f"{kind} ({', '.join((network.training_az_id, *network.hosting_az_ids))})")

    def _offerings(self) -> Iterator[Finding]:
        by_place: dict[tuple[str, str], list[Use]] = {}
        for use in uses_of(self.environment):
            for zone in use.zones:
                by_place.setdefault((use.instance_type, zone), []).append(use)
        ec2 = self.target.client("ec2")
        for (instance_type, zone), uses in by_place.items():
            filters = [{"Name": "instance-type", "Values": [instance_type.removeprefix("ml.")]}]
            request = {"Filters": filters, "LocationType": "availability-zone-id"}
            offerings = items(ec2, "describe_instance_type_offerings", **request)
            zones = sorted(each["Location"] for each in offerings)
            message = f"EC2 does not offer it in {self.environment.region}"
            if zones:
                message = f"EC2 offers it in {', '.join(zones)} only"
            question = f"{instance_type} in {zone}"
            advice = "choose one of those zones, or another instance type"
            if zone in zones:
                yield only_for(uses, ok("EC2 offers it there", question))
            else:
                yield only_for(uses, failed(message, advice, question))

    def _images(self) -> Iterator[Finding]:
        for built in self.built:
            yield from self._answers(f"image for {built.use}", partial(self._built_image, built))
        environment, launch = self.environment, self.launch
        images = {"training": launch.image_uri}
        images["evaluation"] = environment.evaluation.image_uri or launch.evaluation_image_uri
        if environment.endpoint:
            images["endpoint"] = launch.inference_image_uri
        for use, uri in images.items():
            # those that are pulled and not built; a pipeline of the user's own names its images
            # itself
            if not environment.pipeline and use not in environment.built_images:
                yield from self._answers(f"image for {use}", partial(self._image, uri))

    def _built_image(self, image: Image) -> Iterator[Finding]:
        if uri := image.uri():
            yield from self._image(uri)
        else:
            message = f"images/{image.recipe} as it is here was not built"
            advice = f"`shoal deploy {self.environment.title}` builds it, in some 20 minutes"
            yield Finding("", State.WARNING, message, advice)

    def _image(self, uri: str) -> Iterator[Finding]:
        image = EcrImage.of(uri)
        if image is None:
            advice = "make sure that SageMaker can pull it"
            yield Finding("", State.UNKNOWN, f"{uri} is not in ECR", advice)
        elif image.region != self.target.region:
            yield failed(f"{uri} is in another region", f"use an image in {self.target.region}")
        elif image.digests(self.target):
            yield ok(uri)
        else:
            yield failed(f"{uri} is not in its registry", "correct the version or image_uri")

    def _boundary(self) -> Iterator[Finding]:
        name, iam = self.environment.permissions_boundary, self.target.client("iam")
        if name is None:
            return
        arn = f"arn:aws:iam::{self.environment.account}:policy/{name}"
        try:
            iam.get_policy(PolicyArn=arn)
            yield ok(arn)
        except iam.exceptions.NoSuchEntityException:
            advice = "create it, or correct permissions_boundary"
            yield failed(f"there is no policy {arn}", advice)

    def _dataset(self) -> Iterator[Finding]:
        names, data = Names(self.environment), self.environment.data
        below = {name: f"{names.dataset_uri}/{name}/" for name in data.in_dataset}
        elsewhere = {
            name: each.uri
            for name, each in data.channels.items()
            if each.uri and not each.account  # external_findings asks for those
        }
        uris = below | elsewhere
        empty = {name: uri for name, uri in uris.items() if not has_files(self.target, uri)}
        if not empty:
            yield ok(", ".join([names.dataset_uri, *elsewhere.values()]))
        elif empty == below:
            empty = {"": names.dataset_uri}
        upload = f"deploy, then `shoal data upload {self.environment.title}`"
        for name, uri in empty.items():
            correct = f"copy it there, or correct data.channels.{name}.uri"
            yield Finding(
                name and f"channel {name}",
                State.WARNING,
                f"nothing is at {uri} yet",
                correct if name in elsewhere else upload,
            )

    def _secrets(self) -> Iterator[Finding]:
        index = self.environment.organisation.package_index
        own = [index.secret] if index and index.secret else []
        for name in sorted({*self.environment.training.secrets.values(), *own}):
            yield from self._answers(f"secret {name}", partial(self._secret, name))

    def _secret(self, name: str) -> Iterator[Finding]:
        """Yield whether the secret is there; its value is not asked for."""
        client = self.target.client("secretsmanager")
        try:
            deleted_at = client.describe_secret(SecretId=name).get("DeletedDate")
        except client.exceptions.ResourceNotFoundException:
            advice = f"aws secretsmanager create-secret --name {name} --secret-string file://FILE"
            yield failed("there is no such secret", advice)
            return
        if deleted_at:
            advice = f"aws secretsmanager restore-secret --secret-id {name}"
            yield failed("it is about to be deleted", advice)
        else:
            yield ok("it is there; nobody looked into it")


def external_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield a finding for each folder outside the environment's buckets.

    Only the owner sees a bucket's policy (S3 API reference, GetBucketPolicy), and the jobs' roles
    trust SageMaker alone. So nothing here proves that a job may read: a bucket that is missing, or
    in another region, is found, and what who asks may list himself.
    """
    for folder in external_folders(environment):
        yield _external_finding(target, environment, folder)


def _external_finding(target: Target, environment: Environment, folder: ExternalFolder) -> Finding:
    question, bucket = f"channel at {folder.uri}", folder.bucket
    s3 = target.client("s3")
    try:
        answer = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=folder.account)
    except ClientError as error:  # a bucket that may not be seen still tells where it is
        answer = error.response
    metadata = answer["ResponseMetadata"]
    region = metadata["HTTPHeaders"].get("x-amz-bucket-region", target.region)
    if metadata["HTTPStatusCode"] == 404:
        return failed(f"there is no bucket {bucket}", "correct uri", question)
    if region != target.region:
        advice = "copy it into a bucket there: SageMaker reads no other region's"
        return failed(
            f"the bucket is in {region}, the jobs are in {target.region}", advice, question
        )
    first = "the first job shows whether the jobs may, too"
    try:
        if has_files(target, folder.uri):
            return ok(f"you may list it, and it has files; {first}", question)
    except ClientError:
        message = f"you may not list it, which says nothing of the jobs; {first}"
        advice = (
            f"`shoal plan {environment.title}` prints what account {folder.account} must allow them"
        )
        return Finding(question, State.UNKNOWN, message, advice)
    return Finding(question, State.WARNING, "nothing is there yet", "ask its owner, or correct uri")
