"""Declare rows and a column NULL: the closed host predicts as if they were not in the table.

The host ``mini`` is a small model that this project trained on synthetic tasks, not Prior Labs'
TabPFN.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

import retrofit

X, y = load_diabetes(return_X_y=True)
X, y, X_test = X[:60], y[:60], X[60:64]
closed = retrofit.patch(retrofit.load_host("mini"), "closed")
regressor = closed.regressor(n_estimators=2, random_state=0, device="cpu")

rows, columns = np.arange(60) < 50, np.arange(10) != 3
declared = regressor.fit(X, y, presence=retrofit.Presence(rows, columns=columns)).predict(X_test)
sliced = regressor.fit(X[rows][:, columns], y[rows]).predict(X_test[:, columns])
print("declared NULL:", declared.round(2))
print("sliced away:  ", sliced.round(2))
