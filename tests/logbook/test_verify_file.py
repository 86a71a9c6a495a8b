import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.written import Written, database, write

from argosy.logbook.verify import Wrong, first_wrong


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("run"))


@pytest.fixture
def written(original: Written, tmp_path: Path) -> Written:
    """A copy to damage."""
    shutil.copytree(original.folder, tmp_path / "log")
    return replace(original, folder=tmp_path / "log")


def named(wrong: Wrong | None) -> tuple[int, str, str]:
    assert wrong is not None
    return wrong.seq, wrong.kind, wrong.what


def damage_page(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * 4096 + 8)
        file.write(b"\xff" * 200)


@pytest.mark.parametrize("page", range(4))
def test_a_damaged_database_is_reported(written: Written, page: int) -> None:
    damage_page(written.folder / "log.db", page)

    wrong = first_wrong(written.folder)

    assert named(wrong) == (0, "", "file")
    assert wrong is not None
    assert "\n" not in wrong.found
    assert "***" not in wrong.found


def test_what_is_no_database_is_reported(written: Written) -> None:
    (written.folder / "log.db").write_bytes(b"x" * 8192)
    assert named(first_wrong(written.folder)) == (0, "", "file")

    (written.folder / "log.db").unlink()
    assert named(first_wrong(written.folder)) == (0, "", "file")


def test_any_changed_byte_of_the_file_is_found_or_changes_nothing(written: Written) -> None:
    """Whatever byte of the database changes: it is named, or every record still reads the same."""
    path = written.folder / "log.db"
    good = path.read_bytes()
    chance = random.Random(7)
    found = 0
    for _ in range(300):
        changed = bytearray(good)
        changed[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(changed))
        wrong = first_wrong(written.folder)
        if wrong is None:
            assert raws_of(written.folder) == written.raws
        found += wrong is not None
    path.write_bytes(good)
    assert found > 50


def raws_of(folder: Path) -> list[bytes]:
    with database(folder) as db:
        return [raw for (raw,) in db.execute("SELECT raw FROM records ORDER BY seq")]
