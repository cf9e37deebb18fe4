"""The repository as a site: its pages under the paths that they have here, examples as pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
TAKEN = ("*.md", "CITATION.cff", "docs/*.md", "results/**/*.*", "examples/*.py", "configs/*.yaml")
LINKED = ("retrofit/assets/*.md", "tests/CASES.md", "tests/test_rooms.py")


def example(path: Path) -> str:
    """Page of an example: what its docstring says, then its code."""
    source = path.read_text(encoding="utf-8")
    said, code = ast.get_docstring(ast.parse(source)) or "", source.split('"""', 2)[2].strip()
    return f"# {path.stem.replace('_', ' ')}\n\n{said}\n\n```python\n{code}\n```\n"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Put the repository's files, its examples and an index of each folder in place of docs/."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    found = {path for pattern in (*TAKEN, *LINKED) for path in ROOT.glob(pattern)}
    for path in filter(Path.is_file, found):
        uri = path.relative_to(ROOT).as_posix()
        files.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))
        if path.parent.name == "examples":
            uri = uri.removesuffix("py") + "md"
            files.append(File.generated(config, uri, content=example(path)))
    for folder in (ROOT / "examples", *ROOT.glob("results/**/")):
        if not (folder / "README.md").exists():
            names = sorted(path.name for path in folder.iterdir() if path.name[0] not in "._")
            page = f"# {folder.name}\n\n" + "\n".join(f"- [{name}]({name})" for name in names)
            uri = (folder.relative_to(ROOT) / "index.md").as_posix()
            files.append(File.generated(config, uri, content=page))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to folders and examples lead to their pages."""

    def page_of(link: re.Match[str]) -> str:
        path = (ROOT / page.file.src_uri).parent / link[1]
        if path.is_dir():
            return f"]({link[1]}/{'README' if (path / 'README.md').exists() else 'index'}.md)"
        of_example = path.suffix == ".py" and path.parent.name == "examples"
        return f"]({link[1].removesuffix('py')}md)" if of_example else link[0]

    return re.sub(r"\]\(([^)#:]+)\)", page_of, markdown)
