"""Which file systems files are mapped on."""

from __future__ import annotations

from pathlib import Path

import pytest

from arrayfeed.datasource import filesystems
from arrayfeed.datasource.filesystems import choose_io, filesystem_of

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
30 22 0:44 / /data rw shared:2 master:3 - nfs4 server:/export rw,vers=4.2
31 30 8:2 / /data/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:50 / /mnt/bucket rw - fuse.gcsfuse bucket rw
33 22 8:3 / /twice rw - nfs server:/a rw
34 22 8:4 / /twice rw - btrfs /dev/sdc rw
broken
"""


@pytest.mark.parametrize(
    ("path", "kind", "io"),
    [
        ("/home/someone/data", "ext4", "mmap"),
        ("/data", "nfs4", "pread"),
        ("/data/train", "nfs4", "pread"),
        ("/database", "ext4", "mmap"),
        ("/data/local disk/train", "xfs", "mmap"),
        ("/mnt/bucket/x", "fuse.gcsfuse", "pread"),
        ("/twice/x", "btrfs", "mmap"),
    ],
)
def test_files_are_mapped_where_no_other_machine_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, io: str
) -> None:
    """The innermost mount decides, and of two at one place the later."""
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)

    assert filesystem_of(path, mounts=str(table)) == kind
    monkeypatch.setattr(filesystems, "filesystem_of", lambda _: kind)
    assert choose_io(path) == io


def test_where_nothing_is_known_files_are_mapped(tmp_path: Path) -> None:
    """Systems without such a table, and this one."""
    assert filesystem_of(tmp_path, mounts=str(tmp_path / "none")) == ""
    assert choose_io(tmp_path) == ("mmap" if "fuse" not in filesystem_of(tmp_path) else "pread")
