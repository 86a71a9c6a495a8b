import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.core.errors import SpecError
from argosy.core.job import Source
from argosy.data.files import PASSAGE_BYTES, documents, examine, find

LONG = "Der Main fließt durch Frankfurt. " * 70  # a paragraph that fills a passage
assert len(LONG.encode()) > PASSAGE_BYTES


def source(path: str) -> Source:
    return Source(name="news", path=path, country="DE", personal=False, where="job.yaml:9")


def read(path: Path, field: str = "text") -> list[str]:
    return list(documents(examine(path, path.name), field))


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)
    return path


# Finding


def test_a_folder_gives_its_texts_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.jsonl", "a/b.TXT", "c.jsonl.gz", "Z.txt.gz"):
        written(tmp_path / "news" / name, "x")
    for name in ("README.md", ".hidden.txt", ".git/a.txt", "d.txt.zst"):
        written(tmp_path / "news" / name, "x")

    names = [name for _, name in find(source("news/"), tmp_path)]

    assert names == ["news/Z.txt.gz", "news/a/b.TXT", "news/a/z.jsonl", "news/b.txt",
                     "news/c.jsonl.gz"]  # fmt: skip


def test_a_path_to_one_file_gives_that_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "x")

    assert find(source("a.txt"), tmp_path) == ((path, "a.txt"),)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gone.txt", "source news: nothing at gone.txt"),
        ("table.csv", "source news: table.csv is of no kind that can be read"),
        ("pictures", "source news: the folder pictures holds no text"),
    ],
)
def test_what_cannot_be_a_source_is_said_with_the_line_of_the_job(
    tmp_path: Path, path: str, says: str
) -> None:
    written(tmp_path / "table.csv", "x")
    written(tmp_path / "pictures/a.png", "x")

    with pytest.raises(SpecError) as caught:
        find(source(path), tmp_path)

    assert caught.value.what == says
    assert caught.value.where == "job.yaml:9"
    assert caught.value.hint


def test_a_path_that_the_system_refuses_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot be read: File name too long|nothing at"):
        find(source("n" * 300 + ".txt"), tmp_path)


# Text


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_text_is_cut_at_blank_lines_into_passages_of_some_size(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, f"eins\n\nzwei\ndrei\n\n{LONG}\n\nvier  \r\n\r\n \r\nfünf")

    assert read(path) == [f"eins\n\nzwei\ndrei\n\n{LONG.rstrip()}", "vier\n\nfünf"]


def test_a_short_text_is_one_document_and_a_byte_order_mark_is_no_part_of_it(
    tmp_path: Path,
) -> None:
    assert read(written(tmp_path / "a.txt", b"\xef\xbb\xbfGuten Tag\n")) == ["Guten Tag"]


def test_a_text_of_blank_lines_has_no_document(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.txt", "\n \n\t\n")) == []


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)))
def test_no_word_of_a_text_is_lost_or_moved(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    text = "".join(word * 99 + "\n" * (1 + len(word) % 3) for word in words)
    path = written(tmp_path_factory.mktemp("words") / "a.txt", text)

    got = read(path)

    assert " ".join(got).split() == text.split()
    assert all(len(each.encode()) >= PASSAGE_BYTES // 2 for each in got[:-1])


@pytest.mark.parametrize(
    ("name", "content", "where", "says"),
    [
        ("a.txt", b"gut\nsch\xf6n\n", "a.txt:2", "not UTF-8: byte 0xF6 at offset 7"),
        ("a.txt.gz", b"gut\nsch\xf6n\n", "a.txt.gz:2",
         "not UTF-8: byte 0xF6 at offset 7 (unpacked)"),
        ("a.txt", "Wort".encode("utf-16"), "a.txt:1", "not UTF-8: byte 0xFF at offset 0"),
        ("a.txt", b"\xef\xbb\xbf\xff", "a.txt:1", "not UTF-8: byte 0xFF at offset 3"),
        ("a.txt", b"halb \xe3\x81", "a.txt:1", "not UTF-8: byte 0xE3 at offset 5"),
        ("a.jsonl", b'{"text": "\xe4"}', "a.jsonl:1", "not UTF-8: byte 0xE4 at offset 10"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_utf8_is_named_with_line_and_offset(
    tmp_path: Path, name: str, content: bytes, where: str, says: str
) -> None:
    path = written(tmp_path / name, content)

    with pytest.raises(SpecError) as caught:
        read(path)

    assert (caught.value.where, caught.value.what) == (where, says)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"Gr\xfc\xdfe aus K\xf6ln\n", "iconv -f LATIN1"),
        (b"plain\nGr\xfc\xdfe\n", "iconv -f LATIN1"),
        ("\ufeffGrüße".encode("utf-16-le"), "it is UTF-16: iconv -f UTF-16"),
        (b"\x1f\x8b\x08\x00\x00", "it is a gzip file, whatever its name says: let its name end"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "it is a PDF"),
        (b"PK\x03\x04\x14\xff", "it is a ZIP archive"),
        (b"\x89PNG\r\n", "it is a picture"),
        (b"\x00\x01\x02\xff\xfe", "it looks like a binary file"),
        (b"a heading\n\x00\x01\xff", "it looks like a binary file"),
    ],
)
def test_what_to_do_about_a_file_that_is_no_utf8_depends_on_what_it_is(
    tmp_path: Path, content: bytes, hint: str
) -> None:
    path = written(tmp_path / "a.txt", "")
    path.write_bytes(content)

    with pytest.raises(SpecError, match="not UTF-8") as caught:
        list(documents(examine(path, "a.txt"), "text"))

    assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda _: b"no gzip at all",
        lambda raw: raw[:20] + bytes([raw[20] ^ 255]) + raw[21:],
        lambda raw: raw[:-6] + b"\0" + raw[-5:],
        lambda raw: raw + b"rest",
    ],
    ids=["cut off", "no gzip", "changed inside", "wrong checksum", "something behind it"],
)
def test_a_broken_gzip_is_said_to_be_one(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "a.txt.gz"
    text = "\n".join(str(number * number) for number in range(2000))
    path.write_bytes(damage(gzip.compress(text.encode())))

    with pytest.raises(SpecError, match=r"^a\.txt\.gz: broken gzip: "):
        read(path)


def test_two_gzips_in_one_file_are_read_as_one_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"eins ") + gzip.compress(b"zwei"))

    assert read(path) == ["eins zwei"]


# JSON lines


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_each_line_of_a_jsonl_is_a_document(tmp_path: Path, name: str) -> None:
    lines = [json.dumps({"body": text, "id": 1}) for text in ("eins\n\nzwei", "  ", "日本")]

    path = written(tmp_path / name, "\n".join([*lines[:1], "", *lines[1:]]))

    assert read(path, "body") == ["eins\n\nzwei", "日本"]


@pytest.mark.parametrize(
    ("line", "says", "hint"),
    [
        ('{"text": "a"', "not JSON: Expecting ',' delimiter", "one JSON object in each line"),
        ("[" * 100_000, "not JSON: ", "one JSON object in each line"),
        ('{"text": %s}' % ("9" * 5000), "not JSON: ", "one JSON object in each line"),
        ('["a"]', "expected a JSON object, got a list", 'like {"text": "..."}'),
        ('"a"', "expected a JSON object, got a string", 'like {"text": "..."}'),
        ("null", "expected a JSON object, got null", 'like {"text": "..."}'),
        ("true", "expected a JSON object, got true or false", 'like {"text": "..."}'),
        ('{"body": "a", "id": 7}', "no field 'text'", "it has body, id; set"),
        ("{}", "no field 'text'", "it has nothing; set"),
        ('{"text": 7}', "text: expected text, got a number", "text_field"),
        ('{"text": {"a": 1}}', "text: expected text, got an object", "text_field"),
        ('{"text": "ab\\ud83d"}', "text holds half a character (a lone surrogate) at 2", "pairs"),
    ],
    ids=range(12),
)  # fmt: skip
def test_a_wrong_line_of_a_jsonl_is_named(tmp_path: Path, line: str, says: str, hint: str) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "good"}\n\n' + line)

    with pytest.raises(SpecError) as caught:
        read(path)

    assert caught.value.where == "a.jsonl:3"
    assert caught.value.what.startswith(says)
    assert hint in str(caught.value.hint)


# Files that do not stay


def test_a_file_that_is_gone_since_it_was_found_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    with pytest.raises(SpecError, match=r"^a\.txt: cannot be read: No such file"):
        examine(path, "a.txt")


def test_a_file_that_is_gone_since_it_was_opened_cannot_be_read(tmp_path: Path) -> None:
    file = examine(written(tmp_path / "a.txt", "x"), "a.txt")
    file.path.unlink()

    with pytest.raises(SpecError, match=r"^a\.txt: cannot be read: No such file"):
        list(documents(file, "text"))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_file_that_changed_since_it_was_recorded_is_refused(tmp_path: Path, name: str) -> None:
    file = examine(written(tmp_path / name, "x" * 100), name)
    written(tmp_path / name, "y" * 100)

    with pytest.raises(SpecError, match="the file changed while it was in use"):
        list(documents(file, "text"))


def test_reading_needs_memory_for_a_passage_and_not_for_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", f"{LONG}\n\n" * 9000)
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()

    count = sum(1 for _ in documents(examine(path, "a.txt"), "text"))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 9000
    assert peak < 6_000_000
