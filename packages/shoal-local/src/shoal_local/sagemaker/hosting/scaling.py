"""UpdateEndpointWeightsAndCapacities: other weights, instances and concurrency of a running
fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.hosting.fleet import Fleet, Variant
from shoal_local.sagemaker.hosting.traffic import Traffic
from shoal_local.sagemaker.shapes import Document


def scale(fleet: Fleet, traffic: Traffic, requests: Sequence[Document]) -> Callable[[], None]:
    """Check the requests and return the work to do in the background.

    The work raises the error of a server that does not start, and then has changed nothing. Raise
    ValidationException for what a variant cannot become.
    """
    variants = {variant.name: variant for variant in fleet.variants}
    changes = []
    for each in requests:
        variant = variants.get(each["VariantName"])
        if variant is None:
            raise invalid(
                f"Could not find variant {each['VariantName']} of the endpoint; it has"
                f" {', '.join(variants)}"
            )
        changes.append((variant, _changed_document(variant, each)))
    weights = {variant.name: document["InitialVariantWeight"] for variant, document in changes}
    if not any(weights.get(variant.name, variant.weight) for variant in fleet.variants):
        raise invalid("At least one variant must have a weight above 0")

    def work() -> None:
        for variant, document in changes:
            _apply(fleet, traffic, variant, document)

    return work


def _changed_document(variant: Variant, request: Document) -> Document:
    """Return the variant's document with the desired weight, count and concurrency."""
    document = variant.document
    if "DesiredWeight" in request:
        document = document | {"InitialVariantWeight": request["DesiredWeight"]}
    if "DesiredInstanceCount" in request:
        if variant.max_concurrency is not None:
            raise invalid(f"Variant {variant.name} is serverless: it has no instance count")
        if request["DesiredInstanceCount"] < 1:
            raise invalid(f"DesiredInstanceCount of variant {variant.name} must be at least 1")
        document = document | {"InitialInstanceCount": request["DesiredInstanceCount"]}
    if "ServerlessUpdateConfig" in request:
        if variant.max_concurrency is None:
            raise invalid(f"Variant {variant.name} is not serverless")
        document = document | {
            "ServerlessConfig": document["ServerlessConfig"] | request["ServerlessUpdateConfig"]
        }
    return document


def _apply(fleet: Fleet, traffic: Traffic, variant: Variant, document: Document) -> None:
    """Start new instances before any is retired; those that are retired answer what they were
    sent.
    """
    count = 1 if variant.max_concurrency is not None else int(document["InitialInstanceCount"])
    new_instances = fleet.start_more(variant, count)
    keep = len(variant.instances) - fleet.surplus(variant, count)
    surplus = variant.instances[keep:]

    def edit() -> None:
        variant.document = document
        variant.instances = [*variant.instances[:keep], *new_instances]

    traffic.change(edit)
    traffic.retire(surplus)
