"""Make this example's three corpora from the Debian package that holds the handbook.

    python make_data.py                      fetches the package with apt-get download
    python make_data.py --deb PACKAGE.deb    takes the one that is there

Needs a Debian or Ubuntu machine (apt-get, dpkg-deb) and nothing else. The same package gives the
same bytes.
"""

import argparse
import gzip
import re
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path

PACKAGE = "debian-handbook"
BOOKS = {"german": "de-DE", "japanese": "ja-JP", "english": "en-US"}
HERE = Path(__file__).parent / "data"

BLOCKS = {"p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "dt", "dd", "td", "th", "br"}
# Code and console output are the same in every language; notes' numbers mean nothing in running text.
SKIPPED_TAGS = {"head", "script", "style", "pre", "sup"}
SKIPPED_CLASSES = {"docnav", "toc", "list-of-figures", "list-of-tables", "footnotes-hr"}
SKIPPED_IDS = {"banner", "title"}
VOID = {"br", "hr", "img", "link", "meta", "input", "col"}
NUMBER = re.compile(r"^(\d+\.)+\s+|\s*\[\d+\]")
KANA = re.compile("[\u3040-\u30ff]")
# Of pages, machines and people: no prose, and nothing that a model should learn to repeat.
ADDRESS = re.compile(r"://|\S@\S+\.\w|\w\.(com|org|net|info|de|fr|uk)\b")


class Page(HTMLParser):
    """The paragraphs of one page, and the name of the page after it."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self.following: str | None = None
        self._words: list[str] = []
        self._skipped = 0  # how many open elements deep in something that is left out

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "link" and told.get("rel") == "next":
            self.following = told.get("href")
        if tag in BLOCKS:
            self._end()
        if tag in VOID:
            return
        classes = set((told.get("class") or "").split())
        left_out = tag in SKIPPED_TAGS or classes & SKIPPED_CLASSES or told.get("id") in SKIPPED_IDS
        if self._skipped or left_out:
            self._skipped += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self._end()
        if self._skipped and tag not in VOID:
            self._skipped -= 1

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._words.append(data)

    def _end(self) -> None:
        text = NUMBER.sub("", " ".join("".join(self._words).split()))
        if any(letter.isalpha() for letter in text):
            self.paragraphs.append(text)
        self._words = []


def book(folder: Path) -> list[str]:
    """The paragraphs of a book in reading order, each once."""
    paragraphs: dict[str, None] = {}
    name: str | None = "index.html"
    while name:
        page = Page()
        page.feed((folder / name).read_text(encoding="utf-8"))
        page.close()
        paragraphs |= dict.fromkeys(text for text in page.paragraphs if not ADDRESS.search(text))
        name = page.following
    return list(paragraphs)


def corpora(html: Path) -> dict[str, list[str]]:
    """Per language, without what the translators left in English."""
    texts = {language: book(html / code) for language, code in BOOKS.items()}
    english = set(texts["english"])
    texts["german"] = [text for text in texts["german"] if text not in english]
    texts["japanese"] = [text for text in texts["japanese"] if KANA.search(text)]
    return texts


def unpack(deb: Path, folder: Path) -> Path:
    subprocess.run(["dpkg-deb", "-x", str(deb), str(folder)], check=True)
    return folder / "usr/share/doc" / PACKAGE / "html"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--deb", type=Path, help=f"a {PACKAGE} package that is already here")
    deb: Path | None = parser.parse_args().deb
    with tempfile.TemporaryDirectory() as scratch:
        if deb is None:
            subprocess.run(["apt-get", "download", PACKAGE], check=True, cwd=scratch)
            deb = next(Path(scratch).glob("*.deb"))
        for language, paragraphs in corpora(unpack(deb, Path(scratch) / "unpacked")).items():
            text = ("\n\n".join(paragraphs) + "\n").encode()
            # No name and no time in the header, so that the same text gives the same bytes.
            packed = gzip.compress(text, 9, mtime=0)
            (HERE / f"{language}.txt.gz").write_bytes(packed)
            print(f"{language}: {len(text):,} bytes, {len(packed):,} packed")  # noqa: T201


if __name__ == "__main__":
    main()
