"""What each column adds to a prediction, in coalitions instead of refits, and a plot of it.

Needs the extras ``explain`` and ``plots``. The host ``mini`` is a small model that this project
trained on synthetic tasks, not Prior Labs' TabPFN.
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_diabetes

import retrofit
from experiments.removal.columns import explain
from experiments.removal.write import bars

X, y = load_diabetes(return_X_y=True, as_frame=True)
X = X[["bmi", "bp", "s5", "age"]]
closed = retrofit.patch(retrofit.load_host("mini"), "closed")
table = retrofit.Removable(closed, X[:80], y[:80], n_estimators=1, device="cpu")
found = explain(table, X[80:90])
print(found.main.round(1))

importance = found.importances.importances_mean
picture = bars("importances", "Mean absolute Shapley value", list(X), importance, "target units")
path = sys.argv[1] if len(sys.argv) > 1 else "importances.png"
with open(path, "wb") as file:  # noqa: PTH123
    file.write(picture.png)
