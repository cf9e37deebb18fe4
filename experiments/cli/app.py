"""The typer application and the one place that turns errors into exit statuses."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from experiments.errors import MAX_MESSAGE, ExperimentError
from experiments.io.text import lines

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


_HOME = "set HOME to a folder that can be written"
_SETTINGS = "which it reads from TABPFN_* variables and from a file .env in the working directory"


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose message is meant for the user; looked up late so that --help stays fast."""
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


def _open_closed_streams() -> None:
    """Give a stream that the caller closed, as ``>&-`` does, nothing to be read or written to.

    Its number would otherwise be that of the next file that is opened.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _fail(error: object, status: int) -> NoReturn:
    """Say what went wrong, never at length, and exit."""
    typer.echo(f"error: {lines(str(error), MAX_MESSAGE)}", err=True)
    sys.exit(status)


def main() -> None:
    """Run the command line and exit with the status that the module docstring defines."""
    _open_closed_streams()
    try:
        status = app(prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        # An error of ours, such as a host that is not there, may be one of these as well.
        if isinstance(error, _expected_errors()):
            _fail(error, 2)
        # Such as a full disk behind a redirected output, or a pipe whose reader has gone.
        _abandon_output()
        _fail(error, 1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except typer.Exit as exit_:
        sys.exit(exit_.exit_code)
    except SystemExit as error:
        # A shell that asks for completions is answered so; of a command it is none of ours.
        if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
            raise
        _fail(f"code of the host ended the program (sys.exit({error.code!r}))", 1)
    except Exception as error:
        _explain(error)
        raise
    sys.exit(status or 0)


def _explain(error: Exception) -> None:
    """Exit with a sentence for what a user can mend; return for what only we can."""
    usage = getattr(error, "exit_code", None)
    if usage is not None and hasattr(error, "show"):
        if len(str(error)) > MAX_MESSAGE:
            _fail(error, usage)
        error.show()
        sys.exit(usage)
    if getattr(error, "title", "") == "TabPFNSettings":
        _fail(f"tabpfn refuses its settings, {_SETTINGS}: {' '.join(str(error).split())}", 2)
    if isinstance(error, RuntimeError) and "determine home directory" in str(error):
        _fail(f"this account has no home folder, which a library asks for ({error}); {_HOME}", 2)
    if isinstance(error, _expected_errors()):
        _fail(error, 2)
