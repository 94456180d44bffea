"""What the doctor asks for that only the launch contract and the capacity rules know."""

from __future__ import annotations

from shoal.launch import Launch
from shoal.pipelines.checks import capacity
from shoal.settings.settings import Environment
from shoal.verbs.doctor.doctor import Needs
from shoal.verbs.doctor.network_check import Demand


def needs_of(environment: Environment, launch: Launch) -> Needs:
    """Return what the launch contract and the capacity rules need for `environment`."""
    endpoint = environment.endpoint
    images = {"evaluation": environment.evaluation.image_uri or launch.evaluation_image_uri}
    if endpoint:
        images["endpoint"] = launch.inference_image_uri
    images = {"training": launch.image_uri, **images}
    images = {use: uri for use, uri in images.items() if use not in environment.built_images}
    addresses = Demand(
        training=capacity.addresses(environment).min,
        hosting=2 * endpoint.instance_count if endpoint else 0,
    )
    return Needs({} if environment.pipeline else images, addresses)
