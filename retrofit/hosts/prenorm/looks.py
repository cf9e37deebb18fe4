"""How the audit looks at each site of a pre-norm host with induced columns and CLS tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrofit.hosts.sites import POSITIONS_BY_RANK, SOURCES_COUNTED
from retrofit.hosts.stages import CELLS, LOGITS, Look

if TYPE_CHECKING:
    from retrofit.hosts.prenorm.adapter import PrenormGeneration
    from retrofit.hosts.sites import Site

_ROWS = ("train, end", "test, end")
_ENDS = (*_ROWS, "columns, end")


def looks(generation: PrenormGeneration, config: Any) -> dict[str, Look]:
    """A look for each site of the map."""
    sites = generation.site_map(config)
    attentions = tuple(f"{x.name}.out_projection" for x in sites if x.kind == "attention")
    feed_forwards = tuple(f"{x.name}.2" for x in sites if x.kind == "ffn")
    inducing = {
        stage.module: stage
        for stage in generation.stages(config)
        if stage.name.endswith("cross_attn_block1")
    }

    cells, targets = (generation.cells,), (generation.column_targets,)
    of_model: dict[str, tuple[tuple[str, ...], str, str]] = {
        "standard_scaler": (targets, "train, end", CELLS),
        "_preprocess_raw": (targets, "train, end", CELLS),
        "_group_features": (targets, "columns, middle", CELLS),
        "_prepare_y": (cells, "train, end", CELLS),
        "x_embed": (targets, "all, mixed", CELLS),
        generation.column_targets: (cells, "all, mixed", CELLS),
        generation.readout: ((), "test, end", LOGITS),
    }

    def look(site: Site) -> Look:
        if site.kind in ("attention", "ffn"):
            # Inducing vectors are no NULL tokens, and what they are is not this site's doing.
            scaffold = site.owner in inducing
            silenced = feed_forwards if site.kind == "attention" else attentions
            revives = not scaffold or site.kind == "ffn"
            places = _ROWS if scaffold else _ENDS
            return Look("own", (site.owner,), places, silenced, revives=revives)
        if site.kind == "norm":
            return Look("zero", dilutes=False)
        if site.change == SOURCES_COUNTED:
            return Look("count", places=("train, end",), revives=False)
        if site.change == POSITIONS_BY_RANK:
            blocks = tuple(
                stage.name
                for stage in generation.stages(config)
                if stage.name.startswith("column_aggregator.blocks.")
            )
            return Look("rank", blocks, ("columns, end", "columns, middle"), feed_forwards)
        if site.name in of_model:
            silenced, place, stage = of_model[site.name]
            revives = site.kind == "injection"
            return Look("raw", (stage,), (place,), silenced, revives=revives, dilutes=not revives)
        if site.name.endswith("inducing_vectors"):
            vectors = inducing[f"{site.owner}.cross_attn_block1"].before()
            return Look("raw", (vectors,), ("columns, end",), dilutes=False)
        return Look("own", (site.name,), _ENDS, feed_forwards, dilutes=False)

    return {site.name: look(site) for site in sites}
