"""Names of ``tensorflow.python.distribute.combinations``: a test method run for each combination of strategies and modes.

Combinations whose strategy needs a TPU, or more GPUs than this machine has, are skipped as TensorFlow skips them.

Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/distribute/combinations.py
"""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from inspect import signature
from typing import Any

import tvtf

Combination = dict[str, Any]
"""The arguments of one run of a test, by name."""

NOT_FOR_THE_TEST = ("mode", "required_gpus", "required_tpu", "tf_api_version")
"""Arguments that say how a test runs; a test gets those that it has parameters for."""


class NamedObject:
    """An object under a name that is printed in names of tests."""

    def __init__(self, name: str, obj: Any) -> None:
        self._name = name
        self._obj = obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obj, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._obj(*args, **kwargs)

    def __repr__(self) -> str:
        return self._name


class NamedDistribution:
    """A ``tf.distribute.Strategy`` that is made when a test runs, its name, and the hardware that it needs."""

    def __init__(
        self,
        name: str,
        distribution_fn: Callable[[], Any],
        required_gpus: int | None = None,
        required_tpu: bool = False,
        **_: Any,
    ) -> None:
        self._name = name
        self._distribution_fn = distribution_fn
        self.required_gpus = required_gpus
        self.required_tpu = required_tpu

    @property
    def strategy(self) -> Any:
        return self._distribution_fn()

    def __repr__(self) -> str:
        return self._name


def combine(**options: Any) -> list[Combination]:
    """Returns all combinations of the options' values; an option is a list of values, or its only value."""
    names = sorted(options)
    values = [options[name] if isinstance(options[name], list) else [options[name]] for name in names]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]


def times(*combined: list[Combination]) -> list[Combination]:
    """Returns the products of lists of combinations.

    Raises:
      ValueError: two of the lists have a name in common.
    """
    product = []
    for chosen in itertools.product(*combined):
        merged = {name: value for combination in chosen for name, value in combination.items()}
        if len(merged) < sum(map(len, chosen)):
            raise ValueError(
                f"Keys need to not overlap: {' vs '.join(str(combination.keys()) for combination in chosen)}"
            )
        product.append(merged)
    return product


def concat(*combined: list[Combination]) -> list[Combination]:
    return [*itertools.chain(*combined)]


def generate(combinations: Iterable[Combination], test_combinations: Any = ()) -> Callable[[Any], Any]:
    """Decorates a test method, or all of a test case class, to run with each of the combinations as arguments."""
    named = [{**combination, "testcase_name": _test_name(combination)} for combination in combinations]

    def decorate(test: Any) -> Any:
        from absl.testing import parameterized  # of Keras's dependencies, as the test case classes that this is used in

        if not isinstance(test, type):
            return parameterized.named_parameters(*named)(_run_under(test))
        for name, method in [*vars(test).items()]:
            if name.startswith(unittest.TestLoader.testMethodPrefix) and callable(method):
                delattr(test, name)
                for combination in named:
                    setattr(test, name + combination["testcase_name"], _bound_to(_run_under(method), combination))
        return test

    return decorate


def _bound_to(test: Callable[..., None], combination: Combination) -> Callable[[Any], None]:
    arguments = {name: value for name, value in combination.items() if name != "testcase_name"}
    return lambda self: test(self, **arguments)


def _test_name(combination: Combination) -> str:
    """Returns what a combination adds to its test's name: ``_test_distribution_OneDeviceCPU_mode_eager``."""
    parts = [part for name, value in combination.items() for part in (name, str(value))]
    return "_".join(["_test", *("".join(filter(str.isalnum, part)) for part in parts)])


def _run_under(test: Callable[..., None]) -> Callable[..., None]:
    """Returns a test method that makes its combination's strategies and runs in its mode, or is skipped."""

    def run(self: Any, **arguments: Any) -> None:
        """Runs the test with the arguments of one combination.

        Raises:
          ValueError: the test has other parameters than the combination has arguments.
        """
        if reason := _reason_to_skip(arguments):
            self.skipTest(reason)
        parameters = [name for name in signature(test).parameters if name != "self"]
        passed = {n: value for n, value in arguments.items() if n in parameters or n not in NOT_FOR_THE_TEST}
        if without := set(parameters) - set(passed):
            raise ValueError(f"The test requires parameters whose arguments were not passed: {without} .")
        if unknown := set(passed) - set(parameters):
            raise ValueError(f"The test does not take parameters that were passed : {unknown} .")
        graph = tvtf.Graph().as_default() if arguments.get("mode") == "graph" else nullcontext()
        with graph:
            made = {n: value.strategy if isinstance(value, NamedDistribution) else value for n, value in passed.items()}
            test(self, **made)

    return run


def _reason_to_skip(arguments: Combination) -> str | None:
    """Returns why a combination can't run here, or ``None``."""
    strategies = [value for value in arguments.values() if isinstance(value, NamedDistribution)]
    gpus = max([arguments.get("required_gpus") or 0, *(s.required_gpus or 0 for s in strategies)])
    if arguments.get("tf_api_version") == 1:
        return "Skipping a TF1.x test when TF2 is enabled."
    if arguments.get("required_tpu") or any(s.required_tpu for s in strategies):
        return "Test requires a TPU, but it's not available."
    if gpus > (available := len(tvtf.config.list_physical_devices("GPU"))):
        return f"Only {available} of {gpus} required GPUs are available."
    return None


def _named(name: str, strategy: str, *arguments: Any, **needs: Any) -> NamedDistribution:
    """Returns a named strategy of ``tf.distribute``, which is looked up when a test runs."""
    return NamedDistribution(name, lambda: getattr(tvtf.distribute, strategy)(*arguments), **needs)


_ONE_DEVICE = {
    "default_strategy": _named("Default", "get_strategy"),
    "one_device_strategy": _named("OneDeviceCPU", "OneDeviceStrategy", "/cpu:0"),
    "one_device_strategy_gpu": _named("OneDeviceGPU", "OneDeviceStrategy", "/gpu:0", required_gpus=1),
    "mirrored_strategy_with_one_cpu": _named("Mirrored1CPU", "MirroredStrategy", ["/cpu:0"]),
    "mirrored_strategy_with_one_gpu": _named("Mirrored1GPU", "MirroredStrategy", ["/gpu:0"], required_gpus=1),
}
_SEVERAL_GPUS = {
    "mirrored_strategy_with_gpu_and_cpu": _named(
        "MirroredCPUAndGPU", "MirroredStrategy", ["/gpu:0", "/cpu:0"], required_gpus=1
    ),
    "mirrored_strategy_with_two_gpus": _named(
        "Mirrored2GPUs", "MirroredStrategy", ["/gpu:0", "/gpu:1"], required_gpus=2
    ),
}
_TPUS = {
    "cloud_tpu_strategy": _named("CloudTPU", "TPUStrategy", required_tpu=True),
    "tpu_strategy": _named("TPU", "TPUStrategy", required_tpu=True),
}
_HELPERS: dict[str, Any] = {"NamedObject": NamedObject, "combine": combine, "generate": generate, "times": times}

NAMES: dict[str, dict[str, Any]] = {
    "python.distribute.combinations": {
        **_HELPERS,
        "NamedDistribution": NamedDistribution,
        "concat": concat,
        "no_tf_function": NamedObject("NoTfFunction", lambda function: function),
        "tf_function": NamedObject("TfFunction", lambda function: tvtf.function(function)),
    },
    "python.distribute.strategy_combinations": {
        **_ONE_DEVICE,
        **_SEVERAL_GPUS,
        **_TPUS,
        "strategies_minus_tpu": [*_ONE_DEVICE.values()][:3] + [*_SEVERAL_GPUS.values()],
        "graph_and_eager_modes": ["graph", "eager"],
    },
    "python.framework.combinations": _HELPERS,
    "python.framework.test_combinations": _HELPERS,
}
