"""`argosy init`: a job and a fleet to begin with, made of an example or of the user's own text."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from argosy.cli.program import program
from argosy.core.errors import DiskError, SpecError

FILL_IN = "FILL-IN"  # no country; spec refuses it by line until somebody has written one

_TOKENS = (300_000, 5_000_000)  # at least and at most; between them one pass over the text
_LINKS = ((100, 12), (100, 230), (100, 90))  # Mbit/s and ms of a site's link, as in the example
_EXAMPLE = (
    ("german", "frankfurt", "DE", "yes"),
    ("japanese", "tokyo", "JP", "no"),
    ("english", "virginia", "US", "no"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Origin:
    """One source and the one site that trains on it."""

    source: str
    site: str
    path: str
    country: str
    personal: str


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where to write. Made if it is not there.")
    ] = Path(),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Your own text: each folder in it becomes a source and a site."
        ),
    ] = None,
    country: Annotated[
        list[str] | None,
        typer.Option("--country", metavar="NAME=CC", help="Where a folder's text is from."),
    ] = None,
) -> None:
    """Write a commented job.yaml and fleet.yaml that run, and overwrite nothing."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(
            "expected a folder, got a file",
            where=str(folder),
            hint=f"name a folder that is not there yet, or an empty one: {program()} init FOLDER",
        )
    if data is None and country:
        raise SpecError(
            "--country goes with --data only",
            where="init",
            hint="without --data an example is written, and it says where its texts are from",
        )
    origins = _example() if data is None else _own(data, folder, country or [])
    texts = _texts() if data is None else {}
    tokens = _TOKENS[0] if data is None else _tokens(data)
    written = {
        "job.yaml": _job(_named(folder), tokens, origins),
        "fleet.yaml": _fleet(origins),
        **texts,
    }
    for name, content in _write(folder, written).items():
        print(f"wrote {name} ({content:,} bytes)")
    _say_next(folder, origins)


def _example() -> list[_Origin]:
    return [
        _Origin(source=source, site=site, path=f"data/{source}", country=cc, personal=personal)
        for source, site, cc, personal in _EXAMPLE
    ]


def _texts() -> dict[str, str]:
    return {f"data/{s}/harbour.txt": _template(f"texts/{s}.txt") for s, _, _, _ in _EXAMPLE}


def _template(name: str) -> str:
    return files("argosy.cli").joinpath("templates", name).read_text(encoding="utf-8")


def _own(data: Path, folder: Path, country: Sequence[str]) -> list[_Origin]:
    """A source and a site for each folder of text; the folder itself where it has no such."""
    if not data.is_dir():
        there = data.exists()
        raise SpecError(
            f"expected a folder of text, got {'a file' if there else 'nothing'}",
            where=str(data),
            hint=f"name the folder that it is in: --data {shlex.quote(str(data.parent))}"
            if there
            else "--data names a folder with your text, or with one folder for each site",
        )
    inside = [each for each in sorted(data.iterdir()) if each.is_dir() and _holds_text(each)]
    places = inside or ([data] if _holds_text(data) else [])
    if not places:
        raise SpecError(
            "there is no text in this folder or in the folders in it",
            where=str(data),
            hint="expected files that end in .txt, .jsonl, .txt.gz or .jsonl.gz",
        )
    loose = [each.name for each in data.iterdir() if _is_text(each)]
    if inside and loose:
        print(f"passed over {len(loose)} file(s) beside the folders in {data}: {loose[0]}, ...")
    names = _names([place.resolve().name for place in places])
    countries = _countries(country, names)
    return [
        _Origin(
            source=name,
            site=f"site-{name}"[:63],
            path=_relative(place, folder),
            country=countries.get(name, FILL_IN),
            personal="yes",
        )
        for place, name in zip(places, names, strict=True)
    ]


def _is_text(path: Path) -> bool:
    from argosy.data.files import is_text

    return path.is_file() and is_text(path.name) and not path.name.startswith(".")


def _holds_text(folder: Path) -> bool:
    return not folder.name.startswith(".") and any(_is_text(each) for each in folder.rglob("*"))


def _names(folders: Sequence[str]) -> list[str]:
    """Folder names as names of sources and sites, each once."""
    names: list[str] = []
    for number, folder in enumerate(folders, 1):
        name = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")[:50] or f"source-{number}"
        taken = {other.casefold() for other in names}
        names.append(f"{name}-{number}" if name.casefold() in taken else name)
    return names


def _countries(pairs: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    from argosy.catalog import check_country
    from argosy.spec.mistakes import suggest

    countries = {}
    for pair in pairs:
        name, equals, code = pair.partition("=")
        if not equals:
            raise SpecError(
                f"expected NAME=CC such as {names[0]}=DE, got {pair!r}",
                where="--country",
                hint=f"NAME is one of: {', '.join(names)}; CC its country by ISO 3166",
            )
        if name not in names:
            raise SpecError(
                f"no folder gave the name {name!r}{suggest(name, names)}",
                where="--country",
                hint=f"the names: {', '.join(names)}",
            )
        try:
            countries[name] = check_country(code)
        except ValueError as error:
            raise SpecError(
                str(error),
                where=f"--country {name}",
                hint=f"two letters by ISO 3166: --country {name}=DE",
            ) from error
    return countries


def _relative(place: Path, folder: Path) -> str:
    path = Path(os.path.relpath(place.resolve(), folder.resolve())).as_posix()
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            "the folder's name is not UTF-8", where=repr(path), hint="rename the folder"
        ) from error
    return path


def _tokens(data: Path) -> int:
    size = sum(each.stat().st_size for each in data.rglob("*") if _is_text(each))
    return min(max(size, _TOKENS[0]), _TOKENS[1])


def _named(folder: Path) -> str:
    return _names([folder.resolve().name])[0]


def _job(name: str, tokens: int, origins: Sequence[_Origin]) -> str:
    blocks = [
        f"  - name: {each.source}\n"
        f"    path: {json.dumps(each.path, ensure_ascii=False)}\n"
        f"    country: {each.country}{_remark(each)}\n"
        f"    personal: {each.personal}\n"
        f"    sites: [{each.site}]"
        for each in origins
    ]
    return Template(_template("job.yaml")).substitute(
        name=name,
        tokens=f"{tokens:_}",
        sources="\n\n".join(blocks),
        policy=_policy(origins),
    )


def _policy(origins: Sequence[_Origin]) -> str:
    countries = dict.fromkeys(each.country for each in origins)
    everywhere = f"[{', '.join(countries)}]"
    rule = (
        "  - allow: [update, metric, checkpoint]\n"
        f"    from: {everywhere}\n"
        f"    to: {everywhere}\n"
        "    why: written by argosy init as a proposal; put your own legal ground here"
    )
    if len(countries) > 1 or (FILL_IN in countries and len(origins) > 1):
        return f"policy:\n{rule}"
    commented = "\n".join(f"# {line}" for line in rule.splitlines())
    return f"policy: [] # all in one country: nothing has to leave it\n{commented}"


def _fleet(origins: Sequence[_Origin]) -> str:
    blocks = []
    for index, each in enumerate(origins):
        mbit, rtt = _LINKS[index % len(_LINKS)]
        blocks.append(
            f"  {each.site}:\n"
            f"    country: {each.country}{_remark(each)}\n"
            f"    link: {{mbit_per_s: {mbit}, rtt_ms: {rtt}}}\n"
            f"    hosts:\n"
            f"      {each.site[:60]}-1: {{cores: 1, price_per_hour: 0.05}}"
        )
    return Template(_template("fleet.yaml")).substitute(
        home=origins[0].country, sites="\n\n".join(blocks), host=f"{origins[-1].site[:60]}-1"
    )


def _remark(origin: _Origin) -> str:
    return " # <- an ISO 3166 code: DE, JP, US, ..." if origin.country == FILL_IN else ""


def _write(folder: Path, written: dict[str, str]) -> dict[str, int]:
    """All of it or, when one is there already, nothing."""
    there = [name for name in written if (folder / name).exists()]
    if there:
        raise SpecError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already",
            where=str(folder),
            hint=f"nothing was written; name another folder: {program()} init FOLDER",
        )
    sizes = {}
    for name, content in written.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(content)
        except OSError as error:
            raise DiskError(
                f"cannot be written: {error.strerror}",
                where=str(path),
                hint="free some space, or name a folder in which you may write",
            ) from error
        sizes[str(path)] = len(content.encode())
    return sizes


def _say_next(folder: Path, origins: Sequence[_Origin]) -> None:
    job = shlex.quote(str(folder / "job.yaml"))
    missing = [each.source for each in origins if each.country == FILL_IN]
    if missing:
        print(
            f"\nNext: write the countries of {', '.join(missing)} in place of {FILL_IN}, in both"
            f" files,\nor begin anew with --country {missing[0]}=DE. Then"
        )
    else:
        print("\nNext:")
    print(f"  {program()} plan {job} --lab\n  {program()} train {job} --lab")
