"""The page of a report, driven in a browser where there is one."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_report import ODD_NAMES, cases, write_folder

from experiments.report.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")

SCRIPT = """<script>(() => {
  const found = {}, root = document.documentElement;
  const rows = () => [...document.querySelectorAll("#cases tbody tr")];
  const shown = () => rows().filter((row) => !row.hidden);
  const change = () => shown().map((row) => row.dataset.change);
  found.width = [root.scrollWidth, root.clientWidth];
  const button = document.querySelector("#cases th[data-key=change] button");
  button.click();
  found.upward = change();
  button.click();
  found.downward = change();
  const text = document.getElementById("text");
  text.value = "$USD";
  text.dispatchEvent(new Event("input"));
  found.filtered = shown().map((row) => row.dataset.dataset);
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
})();</script>"""


def drive(page: Path, width: int) -> dict[str, Any]:
    """What the script finds when the page is open in a window of that width."""
    driven = page.with_name("driven.html")
    driven.write_text(page.read_text(encoding="utf-8") + SCRIPT, encoding="utf-8")
    command = [
        *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--disable-quic", f"--user-data-dir={page.parent / 'browser'}"),
        *(f"--window-size={width},900", "--dump-dom", driven.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    (told,) = re.findall(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    content: dict[str, Any] = json.loads(html.unescape(told))
    return content


@pytest.mark.parametrize("width", [390, 1280])
def test_page_sorts_filters_and_does_not_overflow(tmp_path: Path, width: int) -> None:
    rows = cases(ODD_NAMES, {"oa": 0.25, "full": -0.5})
    tables = {
        name: {"rows": 20, "columns": 3, "source": "toy", "licence": "none"} for name in ODD_NAMES
    }
    folder = write_folder(tmp_path, rows)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "tables": tables}))
    write_report(folder, figures=False)
    found = drive(folder / "report.html", width)
    assert "x" * 300 in (folder / "report.html").read_text(encoding="utf-8").split("<dl")[-1]
    assert found["width"][0] <= found["width"][1]
    upward = [float(value) for value in found["upward"]]
    assert len(set(upward)) == 2
    assert upward == sorted(upward)
    assert [float(value) for value in found["downward"]] == sorted(upward, reverse=True)
    assert set(found["filtered"]) == {"price_$usd_and_$eur"}
