"""How good a network is where no metric tells: the noise of its outputs; and which of several is the fastest.

Metrics and labels are `lowbit.report.scores`, whose names are here as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowbit.calibration.run import need_finite
from lowbit.decide.points import noise_of_rows
from lowbit.decide.quality import decibels
from lowbit.decide.samples import Sample
from lowbit.report.scores import BadScore as BadScore
from lowbit.report.scores import Metric as Metric
from lowbit.report.scores import scored as scored
from lowbit.report.scores import top1 as top1
from lowbit.runtime.session import Session


def outputs_db(reference: Session, samples: Sequence[Sample]) -> Metric:
    """The signal to noise ratio of the worst output in dB, against the outputs of the reference; +inf where nothing differs.

    Of a network whose outputs are all integers, the share of elements that differ stands for the noise.
    """
    wanted = [reference.run(dict(s)) for s in samples]
    for sample, want in zip(samples, wanted, strict=True):
        need_finite(reference.graph, sample, want)
    floats = any(x.dtype.kind == "f" for x in wanted[0].values())

    def metric(session: Session) -> float:
        signal: dict[str, float] = {}
        noise: dict[str, float] = {}
        for sample, want in zip(samples, wanted, strict=True):
            for name, got in session.run(dict(sample)).items():
                if floats and got.dtype.kind != "f":
                    continue
                if floats:
                    (s,), (n,) = noise_of_rows(*(x.astype(np.float64).reshape(1, -1) for x in (want[name], got)))
                else:
                    s, n = got.size, np.count_nonzero(want[name] != got)
                signal[name], noise[name] = signal.get(name, 0.0) + float(s), noise.get(name, 0.0) + float(n)
        return decibels(max((n / max(signal[k], 1e-300) for k, n in noise.items()), default=0.0))

    return metric


def fastest(times: Mapping[int, Sequence[float]], scores: Mapping[int, float]) -> int:
    """The one with the least time, of those measured some times over; among those as fast as it was itself at its slowest, the best score.

    >>> fastest({3: [1.0, 1.1], 5: [1.05, 1.2], 6: [1.2, 1.2]}, {3: 0.90, 5: 0.92, 6: 0.95})
    5
    """
    first = min(times, key=lambda i: min(times[i]))
    equal = [i for i in times if min(times[i]) <= max(times[first])]
    return max(equal, key=lambda i: (scores[i], -min(times[i])))
