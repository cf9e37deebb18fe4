"""Patch the built-in host, predict with it, and see how far it is from stock.

The host ``mini`` is a small model that this project trained on synthetic tasks, not Prior Labs'
TabPFN.
"""

from __future__ import annotations

from sklearn.datasets import load_diabetes

import retrofit

X, y = load_diabetes(return_X_y=True)
host = retrofit.load_host("mini")
patched = retrofit.patch(host, "full")
print(patched.report.counts, patched.report.null_radius)

settings = {"n_estimators": 2, "random_state": 0, "device": "cpu"}
stock = host.regressor(**settings).fit(X[:100], y[:100]).predict(X[100:120])
full = patched.regressor(**settings).fit(X[:100], y[:100]).predict(X[100:120])
print(
    "largest difference, in standard deviations of the target:", abs(full - stock).max() / y.std()
)
