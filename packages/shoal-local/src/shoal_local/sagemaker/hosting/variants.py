"""Production variants as the API describes them, and as the next fleet of an endpoint gets them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal_local.sagemaker import names
from shoal_local.sagemaker.hosting.fleet import Fleet, Variant
from shoal_local.sagemaker.shapes import Document

_RETAINED = {
    "DesiredInstanceCount": "InitialInstanceCount",
    "DesiredWeight": "InitialVariantWeight",
}


def summaries(fleet: Fleet, status: str | None = None) -> list[Document]:
    """Return a ProductionVariantSummary of each variant; `status` is its VariantStatus."""
    return [_summary(variant, 1.0, status) for variant in fleet.variants]


def pending_summaries(fleet: Fleet, share: float, status: str) -> list[Document]:
    """Return a PendingProductionVariantSummary of each variant of a fleet that gets `share` of the
    traffic.
    """
    return [
        _summary(variant, share, status)
        | (
            {"InstanceType": variant.document["InstanceType"]}
            if "InstanceType" in variant.document
            else {}
        )
        for variant in fleet.variants
    ]


def _summary(variant: Variant, share: float, status: str | None) -> Document:
    summary: Document = {
        "VariantName": variant.name,
        "DeployedImages": [variant.deployed_image or {"SpecifiedImage": variant.image}],
        "CurrentWeight": variant.weight * share,
        "DesiredWeight": variant.weight,
    }
    if variant.max_concurrency is not None:
        serverless = variant.document["ServerlessConfig"]
        summary |= {"CurrentServerlessConfig": serverless, "DesiredServerlessConfig": serverless}
    else:
        summary |= {
            "CurrentInstanceCount": variant.count if variant.instances else 0,
            "DesiredInstanceCount": variant.count,
        }
    return summary | (
        {"VariantStatus": [{"Status": status, "StartTime": names.now()}]} if status else {}
    )


def with_retained_properties(
    config: Document, live: Sequence[Document], excluded: Collection[str]
) -> Document:
    """Return the configuration with the instance counts and weights that variants of the same name
    have now.

    Properties in `excluded` are not retained.
    """
    live_variants = {variant["VariantName"]: variant for variant in live}
    return config | {
        "ProductionVariants": [
            _retained(each, live_variants.get(each["VariantName"], {}), excluded)
            for each in config["ProductionVariants"]
        ]
    }


def _retained(variant: Document, live_variant: Document, excluded: Collection[str]) -> Document:
    retained = {
        initial: live_variant[property_]
        for property_, initial in _RETAINED.items()
        if property_ in live_variant and initial in variant and property_ not in excluded
    }
    return variant | retained
