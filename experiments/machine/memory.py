"""How much memory this process has taken."""

from __future__ import annotations

import sys


def peak_rss_mb() -> float:
    """Largest resident memory of this process so far, in MiB; NaN where the system keeps none."""
    try:
        import resource
    except ImportError:
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
