"""Resource types that are calls of the API and nothing more: the rows of `types.yaml`."""

import re
import string
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    as_bool,
    ignore_missing,
    members,
    names,
    tag_value,
    undo_on_failure,
)

Facts = dict[str, Any]
"""What a row can name: properties, attributes, the answer, `id`, `name`, `account`, `region`."""
_FORMAT = string.Formatter()
_ONE_NAME = re.compile(r"\{[^{}]+\}")


class PlainType(ResourceType):
    """A type as its row describes it. The head of the table says what the keys mean."""

    def __init__(self, type_name: str, row: Mapping[str, Any]) -> None:
        self.type_name, self.row, self.service = type_name, row, str(row.get("service", ""))
        self.properties = names(row["properties"])
        self._settings: Mapping[str, Any] = row.get("settings", {})
        self._lists: Mapping[str, Any] = row.get("lists", {})
        self._apart = {"Tags", *self._settings, *self._lists}
        fixed = self.properties - self._apart
        given = row.get("replaced_by", "" if "update" in row else None)
        self.replaced_by = fixed if given is None else names(given)

    def converted(self, properties: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the properties in the form of the API, where that is another one."""
        return properties

    def facts(self, request: Request) -> Facts:
        where = {"account": request.account, "region": request.region, "id": request.physical_id}
        return {**request.attributes, **request.properties, **where}

    def create(self, request: Request) -> Created:
        return self._create(self._converted(request))

    def _create(self, request: Request) -> Created:
        name = self._name(request)
        facts = {**self.facts(request), "name": name}
        if "create" not in self.row:
            return self._complete(request, facts, ())
        operation, own = _operation(self.row["create"])
        taken = members(request.client(self.service), operation)
        arguments = {**self._taken(request, taken), **filled(own, facts)}
        if "name" in self.row and self.row["name"].split()[0].lower() in taken:
            arguments[self.row["name"].split()[0]] = name
        if "tags" in taken and self.row.get("tags") != "lost" and request.tag_map():
            arguments["Tags"] = tag_value(taken["tags"], request.tag_map())
        facts |= request.call(self.service, operation, **arguments)
        return self._complete(request, facts, taken)

    def _complete(self, request: Request, facts: Facts, taken: Collection[str]) -> Created:
        """Set and tag what the call that created the resource did not take."""
        if facts.get("Unsuccessful"):
            raise ResourceError(facts["Unsuccessful"][0]["Error"]["Message"])
        facts["id"] = str(filled(self.row.get("id", "{name}"), facts))
        attributes = filled(self.row.get("attributes", {}), facts)
        created = replace(request, physical_id=facts["id"], attributes=attributes)
        with undo_on_failure(lambda: self._delete(created)):
            self._set(created, [name for name in self._settings if name.lower() not in taken])
            self._set_lists(created, [name for name in self._lists if name.lower() not in taken])
            if "tags" not in taken:
                self._retag(created)
            if "read" in self.row:
                operation, own = _operation(self.row["read"])
                facts |= request.call(self.service, operation, **filled(own, facts))
                attributes = filled(self.row["attributes"], facts)
        return Created(facts["id"], attributes)

    def update(self, request: Request) -> Created:
        request = self._converted(request)
        facts = self.facts(request)
        if self._is_updated(request):
            if self.row["update"] == "recreate":
                ignore_missing(lambda: self._delete(replace(request, properties=request.old)))
                return self._create(request)
            facts |= self._update(request)
        self._set(request, self._settings)
        self._set_lists(request, self._lists)
        self._retag(request)
        attributes = filled(self.row.get("attributes", {}), facts)
        return Created(request.physical_id, {**request.attributes, **attributes})

    def _is_updated(self, request: Request) -> bool:
        others = {*request.properties, *request.old} - self._apart
        return "update" in self.row and (
            request.changed(*others) or self.row.get("tags") == "in update"
        )

    def _update(self, request: Request) -> Facts:
        """Call the update. What the template no longer sets gets its default."""
        operation, own = _operation(self.row["update"])
        gone = [name for name in request.old if name not in request.properties]
        defaults = self.row.get("defaults", {})
        is_whole = self.row.get("whole") or operation == _operation(self.row["create"])[0]
        for name in gone:
            if not is_whole and name not in defaults and name not in self._apart:
                raise self._cannot_unset(name)
        kept = {name: defaults[name] for name in gone if name in defaults}
        changed = replace(request, properties={**kept, **request.properties})
        taken = members(request.client(self.service), operation)
        arguments = {**self._taken(changed, taken), **self._resource(request)}
        arguments |= filled(own, {**defaults, **self.facts(changed)})
        if self.row.get("tags") == "in update":
            arguments["Tags"] = tag_value(taken["tags"], request.tag_map())
        return request.call(self.service, operation, **arguments)

    def delete(self, request: Request) -> None:
        self._delete(self._converted(request))

    def _delete(self, request: Request) -> None:
        items = [name for name, row in self._lists.items() if "goes" not in row]
        self._set_lists(replace(request, properties={}, old=request.properties), items)
        if "delete" in self.row:
            operation, own = _operation(self.row["delete"])
            arguments = {**self._resource(request), **filled(own, self.facts(request))}
            request.call(self.service, operation, **arguments)

    def _converted(self, request: Request) -> Request:
        new, old = self.converted(request.properties), self.converted(request.old)
        return replace(request, properties=new, old=old)

    def _name(self, request: Request) -> str:
        if "name" not in self.row:
            return request.generated_name()
        name, length, *lower = self.row["name"].split()
        return request.name(name, int(length), lower=bool(lower))

    def _taken(self, request: Request, taken: Collection[str]) -> Facts:
        """Return the properties that an operation takes under their own names."""
        own = [name for name in request.properties if name.lower() in taken and name != "Tags"]
        return request.only(*own)

    def _resource(self, request: Request) -> Facts:
        return dict(filled(self.row.get("resource", {}), self.facts(request)))

    def _set(self, request: Request, settings: Collection[str]) -> None:
        for name in settings:
            if request.changed(name):
                self.set_one(request, name)

    def set_one(self, request: Request, name: str) -> None:
        """Call what sets a property, or what takes it away."""
        setting = self._settings[name]
        value = request.get(name, setting.get("default"))
        if True in setting:
            operation, own = _operation(setting[as_bool(value)])
        elif value is not None:
            operation, own = _operation(setting["put"], {name: f"{{{name}}}"})
        elif "delete" in setting:
            operation, own = _operation(setting["delete"])
        else:
            raise self._cannot_unset(name)
        arguments = filled(own, {**self.facts(request), name: value})
        request.call(self.service, operation, **{**self._resource(request), **arguments})

    def _set_lists(self, request: Request, lists: Collection[str]) -> None:
        """Call what adds the items of lists that are new, and what removes those that are gone."""
        before = replace(request, properties=request.old)
        for name in lists:
            row = self._lists[name]
            is_needed = "needed" in row and request.properties
            items = request[name] if is_needed else request.get(name) or []
            first = row.get("first", []) if items and not request.old else []
            for step in ("remove", "add") if "remove" in row else ("add",):
                operation, own = _operation(row[step])
                new = self._of_items(own, request, items)
                old = self._of_items(own, before, request.old.get(name) or first)
                more, others = (old, new) if step == "remove" else (new, old)
                for arguments in [each for each in more if each not in others]:
                    act = partial(request.call, self.service, operation, **arguments)
                    if step == "remove":
                        ignore_missing(act)
                    elif failed := act().get("FailedEntries"):
                        raise ResourceError(failed[0]["ErrorMessage"])

    def _of_items(self, own: Any, request: Request, items: Collection[Any]) -> list[Facts]:
        """Return the arguments of the calls about the items of a list."""
        facts = self.facts(request)
        return [
            {**self._resource(request), **filled(own, {**facts, "each": each})} for each in items
        ]

    def _cannot_unset(self, name: str) -> ResourceError:
        return ResourceError(
            f"Shoal's emulator cannot take {name} away from {self.type_name}; write the value that"
            " it should have"
        )

    def _retag(self, request: Request) -> None:
        if "Tags" in self.properties and "tags" not in self.row:
            tagged = filled(self.row.get("tagged", "{id}"), self.facts(request))
            request.retag(self.service, tagged)


def _operation(entry: Any, arguments: Mapping[str, Any] | None = None) -> tuple[str, Any]:
    """Return the operation of `Operation` or `{Operation: arguments}`, and its arguments."""
    if isinstance(entry, str):
        return entry, arguments or {}
    ((operation, own),) = entry.items()
    return str(operation), own


def filled(template: Any, facts: Mapping[str, Any]) -> Any:
    """Return a row's value with `{name}` replaced; what cannot be replaced is left out, or None.

    A value that is one name alone keeps its type.
    """
    if isinstance(template, Mapping):
        values = {key: filled(inner, facts) for key, inner in template.items()}
        return {key: value for key, value in values.items() if value is not None}
    if isinstance(template, list):
        return [filled(inner, facts) for inner in template]
    if not isinstance(template, str):
        return template
    try:
        if _ONE_NAME.fullmatch(template):
            return _FORMAT.get_field(template[1:-1], (), facts)[0]
        return template.format_map(facts)
    except (KeyError, IndexError, TypeError):
        return None
