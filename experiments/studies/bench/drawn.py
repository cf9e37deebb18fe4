"""Hosts as large as the released ones, with drawn weights: for their cost, not for their skill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.errors import ConfigError

if TYPE_CHECKING:
    from retrofit import Host


def drawn_host(version: str, seed: int = 0) -> Host:
    """A host of a generation's released size; weights that start at zero are drawn as well.

    Raises:
        ConfigError: there is no such generation.
    """
    import torch
    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
    from tabpfn.inference_config import InferenceConfig

    from retrofit import Host
    from retrofit.hosts.registry import generations

    known = {generation.name: generation for generation in generations()}
    if version not in known:
        raise ConfigError(f"no generation '{version}' to draw; there are {', '.join(known)}")
    generation = known[version]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model: Any = generation.build(generation.released_config())
        for parameter in model.parameters():
            if not parameter.any():
                parameter.copy_(torch.randn_like(parameter) * parameter.shape[-1] ** -0.5)
    criterion = generation.criterion(model)
    if criterion is None:
        borders = torch.linspace(-4.0, 4.0, model.n_out + 1)
        criterion = FullSupportBarDistribution(borders, ignore_nan_targets=True)
    settings = InferenceConfig.get_default("regression", generation.versions[0])
    return Host.from_model(
        model.eval(), settings, name=f"{version}, weights drawn", criterion=criterion
    )
