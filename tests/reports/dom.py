"""A page as its elements: what a browser would take as markup, and what as text (standard library parser)."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    @property
    def children(self) -> list[Element]:
        return [part for part in self.parts if isinstance(part, Element)]

    def all(self, tag: str) -> list[Element]:
        """Every element of that tag below this one, in order."""
        found = []
        for child in self.children:
            found += [child] if child.tag == tag else []
            found += child.all(tag)
        return found

    def whole_text(self) -> str:
        """All text in it, in order, runs of white space as one space."""
        return " ".join(self._text().split())

    def raw_text(self) -> str:
        """The text directly in it, as it stands."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def _text(self) -> str:
        return "".join(part if isinstance(part, str) else part._text() for part in self.parts)


VOID = {"meta", "link", "br", "img", "input", "hr"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].tag != tag:
            raise AssertionError(f"</{tag}> closes <{self.open[-1].tag}>")
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def read(page: str) -> Element:
    """The page's tree. An element that is closed in the wrong order fails the test."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], f"left open: {[element.tag for element in reader.open[1:]]}"
    return reader.root
