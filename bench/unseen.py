"""How often the interval of the unseen codes holds: ``python -m bench.unseen``.

Findings are drawn from codes of equal shares, or by Zipf's law; the true value is the share of the
codes that none of them has.
"""

import numpy as np

from validation import estimate_unseen

SAMPLES = 2_000
CODES = {
    "60 codes, Zipf 1": 1 / np.arange(1, 61),
    "60 codes, Zipf 2": 1 / np.arange(1, 61) ** 2,
    "300 codes, Zipf 1": 1 / np.arange(1, 301),
    "20 equal codes": np.ones(20),
    "60 equal codes": np.ones(60),
    "200 equal codes": np.ones(200),
}


def main() -> None:
    """Print the coverage, the bias and the mean width, by the codes and the number of findings."""
    random = np.random.default_rng(1)
    print(f"{SAMPLES} samples each\n{'codes':18} {'findings':>8} {'holds':>6} {'bias':>7} width")
    for name, weights in CODES.items():
        shares = weights / weights.sum()
        for n in (50, 100, 200, 400):
            holds, bias, width = 0, 0.0, 0.0
            for counts in random.multinomial(n, shares, size=SAMPLES):
                true = shares[counts == 0].sum()
                estimate = estimate_unseen(counts.tolist())
                low, high = estimate.low, estimate.high
                assert estimate.value is not None
                if low is None or high is None:
                    low, high = 0.0, 1.0
                holds += low <= true <= high
                bias += (estimate.value - true) / SAMPLES
                width += (high - low) / SAMPLES
            print(f"{name:18} {n:8} {holds / SAMPLES:6.3f} {bias:+7.3f} {width:.3f}")


if __name__ == "__main__":
    main()
