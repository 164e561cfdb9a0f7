"""Logical devices: TensorFlow sets them only before it has started, so that its answers can't be among the golden ones."""

import numpy as np
import pytest

import tvtf as tf

(CPU,) = tf.config.list_physical_devices("CPU")
PART = tf.config.LogicalDeviceConfiguration()


@pytest.fixture
def three_devices():
    tf.config.set_logical_device_configuration(CPU, [PART] * 3)
    yield
    tf.config.set_logical_device_configuration(CPU, [])


def test_the_cpu_is_listed_as_several_devices(three_devices):
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert names == ["/device:CPU:0", "/device:CPU:1", "/device:CPU:2"]
    assert tf.config.list_physical_devices("CPU") == [CPU]
    assert tf.config.get_logical_device_configuration(CPU) == [PART] * 3
    with tf.device(names[2]):
        assert np.array_equal(tf.function(lambda x: x * 2)(tf.constant([1.0, 2.0])), [2.0, 4.0])


def test_several_devices_are_no_replicas(three_devices):
    assert tf.distribute.MirroredStrategy().num_replicas_in_sync == 1
    with pytest.raises(NotImplementedError, match="one device: 3 were given"):
        tf.distribute.MirroredStrategy(tf.config.list_logical_devices("CPU"))


def test_a_division_of_another_device():
    with pytest.raises(ValueError, match="Unrecognized device"):
        tf.config.set_logical_device_configuration(CPU._replace(name="/physical_device:CPU:7"), [PART])
