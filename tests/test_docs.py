"""Every command of the documentation is run, as it stands there, in a folder of its own."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from experiments.cli import main
from experiments.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
HOST = ROOT / "retrofit" / "assets" / "mini-host-v3-regressor.safetensors"
NOT_RUN = {
    "oretro eval": "18 cases take minutes; its --dry-run is run, and so are sweeps in other tests",
    "oretro --install-completion": "it edits the shell's start files; completion itself is run",
    "oretro eval --host v3": "it downloads Prior Labs' weights, after their licence",
    "oretro eval --host my-v3.ckpt --seeds 1,2": "18 cases, as above, on a host of the reader's",
    "oretro explain diabetes --rows 0,1": "1,024 coalitions take minutes; a smaller one is run",
    "oretro patch mini -o mini-v3-full.safetensors": "as another page's, which is run for oa",
    "oretro audit": "it takes minutes; tests/closure runs its parts",
    "oretro check": "it takes minutes; tests/contracts runs its laws",
}
NEEDS_A_FETCH = re.compile(r"openml18 .*--cache openml-cache")
OTHER_PROGRAMS = {
    "python3 -m venv .venv",
    "source .venv/bin/activate",
    "dask scheduler --port 8786",
    "dask worker tcp://scheduler-host:8786 --nthreads 1 --nworkers 4",
}


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def mentions(page: Path) -> list[str]:
    """Commands within sentences: a name, and perhaps options."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [" ".join(said.split()) for said in re.findall(r"`(oretro [^`]+)`", prose)]


ORETRO = sorted(
    {line for page in (*FRONT, *PAGES) for line in commands(page) if line.startswith("oretro")}
)
MENTIONED = sorted(
    {
        said
        for page in (*FRONT, *PAGES, *ROOT.glob("results/**/*.md"), *ROOT.glob(".github/*/*.yml"))
        for said in mentions(page)
    }
)
OTHERS = sorted(
    {line for page in PAGES for line in commands(page) if not line.startswith("oretro")}
)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the pages speak of."""
    from experiments.sweep import schema

    monkeypatch.chdir(tmp_path)
    shutil.copy(HOST, tmp_path / "my-v3.safetensors")
    rows = "".join(f"{i},{'a' if i % 3 else 'b'},n{i},{2 * i + i % 5}\n" for i in range(40))
    (tmp_path / "mine.csv").write_text("size,kind,name,price\n" + rows)
    page = (ROOT / "docs" / "bring-your-own.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(block)
    results = tmp_path / "runs" / "packaged18-mini"
    results.mkdir(parents=True)
    lines = [",".join(schema.columns())]
    for variant, rmse in (("stock", "1.0"), ("oa", "1.01")):
        cells = ["s", "toy", "toy", "d", "1", variant, "mini", "h", "7", "3", "2", rmse]
        lines.append(",".join((*cells, "1.0", "0.5", "1.0", "0.1", "0.1", "1.0", "ok", "")))
    (results / "cases.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def write_calibration(path: Path) -> None:
    """What an earlier command of the same page wrote, with tau made up."""
    import numpy as np

    import retrofit
    from retrofit.hosts.report import StreamReport, TableRecord

    retrofit.Calibration(
        variant="full",
        target_presence=0.99,
        host_name="my-v3.safetensors",
        host_sha256=retrofit.describe_host(HOST).sha256,
        streams=[
            StreamReport.of(name, 1e-3, np.ones(1))
            for name in retrofit.plan(str(HOST), "full").streams
        ],
        tables=[TableRecord("mine", 40, 1, "0" * 64)],
        versions={},
    ).save(path)


def run(monkeypatch: pytest.MonkeyPatch, line: str) -> int:
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)


@pytest.mark.parametrize("line", [line for line in ORETRO if line not in NOT_RUN])
def test_command_of_the_documentation_runs(
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
) -> None:
    if "--tau tau.json" in line:
        write_calibration(workplace / "tau.json")
    status = run(monkeypatch, line)
    captured = capsys.readouterr()
    if NEEDS_A_FETCH.search(line):
        assert status in (1, 2)
        assert "oretro data fetch" in captured.err + captured.out
    else:
        assert status == 0, captured.err
        assert captured.out
    assert "Traceback" not in captured.err


def command_of(line: str) -> tuple[typer.core.TyperCommand, str, list[str]]:
    """The command that a line names, its name, and what follows."""
    _, name, *arguments = shlex.split(line)
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        if name.startswith("-"):
            return command, "oretro", [name, *arguments]
        command = command.commands[name]
        if isinstance(command, TyperGroup):
            name, *arguments = arguments or ["--help"]
    return command, name, arguments


@pytest.mark.parametrize("line", ORETRO)
def test_command_of_the_documentation_parses(line: str) -> None:
    command, name, arguments = command_of(line)
    command.make_context(name, arguments, resilient_parsing=name == "oretro")


def unknown_options(line: str) -> list[str]:
    command, _, arguments = command_of(line)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    given = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    return [name for name in given if name not in {*known, "--help"}]


@pytest.mark.parametrize("said", MENTIONED)
def test_commands_and_options_that_sentences_name_exist(said: str) -> None:
    assert unknown_options(said) == []


def test_a_misspelt_command_or_option_of_a_page_is_seen() -> None:
    command, name, arguments = command_of("oretro eval --hosts v3")
    with pytest.raises(Exception, match="No such option"):
        command.make_context(name, arguments)
    assert unknown_options("oretro eval --hosts v3 --seeds 1") == ["--hosts"]
    with pytest.raises(KeyError):
        command_of("oretro evil")
    assert len(MENTIONED) > 20


def test_every_page_is_known_and_guides_show_commands() -> None:
    assert [page.stem for page in PAGES] == [
        "architecture",
        "bring-your-own",
        "citing",
        "closure",
        "cluster",
        "figures",
        "quick-start",
        "removal",
        "what-is-measured",
    ]
    assert all(
        commands(page) for page in PAGES if page.stem not in ("architecture", "citing", "figures")
    )
    assert set(NOT_RUN) <= set(ORETRO)


def test_extras_that_the_pages_install_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    installs = [line for line in OTHERS if "pip install" in line]
    assert set(OTHERS) - set(installs) == OTHER_PROGRAMS
    extras = {name for line in installs for name in re.findall(r"\[(.*?)\]", line)[0].split(",")}
    assert extras
    for name in extras:
        assert re.search(rf"^{name} = \[", project, re.MULTILINE), name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), (page.name, target)


SHELLS: dict[str, Callable[[str], dict[str, str]]] = {
    "bash": lambda words: {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)},
    "zsh": lambda words: {"_TYPER_COMPLETE_ARGS": words},
    "fish": lambda words: {
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    },
}
"""What the script that each shell is given asks with."""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "expected", "other"),
    [
        ("oretro re", "report", "eval"),
        ("oretro data sh", "show", "fetch"),
        ("oretro eval --case", "--case-timeout", "--cache"),
    ],
)
def test_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shell: str,
    words: str,
    expected: str,
    other: str,
) -> None:
    monkeypatch.setenv("_ORETRO_COMPLETE", f"complete_{shell}")
    for name, value in SHELLS[shell](words).items():
        monkeypatch.setenv(name, value)
    assert run(monkeypatch, "oretro") == 0
    told = capsys.readouterr().out
    assert expected in re.findall(r"[\w-]+", told)
    assert other not in told


@pytest.mark.parametrize("shell", SHELLS)
def test_script_for_each_shell_asks_oretro(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("_ORETRO_COMPLETE", f"source_{shell}")
    assert run(monkeypatch, "oretro") == 0
    script = capsys.readouterr().out
    for name in ("_ORETRO_COMPLETE", *SHELLS[shell]("oretro")):
        assert name in script
