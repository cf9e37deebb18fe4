"""``run.json``: what ran, on what, with what, and what the patches looked like."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from experiments.errors import ResultsError
from experiments.io.atomic import write_atomic
from experiments.machine import provenance
from experiments.machine.device import device_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from experiments.sweep.cases import PlannedCase
    from experiments.sweep.config import SweepConfig
    from experiments.sweep.engines.engine import Engine
    from experiments.sweep.folder.store import Record
    from experiments.sweep.variants import Subjects

FILE = "run.json"
POLICY = {
    "size_limits": "tabpfn's limits on rows and columns are overridden for every variant alike",
    "missing_targets": "rows without a target are left out before the split",
    "dates": "columns of dates are refused",
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
        "schema": 1,
        "status": "running",
        "config": config.model_dump(mode="json"),
        "command": list(command),
        "code": provenance.git_state(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
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


def end(record: dict[str, Any], finished: Iterable[Record]) -> dict[str, Any]:
    """Add what is known when the last case is done."""
    kernels: dict[str, Counter[str]] = {}
    statuses: Counter[str] = Counter()
    for item in finished:
        statuses[item.row.status] += 1
        kernels.setdefault(item.row.variant, Counter()).update(item.details.get("kernels", {}))
    return {
        **record,
        "status": "finished",
        "rows": dict(sorted(statuses.items())),
        "kernels": {name: dict(counts) for name, counts in kernels.items() if counts},
        "times": {**record["times"], "finished": provenance.now()},
    }


def write(folder: Path, record: dict[str, Any]) -> None:
    """Write ``run.json``."""
    text = json.dumps(record, indent=1, ensure_ascii=True, allow_nan=False)
    write_atomic(folder / FILE, text + "\n")


def read(folder: Path) -> dict[str, Any]:
    """Read ``run.json``; empty where there is none.

    Raises:
        ResultsError: it is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultsError(
            f"{path}: damaged ({error}); run the same 'oretro eval' again to remake it, finished "
            "results are reused"
        ) from None
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: not a run record; run 'oretro eval' again to remake it")
    return content


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
