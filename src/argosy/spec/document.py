"""YAML as plain values, with the line of every key.

A smaller YAML than most parsers read: `NO` is Norway and not false, 010 is ten, 12:30 is text, and
there are neither tags nor aliases. A word means yes or no only as yes, no, true, false, on or off.
"""

import re
from dataclasses import dataclass, field

import yaml

from argosy.core.errors import SpecError
from argosy.spec.text import LIMIT

Path = tuple[str | int, ...]

_DEPTH = 32
_NODES = 20_000
_NULL = re.compile(r"~|null|Null|NULL|")
_YES = re.compile(r"yes|Yes|true|True|TRUE|on|On")
_NO = re.compile(r"no|No|false|False|FALSE|off|Off")
_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_HINTS = (
    ("'\\t'", "indent with spaces: YAML allows no tab there"),
    ("start of a character", "put text that begins with a special sign in quotes"),
    ("cannot start any token", "put text that begins with a special sign in quotes"),
    (
        "mapping values are not allowed",
        "text that contains ': ' needs quotes; else check the indent",
    ),
    ("could not find expected ':'", "every line inside a section reads `key: value`"),
    ("expected alphabetic or numeric", 'an asterisk needs quotes: "*"'),
    ("expected <block end>", "lines of one section begin in the same column"),
    ("expected ',' or", "a bracket is not closed, or a comma is missing"),
    ("end of stream", "a quote or bracket is not closed"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What a file says, and where."""

    where: str
    data: object
    lines: dict[Path, int] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """file:line of the key, or of the nearest one above it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.where}:{self.lines.get(path, 1)}"


def document(text: str, where: str) -> Document:
    """Raises SpecError for what is no YAML, or more of YAML than a spec needs."""
    if len(text) > LIMIT:
        raise SpecError("expected at most 1 MiB, got more", where=where)
    root = _compose(text, where)
    if root is None:
        raise SpecError(
            "expected `version: 1` and more, got an empty file",
            where=f"{where}:1",
            hint="argosy init writes an example",
        )
    lines: dict[Path, int] = {(): root.start_mark.line + 1}
    return Document(where=where, data=_Reading(where, lines).value(root, ()), lines=lines)


class _Refused(yaml.MarkedYAMLError):
    """YAML that a spec does not need."""


class _Loader(yaml.SafeLoader):
    """Composes nodes only; refuses aliases, tags and bottomless nesting before they cost anything."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.count += 1
        self.depth += 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused(
                None, None, "anchors and aliases (& and *) are not used here", event.start_mark
            )
        if getattr(event, "tag", None):
            raise _Refused(None, None, f"tags ({event.tag}) are not used here", event.start_mark)
        if self.depth > _DEPTH:
            raise _Refused(None, None, f"nested more than {_DEPTH} levels deep", event.start_mark)
        if self.count > _NODES:
            raise _Refused(None, None, f"more than {_NODES:,} values", event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _compose(text: str, where: str) -> yaml.Node | None:
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError(
            f"expected text, got the control character U+{ord(text[error.position]):04X}",
            where=f"{where}:{line}",
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        problem = error.problem or str(error)
        if "single document" in str(error):
            problem = "expected one document, got a second one after '---'"
        kind = "" if isinstance(error, _Refused) else "not YAML: "
        raise SpecError(
            f"{kind}{problem}",
            where=f"{where}:{mark.line + 1 if mark else 1}",
            hint=next((hint for sign, hint in _HINTS if sign in problem), None),
        ) from error


@dataclass(frozen=True, slots=True)
class _Reading:
    where: str
    lines: dict[Path, int]

    def value(self, node: yaml.Node, path: Path) -> object:
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                items: list[object] = []
                for index, item in enumerate(node.value):
                    self.lines[*path, index] = item.start_mark.line + 1
                    items.append(self.value(item, (*path, index)))
                return items
            case _:
                assert isinstance(node, yaml.ScalarNode)
                return _scalar(node.value, plain=node.style is None)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise SpecError("expected a word as key", where=f"{self.where}:{line}")
            key = str(key_node.value)
            if key in result:
                raise SpecError(
                    f"the key {key!r} is given twice",
                    where=f"{self.where}:{line}",
                    hint=f"it is first given at line {self.lines[*path, key]}",
                )
            self.lines[*path, key] = line
            result[key] = self.value(value_node, (*path, key))
        return result


def _scalar(text: str, *, plain: bool) -> object:
    if not plain:
        return text
    if _NULL.fullmatch(text):
        return None
    if _YES.fullmatch(text) or _NO.fullmatch(text):
        return _YES.fullmatch(text) is not None
    if _INT.fullmatch(text) and len(text) <= 40:
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text
