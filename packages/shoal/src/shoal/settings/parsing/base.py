"""The frozen base model of every section of an environment file, and the types that several
sections share.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    Tag,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=24)]
RecipeName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=40)
]
InstanceType = Annotated[str, StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
AccountId = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
AzId = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,4}[0-9]-az[0-9]$")]
PythonVersion = Annotated[str, StringConstraints(pattern=r"^3\.[1-9]?[0-9]$")]
FrameworkVersion = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
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


SECTION_BRANCH = "(section)"
"""Part of the place of an error in a section that may also be the word `none`."""


SecondsOrOff = Annotated[
    Annotated[int, Field(ge=300, le=86_400), Tag(SECTION_BRANCH)]
    | Annotated[Literal["off"], Tag("off")],
    Discriminator(lambda value: "off" if value == "off" else SECTION_BRANCH),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 300, "maximum": 86_400}, {"const": "off"}]}
    ),
]


@dataclass(frozen=True)
class OrNone:
    """Lets a key hold a section, or the word `none`, which is None; an empty one is a mistake."""

    section: type[Settings]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        word = core_schema.chain_schema(
            [
                core_schema.literal_schema(["none"]),
                core_schema.no_info_plain_validator_function(lambda _: None),
            ]
        )
        return core_schema.tagged_union_schema(
            {SECTION_BRANCH: handler(self.section), "none": word},
            discriminator=lambda value: "none" if value == "none" else SECTION_BRANCH,
        )

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": handler(core)["oneOf"]}
