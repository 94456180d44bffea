"""Environments that must work, as changes to a small throw-away one, over smddp's regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.settings.loading.loader import load
from shoal.settings.sections.regions import az_id_prefixes
from shoal.settings.settings import Environment
from tests.matrix.regions import smddp_regions
from tests.settings.environment_file import write_settings
from tests.settings.releases import trained_by

FSX: dict[str, Any] = {"data": {"input_mode": "FSx"}}
PERSISTENT = {
    "deployment_type": "PERSISTENT_2",
    "storage_capacity_gib": 2400,
    "throughput_mbps_per_tib": 250,
}
EXISTING = {
    "vpc_id": "vpc-0123456789abcdef0",
    "training_subnet_id": "subnet-0123456789abcdef0",
    "hosting_subnet_ids": ["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
}
WITH_GROUP = EXISTING | {"training_security_group_id": "sg-0123456789abcdef0"}
CPU = {"instance_type": "ml.m5.xlarge"}
IMAGE = {"build_image": "pytorch-smddp", "framework_version": "2.3.0"}
WATCHED = {
    "alert_emails": ["ml@example.com", "ops@example.com"],
    "monthly_budget_usd": 5000,
    "log_retention_days": 365,
}
NIGHTLY = {
    "name": "nightly",
    "expression": "cron(0 3 ? * MON-FRI *)",
    "time_zone": "Europe/Berlin",
    "parameters": {"MinAccuracy": 0.99},
}
MONTHLY = {"name": "monthly", "expression": "cron(0 0 1 * ? *)", "window_minutes": 60}
SCALING = {"min": 2, "max": 6, "invocations_per_instance": 600}
OWN_IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/measure:1"
SEALED = "s3://shoal-mnist-channels-artifacts-111122223333-us-east-1/models"
ALL: dict[str, Any] = {
    "network": {"nat": True, "interface_endpoints": ["sagemaker.api", "sts", "logs", "kms"]},
    **FSX,
    "file_system": PERSISTENT,
    "training": IMAGE | {"instance_count": 2, "spot": True, "max_wait_s": 7200},
    "permissions_boundary": "team-boundary",
    "observability": WATCHED,
    "schedules": [NIGHTLY, MONTHLY],
    "serving": {"autoscaling": SCALING, "data_capture": {"percent": 10}},
}

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "kept": {"protect": True},
    "all": {"region": "us-east-1", **ALL},
    "all-kept": {"region": "us-west-2", "protect": True, **ALL},
    # how training is distributed
    "allgather": {"training": {"collective": "allgather", "hyperparameters": {"backend": "smddp"}}},
    "pytorchddp": {"training": {"strategy": "pytorchddp"}},
    "torchrun": {
        "training": {"strategy": "torchrun", "instance_type": "ml.g5.12xlarge", "instance_count": 2}
    },
    "torchrun-cpu": {"training": {"strategy": "torchrun", **CPU}},
    "horovod": {"training": {"strategy": "horovod", "processes_per_host": 4}},
    "none": {"training": {"strategy": "none", **CPU}},
    "fallback": {
        "training": {"fallback": "torchrun", "instance_type": "ml.p5.48xlarge", "instance_count": 4}
    },
    "p4de": {
        "region": "eu-central-1",
        "training": {"instance_type": "ml.p4de.24xlarge", "instance_count": 8},
    },
    "p3dn": {
        "region": "eu-west-1",
        "training": {"instance_type": "ml.p3dn.24xlarge", "instance_count": 2},
    },
    "mpi-options": {
        "training": {"custom_mpi_options": "-verbose --NCCL_DEBUG WARN -x NCCL_TIMEOUT=1"}
    },
    "require-efa": {"training": {"require_efa": True, "instance_count": 2}},
    "other-types": {"training": {"other_instance_types": ["ml.p4de.24xlarge", "ml.p3dn.24xlarge"]}},
    "tf-smddp": {"training": {"framework": "tensorflow"}},
    "tf-horovod": {"training": {"framework": "tensorflow", "strategy": "horovod"}},
    "tf-mirrored": {"training": {"framework": "tensorflow", "strategy": "mirrored"}},
    "tf-workers": {
        "training": {
            "framework": "tensorflow",
            "strategy": "multi_worker_mirrored",
            "instance_count": 2,
        }
    },
    "tf-servers": {
        "training": {
            "framework": "tensorflow",
            "strategy": "parameter_server",
            "instance_count": 3,
            **CPU,
        }
    },
    # where the data comes from
    "fastfile": {"data": {"input_mode": "FastFile", "dataset": "digits"}},
    "fsx": {**FSX, "file_system": {}},
    "fsx-2": {**FSX, "file_system": PERSISTENT},
    "fsx-large": {
        **FSX,
        "file_system": PERSISTENT | {"storage_capacity_gib": 9600, "throughput_mbps_per_tib": 1000},
    },
    "fsx-export": {**FSX, "file_system": {"export_changes": True, "compress": False}},
    "fsx-kept": {"protect": True, **FSX, "file_system": {}},
    # the network
    "nat": {"network": {"nat": True}},
    "endpoints": {
        "network": {"interface_endpoints": ["sagemaker.api", "sagemaker.runtime", "secretsmanager"]}
    },
    "three-zones": {"network": {"hosting": 3}},
    "one-zone": {"network": {"shared": True}},
    "small-vpc": {"network": {"cidr": "172.31.0.0/20"}},
    "vpc": {"network": {"existing": EXISTING}},
    "vpc-group": {"network": {"existing": WITH_GROUP}},
    "vpc-fsx": {"network": {"existing": EXISTING}, **FSX, "file_system": {}},
    "vpc-kept": {"protect": True, "network": {"existing": WITH_GROUP}},
    # the image
    "image": {"training": IMAGE},
    "image-kept": {"protect": True, "training": IMAGE},
    "image-tf": {
        "training": {
            "framework": "tensorflow",
            "build_image": "tensorflow-smddp",
            "framework_version": "2.11.0",
        }
    },
    "image-own": {"training": {"build_image": "own-container", "framework_version": "2.3.0"}},
    "image-uri": {
        "training": {"image_uri": "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1"}
    },
    "digest": {
        "training": {
            "image_uri": f"111122223333.dkr.ecr.us-east-1.amazonaws.com/train@sha256:{'0' * 64}"
        }
    },
    # the rest
    "boundary": {"permissions_boundary": "team-boundary"},
    "spot": {"training": {"spot": True, "max_wait_s": 7200}},
    "limits": {
        "training": {"volume_size_gb": 1000, "max_runtime_s": 432_000},
        "evaluation": {"max_runtime_s": 7200},
    },
    "variables": {
        "training": {
            "environment": {"NCCL_DEBUG": "INFO"},
            "hyperparameters": {"epochs": 3, "learning-rate": 0.1},
        }
    },
    "endpoint": {
        "endpoint": {
            "instance_type": "ml.c5.large",
            "instance_count": 3,
            "ttl_minutes": 30,
            "max_latency_ms": 100,
        }
    },
    "emails": {"observability": {"alert_emails": ["ml@example.com"]}},
    "budget": {"region": "us-east-2", "observability": {"monthly_budget_usd": 100}},
    "retention": {"observability": {"log_retention_days": 7}},
    "on-manifest": {"data": {"on_manifest": {"parameters": {"InstanceCount": 2}}}},
    "schedule": {"schedules": [{"name": "often", "expression": "rate(12 hours)"}]},
    "schedules": {"schedules": [NIGHTLY, MONTHLY | {"paused": True}]},
    # what serves a release; `environment` pins one
    "serving": {"serving": {}},
    "serving-linear": {
        "serving": {
            "traffic": {"type": "linear", "percent": 25},
            "instance_type": "ml.c5.large",
            "instance_count": 4,
        }
    },
    "serving-gpu": {
        "serving": {
            "traffic": {"type": "all_at_once"},
            "instance_type": "ml.g5.xlarge",
            "instance_count": 1,
        }
    },
    "serverless": {
        "serving": {"serverless": {"memory_mb": 4096}, "traffic": {"type": "all_at_once"}}
    },
    "project": {"project": "digits", "target": "local"},
    "only-trains": {"endpoint": "none", "evaluation": {"image_uri": OWN_IMAGE}},
    "channels": {
        "region": "us-east-1",
        "data": {
            "channels": {"train": {}, "test": {}, "base_model": {"uri": f"{SEALED}/{'0' * 64}/"}},
            "on_manifest": {},
        },
    },
}


def environment(name: str, folder: Path) -> Environment:
    """Return the environment of a case, loaded from `folder` as a user's file is. Raises
    ConfigError.
    """
    changes = dict(CASES[name])
    region = changes.pop("region", smddp_regions()[list(CASES).index(name) % len(smddp_regions())])
    network = dict(changes.pop("network", {}))
    if "serving" in changes:
        changes["release"] = trained_by(name, region)
    written = {
        "name": name,
        "workload": "mnist",
        "account": "111122223333",
        "region": region,
        "protect": False,
        "network": zones(region, network),
        **changes,
        "evaluation": {"gates": [{"metric": "accuracy", "at_least": 0.98}]}
        | changes.get("evaluation", {}),
    }
    return load(write_settings(folder, written, name))


def zones(region: str, network: dict[str, Any]) -> dict[str, Any]:
    """Return the section network with zones of the region.

    `hosting` says how many; `shared` puts training into one of them.
    """
    prefix, hosting = az_id_prefixes()[region], network.pop("hosting", 2)
    first = 1 if network.pop("shared", False) else 2
    ids = [f"{prefix}-az{number}" for number in range(first, first + hosting)]
    return {"training_az_id": f"{prefix}-az1", "hosting_az_ids": ids, **network}
