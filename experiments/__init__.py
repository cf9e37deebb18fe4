"""What is measured with oretro: data, sweeps, statistics, tables and the command line."""

from __future__ import annotations
