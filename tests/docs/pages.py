"""What the pages in docs/ contain: links, blocks of code, tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    page: Path
    line: int
    info: str  # what stands after the fence: "yaml fragment"
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """What strangers read: the docs, the pages at the top, those of the examples."""
    found = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(found)


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        indent = found["indent"]
        body = re.sub(rf"^{indent}", "", found["text"], flags=re.MULTILINE)
        yield Block(page=page, line=line, info=found["info"].strip(), text=body)


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return [found["target"] for found in _LINK.finditer(prose(page))]


def anchors(page: Path) -> set[str]:
    """The names by which headings can be linked to, as GitHub makes them."""
    titles = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def rows(page: Path, first: str) -> list[dict[str, str]]:
    """The rows of every table whose first column is called `first`."""
    found: list[dict[str, str]] = []
    head: list[str] | None = None
    for line in prose(page).splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if head is None:
            head = cells
        elif head[0] == first and set(line) - set("|-: "):
            assert len(cells) == len(head), f"{page.name}: {line}"
            found.append(dict(zip(head, cells, strict=True)))
    return found


def code(cell: str) -> str:
    """The first `code` of a cell."""
    found = re.search(r"`([^`]+)`", cell)
    return found[1] if found else ""
