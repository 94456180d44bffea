"""A variable on each parameter server, added to by the worker on the other host; the chief writes
down where and what they are.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import tensorflow as tf


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


config = json.loads(os.environ["TF_CONFIG"])
cluster = {
    "chief" if job == "master" else job: addresses for job, addresses in config["cluster"].items()
}
if config["task"]["type"] == "worker":
    server = tf.distribute.Server(
        cluster, job_name="worker", task_index=config["task"]["index"], protocol="grpc"
    )
    while not listens(cluster["chief"][0]):
        time.sleep(0.2)
    while listens(cluster["chief"][0]):
        time.sleep(0.2)
else:
    while not all(listens(address) for address in (*cluster["ps"], *cluster["worker"])):
        time.sleep(0.2)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        variables = [tf.Variable(float(number)) for number in range(2)]

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        for variable in variables:
            variable.assign_add(1.0)

    for _ in range(5):
        coordinator.schedule(step)
    coordinator.join()
    places = [tf.DeviceSpec.from_string(variable.device) for variable in variables]
    lines = [
        f"{place.job}{place.task}={variable.numpy():.0f}"
        for place, variable in zip(places, variables, strict=True)
    ]
    print(f"variables={lines}", flush=True)
    Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(" ".join(lines))
