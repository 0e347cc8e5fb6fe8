"""From timed calls to one figure a trial: paired differences in quads of A B B A.

A drift that is linear over a quad of equally long calls falls out of its difference
(B1 + B2 - A1 - A2) / 2, whatever its slope; the median over the quads bears the calls that
an interrupt hit. That repetition belongs at the level that varies most, here the load, is
argued by Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdplab.records import Trial

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def quad_differences(baseline_ns: npt.ArrayLike, variant_ns: npt.ArrayLike) -> Floats:
    """Differences variant - baseline of each quad, ns per call, shape (quads,).

    Both arguments have shape (2 * quads,) in the order of Trial. ValueError where they have not.
    """
    # A tenth of a second to import: only for who has something to compute.
    import numpy as np

    baseline = np.asarray(baseline_ns, dtype=np.float64)
    variant = np.asarray(variant_ns, dtype=np.float64)
    if baseline.shape != variant.shape or baseline.ndim != 1 or baseline.size % 2:
        raise ValueError(f"quads need equal, even counts, not {baseline.shape, variant.shape}")
    sums = (variant - baseline).reshape(-1, 2).sum(axis=1)
    return np.asarray(sums / 2, dtype=np.float64)


def trial_point(trial: Trial, operations_per_call: int) -> float:
    """One trial's figure in ns per operation: the median of its quads."""
    import numpy as np

    return float(np.median(quad_differences(trial.baseline_ns, trial.variant_ns))) / (
        operations_per_call
    )


def doubling_ratio(trial: Trial) -> float:
    """Time for twice the work over time for once the work; near 2 where time follows work.

    The trial's baseline made the work once, its variant twice.
    """
    import numpy as np

    return float(np.median(trial.variant_ns) / np.median(trial.baseline_ns))
