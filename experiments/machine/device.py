"""The device that a sweep computes on, settled before the first case."""

from __future__ import annotations

from experiments.errors import ConfigError

AUTO = "auto"
_KINDS = ("cpu", "cuda", "mps")


def resolve_device(text: str) -> str:
    """The device that ``text`` means here: ``cpu``, ``cuda:N`` or ``mps``.

    ``auto`` is the first CUDA device, else ``mps``, else ``cpu``; never several at once.

    Raises:
        ConfigError: not the name of a device, or of one that torch cannot use here.
    """
    import torch

    cuda, mps = torch.cuda.device_count(), torch.backends.mps.is_available()
    if text == AUTO:
        return "cuda:0" if cuda else "mps" if mps else "cpu"
    try:
        device = torch.device(text)
    except RuntimeError:
        device = None
    if device is None or device.type not in _KINDS:
        raise ConfigError(f"device: '{text}' is none; give cpu, cuda, cuda:N, mps or auto")
    index = device.index or 0
    if device.type == "cuda" and index >= cuda:
        raise ConfigError(f"device: '{text}': torch finds {cuda} CUDA device(s) here; give cpu")
    if device.type == "mps" and not mps:
        raise ConfigError(f"device: '{text}': torch cannot use MPS here; give cpu")
    return f"cuda:{index}" if device.type == "cuda" else device.type


def device_model(device: str) -> str:
    """What decides numbers of a resolved device: ``cpu``, ``mps``, or ``cuda`` and the GPU's name.

    Which of several equal GPUs it is does not.
    """
    import torch

    kind = device.partition(":")[0]
    return f"{kind} {torch.cuda.get_device_name(device)}" if kind == "cuda" else kind
