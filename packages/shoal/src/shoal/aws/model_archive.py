"""Models that jobs wrote, read by the same file as Seal's function reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Lambda runs it as a top-level module; mypy knows it by that name only.
if TYPE_CHECKING:
    import model_archive
else:
    from shoal.functions.seal import model_archive

MAX_CODE_BYTES = model_archive.MAX_CODE_BYTES
ArchiveError = model_archive.ArchiveError
content_sha256, deployed_name = model_archive.content_sha256, model_archive.deployed_name
digest_mistake, hashes_in = model_archive.digest_mistake, model_archive.hashes_in
digest_of, model_data_of = model_archive.digest_of, model_archive.model_data_of
checksums_below = model_archive.checksums_below
files_in, plain_files_in = model_archive.files_in, model_archive.plain_files_in
read, sha256 = model_archive.read, model_archive.sha256
