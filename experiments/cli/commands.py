"""Registers every command with the application."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import (
    ablate_command,
    audit_command,
    bench_command,
    calibrate_command,
    check_command,
    compare_command,
    config_command,
    data_command,
    doctor_command,
    eval_command,
    explain_command,
    intervals_command,
    patch_command,
    pretrain_command,
    removal_bench_command,
    removal_study_command,
    report_command,
    sweep_bench_command,
    tables_command,
    values_command,
)
from experiments.cli.app import PROGRAM, app


def _print_version(wanted: bool) -> None:
    if wanted:
        from experiments.machine.provenance import versions

        typer.echo(f"{PROGRAM} {versions((PROGRAM,))[PROGRAM]}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback()
def _root(_version: Annotated[bool, _VERSION] = False) -> None:
    """Keep `oretro` a group of commands, however few are registered."""


for _name, _module, _command in (
    ("patch", patch_command, patch_command.patch),
    ("eval", eval_command, eval_command.evaluate),
    ("doctor", doctor_command, doctor_command.doctor),
    ("pretrain", pretrain_command, pretrain_command.pretrain),
    ("calibrate", calibrate_command, calibrate_command.calibrate),
    ("check", check_command, check_command.check),
    ("bench", bench_command, bench_command.bench),
    ("report", report_command, report_command.report),
    ("compare", compare_command, compare_command.compare),
    ("ablate", ablate_command, ablate_command.ablate),
    ("audit", audit_command, audit_command.audit),
    ("bench-tables", tables_command, tables_command.bench_tables),
    ("bench-removal", removal_bench_command, removal_bench_command.bench_removal),
    ("bench-sweep", sweep_bench_command, sweep_bench_command.bench_sweep),
    ("study-removal", removal_study_command, removal_study_command.study_removal),
    ("explain", explain_command, explain_command.explain),
    ("values", values_command, values_command.values),
    ("intervals", intervals_command, intervals_command.intervals),
):
    app.command(_name, epilog=_module.EXAMPLES)(_command)
app.add_typer(data_command.data, name="data")
app.add_typer(config_command.config, name="config")
