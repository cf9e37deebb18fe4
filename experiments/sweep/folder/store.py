"""The results folder: one file per finished (case, variant), and the tables made from them.

``cases/*.json`` is what counts; ``cases.csv`` is rebuilt from it after every row, in an order that
does not depend on when a row was finished.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from experiments.errors import ResultsError
from experiments.io.csv_text import csv_text
from experiments.io.json_file import UnreadableJsonError, json_text, read_object
from experiments.io.own_files import refuse_foreign_files
from experiments.io.text import shortened, visible
from experiments.io.writable import prepare_out
from experiments.sweep import schema
from experiments.sweep.folder.keys import ResultKey, differences
from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MIN_FREE_BYTES = 64 * 1024 * 1024
_RECORD_VERSION = 2
_CHECKSUM = "sha256"


@dataclass(frozen=True)
class Record:
    """One stored result: its key, its row, and details that no table shows."""

    key: dict[str, Any]
    digest: str
    row: schema.CaseRow
    details: dict[str, Any]
    """Kernels, a traceback: whatever helps to explain the row."""


def prepare_folder(folder: Path) -> None:
    """Create the folder and make sure that it can be written before anything is computed.

    Raises:
        ResultsError: it is a file, not writable, holds somebody else's tables, or its disk is
            nearly full.
    """
    prepare_out(folder)
    refuse_foreign_files(folder)
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise ResultsError(
            f"{folder}: only {free // 2**20} MiB are free on its disk, "
            f"{MIN_FREE_BYTES // 2**20} are needed; make room or choose another --out"
        )


class ResultStore:
    """Finished results of one run in one folder."""

    def __init__(
        self,
        folder: Path,
        keys: Iterable[ResultKey],
        kind: str = "cases",
        away: Iterable[ResultKey] = (),
    ) -> None:
        """Open the store of ``kind`` (a subfolder) and read what is already finished.

        ``away`` are keys of this run whose table cannot be had at the moment: their results are
        kept, and its hashes are not compared.

        Raises:
            ResultsError: the folder holds results that are not among ``keys``, or a damaged one.
        """
        self.folder = folder
        self.damaged: tuple[str, ...] = ()
        """Records of this run that cannot be trusted; their cases count as not finished."""
        self._records_folder = folder / kind
        self._table = folder / f"{kind}.csv"
        self._records_folder.mkdir(parents=True, exist_ok=True)
        self._keys = {key.identity: key for key in keys}
        self._away = {key.identity: key for key in away}
        self._records: dict[tuple[str, int, str], Record] = {}
        mine = {_file_name(key) for key in (*self._keys.values(), *self._away.values())}
        for path in sorted(self._records_folder.glob("*.json")):
            try:
                record = _read_record(path)
            except _DamagedRecordError:
                if path.name not in mine:
                    raise
                self.damaged += (path.name,)
                continue
            self._refuse_foreign(record)
            self._records[(record.row.dataset, record.row.seed, record.row.variant)] = record

    def finished(self, key: ResultKey, needs: str = "") -> bool:
        """Whether a result under this very key is there and need not be computed again.

        A row that failed is not finished, nor is a scored one whose record lacks the detail that
        ``needs`` names.
        """
        record = self._records.get(key.identity)
        if record is None or record.row.status == "failed":
            return False
        return not needs or needs in record.details or record.row.status not in schema.SCORED

    def add(self, key: ResultKey, row: schema.CaseRow, details: dict[str, Any]) -> None:
        """Write one result, then the table. After this returns a crash cannot lose it.

        Raises:
            ValueError: the row is not one that would be read back.
        """
        if reason := schema.fault(row):
            raise ValueError(f"{row.dataset}, seed {row.seed}, {row.variant}: {reason}")
        record = Record(asdict(key), key.digest, row, details)
        content = {
            "version": _RECORD_VERSION,
            "digest": record.digest,
            "key": record.key,
            "row": schema.to_json(row),
            "details": details,
        }
        text = json_text({**content, _CHECKSUM: _checksum(content)})
        write_atomic(self._records_folder / _file_name(key), text)
        self._records[key.identity] = record
        self.write_table()

    def records(self) -> list[Record]:
        """All finished results, in table order."""
        return sorted(self._records.values(), key=lambda record: schema.sort_key(record.row))

    def write_table(self) -> None:
        """Rebuild the CSV from the records; without any, there is none."""
        if not self._records:
            return
        rows = [schema.to_cells(record.row) for record in self.records()]
        write_atomic(self._table, csv_text((schema.columns(), *rows)))

    def _refuse_foreign(self, record: Record) -> None:
        """A folder is one run: rows of another are neither mixed in nor thrown away."""
        place = (record.row.dataset, record.row.seed, record.row.variant)
        label = f"{place[0]}, seed {place[1]}, {place[2]}"
        mine = self._keys.get(place)
        if mine is None and place in self._away:
            mine = dataclasses.replace(
                self._away[place],
                data_sha256=record.key["data_sha256"],
                split_sha256=record.key["split_sha256"],
            )
        if mine is None:
            reason = f"it holds a result for {label}, which is not part of this run"
        elif mine.digest != record.digest:
            changes = "; ".join(differences(mine, record.key))
            reason = f"its result for {label} was made under other conditions ({changes})"
        else:
            return
        raise ResultsError(
            f"{self.folder} belongs to another run: {reason}; choose another --out, "
            "or pass --fresh to start this folder anew"
        )


def _file_name(key: ResultKey) -> str:
    """Readable, free of characters that file systems refuse, distinct for distinct names.

    Also where the disk does not tell capitals from small letters: a name with capitals is marked.
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", key.dataset)[:60].strip(".") or "_"
    if readable != key.dataset or readable != readable.lower():
        raw = key.dataset.encode("utf-8", "surrogatepass")
        readable += "-" + hashlib.sha256(raw).hexdigest()[:8]
    return f"{readable}-{key.seed}-{key.variant}.json"


class _DamagedRecordError(ResultsError):
    """A record whose content is not what was written."""


def _checksum(content: dict[str, Any]) -> str:
    """SHA-256 over a record without its checksum, however the file spells it."""
    plain = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def _read_record(path: Path) -> Record:
    """Read a record back.

    Raises:
        ResultsError: it is of another version of oretro, damaged, or somebody else's file.
    """
    try:
        content = read_object(path)
        stored = content.pop(_CHECKSUM, None)
        if stored != _checksum(content):
            version = content.get("version")
            if isinstance(version, int) and version != _RECORD_VERSION:
                raise ResultsError(
                    f"{path}: written by another version of oretro (record version {version}, "
                    f"this one reads {_RECORD_VERSION}); choose another --out or pass --fresh"
                )
            raise UnreadableJsonError("its checksum does not fit its content")
        row = schema.from_json(content["row"])
        return Record(content["key"], content["digest"], row, content["details"])
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = shortened(visible(f"{type(error).__name__}: {error}"), 200)
        raise _DamagedRecordError(
            f"{path}: damaged, or not a record of oretro ({reason}); delete "
            "this one file to have its case computed again, or choose another --out if it is yours"
        ) from None
