"""``run.json``: what ran, on what, with what, and what the patches looked like."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from experiments.errors import ResultsError
from experiments.io.json_file import UnreadableJsonError, json_text, read_object
from experiments.machine import provenance
from experiments.machine.device import device_model
from experiments.sweep.run_shape import shape_fault
from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from experiments.sweep.cases import PlannedCase
    from experiments.sweep.config import SweepConfig
    from experiments.sweep.engines.engine import Engine
    from experiments.sweep.folder.store import Record
    from experiments.sweep.variants import Subjects

FILE = "run.json"
SCHEMA = 1
_TABLES = ("cases.csv", "noise.csv", "coverage.csv", "metrics.csv", "predictions.parquet")
"""What other tables, reports and figures are made from."""
POLICY = {
    "size_limits": "tabpfn's limits on rows and columns are overridden for every variant alike",
    "missing_targets": "rows without a target are left out before the split",
    "dates": "columns of dates are refused unless files ask for their parts",
    "precision": "float32, no autocast; integer seeds",
}


def begin(
    config: SweepConfig,
    planned: Sequence[PlannedCase],
    subjects: Subjects,
    command: Sequence[str],
    started: str,
    engine: Engine,
) -> dict[str, Any]:
    """Everything that is known before the first case runs."""
    return {
        "schema": SCHEMA,
        "status": "running",
        "config": config.model_dump(mode="json"),
        "command": list(command),
        **provenance.here(),
        "device": device_model(config.device),
        "dtype": "float32",
        "engine": {"kind": engine.kind, **asdict(engine)},
        "host": {
            "name": config.host,
            "sha256": subjects.host.sha256,
            "built_in": subjects.built_in,
        },
        "policy": POLICY,
        "tables": {item.table.name: _table(item) for item in planned},
        "patches": {patched.name: dict(patched.report) for patched in subjects.patched},
        "times": {"started": started},
    }


def end(record: dict[str, Any], finished: Iterable[Record], folder: Path) -> dict[str, Any]:
    """Add what is known when the last case is done and its tables are in ``folder``."""
    kernels: dict[str, Counter[str]] = {}
    statuses: Counter[str] = Counter()
    for item in finished:
        statuses[item.row.status] += 1
        kernels.setdefault(item.row.variant, Counter()).update(item.details.get("kernels", {}))
    return {
        **record,
        "status": "finished",
        "rows": dict(sorted(statuses.items())),
        "tables_sha256": {
            name: _sha256(folder / name) for name in _TABLES if (folder / name).is_file()
        },
        "kernels": {name: dict(counts) for name, counts in kernels.items() if counts},
        "times": {**record["times"], "finished": provenance.now()},
    }


def write(folder: Path, record: dict[str, Any]) -> None:
    """Write ``run.json``."""
    write_atomic(folder / FILE, json_text(record))


def read(folder: Path) -> dict[str, Any]:
    """Read ``run.json``; empty where there is none.

    Raises:
        ResultsError: it is damaged, or of a later version.
    """
    path = folder / FILE
    try:
        content = read_object(path)
    except FileNotFoundError:
        return {}
    except UnreadableJsonError as error:
        raise _damaged(path, str(error)) from None
    schema = content.get("schema", SCHEMA)
    if isinstance(schema, int) and schema > SCHEMA:
        raise ResultsError(
            f"{path}: written by a later version of oretro (its schema is above {SCHEMA}); install "
            "that version, or choose another --out"
        )
    if reason := shape_fault(content):
        raise _damaged(path, reason)
    return content


def check_tables(folder: Path, run: dict[str, Any]) -> None:
    """Make sure that the tables are those that the run wrote, where it says which.

    Raises:
        ResultsError: a table was changed or is gone.
    """
    for name, sha256 in run.get("tables_sha256", {}).items():
        if _sha256(folder / name) != sha256:
            raise ResultsError(
                f"{folder / name} is not the table that the run wrote; run the same 'oretro eval' "
                "again to remake it, nothing is recomputed"
            )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _damaged(path: Path, reason: str) -> ResultsError:
    return ResultsError(
        f"{path}: damaged ({reason}); run the same 'oretro eval' again to remake it, finished "
        "results are reused"
    )


def _table(planned: PlannedCase) -> dict[str, Any]:
    table = planned.table
    return {
        "source": table.source,
        "licence": table.licence,
        "sha256": table.sha256,
        "rows": len(table.y),
        "columns": table.X.shape[1],
        "categorical": len(table.categorical),
        "target": table.target,
        "dropped_rows": table.dropped_rows,
        "notes": list(table.notes),
    }
