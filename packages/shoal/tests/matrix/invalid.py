"""Environments that must be refused: their changes to a valid one, and what the error names."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.matrix.valid import EXISTING, NIGHTLY


class Wrong(NamedTuple):
    """One mistake."""

    changes: dict[str, Any]
    key: str
    """The key and, where there is one, the value as the line shows it."""
    allowed: str


TF = {"framework": "tensorflow"}
BIG = {"strategy": "torchrun", "instance_type": "ml.p5.48xlarge"}
P3DN = {"instance_type": "ml.p3dn.24xlarge"}
FSX = {"data": {"input_mode": "FSx"}}
OWN_DATASETS = "s3://shoal-mnist-test-data-111122223333-us-east-1/datasets"
SUBNETS = EXISTING["hosting_subnet_ids"]

CASES: tuple[Wrong, ...] = (
    # types and limits of single keys
    Wrong({"account": 111122223333}, "account = 111122223333", "quotes"),
    Wrong({"account": "1234"}, 'account = "1234"', "12"),
    Wrong({"region": "virginia"}, 'region = "virginia"', "us-east-1"),
    Wrong({"region": "cn-north-1"}, 'region = "cn-north-1"', "us-east-1"),
    Wrong({"project": "My_Project"}, 'project = "My_Project"', "lower-case"),
    Wrong({"project": "p" * 25}, f'project = "{"p" * 25}"', "24"),
    Wrong({"protect": "yes"}, 'protect = "yes"', "true or false"),
    Wrong({"target": "azure"}, 'target = "azure"', "aws, local"),
    Wrong(
        {"permissions_boundary": "no spaces please"},
        'permissions_boundary = "no spaces please"',
        "",
    ),
    Wrong({"pipeline": "my.module"}, 'pipeline = "my.module"', "module:function"),
    Wrong({"nodes": 2}, "nodes", "network"),
    Wrong({"training": {"instances": 2}}, "training.instances", "instance_count"),
    Wrong({"training": "smddp"}, 'training = "smddp"', ""),
    Wrong({"training": {"framework": "jax"}}, 'training.framework = "jax"', "pytorch, tensorflow"),
    Wrong({"training": {"strategy": "ddp"}}, 'training.strategy = "ddp"', "torchrun"),
    Wrong(
        {"training": {"collective": "allmax"}},
        'training.collective = "allmax"',
        "allreduce, allgather",
    ),
    Wrong({"training": {"instance_count": 0}}, "training.instance_count = 0", "1"),
    Wrong({"training": {"instance_count": "2"}}, 'training.instance_count = "2"', "number"),
    Wrong({"training": {"instance_count": 129}}, "training.instance_count = 129", "128"),
    Wrong({"training": {"volume_size_gb": 20000}}, "training.volume_size_gb = 20000", "16384"),
    Wrong({"training": {"max_runtime_s": 30}}, "training.max_runtime_s = 30", "60"),
    Wrong(
        {"training": {"framework_version": "2.3"}}, 'training.framework_version = "2.3"', "2.3.0"
    ),
    Wrong({"evaluation": {"min_accuracy": 98}}, "evaluation.min_accuracy", "at_least: 98"),
    Wrong({"evaluation": {"gates": []}}, "evaluation.gates = []", "at least 1"),
    Wrong({"evaluation": {"gates": [{"metric": "f1"}]}}, "evaluation.gates[0]", "at_most"),
    Wrong(
        {"evaluation": {"gates": [{"metric": "f-1", "at_least": 1}]}},
        'evaluation.gates[0].metric = "f-1"',
        "f1_score",
    ),
    Wrong({"endpoint": {"instance_count": 11}}, "endpoint.instance_count = 11", "10"),
    Wrong({"endpoint": {"ttl_minutes": 5}}, "endpoint.ttl_minutes = 5", "10"),
    Wrong({"endpoint": {"max_latency_ms": 0}}, "endpoint.max_latency_ms = 0", "1"),
    Wrong({"observability": {"alert_emails": ["nobody"]}}, "observability.alert_emails", "@"),
    Wrong(
        {"observability": {"alert_emails": ["a@b.de", "A@b.de"]}},
        "observability.alert_emails = [a@b.de, A@b.de]",
        "once",
    ),
    Wrong(
        {"observability": {"monthly_budget_usd": 0}}, "observability.monthly_budget_usd = 0", "1"
    ),
    Wrong(
        {"observability": {"log_retention_days": 45}},
        "observability.log_retention_days = 45",
        "30, 60",
    ),
    # instance types
    Wrong(
        {"training": {"instance_type": "p4d.24xlarge"}},
        'training.instance_type = "p4d.24xlarge"',
        "ml.",
    ),
    Wrong(
        {"evaluation": {"instance_type": "ml.m5.huge"}},
        'evaluation.instance_type = "ml.m5.huge"',
        "ml.m5.",
    ),
    Wrong(
        {"endpoint": {"instance_type": "ml.c7g.xlarge"}},
        'endpoint.instance_type = "ml.c7g.xlarge"',
        "ml.m5.xlarge",
    ),
    Wrong(
        {"training": {"instance_type": "ml.p5.48xlarge"}},
        'training.instance_type = "ml.p5.48xlarge"',
        "ml.p4d.24xlarge",
    ),
    Wrong(
        {"training": {"instance_type": "ml.trn1.32xlarge"}},
        'training.instance_type = "ml.trn1.32xlarge"',
        "ml.m5.xlarge",
    ),
    # how training is distributed
    Wrong(
        {"training": {**TF, "strategy": "torchrun"}},
        'training.strategy = "torchrun"',
        "parameter_server",
    ),
    Wrong({"training": {"strategy": "mirrored"}}, 'training.strategy = "mirrored"', "torchrun"),
    Wrong(
        {"training": {**TF, "collective": "allgather"}},
        'training.collective = "allgather"',
        "PyTorch",
    ),
    Wrong(
        {"training": {"instance_type": "ml.p3dn.24xlarge", "collective": "allgather"}},
        'training.collective = "allgather"',
        "ml.p4d.24xlarge",
    ),
    Wrong(
        {"training": {"framework_version": "2.6.0"}},
        'training.framework_version = "2.6.0"',
        "2.3.0",
    ),
    Wrong(
        {"training": {"framework_version": "1.13.1"}},
        'training.framework_version = "1.13.1"',
        "2.3.0",
    ),
    Wrong({"training": {"fallback": "horovod"}}, 'training.fallback = "horovod"', "torchrun"),
    Wrong(
        {"training": {"strategy": "none", "instance_count": 2}}, "training.instance_count = 2", "1"
    ),
    Wrong(
        {"training": {**TF, "strategy": "mirrored", "instance_count": 2}},
        "training.instance_count = 2",
        "1",
    ),
    Wrong(
        {"training": {**TF, "strategy": "parameter_server", "instance_count": 1}},
        "training.instance_count = 1",
        "2",
    ),
    Wrong(
        {"training": {"strategy": "none", "processes_per_host": 8}},
        "training.processes_per_host = 8",
        "mpirun and torchrun",
    ),
    Wrong(
        {"training": {"custom_mpi_options": '-x A="b c"'}},
        "training.custom_mpi_options",
        "without white space",
    ),
    Wrong(
        {"training": {"custom_mpi_options": "-x NCCL_DEBUG=WARN"}},
        "training.custom_mpi_options",
        "--NCCL_DEBUG WARN",
    ),
    Wrong(
        {"training": {"strategy": "torchrun", "custom_mpi_options": "-v"}},
        'training.custom_mpi_options = "-v"',
        "smddp",
    ),
    # EFA, and room for the nodes
    Wrong(
        {"training": {"require_efa": True, "strategy": "none", "instance_type": "ml.m5.xlarge"}},
        "training.require_efa = true",
        "ml.p4d",
    ),
    Wrong(
        {"training": {"require_efa": True, "environment": {"FI_PROVIDER": "tcp"}}},
        "training.require_efa = true",
        "remove FI_PROVIDER",
    ),
    Wrong(
        {"training": {"require_efa": True, "environment": {"NCCL_NET": "Socket"}}},
        "training.require_efa = true",
        "remove NCCL_NET",
    ),
    Wrong(
        {"training": {"require_efa": True, "environment": {"NCCL_DEBUG_FILE": "/dev/stdout"}}},
        "training.require_efa = true",
        "%p",
    ),
    Wrong(
        {"training": {"require_efa": True, "environment": {"SHOAL_REQUIRE_EFA": "0"}}},
        'training.environment.SHOAL_REQUIRE_EFA = "0"',
        "Shoal's own",
    ),
    Wrong(
        {"training": {**TF, "require_efa": True}},
        "training.require_efa = true",
        "leave require_efa",
    ),
    Wrong(
        {"training": BIG | {"instance_count": 128}, "network": {"cidr": "10.20.0.0/20"}},
        "training.instance_count = 128",
        "at most",
    ),
    Wrong(
        {"training": {"other_instance_types": ["ml.p5.48xlarge"]}},
        "training.other_instance_types",
        "ml.p5.48xlarge",
    ),
    Wrong(
        {"training": {"other_instance_types": ["p4de"]}},
        "training.other_instance_types",
        "ml.p4d.24xlarge",
    ),
    # spot, hyperparameters, variables, code
    Wrong({"training": {"spot": True}}, "training.max_wait_s", "3600"),
    Wrong({"training": {"max_wait_s": 7200}}, "training.max_wait_s = 7200", "spot: true"),
    Wrong(
        {"training": {"hyperparameters": {"sagemaker_region": "x"}}},
        "training.hyperparameters.sagemaker_region",
        "launch contract",
    ),
    Wrong({"training": {"hyperparameters": {"lr": [1, 2]}}}, "training.hyperparameters.lr", ""),
    Wrong(
        {"training": {"environment": {"AWS_REGION": "x"}}},
        'training.environment.AWS_REGION = "x"',
        "AWS_",
    ),
    Wrong({"training": {"environment": {"DEBUG": 1}}}, "training.environment.DEBUG = 1", ""),
    Wrong(
        {"training": {"entry_point": "run.py"}},
        'training.entry_point = "run.py"',
        "training_code/mnist/pytorch",
    ),
    Wrong(
        {"training": {"source_dir": "no/such"}},
        'training.source_dir = "no/such"',
        "folder of the repository",
    ),
    Wrong(
        {"training": {"source_dir": "/opt/code"}},
        'training.source_dir = "/opt/code"',
        "inside the repository",
    ),
    Wrong(
        {"evaluation": {"entry_point": "../evaluate.py"}},
        'evaluation.entry_point = "../evaluate.py"',
        "source_dir",
    ),
    # images
    Wrong(
        {"training": {"image_uri": "registry/train:latest"}},
        'training.image_uri = "registry/train:latest"',
        "repository:tag",
    ),
    Wrong(
        {"training": {"build_image": "pytorch"}},
        'training.build_image = "pytorch"',
        "pytorch-smddp",
    ),
    Wrong(
        {"training": {"build_image": "tensorflow-smddp"}},
        'training.build_image = "tensorflow-smddp"',
        "framework: tensorflow",
    ),
    Wrong(
        {"training": {"build_image": "pytorch-smddp", "framework_version": "2.2.0"}},
        'training.build_image = "pytorch-smddp"',
        "2.3.0",
    ),
    Wrong(
        {
            "training": {
                "build_image": "pytorch-smddp",
                "framework_version": "2.3.0",
                "image_uri": "registry/train:1",
            }
        },
        'training.build_image = "pytorch-smddp"',
        "remove one",
    ),
    # the network
    Wrong({"network": {"cidr": "10.0.0.0/8"}}, 'network.cidr = "10.0.0.0/8"', "16"),
    Wrong({"network": {"cidr": "10.20.1.0/16"}}, 'network.cidr = "10.20.1.0/16"', "10.20.0.0/16"),
    Wrong({"network": {"cidr": "52.0.0.0/16"}}, 'network.cidr = "52.0.0.0/16"', "10.0.0.0/8"),
    Wrong({"network": {"cidr": "127.0.0.0/16"}}, 'network.cidr = "127.0.0.0/16"', "192.168.0.0/16"),
    Wrong(
        {"network": {"cidr": "169.254.0.0/16"}}, 'network.cidr = "169.254.0.0/16"', "172.16.0.0/12"
    ),
    Wrong({"network": {"cidr": "198.18.0.0/16"}}, 'network.cidr = "198.18.0.0/16"', "10.0.0.0/8"),
    Wrong({"network": {"cidr": "240.0.0.0/16"}}, 'network.cidr = "240.0.0.0/16"', "10.0.0.0/8"),
    Wrong(
        {"network": {"training_az_id": "us-east-1a"}},
        'network.training_az_id = "us-east-1a"',
        "use1-az",
    ),
    Wrong(
        {"network": {"training_az_id": "euw1-az1"}},
        'network.training_az_id = "euw1-az1"',
        "use1-az",
    ),
    Wrong({"network": {"hosting_az_ids": ["use1-az1"]}}, "network.hosting_az_ids", "2"),
    Wrong(
        {"network": {"hosting_az_ids": ["use1-az1", "use1-az1"]}},
        "network.hosting_az_ids",
        "differ",
    ),
    Wrong(
        {"network": {"interface_endpoints": ["s3"]}}, "network.interface_endpoints", "sagemaker.api"
    ),
    Wrong(
        {"network": {"interface_endpoints": ["sts", "sts"]}},
        "network.interface_endpoints = [sts, sts]",
        "once",
    ),
    Wrong(
        {"network": {"existing": EXISTING, "nat": True}},
        "network.nat = true",
        "only read for a VPC that is made",
    ),
    Wrong(
        {"network": {"existing": EXISTING | {"vpc_id": "vpc-1"}}},
        'network.existing.vpc_id = "vpc-1"',
        "vpc-",
    ),
    Wrong(
        {"network": {"existing": EXISTING | {"hosting_subnet_ids": [SUBNETS[0]] * 2}}},
        "network.existing.hosting_subnet_ids",
        "differ",
    ),
    # data.channels
    Wrong(
        {"evaluation": {"channel": "holdout"}},
        'evaluation.channel = "holdout"',
        "there are: train, test",
    ),
    Wrong(
        {"data": {"channels": {"train": {"uri": "s3://theirs/datasets/a/"}, "test": {}}}},
        "data.channels.train.uri",
        "/datasets/",
    ),
    Wrong(
        {
            "data": {
                "input_mode": "FSx",
                "channels": {
                    name: {"uri": f"{OWN_DATASETS}/{name}/"} for name in ("train", "test")
                },
            },
            "file_system": {},
        },
        "data.input_mode",
        "File or FastFile",
    ),
    # endpoint
    Wrong({"endpoint": None}, "endpoint = null", "none"),
    Wrong({"endpoint": "none", "serving": {}}, "serving", "remove serving"),
    Wrong({"evaluation": {"image_uri": "mine:latest"}}, "evaluation.image_uri", "digest"),
    Wrong({"endpoint": {"image_uri": "mine:latest"}}, "endpoint.image_uri", "digest"),
    Wrong({"endpoint": {"environment": {"A": "b"}}}, "endpoint.environment", "endpoint.image_uri"),
    Wrong(
        {"endpoint": {"image_uri": "mine/own:1", "environment": {"A-B": "c"}}},
        'endpoint.environment.A-B = "c"',
        "letters, digits and _",
    ),
    # data.on_manifest
    Wrong(
        {"data": {"on_manifest": {"file": "a/manifest.json"}}},
        'data.on_manifest.file = "a/manifest.json"',
        "manifest.json",
    ),
    Wrong(
        {"data": {"on_manifest": {"parameters": {"Epoch": 3}}}},
        "data.on_manifest.parameters.Epoch",
        "MinAccuracy",
    ),
    Wrong(
        {"data": {"on_manifest": {"parameters": {"TrainDataUri": "s3://b/c"}}}},
        "data.on_manifest.parameters.TrainDataUri",
        "decides",
    ),
    Wrong(
        {"data": {"input_mode": "FSx", "on_manifest": {}}, "file_system": {}},
        "data.on_manifest",
        "FastFile",
    ),
    # schedules
    Wrong(
        {"schedules": [NIGHTLY | {"expression": "cron(0 3 * * *)"}]},
        "schedules[0].expression",
        "day of month",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"expression": "rate(1 hours)", "time_zone": "UTC"}]},
        "schedules[0].expression",
        "without s",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"expression": "rate(2 hours)"}]},
        'schedules[0].time_zone = "Europe/Berlin"',
        "cron expression",
    ),
    Wrong({"schedules": [NIGHTLY, NIGHTLY]}, "schedules", "must differ"),
    Wrong(
        {"schedules": [NIGHTLY | {"time_zone": "Europe/Berln"}]},
        'schedules[0].time_zone = "Europe/Berln"',
        "Europe/Berlin",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"parameters": {"Epoch": 3}}]},
        "schedules[0].parameters.Epoch",
        "MinAccuracy",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"parameters": {"InstanceCount": 0}}]},
        "schedules[0].parameters.InstanceCount = 0",
        "from 1 to 128",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"parameters": {"InstanceCount": 129}}]},
        "schedules[0].parameters.InstanceCount = 129",
        "128",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"parameters": {"InstanceType": "ml.p5.48xlarge"}}]},
        "schedules[0].parameters.InstanceType",
        "ml.p4d.24x",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"parameters": {"MinAccuracy": "inf"}}]},
        "schedules[0].parameters.MinAccuracy",
        "a finite number",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"expression": "cron(0 3 31 2 ? *)"}]},
        "schedules[0].expression",
        "never start",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"expression": "cron(*/100 3 * * ? *)"}]},
        "schedules[0].expression",
        "0 to 59",
    ),
    Wrong(
        {"schedules": [NIGHTLY | {"expression": "rate(99999999999 days)"}]},
        "schedules[0].expression",
        "3650 days",
    ),
    Wrong(
        {"schedules": [{"name": "often", "expression": "rate(5 minutes)", "window_minutes": 60}]},
        "schedules[0].window_minutes = 60",
        "at most 5",
    ),
    # file systems and regions
    Wrong(FSX, 'data.input_mode = "FSx"', "FastFile"),
    Wrong({"file_system": {}}, "file_system", "FSx"),
    Wrong({"data": {"input_mode": "Pipe"}}, 'data.input_mode = "Pipe"', "File, FastFile, FSx"),
    Wrong(
        {**FSX, "file_system": {"storage_capacity_gib": 3600}},
        "file_system.storage_capacity_gib = 3600",
        "2400",
    ),
    Wrong(
        {**FSX, "file_system": {"storage_capacity_gib": 240_000_000}},
        "file_system.storage_capacity_gib = 240000000",
        "1200000",
    ),
    Wrong(
        {**FSX, "file_system": {"throughput_mbps_per_tib": 125}},
        "file_system.throughput_mbps_per_tib = 125",
        "PERSISTENT_2",
    ),
    Wrong(
        {**FSX, "file_system": {"deployment_type": "PERSISTENT_2"}},
        "file_system.throughput_mbps_per_tib",
        "125, 250, 500, 1000",
    ),
    Wrong(
        {**FSX, "file_system": {"deployment_type": "SCRATCH_1"}},
        'file_system.deployment_type = "SCRATCH_1"',
        "SCRATCH_2",
    ),
    Wrong(
        {"region": "eu-north-1", "observability": {"monthly_budget_usd": 9}},
        "observability.monthly_budget_usd = 9",
        "another region",
    ),
    Wrong({"region": "ap-east-2"}, 'region = "ap-east-2"', "another region"),
)
