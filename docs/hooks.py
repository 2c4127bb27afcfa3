"""What `make docs` does to the pages, so that the same Markdown is read here and on the site.

Links out of docs/ lead to copies on the site, ```math becomes MathML, docs/api.md gets a page of signatures for each of its
sections, and the gallery the pages that `make gallery` has built. Nothing is fetched when a page is viewed, no file is
larger than 2 MB and no report larger than 300 kB: `on_post_build` checks all three.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel
from pymdownx.slugs import slugify

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
NAME = re.compile(r"^- `([A-Za-z]\w*)`(?=: )", re.MULTILINE)
FETCHED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")
LARGEST, LARGEST_REPORT = 2_000_000, 300_000  # bytes
GALLERY = {  # a case -> its page in build/gallery/; those that `make gallery` has not built are left out of the site
    "demo": "demo/report.html",
    "table": "demo/cars/evidence.html",
    **{name: f"{name}/evidence.html" for name in ("texts", "photos", "faces")},
}


def site_path(page: str, link: str) -> str:
    """Where the site has what a page (`docs/api.md`) links to: pages by their names, modules as pages, files as they are."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if "/" not in path:
        return path
    return f"source/{path}.md" if path.endswith(".py") else f"source/{path}"


def reference_pages() -> dict[str, tuple[str, list[str]]]:
    """Path -> (title, public names) of every section of docs/api.md."""
    sections = re.split(r"^## ", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    titles = [section.partition("\n")[0] for section in sections]
    return {
        f"reference/{slugify(case='lower')(title, '-')}.md": (title, NAME.findall(section))
        for title, section in zip(titles, sections, strict=True)
    }


def reference(title: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n\n".join(f"::: gauge.{name}" for name in names)


def module_page(path: str) -> str:
    """A module with its code; tests and examples are shown in the same way."""
    code = (ROOT / path).read_text(encoding="utf-8")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n~~~~~python\n{code}~~~~~\n"


def built_gallery() -> dict[str, Path]:
    pages = {name: ROOT / "build" / "gallery" / path for name, path in GALLERY.items()}
    return {name: page for name, page in pages.items() if page.is_file()}


def on_config(config: Any) -> None:
    """The nav gets the pages of signatures beside docs/api.md."""
    (pages,) = (item["Reference"] for item in config.nav if "Reference" in item)
    pages[pages.index({"Python": "api.md"})] = {"Python": ["api.md", *reference_pages()]}


def on_files(files: Any, config: Any) -> None:
    def add(path: str, **content: Any) -> None:
        if files.get_file_from_path(path) is None:
            files.append(File.generated(config, path, **content))

    for path, (title, names) in reference_pages().items():
        add(path, content=reference(title, names))
    for name, source in built_gallery().items():
        add(f"gallery/{name}.html", abs_src_path=str(source), inclusion=InclusionLevel.NOT_IN_NAV)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        add(name, content=(ROOT / name).read_text(encoding="utf-8"))
    for page in ROOT.glob("docs/*.md"):
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            path = site_path(f"docs/{page.name}", link)
            module = path.removeprefix("source/").removesuffix(".md")
            if path.startswith("source/") and (ROOT / module).is_file():
                shown = (
                    {"content": module_page(module)} if path.endswith(".md") else {"abs_src_path": str(ROOT / module)}
                )
                add(path, inclusion=InclusionLevel.NOT_IN_NAV, **shown)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    path = page.file.src_uri
    if path.startswith(("source/", "reference/")):
        return markdown
    if path == "api.md":
        markdown = NAME.sub(r"- [`\1`][gauge.\1]", markdown)
    built = built_gallery()
    markdown = re.sub(
        r"<!-- page: (\w+) -->", lambda case: f" ([page](gallery/{case[1]}.html))" if case[1] in built else "", markdown
    )
    here = path if (ROOT / path).is_file() else f"docs/{path}"
    markdown = LINK.sub(lambda link: site_path(here, link[1]), markdown)
    markdown = re.sub(r"^```python file=(\S+)$", r'```python title="\1"', markdown, flags=re.MULTILINE)
    return re.sub(r"^```math\n(.*?)^```$", equation, markdown, flags=re.MULTILINE | re.DOTALL)


def equation(block: re.Match[str]) -> str:
    return f'<div class="equation">{convert(block[1].strip(), display="block")}</div>'


def on_post_build(config: Any) -> None:
    for path in sorted(Path(config.site_dir).rglob("*")):
        largest = LARGEST_REPORT if path.parent.name == "gallery" else LARGEST
        if path.is_file() and path.stat().st_size > largest:
            raise PluginError(f"{path} has {path.stat().st_size:,} bytes; at most {largest:,} are allowed")
        if path.suffix == ".html" and (fetched := FETCHED.search(path.read_text(encoding="utf-8"))):
            raise PluginError(f"{path} fetches something when it is viewed: {fetched[0]}")


class Doctests(griffe.Extension):
    """Examples of docstrings become blocks of code; in plain Markdown `>>>` would be a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            example = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
            obj.docstring.value = example.sub(lambda code: f"```pycon\n{code[0]}\n```", obj.docstring.value)
