"""Areas under curves and what is kept of them."""

import pytest

from validation import auc, retention


def test_area_covers_the_given_points_only():
    found = auc([0.05, 0.95], [1, 1])
    assert found.value == pytest.approx(0.9)
    assert (found.inputs["from"], found.inputs["to"], found.method) == (0.05, 0.95, "none")
    gap = auc([0, 1, 3], [1, None, 0])
    assert (gap.value, gap.n, gap.inputs["left_out"]) == (1.5, 2, 1)
    for midpoints, rates in (([], []), ([0.5], [1]), ([0, 1], [None, 1])):
        nothing = auc(midpoints, rates)
        assert (nothing.value, nothing.reason) == (None, "fewer than two points")


def test_retention():
    found = retention(0.469, 0.283)
    assert found.value == pytest.approx(0.6034115)
    # Exact in the printed decimals, and never -0.
    assert (found.inputs["delta"], retention(0.3, 0.1).inputs["delta"]) == (0.186, 0.2)
    assert str(retention(1.5, 1.5).inputs["delta"]) == "0.0"
    assert retention(0.0, 0.0).value is None
    assert "nothing was solved solo" in retention(0.0, 0.1).reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auc([0, 1], [1]), "2 midpoints, 1 rates"),
        (lambda: auc([1, 0], [1, 1]), "midpoints must rise"),
        (lambda: auc([0, 1], [1, float("nan")]), "must be a finite number"),
        (lambda: retention(-1, 0), "auc_solo must not be negative"),
    ],
)
def test_bad_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()
