"""HTML pages as a browser reads them."""

from html.parser import HTMLParser

HOSTILE = (
    """</style></title>"'><script>alert("x")</script><img src=//evil.test/x onerror='alert(1)'>&amp; {{ 7 * 7 }}"""
)


class Page(HTMLParser):
    """The elements and the words of a page."""

    VOID = frozenset({"meta", "img", "input", "br", "path", "rect", "line"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["style"], ["script"]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]

    @property
    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]

    @property
    def addresses(self) -> list[str]:
        """Everything that a browser might load."""
        names = ("src", "href", "srcset", "action", "data", "poster")
        return [value or "" for _, each in self.elements for name, value in each.items() if name in names]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
