"""Names of devices, messages, capsules and the time."""


def programs(tf):
    return _devices(tf) | _messages(tf) | _rest(tf)


def _devices(tf):
    full = {"job": "ps", "replica": 1, "task": 2, "device_type": "gpu", "device_index": 3}

    def parts(spec):
        return spec.job, spec.replica, spec.task, spec.device_type, spec.device_index, spec.to_string()

    texts = ("", "/cpu:0", "/job:worker/task:1", "/job:a/replica:0/task:0/device:CPU:0", "/device:GPU:*", "GPU:1")
    merged = tf.DeviceSpec(job="a", device_type="CPU"), tf.DeviceSpec(task=1, device_type="GPU", device_index=2)
    return {
        "a device": lambda: parts(tf.DeviceSpec(**full)),
        **{f"read from {text!r}": lambda text=text: parts(tf.DeviceSpec.from_string(text)) for text in texts},
        "a name that is none": lambda: tf.DeviceSpec.from_string("/nothing:0"),
        "merged": lambda: parts(merged[0].make_merged_spec(merged[1])),
        "replaced": lambda: parts(merged[0].replace(task=5)),
        "equal": lambda: (tf.DeviceSpec(job="a") == tf.DeviceSpec(job="a"), merged[0] == merged[1]),
    }


def _messages(tf):
    def back(*args, **kwargs):
        def program():
            array = tf.make_ndarray(tf.make_tensor_proto(*args, **kwargs))
            return array.tolist(), array.dtype, array.shape

        return program

    return {
        "a message": back([[1, 2], [3, 4]]),
        "of floats": back([0.5, 1.5]),
        "of another dtype": back([1, 2], dtype=tf.float64),
        "of texts": back(["a", "bc"]),
        "of bools": back([True, False]),
        "filled": back(2.5, shape=[2, 2]),
        "in a shape": back([1, 2, 3, 4], shape=[2, 2]),
        "of another shape": back([1, 2, 3], shape=[2], verify_shape=True),
    }


def _rest(tf):
    def time():
        run = tf.function(lambda: tf.timestamp())
        first, second = run(), run()
        return first.dtype, bool(second > first), bool(tf.timestamp() > second)

    def capsule():
        given = tf.constant([[1.0, 2.0]])
        return tf.experimental.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(given))

    def names():
        return tf.types.experimental.TensorLike is not None, isinstance(tf.version.VERSION, str)

    return {"the time": time, "a capsule": capsule, "names": names}
