"""Ask AWS whether the account's CDK bootstrap, and what the section `organisation` names, is there,
and lets itself be used.

Training and evaluation read the code archive in the bootstrap's bucket of file assets. Its name has
the qualifier in it, and no role has a statement for a key of that bucket. So the key's own
policy must admit them, as the policy of `cdk bootstrap --bootstrap-customer-key` does: it admits
everybody in the account through S3. Source: aws-cdk 2, lib/api/bootstrap/bootstrap-template.yaml.
"""

from collections.abc import Iterator, Sequence

from botocore.exceptions import ClientError

from shoal.aws.stacks import describe_stack
from shoal.aws.target import Target, items
from shoal.errors import UsageError, error_code
from shoal.settings.key_policy import organisation_key_policy
from shoal.settings.loading.consumers import Consumer
from shoal.settings.loading.loader import environment_file
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs.doctor import Finding, Mistake, State, failed, ok
from shoal.verbs.doctor.key_policy import KeyPolicy, Use, uses

_MAKE_ROLES = ("iam:CreateRole", "iam:PutRolePolicy", "iam:PassRole")


def role_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether the bootstrap's role may make roles under the organisation's path and prefix.

    IAM simulates what its policies and service control policies say; a control policy that has
    conditions is not simulated (IAM user guide, "IAM policy testing with the IAM policy
    simulator"; read).
    """
    names, organisation = Names(environment), environment.organisation
    if organisation.role_path == "/" and not organisation.role_prefix:
        return
    place = f"{names.qualifier}-cfn-exec-role-{environment.account}-{environment.region}"
    maker, made = f"arn:aws:iam::{environment.account}:role/cdk-{place}", names.role_arn("training")
    context = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    if boundary := environment.permissions_boundary:
        context["iam:PermissionsBoundary"] = f"arn:aws:iam::{environment.account}:policy/{boundary}"
    iam = target.client("iam")
    try:
        results = iam.simulate_principal_policy(
            PolicySourceArn=maker,
            ActionNames=[*_MAKE_ROLES],
            ResourceArns=[made],
            ContextEntries=[
                {"ContextKeyName": key, "ContextKeyType": "string", "ContextKeyValues": [value]}
                for key, value in context.items()
            ],
        )["EvaluationResults"]
    except iam.exceptions.NoSuchEntityException:  # not bootstrapped, which another finding tells
        return
    if denied := [each["EvalActionName"] for each in results if each["EvalDecision"] != "allowed"]:
        message = f"IAM says that {maker} may not {', '.join(denied)} on {made}"
        advice = "let the policies that it was bootstrapped with name that path and prefix"
        yield Finding("", State.WARNING, message, advice)
    else:
        yield ok(f"{maker} may make {made}")


def refuse_change(target: Target, environment: Environment) -> None:
    """Refuse another key, bucket or path of roles than what is deployed: CloudFormation deletes
    what leaves a template, with what lies in it, and replaces nothing that keeps its name.

    Raises UsageError.
    """
    names, organisation = Names(environment).shared, environment.organisation
    stack = describe_stack(target, names.stack("data")) or {}
    deployed = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}
    asked = {"DataBucketName": names.bucket("data"), **organisation.outputs}
    if "DataBucketName" not in deployed:
        return
    if deployed.get("RolePrefix") != asked.get("RolePrefix"):  # then each role has another name
        asked["RolePath"] = deployed.get("RolePath", "/")
    for key, output, default in (
        ("kms_key_arn", "OrganisationKeyArn", "Shoal's own key"),
        ("data_bucket", "DataBucketName", ""),
        ("role_path", "RolePath", "/"),
    ):
        before, after = deployed.get(output, default), asked.get(output, default)
        if before != after:
            raise UsageError(
                f"{environment_file(environment.name)}: organisation.{key}: {environment.name} is"
                f" deployed with {before}, and {after} would take its place; put it back, or keep"
                f" what you need and `shoal destroy {environment.name}` first"
                + (", or change role_prefix, too" if key == "role_path" else "")
            )


def key_findings(
    target: Target, environment: Environment, consumers: Sequence[Consumer] = ()
) -> Iterator[Finding]:
    """Yield whether the organisation's key can encrypt, and its policy has statements for whom it
    must serve, and nothing against them; other conditions than who asks are not judged.
    """
    arn, kms = environment.organisation.kms_key_arn, target.client("kms")
    if arn is None:
        return
    try:
        key = kms.describe_key(KeyId=arn)["KeyMetadata"]
    except kms.exceptions.NotFoundException:
        yield failed(f"there is no key {arn}", "correct organisation.kms_key_arn")
        return
    if (key["KeyState"], key["KeySpec"]) != ("Enabled", "SYMMETRIC_DEFAULT"):
        message = f"{arn} is {key['KeyState']} and {key['KeySpec']}"
        yield failed(message, "name an enabled symmetric key: services encrypt with no other")
        return
    policy, names = KeyPolicy.of(kms, arn), Names(environment)
    missing, denials = dict[str, None](), dict[str, None]()
    for statement in organisation_key_policy(names, consumers):
        for use in uses(statement, names.role_arn("*")):
            if not policy.allows(use):
                role = f" for {use.role_arn}" if use.role_arn else ""
                missing[f"{statement['Sid']}{role}"] = None
            for each in policy.denials(use):
                denials[str(each.get("Sid", "a statement"))] = None
    if missing:
        message = f"the policy of {arn} has nothing like {', '.join(missing)}, or denies it"
        advice = f"`shoal plan {environment.title}` prints what must be allowed"
        yield failed(message, advice)
    elif denials:
        message = f"the policy of {arn} denies on conditions, not judged here: {', '.join(denials)}"
        yield Finding("", State.UNKNOWN, message, "ask its owner whether they hold for these roles")
    else:
        yield ok(f"{arn} is enabled, and its policy names whom it serves")


def bucket_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether jobs can read the organisation's bucket, and its events are sent if needed."""
    bucket, s3 = environment.organisation.data_bucket, target.client("s3")
    if bucket is None:
        return
    try:
        answer = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=environment.account)
    except ClientError as error:
        if error_code(error) == "404":
            yield failed(f"there is no bucket {bucket}", "correct organisation.data_bucket")
        else:
            message = f"{bucket} is not of account {environment.account}, or you may not see it"
            advice = "name it as data.channels.NAME.uri with its account: then it is only read"
            yield failed(message, advice)
        return
    region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", target.region)
    elsewhere = (f"{bucket} is in {region}", "name one in the environment's region")
    mistakes = [elsewhere] if region != target.region else []
    ours = environment.organisation.kms_key_arn
    for default in _encryptions(target, bucket):
        key = default.get("KMSMasterKeyID", "aws/s3")
        if default["SSEAlgorithm"] != "AES256" and (not ours or _arn_of(target, key) != ours):
            message = f"{bucket} is encrypted with {key}, which no job may use"
            advice = "set organisation.kms_key_arn to its key, or encrypt it with AES256"
            mistakes.append((message, advice))
    if any(each.data.on_manifest for each in (environment, *environment.workloads.values())):
        events = s3.get_bucket_notification_configuration(Bucket=bucket)
        if "EventBridgeConfiguration" not in events:
            message = f"{bucket} sends no events to EventBridge, which data.on_manifest waits for"
            mistakes.append((message, "let its owner enable them"))
    yield from (failed(*each) for each in mistakes) if mistakes else [ok(f"{bucket} can be used")]


def _arn_of(target: Target, key: str) -> str:
    """Return the ARN of the key that an id, an ARN or an alias names; `key` where none is seen."""
    kms = target.client("kms")
    try:
        return str(kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"])
    except kms.exceptions.ClientError:
        return key


def other_qualifiers(target: Target, qualifier: str) -> list[str]:
    """Return the qualifiers of the bootstraps that Shoal does not use."""
    listing = (target.client("ssm"), "get_parameters_by_path")
    names = [
        parameter["Name"].split("/")[2]
        for parameter in items(*listing, Path="/cdk-bootstrap", Recursive=True)
        if parameter["Name"].endswith("/version")
    ]
    return sorted(set(names) - {qualifier})


def asset_mistakes(target: Target, environment: Environment) -> Iterator[Mistake]:
    """Yield why the jobs could not read the code archive. Raises ClientError."""
    bucket = Names(environment).code_bucket
    try:
        encryptions = _encryptions(target, bucket)
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise
        message = f"its bucket {bucket} is not there, and the jobs may read their code there only"
        yield message, "bootstrap without --bootstrap-bucket-name"
        return
    kms, names = target.client("kms"), Names(environment)
    # That the account is admitted is not enough: the roles have no statement for this key.
    readers = [names.role_arn(actor) for actor in ("training", "evaluation")]
    for key in filter(None, (each.get("KMSMasterKeyID") for each in encryptions)):
        arn = kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"]  # `key` may be an alias
        policy = KeyPolicy.of(kms, arn)
        missing = [each for each in readers if not policy.allows(Use("AWS", each, "kms:Decrypt"))]
        if missing:
            yield (
                f"its bucket is encrypted with {key}, whose policy does not let"
                f" {', '.join(missing)} decrypt: no job could read its code",
                "let the key's policy allow kms:Decrypt to everybody in the account through S3, as"
                " that of `cdk bootstrap --bootstrap-customer-key` does, or to these roles after"
                " the first deployment",
            )


def _encryptions(target: Target, bucket: str) -> list[dict[str, str]]:
    """Return how a bucket encrypts by default; nothing where it does not. Raises ClientError."""
    try:
        answer = target.client("s3").get_bucket_encryption(Bucket=bucket)
    except ClientError as error:
        if error_code(error) != "ServerSideEncryptionConfigurationNotFoundError":
            raise
        return []
    rules = answer["ServerSideEncryptionConfiguration"]["Rules"]
    return [rule["ApplyServerSideEncryptionByDefault"] for rule in rules]
