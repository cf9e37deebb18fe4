"""What decides where tables come from: the user's files, and how OpenML is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path  # noqa: TC003  (pydantic reads it when it runs)
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from experiments.data.openml.network import Network, require_api
from experiments.data.splits import BY_ROWS, SplitColumns
from experiments.io.text import readable_name
from retrofit.files.paths import expand_home


def _usable(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("holds a NUL character")
    return expand_home(path)


class FileSet(BaseModel):
    """A table of the user's own: a CSV or parquet file and the column to predict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    target: str = Field(min_length=1)
    name: str = ""
    """Name of the data set in every table; the file's name without its ending where empty."""
    drop: tuple[str, ...] = ()
    """Columns that must not reach the model: identifiers, leaks of the target."""
    words: tuple[str, ...] = ()
    """Columns whose numbers are names, such as codes: read as words."""
    text: tuple[str, ...] = ()
    """Columns of free text: their words hashed to numbers, by scikit-learn."""
    dates: Literal["refuse", "parts"] = "refuse"
    """``parts`` takes a date as year, month, day, weekday and days since 1970-01-01."""
    delimiter: str | None = Field(default=None, min_length=1)
    """Character between the cells of a CSV, or ``tab``; None looks at the header."""
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"

    @property
    def label(self) -> str:
        """Name under which the table takes part in a sweep."""
        if self.name:
            return self.name
        stem = readable_name(self.path.name)
        for ending in (".gz", ".csv", ".tsv", ".txt", ".parquet", ".pq"):
            stem = stem.removesuffix(ending)
        return stem or readable_name(self.path.name)

    @field_validator("delimiter")
    @classmethod
    def _is_one_mark(cls, delimiter: str | None) -> str | None:
        mark = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
        if mark is not None and (len(mark) > 1 or mark.isalnum() or mark in "\"'\r\n\0"):
            raise ValueError("must be one mark, such as ';', or 'tab'")
        return mark

    @field_validator("path")
    @classmethod
    def _expand_home(cls, path: Path) -> Path:
        return _usable(path)


class OpenMLSettings(BaseModel):
    """How OpenML is reached. None leaves the choice to the openml client's own configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str | None = None
    """Address of the API, such as ``https://www.openml.org/api/v1/xml``."""
    cache: Path | None = None
    """Root folder of the client's cache."""
    offline: bool = False
    """Never use the network; a task that is not in the cache is an error."""
    tries: int = Field(default=3, ge=1, le=10)
    """Requests per file before a failing server is given up."""
    connect_timeout_s: float = Field(default=5.0, gt=0, le=60)
    read_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """Longest silence of a server in the middle of an answer."""

    @field_validator("server")
    @classmethod
    def _is_an_api(cls, server: str | None) -> str | None:
        if server is not None:
            require_api(server)
        return server

    @field_validator("cache")
    @classmethod
    def _expand_home(cls, cache: Path | None) -> Path | None:
        return None if cache is None else _usable(cache)


@dataclass(frozen=True, eq=False)
class LoadSettings:
    """What a source needs to know beside the name of a table; one per plan of a sweep."""

    openml: OpenMLSettings = field(default_factory=OpenMLSettings)
    official_splits: bool = False
    """Also load the splits that come with a table."""
    columns: SplitColumns = BY_ROWS

    @cached_property
    def network(self) -> Network:
        """Remembers hosts that did not answer, so that a second table does not wait for them."""
        limits = self.openml
        return Network(limits.tries, limits.connect_timeout_s, limits.read_timeout_s)
