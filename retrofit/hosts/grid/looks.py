"""How the audit looks at each site of a grid host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrofit.hosts.grid.closed import COLUMN_EMBEDDING
from retrofit.hosts.stages import CELLS, LOGITS, Look

if TYPE_CHECKING:
    from retrofit.hosts.generation import Generation
    from retrofit.hosts.sites import Site

_ENDS = ("train, end", "test, end", "columns, end")
_ALL = "all, mixed"


def looks(generation: Generation, config: Any) -> dict[str, Look]:
    """A look for each site of the map."""
    sites = generation.site_map(config)
    mixing = {x.name: f"{x.name}.out_projection" for x in sites if x.kind == "attention"}
    mixing |= {x.name: f"{x.name}.2" for x in sites if x.kind == "ffn"}
    values, columns, targets = "feature_group_embedder", COLUMN_EMBEDDING, "target_embedder"

    def of_model(site: Site) -> Look:
        if site.kind == "statistic":
            of_targets = site.name.endswith("targets")
            silenced = (values, columns) if of_targets else (targets, columns)
            place = "columns, middle" if site.change.startswith("groups") else "train, end"
            return Look("raw", (CELLS,), (place,), silenced, revives=False)
        if site.name == "output_projection":
            return Look("raw", (LOGITS,), ("test, end",), dilutes=False)
        if site.name == "add_thinking_rows.row_token_values_TE":
            return Look("own", ("add_thinking_rows",), _ENDS, dilutes=False)
        others = tuple(name for name in (values, columns, targets) if name != site.name)
        return Look("raw", (CELLS,), (_ALL,), others, dilutes=False)

    def look(site: Site) -> Look:
        if site.kind in ("attention", "ffn"):
            others = tuple(layer for name, layer in mixing.items() if name != site.name)
            return Look("own", (site.owner,), _ENDS, others)
        if site.kind == "norm":
            return Look("zero", dilutes=False)
        return of_model(site)

    return {site.name: look(site) for site in sites}
