"""Devices, settings, error codes, and the helpers of ``tf.compat``."""

import pathlib


def programs(tf):
    return _devices(tf) | _settings(tf) | _helpers(tf)


def _devices(tf):
    config = tf.config
    cpu = config.list_physical_devices("CPU")[0]
    return {
        "physical": lambda: config.list_physical_devices("CPU"),
        "logical": lambda: config.list_logical_devices("CPU"),
        "visible": lambda: config.get_visible_devices("CPU"),
        "of no such type": lambda: config.list_physical_devices("TPU"),
        "by the older names": lambda: config.experimental.list_physical_devices("CPU"),
        "details": lambda: config.experimental.get_device_details(cpu),
        "division": lambda: config.get_logical_device_configuration(cpu),
        "a division": lambda: config.LogicalDeviceConfiguration(memory_limit=3),
        "a limit of the CPU's memory": lambda: config.set_logical_device_configuration(
            cpu, [config.LogicalDeviceConfiguration(memory_limit=3)]
        ),
        "memory growth of a CPU": lambda: config.experimental.set_memory_growth(cpu, True),
        "attributes": lambda: (cpu.name, cpu.device_type),
        "no GPU": lambda: (tf.test.is_gpu_available() or tf.test.gpu_device_name()) if _has_gpu(tf) else [False, ""],
    }


def _has_gpu(tf):
    return bool(tf.config.list_physical_devices("GPU"))


def _settings(tf):
    config = tf.config

    def soft():
        before = config.get_soft_device_placement()
        config.set_soft_device_placement(False)
        after = config.get_soft_device_placement()
        config.set_soft_device_placement(True)
        return before, after

    def eagerly():
        config.experimental_run_functions_eagerly(True)
        found = config.functions_run_eagerly(), config.experimental_functions_run_eagerly()
        config.run_functions_eagerly(False)
        return found, config.functions_run_eagerly()

    return {
        "soft placement": soft,
        "threads": lambda: (
            config.threading.get_inter_op_parallelism_threads(), config.threading.get_intra_op_parallelism_threads()
        ),
        "jit": lambda: config.optimizer.get_jit(),
        "run eagerly": eagerly,
    }  # fmt: skip


def _helpers(tf):
    compat, errors = tf.compat, tf.errors
    codes = [name for name in dir(tf.errors) if name.isupper()]
    others = ("OpError", "OperatorNotAllowedInGraphError", "InaccessibleTensorError")
    kinds = [name for name in dir(tf.errors) if name.endswith("Error") and name not in others]
    return {
        "codes": lambda: sorted((getattr(errors, name), name) for name in codes),
        "codes of errors": lambda: sorted(
            (name, getattr(errors, name)(None, None, "why").error_code) for name in kinds
        ),
        "as_bytes": lambda: [compat.as_bytes(v) for v in ("a", b"b", bytearray(b"c"))],
        "as_bytes of a number": lambda: compat.as_bytes(3),
        "as_text": lambda: [f(v) for f in (compat.as_text, compat.as_str) for v in ("a", b"b")],
        "as_text of a number": lambda: compat.as_text(3),
        "as_str_any": lambda: [compat.as_str_any(v) for v in ("a", b"b", 3, None)],
        "path_to_str": lambda: [compat.path_to_str(v) for v in ("a", pathlib.Path("b"), 3)],
        "types": lambda: [isinstance(3, getattr(compat, f"{kind}_types")) for kind in ("integral", "real", "complex")],
        "dimension_value": lambda: compat.dimension_value(tf.TensorShape([3, None])[1]),
        "logger": lambda: tf.get_logger().name,
    }
