"""The frozen base model of the sections of an environment file, and types that several share."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=24)]
RecipeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40)]
InstanceType = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
AccountId = Annotated[str, Field(pattern=r"^[0-9]{12}$")]
AzId = Annotated[str, Field(pattern=r"^[a-z]{3,4}[0-9]-az[0-9]$")]
PythonVersion = Annotated[str, Field(pattern=r"^3\.[1-9]?[0-9]$")]
FrameworkVersion = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
MediaType = Annotated[
    str, Field(pattern=r"^[a-z]+/[A-Za-z0-9.+-]+(; ?[a-z-]+=[A-Za-z0-9._-]+)*$", max_length=256)
]


class Settings(BaseModel):
    """Base of every section: frozen, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


SECTION_BRANCH = "(section)"
"""Part of the place of an error in what may also be the one word `off` or `none`."""


SecondsOrOff = Annotated[
    Annotated[int, Field(ge=300, le=86_400), Tag(SECTION_BRANCH)]
    | Annotated[Literal["off"], WithJsonSchema({"const": "off"}), Tag("off")],
    Discriminator(lambda value: "off" if value == "off" else SECTION_BRANCH),
]
