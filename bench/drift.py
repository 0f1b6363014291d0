"""How often anchors find a drift, and how often one that is not there: ``python -m bench.drift``.

60 anchors, 14 codes, 20 looks. A judge gives a code to a trace with a chance of its own, from a
beta distribution; its agreement with itself is that of a code with a share of 30 %. It drifts at
one look: the share of that code moves by six points.
"""

import sys

import numpy as np

from validation import measure_drift_p

ANCHORS, LOOKS, LEVEL, MOVE = 60, 20, 0.05, 0.06
SHARES = (0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01)
AGREEMENTS = (0.93, 0.97, 1.0)


def draw_chances(rng: np.random.Generator, share: float, agreement: float) -> np.ndarray:
    """Return the chance that the judge gives a code to each anchor."""
    spread = (1 - agreement) / 2 / (SHARES[0] * (1 - SHARES[0]))  # 0: always the same answer
    if spread == 0:
        return (rng.random(ANCHORS) < share).astype(float)
    size = spread / (1 - spread)
    return rng.beta(share * size, (1 - share) * size, ANCHORS)


def move(rng: np.random.Generator, chances: np.ndarray, way: str) -> np.ndarray:
    """Return the chances after the drift: some traces get the code always, twice as many half
    the way there, or some lose it.
    """
    share = SHARES[0]
    if way == "some lose it":
        return np.where(rng.random(ANCHORS) < MOVE / share, 0.0, chances)
    part = 1.0 if way == "some gain it" else 0.5
    moved = rng.random(ANCHORS) < MOVE / (1 - share) / part
    return np.where(moved, chances + part * (1 - chances), chances)


def draw_answers(
    rng: np.random.Generator, agreement: float, frozen: int, way: str = "", look: int = LOOKS + 1
) -> np.ndarray:
    """Return answers, shape (codes, anchors, answers), with a drift of the first code at a look."""
    chances = np.stack([draw_chances(rng, share, agreement) for share in SHARES])
    answers = np.repeat(chances[:, :, None], frozen + LOOKS, axis=2)
    if way:
        answers[0, :, frozen + look - 1 :] = move(rng, chances[0], way)[:, None]
    return (rng.random(answers.shape) < answers).astype(float)


def main(repeats: int) -> None:
    """Print the false alarms of all codes and looks, and the power for the code that moves."""
    rng = np.random.default_rng(1)
    print(f"{repeats} repeats\nfalse alarms in {LOOKS} looks, any code")
    for agreement in AGREEMENTS:
        alarms = [
            any(p is not None and p <= LEVEL for p in measure_drift_p(answers, 3))
            for answers in (draw_answers(rng, agreement, 3) for _ in range(repeats))
        ]
        print(f"  agreement {agreement:.2f}  {np.mean(alarms):.3f}")
    print(f"power by look {LOOKS}, by frozen answers         1     3     5")
    for way in ("some gain it", "some lose it", "half the way"):
        for agreement in AGREEMENTS:
            for look in (5, 10):
                powers = []
                for frozen in (1, 3, 5):
                    found = 0
                    for _ in range(repeats):
                        answers = draw_answers(rng, agreement, frozen, way, look)
                        p = measure_drift_p(answers[:1], frozen)[0]  # then for all codes
                        found += p is not None and p * len(SHARES) <= LEVEL
                    powers.append(found / (repeats))
                cells = "  ".join(f"{power:.2f}" for power in powers)
                print(f"  {way}  agreement {agreement:.2f}  drift at {look:2}  {cells}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
