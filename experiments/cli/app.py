"""The typer application and the one place that turns errors into exit statuses."""

from __future__ import annotations

import os
import sys

import typer

PROGRAM = "oretro"
"""What usage says and what shells complete, however the program was started."""

EXAMPLES = """\b
Examples:
  oretro doctor                              what is installed here
  oretro eval --limit 1 --dry-run            what a comparison would run
  oretro eval                                18 packaged cases, built-in host
  oretro report results/packaged18-mini --out my-report
  oretro patch my-v3.ckpt --variant full -o my-v3-full.safetensors
"""

app = typer.Typer(
    name=PROGRAM,
    no_args_is_help=True,
    rich_markup_mode=None,  # drawing boxes would double the time of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Retrofit a frozen TabPFN regressor with O-closed attention and measure what that does.",
    epilog=EXAMPLES,
)


_SETTINGS = "which it reads from TABPFN_* variables and from a file .env in the working directory"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose message is meant for the user; looked up late so that --help stays fast."""
    from experiments.errors import ExperimentError

    expected: list[type[Exception]] = [ExperimentError]
    if "retrofit.errors" in sys.modules:
        expected.append(sys.modules["retrofit.errors"].RetrofitError)
    if "retrofit.ops.errors" in sys.modules:
        expected.append(sys.modules["retrofit.ops.errors"].OperatorError)
    return tuple(expected)


def _abandon_output() -> None:
    """Let Python's own flush at the end write into nothing: it would fail once more."""
    with open(os.devnull, "w") as nothing:  # noqa: PTH123  (a descriptor is what is wanted)
        os.dup2(nothing.fileno(), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def main() -> None:
    """Run the command line and exit with the status that the module docstring defines."""
    try:
        status = app(prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        # An error of ours, such as a host that is not there, may be one of these as well.
        if isinstance(error, _expected_errors()):
            typer.echo(f"error: {error}", err=True)
            sys.exit(2)
        # Such as a full disk behind a redirected output, or a pipe whose reader has gone.
        _abandon_output()
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except typer.Exit as exit_:
        sys.exit(exit_.exit_code)
    except Exception as error:
        usage = getattr(error, "exit_code", None)
        if usage is not None and hasattr(error, "show"):
            error.show()
            sys.exit(usage)
        if getattr(error, "title", "") == "TabPFNSettings":
            typer.echo(
                f"error: tabpfn refuses its settings, {_SETTINGS}: {_one_line(error)}", err=True
            )
            sys.exit(2)
        if isinstance(error, _expected_errors()):
            typer.echo(f"error: {error}", err=True)
            sys.exit(2)
        raise
    sys.exit(status or 0)
