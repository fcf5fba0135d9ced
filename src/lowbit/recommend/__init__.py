"""What to choose for a workload: candidates are measured on this machine, or compiled for a chip, and each choice has its measurement."""

from lowbit.recommend.system import QuantizationSystem as QuantizationSystem
from lowbit.recommend.tune import Candidate as Candidate
from lowbit.recommend.tune import Recommendation as Recommendation
from lowbit.recommend.tune import Tuning as Tuning
from lowbit.recommend.tune import auto_tune as auto_tune
from lowbit.recommend.workload import Workload as Workload
