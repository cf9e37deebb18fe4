"""Training in one process: resume, stop, replay, data-parallel arithmetic, refusals."""

from __future__ import annotations

import csv
import math
import os
import pickle
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import torch

from experiments.errors import ConfigError, FolderInUseError, TrainingError
from experiments.pretrain import trainer
from experiments.pretrain.checkpoint import FILE_NAME, load_checkpoint
from experiments.pretrain.config import PretrainConfig
from experiments.pretrain.export import average_weights, export_host
from experiments.pretrain.journal import CURVE, LOG, PACE, RECORD
from experiments.pretrain.model import batch_logits, build_loss, build_model, target_borders
from experiments.pretrain.optimiser import Optimiser
from experiments.pretrain.stream import training_batch
from experiments.pretrain.trainer import train
from experiments.sweep.folder.lock import folder_lock

if TYPE_CHECKING:
    from pathlib import Path


def tiny(**changes) -> PretrainConfig:
    return PretrainConfig.model_validate(
        {
            "name": "tiny",
            "processes": 1,
            "budget": {"kind": "steps", "steps": 8},
            "architecture": "tabpfn_v3",
            "model": {
                "num_buckets": 20,
                "embed_dim": 8,
                "dist_embed_num_heads": 1,
                "feat_agg_num_heads": 1,
                "dist_embed_num_blocks": 1,
                "dist_embed_num_inducing_points": 4,
                "feat_agg_num_blocks": 1,
                "feat_agg_num_cls_tokens": 2,
                "nlayers": 1,
                "icl_num_heads": 2,
                "softmax_scaling_mlp_hidden_dim": 4,
            },
            "data": {
                "cells": 600,
                "max_tasks": 3,
                "curriculum": [{"until": 1.0, "rows": [20, 40], "columns": [1, 3]}],
            },
            "optimiser": {"warmup_steps": 2, "ema_decay": 0.8},
            "validation": {"shapes": [[30, 2]], "tasks": 3},
            **changes,
        }
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    saved = load_checkpoint(folder / FILE_NAME)
    return {**saved.model, **{f"average.{k}": v for k, v in average_weights(saved).items()}}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def stop_at(step: int):
    def show(status) -> None:
        if status.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return show


def test_weights_follow_from_the_configuration_alone(tmp_path: Path):
    before = torch.random.get_rng_state()
    assert train(tiny(), tmp_path / "a")
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(99)
    assert train(tiny(), tmp_path / "b")
    assert train(tiny(seed=1), tmp_path / "c")
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_a_stopped_run_ends_with_the_weights_of_an_unstopped_one(tmp_path: Path):
    assert train(tiny(), tmp_path / "whole")
    handler = signal.getsignal(signal.SIGTERM)
    assert not train(tiny(), tmp_path / "parts", show=stop_at(3))
    assert signal.getsignal(signal.SIGTERM) is handler
    halfway = load_checkpoint(tmp_path / "parts" / FILE_NAME)
    assert 3 <= halfway.step <= 4
    assert not halfway.finished
    assert train(tiny(), tmp_path / "parts")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert not torch.equal(
        halfway.model["output_projection.2.weight"],
        weights(tmp_path / "whole")["output_projection.2.weight"],
    )


def test_two_trainers_do_not_share_a_folder(tmp_path: Path):
    with folder_lock(tmp_path), pytest.raises(FolderInUseError, match="--out"):
        train(tiny(), tmp_path)
    assert not (tmp_path / FILE_NAME).exists()
    assert train(tiny(), tmp_path)


def test_a_run_that_another_process_has_just_ended_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    @contextmanager
    def late_lock(folder: Path):
        monkeypatch.undo()
        assert train(tiny(), folder)
        with folder_lock(folder):
            yield

    monkeypatch.setattr(trainer, "folder_lock", late_lock)
    assert train(tiny(), tmp_path)
    assert (tmp_path / LOG).read_text().count("started tiny") == 1


def test_a_finished_run_is_left_alone(tmp_path: Path):
    assert train(tiny(), tmp_path)
    stamp = (tmp_path / FILE_NAME).stat().st_mtime_ns
    assert train(tiny(), tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_mtime_ns == stamp


def test_a_stopped_and_resumed_wall_clock_run_is_replayed_from_its_pace(tmp_path: Path):
    wall = tiny(budget={"kind": "wall_clock", "seconds": 1.5}, tick_steps=2)
    assert not train(wall, tmp_path / "wall", show=stop_at(4))
    assert train(wall, tmp_path / "wall")
    replayed = tiny(budget={"kind": "replay", "pace": tmp_path / "wall" / PACE})
    assert train(replayed, tmp_path / "replay")
    assert load_checkpoint(tmp_path / "wall" / FILE_NAME).step > 4
    assert same(weights(tmp_path / "wall"), weights(tmp_path / "replay"))
    assert (tmp_path / "wall" / PACE).read_text() == (tmp_path / "replay" / PACE).read_text()
    evenly = load_checkpoint(tmp_path / "wall" / FILE_NAME).step
    assert train(tiny(budget={"kind": "steps", "steps": evenly}), tmp_path / "steps")
    assert not same(weights(tmp_path / "wall"), weights(tmp_path / "steps"))


def test_journal_tells_the_run_once_even_when_resumed(tmp_path: Path):
    config = tiny(validation_seconds=1e-6, tick_steps=1)
    train(config, tmp_path, show=stop_at(4))
    # What a killed run may have written after its last checkpoint.
    with (tmp_path / PACE).open("a") as handle:
        handle.write("7,0.875\n")
    train(config, tmp_path)
    with (tmp_path / PACE).open() as handle:
        pace = [int(row["step"]) for row in csv.DictReader(handle)]
    assert pace == list(range(9))
    with (tmp_path / CURVE).open() as handle:
        rows = list(csv.DictReader(handle))
    assert int(rows[-1]["step"]) == 8
    assert all(math.isfinite(float(row["val_nll"])) for row in rows)
    assert "resumed tiny at step" in (tmp_path / LOG).read_text()
    assert "Not Prior Labs' model" in (tmp_path / RECORD).read_text()


def test_two_processes_average_their_gradients(tmp_path: Path):
    config = tiny(processes=2, budget={"kind": "steps", "steps": 1})
    assert train(config, tmp_path)
    trained = load_checkpoint(tmp_path / FILE_NAME)

    def by_hand(ranks: tuple[int, ...]) -> dict[str, torch.Tensor]:
        torch.set_num_threads(1)
        model, loss = build_model(config), build_loss(config)
        optimiser = Optimiser(model, config.optimiser)
        for rank in ranks:
            batch = training_batch(
                config.data, config.prior, seed=config.seed, step=0, rank=rank, progress=0.0
            )
            logits_MBL, y_MB = batch_logits(model, batch)
            (loss(logits_MBL, y_MB).mean() / len(ranks)).backward()
        optimiser.step(0, 0.0)
        return model.state_dict()

    both, first = by_hand((0, 1)), by_hand((0,))
    for name, value in both.items():
        # Sums in another order: float32 rounding, enlarged by AdamW's first, sign-like step.
        assert torch.allclose(trained.model[name], value, rtol=0, atol=2e-5), name
    assert any(
        not torch.allclose(first[name], value, rtol=0, atol=2e-5) for name, value in both.items()
    )
    assert trained.tasks % 2 == 0


def test_a_gradient_that_is_not_finite_changes_nothing():
    config = tiny()
    model = build_model(config)
    optimiser = Optimiser(model, config.optimiser)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser.gradient.fill_(0.1)
    optimiser.gradient[3] = float("nan")
    assert math.isnan(optimiser.step(0, 0.0))
    assert same(before, model.state_dict())
    assert not optimiser.gradient.any()
    optimiser.gradient.fill_(0.1)
    assert optimiser.step(0, 0.0) > 0
    assert not same(before, model.state_dict())


def test_learning_rate_rises_then_falls_to_zero():
    optimiser = Optimiser(build_model(tiny()), tiny().optimiser)
    assert optimiser.rate(0, 0.0) == 0.5
    assert optimiser.rate(1, 0.0) == 1.0
    assert optimiser.rate(500, 0.75) == 0.25
    assert optimiser.rate(500, 1.0) == 0.0


def test_borders_cover_far_targets_and_resolve_near_ones():
    borders = target_borders(200).double()
    widths = borders.diff()
    assert borders.shape == (201,)
    assert (widths > 0).all()
    assert torch.allclose(borders, -borders.flip(0))
    assert borders[-1].item() == pytest.approx(100.0)
    # 160 equal bars on [-4, 4], in float32.
    assert torch.allclose(widths[20:180], torch.full((160,), 0.05).double(), atol=1e-5)
    assert (widths[180:].diff() > 0).all()


class _Payload:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def test_checkpoints_cannot_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / FILE_NAME
    torch.save({"format": 1, "model": _Payload()}, path)
    with pytest.raises(TrainingError, match="no readable checkpoint"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(_Payload()))
    with pytest.raises(TrainingError, match="no readable checkpoint"):
        load_checkpoint(path)
    assert not (tmp_path / "pwned").exists()


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path: Path):
    assert train(tiny(), tmp_path)
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TrainingError, match=FILE_NAME):
        train(tiny(), tmp_path)
    path.write_bytes(content)
    with pytest.raises(TrainingError, match=r"seed.*--out"):
        train(tiny(seed=5), tmp_path)
    torch.save({"weights": torch.zeros(2)}, path)
    with pytest.raises(TrainingError, match="format"):
        load_checkpoint(path)
    with pytest.raises(TrainingError, match="no checkpoint"):
        load_checkpoint(tmp_path / "absent.pt")


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert train(tiny(), tmp_path)
    path = tmp_path / FILE_NAME
    before, files = path.read_bytes(), set(tmp_path.iterdir())
    saved = load_checkpoint(path)

    def full(_descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        saved.save(path)
    assert path.read_bytes() == before
    assert set(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("name", "reason"), [("host.safetensors", "'v3'"), ("host-v3.ckpt", r"\.safetensors")]
)
def test_exports_under_a_misleading_name_are_refused(tmp_path: Path, name: str, reason: str):
    assert train(tiny(budget={"kind": "steps", "steps": 1}), tmp_path)
    saved = load_checkpoint(tmp_path / FILE_NAME)
    with pytest.raises(ConfigError, match=reason):
        export_host(saved, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_unfinished_or_broken_runs_are_not_exported_unasked(tmp_path: Path):
    assert not train(tiny(), tmp_path, show=stop_at(3))
    saved = load_checkpoint(tmp_path / FILE_NAME)
    target = tmp_path / "host-v3.safetensors"
    with pytest.raises(TrainingError, match="--unfinished"):
        export_host(saved, target)
    assert not target.exists()
    export_host(saved, target, unfinished=True)
    assert target.stat().st_mode & 0o044 == 0o044
    before = target.read_bytes()
    saved.optimiser["average"]["module.output_norm.weight"][0] = float("inf")
    with pytest.raises(TrainingError, match=r"output_norm\.weight"):
        export_host(saved, target, unfinished=True)
    assert target.read_bytes() == before


def test_exported_weights_give_the_logits_of_the_averaged_model(tmp_path: Path):
    from tabpfn.architectures import tabpfn_v3
    from tabpfn.checkpoint import Checkpoint as TabPFNCheckpoint

    config = tiny()
    assert train(config, tmp_path)
    target = tmp_path / "host-v3.safetensors"
    export_host(load_checkpoint(tmp_path / FILE_NAME), target)
    content = TabPFNCheckpoint(target).load()
    assert content["architecture_name"] == "tabpfn_v3"
    assert content["inference_config"]["FINGERPRINT_FEATURE"] is False
    assert torch.equal(content["state_dict"]["regression_borders"], target_borders(20))
    loaded = tabpfn_v3.get_architecture(tabpfn_v3.parse_config(content["config"])[0])
    loaded.load_state_dict(content["state_dict"])
    saved = load_checkpoint(tmp_path / FILE_NAME)
    averaged = build_model(tiny(seed=5))
    averaged.load_state_dict(average_weights(saved))
    latest = build_model(tiny(seed=5))
    latest.load_state_dict(saved.model)
    batch = training_batch(config.data, config.prior, seed=9, step=0, rank=0, progress=0.0)
    with torch.no_grad():
        logits = [batch_logits(m.train(), batch)[0] for m in (loaded, averaged, latest)]
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])
