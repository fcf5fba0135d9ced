"""The fastest of several networks. Metrics and labels are in `lowbit.report.scores`, whose names are re-exported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowbit.report.scores import BadScore as BadScore
from lowbit.report.scores import Metric as Metric
from lowbit.report.scores import scored as scored
from lowbit.report.scores import top1 as top1


def fastest(times: Mapping[int, Sequence[float]], scores: Mapping[int, float]) -> int:
    """The network with the best score among those that are as fast as the fastest one was in its slowest measurement.

    >>> fastest({3: [1.0, 1.1], 5: [1.05, 1.2], 6: [1.2, 1.2]}, {3: 0.90, 5: 0.92, 6: 0.95})
    5
    """
    first = min(times, key=lambda i: min(times[i]))
    equal = [i for i in times if min(times[i]) <= max(times[first])]
    return max(equal, key=lambda i: (scores[i], -min(times[i])))
