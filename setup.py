"""Packages of the distribution; everything else is in pyproject.toml.

``configs/`` stands at the top, where readers look for it, and is installed as
``experiments.configs``, where the installed commands look for it.
"""

from __future__ import annotations

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["retrofit*", "experiments*"]), "experiments.configs"],
    py_modules=["oretro"],
    package_dir={"experiments.configs": "configs"},
)
