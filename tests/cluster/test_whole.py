from pathlib import Path

import pytest

from argosy.cluster.whole import write_whole
from argosy.core.errors import DiskError


def test_a_file_is_replaced_with_its_rights_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "a.json"

    write_whole(file, b"one", mode=0o600)
    write_whole(file, b"two", mode=0o600, sync=False)

    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.mkdir()  # a file cannot replace a folder

    with pytest.raises(DiskError, match=r"a\.json"):
        write_whole(file, b"two")

    assert list(tmp_path.iterdir()) == [file]
