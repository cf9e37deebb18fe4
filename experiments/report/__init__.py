"""Tables, figures and pages of a finished sweep. Imports neither torch nor tabpfn."""

from __future__ import annotations
