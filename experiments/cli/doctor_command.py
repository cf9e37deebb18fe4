"""``oretro doctor``: what is installed here, and what would run."""

from __future__ import annotations

from typing import Any

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro doctor                versions, devices, kernels, hosts, data, caches
  oretro doctor --json         the same, to attach to a report of a problem
"""


def doctor(
    as_json: options.AsJson = False,
) -> None:
    """Show versions, devices, threads, kernels, hosts, data and caches; contact nothing."""
    from experiments.cli.output import print_json, print_table
    from experiments.machine.diagnosis import diagnose

    findings = diagnose()
    if as_json:
        print_json(findings)
        return
    for section, facts in findings.items():
        rows = [(str(name), _text(value)) for name, value in facts.items()]
        print_table(section, ("", ""), rows)


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
