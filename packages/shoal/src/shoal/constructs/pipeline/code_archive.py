"""A SageMaker `source_dir` as `sourcedir.tar.gz` in the bootstrap bucket, named by its content."""

import gzip
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from shoal.launch import watch
from shoal.launch.case import REQUIREMENTS
from shoal.settings.parsing.plain_files import archive_files


class CodeArchive(Construct):
    """`uri` changes if and only if a file of the archive changes: SageMaker's step cache and a
    repeated run depend on that.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        source_dir: Path,
        watch: Mapping[str, bytes] | None = None,
    ) -> None:
        """`watch` are files that are packed, too: those of `shoal.launch.watch`."""
        super().__init__(scope, construct_id)
        self.is_watched = bool(watch)
        archive = deterministic_tar(source_dir, watch)
        with tempfile.TemporaryDirectory(prefix="shoal-code-") as folder:
            path = Path(folder, "sourcedir.tar.gz")
            path.write_bytes(gzip.compress(archive, mtime=0))
            # The hash is of the uncompressed bytes: zlib may compress differently from one Python
            # build to the next. The CDK copies the file into the cloud assembly inside this
            # constructor, so the folder may be deleted.
            self.asset = assets.Asset(
                self,
                "Asset",
                path=str(path),
                asset_hash=hashlib.sha256(archive).hexdigest(),
                asset_hash_type=cdk.AssetHashType.CUSTOM,
                display_name="training code",
            )
        self.uri = self.asset.s3_object_url


def deterministic_tar(folder: Path, others: Mapping[str, bytes] | None = None) -> bytes:
    """Return the files below `folder`, the modules that it shares with other workloads, and
    `others`, as an uncompressed tar: sorted, without owners and times.

    The folder's content is at the root of the archive. Raises ConfigError for a link.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        files = {name: path.read_bytes() for name, path in archive_files(folder).items()}
        files |= dict(others or {})
        if watch.MOVED in files:
            del files[REQUIREMENTS]
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
