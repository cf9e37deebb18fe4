"""Structural causal models: tasks whose columns are causes, effects and relatives of the target.

Shapes: R rows, K nodes.
"""

from __future__ import annotations

import numpy as np

from experiments.prior.draw import Array, bernoulli, log_uniform, standardise
from experiments.prior.functions import additive, curve, forest, interactions, linear, mlp

_MECHANISMS = (linear, linear, additive, interactions, mlp, forest)


def causal_graph(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, Array]:
    """Draw a graph and return ``(scores (rows, columns), signal (rows,))``, both standardised.

    Nodes come in causal order; each one is a random function of one to four earlier nodes plus
    noise of its own. The target is a node with parents, its signal is free of noise; the columns
    are other nodes, its relatives first. Nodes beyond those stay hidden.
    """
    total = columns + 1 + int(rng.integers(1, columns + 3))
    roots = max(1, int(rng.integers(1, max(2, total // 2))))
    target = int(rng.integers(max(roots, total // 2), total))
    nodes = np.empty((rows, total))
    nodes[:, :roots] = rng.standard_normal((rows, roots))
    noise = log_uniform(rng, 0.03, 1.0)
    parents: list[np.ndarray] = [np.empty(0, dtype=np.int64) for _ in range(total)]
    signal = np.zeros(rows)
    for node in range(roots, total):
        limit = min(node, 6 if node == target else 4)
        parents[node] = rng.choice(node, int(rng.integers(1, limit + 1)), replace=False)
        inputs = nodes[:, parents[node]]
        mechanism = _MECHANISMS[rng.integers(len(_MECHANISMS))]
        value = curve(rng, inputs[:, 0]) if inputs.shape[1] == 1 else mechanism(rng, inputs)
        if node == target:
            signal = value
        nodes[:, node] = standardise(value + noise * rng.standard_normal(rows))
    others = np.delete(np.arange(total), target)
    kin = np.array([n in parents[target] or target in parents[n] for n in others])
    if bernoulli(rng, 0.8):
        order = np.argsort(rng.random(len(others)) - kin, kind="stable")
    else:
        order = rng.permutation(len(others))
    return nodes[:, others[order[:columns]]], signal
