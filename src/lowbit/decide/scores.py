"""Which of several networks is the fastest. Metrics and labels are `lowbit.report.scores`, whose names are here as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowbit.report.scores import BadScore as BadScore
from lowbit.report.scores import Metric as Metric
from lowbit.report.scores import scored as scored
from lowbit.report.scores import top1 as top1


def fastest(times: Mapping[int, Sequence[float]], scores: Mapping[int, float]) -> int:
    """The one with the least time, of those measured some times over; among those as fast as it was itself at its slowest, the best score.

    >>> fastest({3: [1.0, 1.1], 5: [1.05, 1.2], 6: [1.2, 1.2]}, {3: 0.90, 5: 0.92, 6: 0.95})
    5
    """
    first = min(times, key=lambda i: min(times[i]))
    equal = [i for i in times if min(times[i]) <= max(times[first])]
    return max(equal, key=lambda i: (scores[i], -min(times[i])))
