"""What ``oretro patch`` prints: a summary that 80 columns hold, and every site where asked."""

from __future__ import annotations

import pytest
from command_line import call

import retrofit


@pytest.mark.parametrize("more", [("--dry-run",), ("--tau", "1e-3")], ids=["plan", "report"])
def test_patch_prints_a_summary_and_sites_where_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    plan = retrofit.plan("mini", "full")
    site, stream = plan.sites[-1].name, plan.streams[-1]
    command = ("patch", "mini", "--variant", "full", *more)
    assert call(monkeypatch, *command) == 0
    summary = capsys.readouterr().out
    assert max(map(len, summary.splitlines())) <= 80
    assert f"full on mini: {len(plan.sites)} sites" in summary
    attention = next(line for line in summary.splitlines() if line.split()[:1] == ["attention"])
    assert attention.split()[1] == str(plan.counts["attention"])
    assert site not in summary
    assert call(monkeypatch, *command, "--sites") == 0
    everything = capsys.readouterr().out
    assert site in everything
    if "--tau" in more:
        assert stream in everything
        assert stream not in summary
        assert "null radius" in summary
