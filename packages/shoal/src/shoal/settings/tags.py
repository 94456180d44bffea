"""The keys `tags`, `required_tags` and `cost_allocation_tags` of an environment file: tags of one's
own, what an organisation demands of them, and which of them the bill knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from shoal.settings.parsing.errors import Problem

# The least that a service takes: EC2 keys of 127, CodeBuild values of 255, CloudFormation and
# EventBridge Scheduler no empty value (botocore 1.44.5).
TagKey = Annotated[str, Field(min_length=1, max_length=127)]
TagValue = Annotated[str, Field(min_length=1, max_length=255)]
# Of the 50 that each service allows: the rest is for Shoal's own.
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=40)]
RequiredTags = Annotated[dict[TagKey, tuple[TagValue, ...]], Field(max_length=40)]
AllocationTags = Annotated[tuple[TagKey, ...], Field(max_length=10)]
_RESERVED = ("aws:", "shoal:")
_IN_KEYS = "_.:/+-@"
_IN_VALUES = "_.:/=+-@"


def problems(
    sections: Mapping[str, Mapping[str, str]],
    *,
    required: Mapping[str, Sequence[str]],
    activated: Sequence[str],
    ours: str,
) -> Iterator[Problem]:
    """Yield what is wrong with the tags that all workloads have, and with those that one of them
    has, by section. `activated` are cost allocation tags, `ours` is Shoal's own.
    """
    (_, of_all), (place, of_one) = sections.items()
    own = {key: value for key, value in of_one.items() if of_all.get(key) != value}
    for section, tags in (("tags", of_all), (place, own)):
        yield from mistakes(section, tags)
        for key, value in tags.items():
            if (allowed := required.get(key)) and value not in allowed:
                message = f"is not what required_tags allows: {', '.join(allowed)}"
                yield Problem(f"{section}.{key}", message, "write one of them", value)
    # IAM compares the keys of a role's tags without case (IAM user guide, "Tags for IAM").
    folded = dict[str, str]()
    for key in of_one:
        if (other := folded.setdefault(key.lower(), key)) != key:
            message = f"IAM takes {key} and {other} for one key"
            yield Problem(f"{place if key in own else 'tags'}.{key}", message, "keep one of them")
    # What workloads share has the tags of all.
    if missing := [key for key in required if key not in of_all]:
        message = f"demands {', '.join(missing)}, and tags has no such key"
        advice = "add each to tags, with a value, for all that is made here"
        yield Problem("required_tags", message, advice, related=("tags",))
    known = (*of_one, ours)
    for key in activated:
        if key not in known:
            message = f"nothing is tagged with {key}; there are: {', '.join(known)}"
            yield Problem("cost_allocation_tags", message, "add it to tags, or remove it here", key)


def mistakes(section: str, tags: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what AWS would not take of the tags in a section."""
    for key, value in tags.items():
        place = f"{section}.{key}"
        if key.lower().startswith(_RESERVED):
            message = "keys that begin with aws: are AWS's, those with shoal: Shoal's own"
            yield Problem(place, message, "rename it")
        # The CDK's command line splits KEY=VALUE at the first =.
        for text, what, allowed in ((key, "the key", _IN_KEYS), (value, "the value", _IN_VALUES)):
            characters = {each for each in text if not (each.isalnum() or each in f" {allowed}")}
            if characters or text != text.strip():
                message = f"{what} takes letters, digits, {allowed} and spaces inside"
                yield Problem(place, message, "write it with those alone", text)
