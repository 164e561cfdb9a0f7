"""Measures matrix products of every size: how much slower an odd size is than the nearest round size.

Run as `python -m benchmarks.sweep [--every] [--forms NN,TN] [--lines M,N,K,MNK] [--around 64] [--batch 8]`. A line
varies one extent from 1 to 130 (or all three together, and primes around 1,000 against 1,000 and 1,024). A size's time
for a multiply-add is divided by that of the nearest round size: 1, 2, 4, 8 or a multiple of 16. Kernels are called
directly, many times in a row, and the time of a call of the smallest one is subtracted. That call takes about 120 ns, of
which differences below 20 ns are noise: shorter times count as 20 ns, and two sizes that both take less are not compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te, tirx

from benchmarks.kernels import CORES, TARGET, tensor
from tvtf.ops.kernels.matmul import matmul
from tvtf.passes.codegen.linker import link
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.native_code import native
from tvtf.passes.codegen.subroutines import SubroutineCompiler, names_in
from tvtf.passes.schedule.cpu import schedule, subroutine
from tvtf.runtime.pool import adopt

ROUND = [1, 2, 4, 8, *range(16, 145, 16)]
PRIMES = [983, 991, 997, 1009, 1013, 1019, 1021, 1031]
LARGE_ROUND = [1000, 1024]
SAMPLED = [
    *range(1, 36),
    39,
    40,
    41,
    47,
    49,
    55,
    56,
    57,
    63,
    65,
    71,
    72,
    79,
    81,
    88,
    95,
    97,
    100,
    107,
    111,
    113,
    120,
    127,
    129,
    130,
]
KERNELS_A_LIBRARY = 32
SECONDS_A_TURN = 3e-3
TURNS = 3
ROUNDS = 4
REPEATED = 40
LEAST_SECONDS = 2e-8


@dataclass(frozen=True)
class Product:
    """A matrix product: extents, transposes and batch."""

    m: int
    n: int
    k: int
    form: str
    batch: int

    @property
    def work(self) -> int:
        return self.m * self.n * self.k * max(1, self.batch)

    def shapes(self) -> list[tuple[int, ...]]:
        stack = (self.batch,) if self.batch else ()
        left = (self.k, self.m) if self.form[0] == "T" else (self.m, self.k)
        right = (self.n, self.k) if self.form[1] == "T" else (self.k, self.n)
        return [(*stack, *left), (*stack, *right), (*stack, self.m, self.n)]

    def scheduled(self, name: str) -> tirx.PrimFunc:
        left, right = (each == "T" for each in self.form)
        a, b = (tensor(shape, side) for shape, side in zip(self.shapes(), "ab"))
        return schedule(te.create_prim_func([a, b, matmul(a, b, left, right)]).with_attr("global_symbol", name), TARGET)

    def operands(self) -> list[Any]:
        rng = np.random.default_rng(0)
        return [tvm.runtime.tensor(rng.random(shape, "float32")) for shape in self.shapes()]


EMPTY = Product(1, 1, 1, "NN", 0)
"""A product of the smallest size, whose time is that of a call without arithmetic."""


@dataclass(frozen=True)
class Line:
    """A range of sizes for one or all extents; the others are fixed."""

    varied: str
    sizes: Sequence[int]
    rounds: Sequence[int]
    around: int

    def product(self, size: int, form: str, batch: int) -> Product:
        m, n, k = (size if name in self.varied else self.around for name in "MNK")
        return Product(m, n, k, form, batch)

    def nearest(self, size: int) -> int:
        return min(self.rounds, key=lambda other: (abs(other - size), -other))


def built(products: Sequence[Product], folder: Path) -> dict[Product, Any]:
    """Returns a function that runs each product."""
    groups = [products[first : first + KERNELS_A_LIBRARY] for first in range(0, len(products), KERNELS_A_LIBRARY)]
    lowered = [
        lower_kernels(tvm.IRModule({f"f{i}": p.scheduled(f"f{i}") for i, p in enumerate(group)}), TARGET)[0]
        for group in groups
    ]

    def library(number: int) -> Path:
        path = folder / f"{number}.so"
        native(lowered[number], TARGET).write_to_file(str(path.with_suffix(".o")), "o")
        link([path.with_suffix(".o"), *called_objects(path.with_suffix(".o"))], path)
        return path

    with ThreadPoolExecutor(CORES) as pool:
        modules = [loaded(path) for path in pool.map(library, range(len(groups)))]
    return {p: (module, f"f{i}") for group, module in zip(groups, modules) for i, p in enumerate(group)}


def called_objects(kernels: Path) -> list[Path]:
    """Compiles the subroutines that an object file calls, and returns their object files."""
    names = names_in(kernels.read_bytes())
    objects = [kernels.with_name(f"{kernels.stem}_{name}.o") for name in names]
    with SubroutineCompiler(TARGET, {}, None) as compiler:
        for name, path in zip(names, objects):
            path.write_bytes(compiler.code(name, lambda name=name: subroutine.function(name)))
    return objects


def loaded(path: Path) -> Any:
    """Loads a library whose kernels run on the same pool of threads as those of programs."""
    module = tvm_ffi.load_module(str(path))
    adopt(path)
    return module


def seconds(kernel: tuple[Any, str], operands: Sequence[Any]) -> float:
    """Returns the smallest mean time of a few repetitions."""
    function = kernel[0][kernel[1]]
    function(*operands)
    number = max(1, int(SECONDS_A_TURN / _timed(function, operands, 1)))
    return min(_timed(function, operands, number) for _ in range(TURNS))


def _timed(function: Any, operands: Sequence[Any], number: int) -> float:
    started = time.perf_counter()
    for _ in range(number):
        function(*operands)
    return (time.perf_counter() - started) / number


@dataclass(frozen=True)
class Pair:
    """A size and the nearest round size."""

    line: str
    product: Product
    other: Product

    def ratio(self, best: dict[Product, float]) -> float:
        """Returns the time per multiply-add, divided by that of the round size."""
        return best[self.product] / self.product.work / (best[self.other] / self.other.work)

    def is_reported(self, best: dict[Product, float]) -> bool:
        """Returns whether one of the two takes long enough, compared with the overhead of a call."""
        return max(best[self.product], best[self.other]) > LEAST_SECONDS


def lines(options: argparse.Namespace) -> list[Line]:
    small = range(1, 131) if options.every else SAMPLED
    chosen = [Line(varied, small, ROUND, options.around) for varied in options.lines.split(",")]
    return [*chosen, *(Line(varied, PRIMES, LARGE_ROUND, 1000) for varied in ([] if options.batch else ["MNK"]))]


def pairs(options: argparse.Namespace) -> list[Pair]:
    """Returns each size of the chosen lines with its nearest round size."""
    return [
        Pair(
            f"{form} {line.varied}{' primes' if line.sizes is PRIMES else ''}",
            line.product(size, form, options.batch),
            line.product(line.nearest(size), form, options.batch),
        )
        for form in options.forms.split(",")
        for line in lines(options)
        for size in line.sizes
    ]


def measured(all_pairs: Sequence[Pair]) -> dict[Product, float]:
    """Returns the best seconds of each product; those of the worst ratios are measured again, so that noise is not reported."""
    products = sorted({p for pair in all_pairs for p in (pair.product, pair.other)}, key=str)
    best: dict[Product, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        kernels = built([EMPTY, *products], Path(folder))
        call = seconds(kernels[EMPTY], EMPTY.operands())
        for _ in range(ROUNDS):
            for product in products:
                own = seconds(kernels[product], product.operands()) - call
                best[product] = max(LEAST_SECONDS, min(best.get(product, 1.0), own))
            worst = sorted(reported(all_pairs, best), key=lambda pair: -pair.ratio(best))[:REPEATED]
            products = [p for pair in worst for p in (pair.product, pair.other)]
    return best


def reported(all_pairs: Sequence[Pair], best: dict[Product, float]) -> list[Pair]:
    return [pair for pair in all_pairs if pair.is_reported(best)]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command: measures all pairs of sizes, and prints a line for each range of sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--every", action="store_true", help="every size from 1 to 130, not a sample")
    parser.add_argument("--forms", default="NN,NT,TN,TT", help="which transposes")
    parser.add_argument("--lines", default="M,N,K,MNK", help="which extents vary")
    parser.add_argument("--around", type=int, default=64, help="the other extents")
    parser.add_argument("--batch", type=int, default=0, help="a batch of this many products")
    options = parser.parse_args(argv)
    all_pairs = pairs(options)
    best = measured(all_pairs)
    compared = reported(all_pairs, best)
    print(f"{len(all_pairs) - len(compared)} of {len(all_pairs)} pairs take less than {LEAST_SECONDS * 1e9:.0f} ns")
    for name in dict.fromkeys(pair.line for pair in compared):
        print(line_of(name, sorted((p for p in compared if p.line == name), key=lambda p: -p.ratio(best)), best))
    if compared:
        worst = max(compared, key=lambda pair: pair.ratio(best))
        print(f"worst of {len(compared)}: {worst.ratio(best):.2f} at {worst.line}, {worst.product}")


def line_of(name: str, ordered: Sequence[Pair], best: dict[Product, float]) -> str:
    reported = [f"{p.product.m}x{p.product.n}x{p.product.k} {p.ratio(best):.2f}" for p in ordered[:5]]
    return f"{name:12} worst ratios to the round size: {', '.join(reported)}"


if __name__ == "__main__":
    main()
