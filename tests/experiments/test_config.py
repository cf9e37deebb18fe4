"""Configuration: options beat the file, the file beats defaults, and faults name their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.cli.eval_command import default_folder
from experiments.errors import ConfigError
from experiments.sweep.config import SweepConfig, builtin_configs, load_config

MINIMAL = "suite: mine\ndatasets: [diabetes]\nseeds: [1]\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_options_beat_the_file_and_the_file_beats_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "n_estimators: 4\ntest_fraction: 0.2\n")
    config = load_config(path, {"n_estimators": 2, "seeds": ["3", "4"], "host": None})
    assert config.n_estimators == 2
    assert config.seeds == (3, 4)
    assert config.test_fraction == 0.2
    assert config.host == SweepConfig.model_fields["host"].default == "mini"


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("n_estimator: 4", r"sweep\.yaml: n_estimator: unknown field; did you mean 'n_estimators'"),
        ("n_estimators: many", r"sweep\.yaml: n_estimators: .*got 'many'"),
        ("tau: -1", r"sweep\.yaml: tau: .*greater than 0"),
        ("tau: 1.0\ntarget_presence: 0.9", r"sweep\.yaml: tau: given, and target_presence"),
        ("tau: .inf", r"sweep\.yaml: tau: .*finite"),
        ("eps_den: -1", r"sweep\.yaml: eps_den: .*greater than or equal to 0"),
        ("eps_mode: often", r"sweep\.yaml: eps_mode: .*'absolute' or 'relative'"),
        ("variants: [oa]", r"sweep\.yaml: variants: must contain 'stock'"),
        ("variants: [stock, ao]", r"sweep\.yaml: variants\.1: .*'oa'"),
        ("seeds: [7]", r"sweep\.yaml: not valid YAML: field 'seeds' stands twice"),
        ("limit: 0", r"sweep\.yaml: limit: .*greater than or equal to 1"),
        ("- list", r"sweep\.yaml: not valid YAML"),
    ],
)
def test_fault_in_the_file_names_file_field_and_way_out(
    tmp_path: Path, extra: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(write(tmp_path, MINIMAL + extra + "\n"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seeds": [1, 1]}, "option: seeds: 1 is listed more than once"),
        ({"seeds": [-1]}, "option: seeds: seed -1 is not between"),
        ({"seeds": ["x"]}, "option: seeds.0: .*valid integer"),
        ({"target_presence": 1.0}, "option: target_presence: .*less than 1"),
    ],
    ids=["repeated", "negative", "word", "presence"],
)
def test_fault_in_an_option_says_that_it_is_an_option(
    tmp_path: Path, options: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(write(tmp_path, MINIMAL), options)


def test_missing_and_empty_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean packaged18"):
        load_config("packaged81")
    with pytest.raises(ConfigError, match="found nothing"):
        load_config(write(tmp_path, ""))
    with pytest.raises(ConfigError, match=r"sweep\.yaml: suite: Field required"):
        load_config(write(tmp_path, "seeds: [1]\ndatasets: [diabetes]\n"))


def test_built_in_comparisons_are_the_plans_18_cases() -> None:
    assert {"packaged18", "packaged18_p99"} <= set(builtin_configs())
    main, loose = load_config("packaged18"), load_config("packaged18_p99")
    assert len(main.datasets) * len(main.seeds) == 18
    assert main.seeds == (1729, 2718, 31415)
    assert (main.n_estimators, main.test_fraction, main.target_presence) == (8, 0.3, 0.999)
    renamed = main.model_copy(update={"suite": "packaged18_p99", "target_presence": 0.99})
    assert loose == renamed


def test_configuration_cannot_be_changed_after_the_fact() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config("packaged18").seeds = (1,)


@pytest.mark.parametrize(
    ("extra", "option", "expected"),
    [
        ("tau: 1.0\n", {"target_presence": 0.9}, (None, 0.9)),
        ("target_presence: 0.9\n", {"tau": 1.0}, (1.0, 0.999)),
    ],
)
def test_of_two_ways_to_set_tau_the_options_beats_the_files(
    tmp_path: Path, extra: str, option: dict[str, float], expected: tuple[object, float]
) -> None:
    config = load_config(write(tmp_path, MINIMAL + extra), option)
    assert (config.tau, config.target_presence) == expected


def test_eps_reaches_the_patch_and_is_the_librarys_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import retrofit
    from experiments.sweep.variants import load_subjects
    from retrofit.words import DEFAULT_EPS_DEN

    config = load_config(write(tmp_path, MINIMAL))
    assert (config.eps_den, config.eps_mode) == (DEFAULT_EPS_DEN, "absolute")
    asked = []

    def stop(_: object, settings: object) -> None:
        asked.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(retrofit, "patch", stop)
    extra = "eps_mode: relative\n"
    for more in ({}, {"eps_den": 1e-6}):
        with pytest.raises(KeyboardInterrupt):
            load_subjects(load_config(write(tmp_path, MINIMAL + extra), more))
    eps = [(settings.eps_den, settings.eps_mode) for settings in asked]
    assert eps == [(1e-8, "relative"), (1e-6, "relative")]


def test_every_host_has_a_default_folder_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    hosts = ["mini", "mini-v3", "mini-v3.5", "v3.5", "v3.5-fast", "files/my-v3.5.safetensors"]
    folders = [str(default_folder(load_config(path, {"host": host}))) for host in hosts]
    names = ["mini", "mini-v3", "mini-v3.5", "v3.5", "v3.5-fast", "my-v3.5"]
    assert folders == [str(Path("runs") / f"mine-{name}") for name in names]
