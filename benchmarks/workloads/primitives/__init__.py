"""Single primitives on about 4 MB each: their memory bandwidth, compared with the same call in other frameworks."""

from benchmarks.workloads.primitives.elementwise import ELEMENTWISE
from benchmarks.workloads.primitives.movement import MOVEMENT
from benchmarks.workloads.primitives.order import ORDER
from benchmarks.workloads.primitives.pooling import POOLING
from benchmarks.workloads.primitives.random import RANDOM
from benchmarks.workloads.primitives.reductions import REDUCTIONS
from benchmarks.workloads.primitives.rows import ROWS
from benchmarks.workloads.primitives.training import TRAINING

TABLES = (ELEMENTWISE, REDUCTIONS, ROWS, TRAINING, POOLING, MOVEMENT, ORDER, RANDOM)
PRIMITIVES = {each.name: each for table in TABLES for each in table}
WORKLOADS = [each.workload() for each in PRIMITIVES.values()]
