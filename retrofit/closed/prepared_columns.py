"""Which raw columns a member's prepared columns hold, and its table without some of them.

Shapes: N train rows, R train and test rows, C raw columns, D prepared columns.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tabpfn.preprocessing.steps.add_fingerprint_features_step import AddFingerprintFeaturesStep
from tabpfn.preprocessing.steps.add_svd_features_step import AddSVDFeaturesStep

from retrofit.errors import UnsupportedModeError

if TYPE_CHECKING:
    from torch import Tensor


_ADDING = (AddSVDFeaturesStep, AddFingerprintFeaturesStep)
"""Steps that add columns made of all others, and can make them of fewer."""


class PreparedColumns:
    """The columns of one ensemble member's prepared table.

    Which raw columns a prepared one holds is found by changing the cells of one raw column after
    the other. Principal components and fingerprints hold all of them: they are made anew from the
    columns that are left. Other columns that mix raw ones are refused when one is to be removed.
    """

    def __init__(self, member: Any, raw_NC: np.ndarray, train_ND: Tensor) -> None:
        self._member = member
        self._raw_NC = raw_NC
        self._train_ND = train_ND
        self._depends_DC: np.ndarray | None = None

    @property
    def size(self) -> int:
        """D."""
        return self._train_ND.shape[1]

    def taken(self, table_RD: Tensor, columns_C: np.ndarray) -> Tensor:
        """What is left of a prepared table (R, D) without the raw columns that are False.

        Raises:
            UnsupportedModeError: a prepared column mixes raw ones in an unknown way.
        """
        if columns_C.all():
            return table_RD
        depends_DC = self._depends()
        kept_D = (depends_DC.sum(axis=1) < 2) & ~(depends_DC & ~columns_C).any(axis=1)
        kept = np.flatnonzero(kept_D)
        if not len(kept):
            return table_RD[:, :0]
        parts = [table_RD[:, torch.from_numpy(kept)]]
        places = [kept]
        for step, added in self._added(depends_DC).items():
            made_RA = self._made_anew(step, table_RD, kept)[:, : len(added)]
            parts.append(made_RA)
            places.append(added[: made_RA.shape[1]])
        order = torch.from_numpy(np.argsort(np.concatenate(places), kind="stable"))
        return torch.cat(parts, dim=1)[:, order]

    def _added(self, depends_DC: np.ndarray) -> dict[Any, np.ndarray]:
        """Places of the columns that each adding step has made.

        Raises:
            UnsupportedModeError: a column that mixes raw ones is none of theirs.
        """
        names = [feature.name or "" for feature in self._member.feature_schema.features]
        steps = [step[0] if isinstance(step, tuple) else step for step in self._steps]
        added = {
            step: np.flatnonzero([name.startswith(step.added_feature_prefix()) for name in names])
            for step in steps
            if isinstance(step, _ADDING)
        }
        mixed = set(np.flatnonzero(depends_DC.sum(axis=1) > 1))
        if mixed - {place for places in added.values() for place in places}:
            msg = (
                "a prepared column holds several raw ones in a way that oretro does not know, so "
                "none of them can be removed alone; use scope='pipeline'"
            )
            raise UnsupportedModeError(msg)
        return added

    def _made_anew(self, step: Any, table_RD: Tensor, kept: np.ndarray) -> Tensor:
        """What an adding step makes (R, added) of the columns that are left."""
        every_RK = table_RD[:, torch.from_numpy(kept)].cpu().double().numpy()
        train_NK = self._train_ND[:, torch.from_numpy(kept)].cpu().double().numpy()
        anew = copy.deepcopy(step)
        anew._fit(train_NK, self._member.feature_schema)
        made = [
            anew._transform(part, is_test=is_test)[1]
            for part, is_test in ((train_NK, False), (every_RK[len(train_NK) :], True))
        ]
        if made[0] is None:
            return table_RD[:, :0]
        made_RA = np.concatenate(made)
        return torch.as_tensor(made_RA, dtype=table_RD.dtype, device=table_RD.device)

    @property
    def _steps(self) -> list[Any]:
        return list(self._member.cpu_preprocessor.steps)

    def _depends(self) -> np.ndarray:
        """(D, C): whether a prepared column changes with a raw one."""
        if self._depends_DC is None:
            base_ND = self._prepared(self._raw_NC)
            columns = []
            for column in range(self._raw_NC.shape[1]):
                changed_D = np.zeros(base_ND.shape[1], dtype=bool)
                # Rotated, and in reverse: no column but a constant one is left as it was by both.
                for order in (slice(None, None, -1), np.roll(np.arange(len(base_ND)), 1)):
                    raw_NC = self._raw_NC.copy()
                    raw_NC[:, column] = self._raw_NC[order, column]
                    moved_ND = self._prepared(raw_NC)
                    same = (moved_ND == base_ND) | (np.isnan(moved_ND) & np.isnan(base_ND))
                    changed_D |= ~same.all(axis=0)
                columns.append(changed_D)
            self._depends_DC = np.stack(columns, axis=1)
        return self._depends_DC

    def _prepared(self, raw_NC: np.ndarray) -> np.ndarray:
        prepared = self._member.transform_X_test(raw_NC)
        return np.asarray(prepared, dtype=np.float64)
