"""A page read the way a browser reads it: elements, attributes and text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"col", "meta", "link", "br", "hr", "img", "input"})


@dataclass
class Page(HTMLParser):
    """elements: (name, attributes) in order. text: all text but that of style and script."""

    html: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    styles: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "style":
            self.styles.append(data)
        elif inside == "script":
            self.scripts.append(data)
        else:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        """The text with runs of white space as one space."""
        return " ".join(self.text.split())
