"""Statistics over pairs: against formulas written out, and against cases that mislead."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from experiments.report import stats


def cases(*rows: tuple[str, int, str, float], status: str = "ok") -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["dataset", "seed", "variant", "rmse"])
    return frame.assign(suite="s", predict_s=1.0, status=status)


def of_datasets(deltas: dict[str, list[float]]) -> pd.DataFrame:
    """Pairs of variant ``oa`` with the given percent changes per data set."""
    rows = []
    for name, changes in deltas.items():
        for seed, change in enumerate(changes):
            rows += [(name, seed, "stock", 50.0), (name, seed, "oa", 50.0 * (1 + change / 100))]
    return stats.paired(cases(*rows))


def test_change_is_in_percent_of_stock_and_paired_by_identity() -> None:
    rows = [
        ("a", 1, "stock", 10.0),
        ("a", 2, "stock", 20.0),
        ("a", 2, "oa", 21.0),
        ("a", 1, "oa", 9.0),
    ]
    pairs = stats.paired(cases(*rows)).set_index("seed")["delta_pct"]
    assert pairs[1] == pytest.approx(-10.0)
    assert pairs[2] == pytest.approx(5.0)


def test_missing_half_of_a_pair_cannot_shift_or_flip_the_mean() -> None:
    # Stock fails on the hard set b, the variant on the easy set c; column means would say +3.85.
    complete = cases(("a", 1, "stock", 1.0), ("a", 1, "oa", 0.999))
    broken = [
        cases(("b", 1, "stock", 9.0), ("c", 1, "oa", 0.5), status="failed"),
        cases(("b", 1, "oa", 9.0), ("c", 1, "stock", 0.5)),
    ]
    pairs = stats.paired(pd.concat([complete, *broken]))
    summary = stats.summarise(pairs, "oa", margin_pct=0.5)
    assert summary.mean_pct == pytest.approx(-0.1)
    assert (summary.cases, summary.left_out, summary.wins) == (1, 2, 1)


def test_row_without_stock_has_no_change_and_says_so() -> None:
    pairs = stats.paired(cases(("a", 1, "oa", 2.0)))
    assert pairs["delta_pct"].isna().all()
    assert pairs["note"].tolist() == ["no stock row"]


def test_constant_target_counts_as_zero_change_but_not_as_evidence() -> None:
    constant = cases(("a", 1, "stock", 0.0), ("a", 1, "oa", 0.0), status="constant")
    pairs = stats.paired(constant)
    assert pairs["delta_pct"].tolist() == [0.0]
    assert "constant target" in pairs["note"][0]
    summary = stats.summarise(pairs, "oa", margin_pct=0.5)
    assert (summary.cases, summary.left_out) == (0, 1)
    assert math.isnan(summary.mean_pct)


def test_stock_without_error_gives_no_infinite_change() -> None:
    pairs = stats.paired(cases(("a", 1, "stock", 0.0), ("a", 1, "oa", 1.0)))
    assert pairs["delta_pct"].isna().all()
    assert pairs["note"].tolist() == ["stock's RMSE is 0: no change relative to it"]
    summary = stats.summarise(pairs, "oa", margin_pct=0.5)
    assert (summary.cases, summary.left_out) == (0, 1)
    # The twin: both without error is a change of nothing, and needs no note.
    equal = stats.paired(cases(("a", 1, "stock", 0.0), ("a", 1, "oa", 0.0)))
    assert (equal["delta_pct"].tolist(), equal["note"].tolist()) == ([0.0], [""])


def test_changes_within_the_noise_floor_are_ties() -> None:
    pairs = of_datasets({"a": [0.01, -0.01, 0.0], "b": [0.2, 0.3, -0.4]})
    split = {
        noise: (s.wins, s.ties, s.losses)
        for noise in (0.0, 0.05)
        for s in [stats.summarise(pairs, "oa", margin_pct=0.5, noise_pct=noise)]
    }
    assert split == {0.0: (2, 1, 3), 0.05: (1, 3, 2)}


def test_means_are_over_cases_and_tests_over_data_sets() -> None:
    pairs = of_datasets({"a": [0.1, 0.1, 0.1], "b": [0.5]})
    summary = stats.summarise(pairs, "oa", margin_pct=0.5)
    assert summary.mean_pct == pytest.approx(0.2)
    assert summary.datasets == 2
    assert summary.ci_low_pct == pytest.approx(0.1)
    assert summary.ci_high_pct == pytest.approx(0.5)


def test_six_data_sets_of_one_sign_reach_the_smallest_p() -> None:
    p, smallest = stats.wilcoxon(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert p == smallest == 0.03125
    # One opposite sign of the smallest rank: two of 64 patterns in each tail.
    p, _ = stats.wilcoxon(np.array([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert p == 4 / 64


def test_signed_rank_p_equals_the_count_over_all_sign_patterns() -> None:
    values = np.array([0.3, -0.1, 0.45, 0.2, -0.6, 0.8, 0.05])
    ranks = np.argsort(np.argsort(np.abs(values))) + 1
    signs = (np.arange(2**7)[:, None] >> np.arange(7)) & 1
    sums = signs @ ranks
    observed = ranks[values > 0].sum()
    tail = min((sums >= observed).mean(), (sums <= observed).mean())
    assert stats.wilcoxon(values)[0] == pytest.approx(2 * tail, rel=1e-12)


@pytest.mark.parametrize("size", [4, 9, 12])
def test_signed_rank_p_with_ties_equals_the_count_over_all_sign_patterns(size: int) -> None:
    values = np.round(np.random.default_rng(size).normal(0.3, 1.0, size), 0)
    values[values == 0] = 1.0
    sizes = np.abs(values)
    ranks = np.array([(sizes < s).sum() + ((sizes == s).sum() + 1) / 2 for s in sizes])
    assert np.unique(sizes).size < size
    signs = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
    sums = signs @ ranks
    observed = ranks[values > 0].sum()
    tail = min((sums >= observed).mean(), (sums <= observed).mean())
    assert stats.wilcoxon(values)[0] == pytest.approx(min(1.0, 2 * tail), rel=1e-9)


def test_many_values_have_a_p_and_a_smaller_attainable_one() -> None:
    p, smallest = stats.wilcoxon(np.linspace(-0.2, 1.0, 60))
    assert 0 < smallest < p < 0.01


def test_no_test_without_any_change() -> None:
    assert all(math.isnan(value) for value in stats.wilcoxon(np.zeros(6)))


def test_bootstrap_interval_brackets_the_mean_and_narrows_with_agreement() -> None:
    wide = np.array([-1.0, 0.5, 2.0, -0.3, 1.1, 0.1])
    low, high = stats.bootstrap_interval(wide)
    assert low < wide.mean() < high
    narrow_low, narrow_high = stats.bootstrap_interval(wide * 0.01)
    assert narrow_high - narrow_low == pytest.approx(0.01 * (high - low), rel=0.05)
    assert stats.bootstrap_interval(wide) == (low, high)


def test_bootstrap_of_two_values_is_known_exactly() -> None:
    # Means of resamples are 0, 1/2 or 1 with chances 1/4, 1/2, 1/4: the 2.5 % tails are 0 and 1.
    assert stats.bootstrap_interval(np.array([0.0, 1.0])) == (0.0, 1.0)
    assert all(math.isnan(value) for value in stats.bootstrap_interval(np.array([1.0])))


def test_equivalence_needs_both_sides() -> None:
    near = np.array([0.01, -0.02, 0.015, 0.0, 0.01, -0.01])
    assert stats.equivalence_p(near, 0.5) < 1e-6
    assert stats.equivalence_p(near + 0.5, 0.5) > 0.4
    assert stats.equivalence_p(near - 2.0, 0.5) > 0.99


def test_equivalence_p_equals_the_t_distribution_written_out() -> None:
    from scipy.stats import t

    values = np.array([0.1, 0.3, -0.05, 0.2, 0.15])
    error = values.std(ddof=1) / math.sqrt(len(values))
    expected = max(
        t.sf((values.mean() + 0.4) / error, df=4), t.cdf((values.mean() - 0.4) / error, df=4)
    )
    assert stats.equivalence_p(values, 0.4) == pytest.approx(expected, rel=1e-12)


def test_geometric_mean_ratio_weighs_data_sets_equally() -> None:
    rows = [("a", 1, "stock", 1.0), ("a", 1, "ridge", 2.0), ("a", 2, "stock", 4.0)]
    rows += [("a", 2, "ridge", 2.0), ("b", 1, "stock", 1.0), ("b", 1, "ridge", 4.0)]
    by_dataset, overall = stats.geometric_mean_ratio(cases(*rows), "ridge")
    assert by_dataset == pytest.approx({"a": 1.0, "b": 0.25})
    assert overall == pytest.approx(0.5)
    assert stats.geometric_mean_ratio(cases(*rows), "knn")[0] == {}


def test_other_scores_are_paired_and_left_out_where_one_is_missing() -> None:
    from experiments.report.scores import score_changes

    rows = cases(("a", 1, "stock", 2.0), ("a", 1, "oa", 2.0), ("b", 1, "stock", 9.0))
    rows = rows.assign(mae=[1.0, 1.1, 5.0], r2=[0.8, 0.7, -3.0], nll=[2.0, 2.5, 9.0])
    (change,) = score_changes(rows.assign(coverage80=[0.82, 0.78, 0.1]), ["oa"])
    assert change.cases == 1
    assert change.figures == pytest.approx(
        {
            "mae_pct": 10.0,
            "r2_stock": 0.8,
            "r2_change": -0.1,
            "nll_stock": 2.0,
            "nll_change": 0.5,
            "coverage_stock": 0.82,
            "coverage_variant": 0.78,
        }
    )


def test_undefined_scores_stay_undefined() -> None:
    from experiments.report.scores import score_changes

    rows = cases(("a", 1, "stock", 2.0), ("a", 1, "oa", 2.0))
    rows = rows.assign(mae=1.0, r2=np.nan, nll=np.nan, coverage80=np.nan)
    (change,) = score_changes(rows, ["oa"])
    assert change.figures.pop("mae_pct") == 0.0
    assert all(math.isnan(value) for value in change.figures.values())


def test_limits_claim_no_closure_but_for_closed() -> None:
    from experiments.report.markdown import line
    from experiments.report.remarks import limits

    assert "no closure of the whole host, and" in line(limits(["oa", "full@0.9"]))
    told = line(limits(["oa", "closed@0.9"]))
    assert "no closure of the whole host but for `closed`, and" in told
