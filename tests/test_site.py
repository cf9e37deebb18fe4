"""The site builds from the repository without a remark, and no link of its pages leads nowhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    path.relative_to(ROOT)
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "results/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: it is in the extras docs and dev")
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def page_of(site: Path, source: Path) -> Path:
    stem = source.parent if source.stem == "README" else source.with_suffix("")
    return site / stem / "index.html"


def lost(page: Path) -> list[str]:
    """Links of a page, within the site, that lead to no file or folder with a page."""
    links = re.findall(r'(?:href|src)="?([^"#?> ]+)', page.read_text(encoding="utf-8"))
    missing = []
    for link in links:
        target = page.parent / unquote(link)
        if ":" not in link and not (target / "index.html" if target.is_dir() else target).exists():
            missing.append(link)
    return missing


def test_no_link_leads_nowhere(site: Path) -> None:
    pages = list(site.rglob("index.html"))
    assert len(pages) > len(PAGES)
    assert {str(page): lost(page) for page in pages if lost(page)} == {}
    broken = site / "docs" / "broken.html"
    broken.write_text('<a href="../results/">kept</a> <a href="../elsewhere/">lost</a>')
    assert lost(broken) == ["../elsewhere/"]
    broken.unlink()


def test_links_out_of_the_docs_lead_to_pages_of_the_site(site: Path) -> None:
    text = page_of(site, Path("docs/figures.md")).read_text(encoding="utf-8")
    for target in ("../../results/closure/audit/", "../../results/ablation/ablation/"):
        assert f'href="{target}"' in text
    text = page_of(site, Path("README.md")).read_text(encoding="utf-8")
    assert 'src="results/closure/audit.svg"' in text
    assert 'href="examples/"' in text


@pytest.mark.parametrize("source", PAGES, ids=str)
def test_every_table_of_a_page_is_a_table_of_the_site(site: Path, source: Path) -> None:
    text = (ROOT / source).read_text(encoding="utf-8")
    html = page_of(site, source).read_text(encoding="utf-8")
    assert len(re.findall(r"<table>", html)) == len(re.findall(r"^\|(?=.*-)[ :|-]+\|$", text, re.M))


def test_an_example_is_a_page_with_its_words_and_its_code(site: Path) -> None:
    for path in (ROOT / "examples").glob("*.py"):
        html = (site / "examples" / path.stem / "index.html").read_text(encoding="utf-8")
        assert "not Prior Labs" in html
        assert "retrofit" in re.sub(r"<[^>]+>", "", html.partition("<code>")[2])
