"""The frozen base model of every section of an environment file, and the types that several
sections share.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=24)]
InstanceType = Annotated[str, StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
AzId = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,4}[0-9]-az[0-9]$")]
MediaType = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z]+/[A-Za-z0-9.+-]+(; ?[a-z-]+=[A-Za-z0-9._-]+)*$", max_length=256
    ),
]


class Settings(BaseModel):
    """Base of every section: frozen, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
