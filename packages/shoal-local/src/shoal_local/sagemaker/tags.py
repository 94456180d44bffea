"""AddTags, ListTags, DeleteTags on any resource of the store, found by its ARN."""

from __future__ import annotations

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import not_found
from shoal_local.sagemaker.resources import KINDS
from shoal_local.sagemaker.shapes import Document


class Tags:
    """Tags of the documents: `_tags`, a list of Key/Value as the API has it."""

    def __init__(self, core: Core) -> None:
        self._store = core.store

    def _find(self, arn: str) -> tuple[str, str]:
        """Return the kind and the name of a resource, both of which are in its ARN."""
        kind, _, name = arn.lower().rpartition(":")[2].partition("/")
        if kind == "pipeline" and "/execution/" in name:
            kind, name = "pipeline-execution", name.replace("/execution/", "/", 1)
        document = self._store.get(kind, name) if kind in KINDS else None
        if document is None or document[KINDS[kind].arn_key].lower() != arn.lower():
            raise not_found(f"Resource {arn} does not exist.")
        return kind, document["_name"]

    def _change(self, arn: str, added: list[Document], removed_keys: list[str]) -> list[Document]:
        kind, name = self._find(arn)

        def edit(document: Document) -> None:
            tags = {tag["Key"]: tag["Value"] for tag in [*document.get("_tags", []), *added]}
            document["_tags"] = [
                {"Key": key, "Value": value}
                for key, value in tags.items()
                if key not in removed_keys
            ]

        return list(self._store.change(kind, name, edit)["_tags"])

    def add(self, request: Document) -> Document:
        return {"Tags": self._change(request["ResourceArn"], request["Tags"], [])}

    def list(self, request: Document) -> Document:
        return {"Tags": self._store.read(*self._find(request["ResourceArn"])).get("_tags", [])}

    def delete(self, request: Document) -> Document:
        self._change(request["ResourceArn"], [], request["TagKeys"])
        return {}
