"""Registers every command with the application."""

from __future__ import annotations

from experiments.cli.ablate_command import EXAMPLES as ABLATE_EXAMPLES
from experiments.cli.ablate_command import ablate
from experiments.cli.app import app
from experiments.cli.audit_command import EXAMPLES as AUDIT_EXAMPLES
from experiments.cli.audit_command import audit
from experiments.cli.bench_command import EXAMPLES as BENCH_EXAMPLES
from experiments.cli.bench_command import bench
from experiments.cli.calibrate_command import EXAMPLES as CALIBRATE_EXAMPLES
from experiments.cli.calibrate_command import calibrate
from experiments.cli.check_command import EXAMPLES as CHECK_EXAMPLES
from experiments.cli.check_command import check
from experiments.cli.data_command import data
from experiments.cli.doctor_command import EXAMPLES as DOCTOR_EXAMPLES
from experiments.cli.doctor_command import doctor
from experiments.cli.eval_command import EXAMPLES as EVAL_EXAMPLES
from experiments.cli.eval_command import evaluate
from experiments.cli.patch_command import EXAMPLES as PATCH_EXAMPLES
from experiments.cli.patch_command import patch
from experiments.cli.pretrain_command import EXAMPLES as PRETRAIN_EXAMPLES
from experiments.cli.pretrain_command import pretrain
from experiments.cli.report_command import EXAMPLES as REPORT_EXAMPLES
from experiments.cli.report_command import report
from experiments.cli.tables_command import EXAMPLES as TABLES_EXAMPLES
from experiments.cli.tables_command import bench_tables


@app.callback()
def _root() -> None:
    """Keep `oretro` a group of commands, however few are registered."""


app.command("patch", epilog=PATCH_EXAMPLES)(patch)
app.command("eval", epilog=EVAL_EXAMPLES)(evaluate)
app.add_typer(data, name="data")
app.command("doctor", epilog=DOCTOR_EXAMPLES)(doctor)
app.command("pretrain", epilog=PRETRAIN_EXAMPLES)(pretrain)
app.command("calibrate", epilog=CALIBRATE_EXAMPLES)(calibrate)
app.command("check", epilog=CHECK_EXAMPLES)(check)
app.command("bench", epilog=BENCH_EXAMPLES)(bench)
app.command("report", epilog=REPORT_EXAMPLES)(report)
app.command("ablate", epilog=ABLATE_EXAMPLES)(ablate)
app.command("audit", epilog=AUDIT_EXAMPLES)(audit)
app.command("bench-tables", epilog=TABLES_EXAMPLES)(bench_tables)
