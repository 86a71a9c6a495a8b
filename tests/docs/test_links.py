"""Every link of a page leads somewhere."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from docs.pages import DOCS, ROOT, anchors, links, pages, prose


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    lost = []
    for target in links(page):
        parts = urlsplit(target)
        if parts.scheme in {"http", "https", "mailto"}:
            continue
        there = (page.parent / parts.path).resolve() if parts.path else page
        if not there.exists() or (parts.fragment and parts.fragment not in anchors(there)):
            lost.append(target)

    assert lost == []


def test_every_page_of_the_docs_is_in_the_index() -> None:
    index = DOCS / "README.md"
    named = {(DOCS / urlsplit(target).path).resolve() for target in links(index)}

    left_out = [page for page in DOCS.glob("*.md") if page != index and page not in named]

    assert left_out == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    text = prose(page)
    files = {ROOT / name for name in re.findall(r"`(tests/[\w/.]+)`", text)}
    known = "".join(file.read_text(encoding="utf-8") for file in files if file.suffix == ".py")
    names = re.findall(r"`(test_\w+)`", text)

    assert [file for file in files if not file.exists()] == []
    assert [name for name in names if f"def {name}(" not in known] == []
