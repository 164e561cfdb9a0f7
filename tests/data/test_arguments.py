"""Datasets and iterators as arguments of functions: which of them share a trace."""

import copy
import gc
import pickle

import numpy as np

import tvtf as tf
from tvtf.data.dataset_arguments import NumberType


def counted():
    """Returns a function that sums a dataset's elements, and the list of its traces."""
    traces = []

    @tf.function
    def total(dataset):
        traces.append(dataset.element_spec)
        result = tf.constant(0, tf.int64)
        for element in dataset:
            result += tf.reduce_sum(element)
        return result

    return total, traces


def test_copies_share_a_trace():
    total, traces = counted()
    dataset = tf.data.Dataset.range(6)
    copies = [dataset, copy.copy(dataset), copy.deepcopy(dataset)]
    assert [int(total(each)) for each in copies] == [15, 15, 15]
    copies = [copy.deepcopy(dataset), pickle.loads(pickle.dumps(dataset))]  # after it was an argument
    assert [int(total(each)) for each in copies] == [15, 15]
    assert int(total.get_concrete_function(dataset)(copies[0])) == 15
    assert len(traces) == 1


def test_copies_of_iterators_share_a_trace():
    iterator = iter(tf.data.Dataset.range(6))
    traces = []

    @tf.function
    def first(iterator):
        traces.append(1)
        return next(iterator)

    assert [int(first(iterator)), int(first(iterator)), int(first(copy.deepcopy(iterator)))] == [0, 1, 2]
    assert len(traces) == 1


def test_other_specs_have_other_traces():
    total, traces = counted()
    for dataset in (tf.data.Dataset.range(3), tf.data.Dataset.from_tensor_slices(np.ones([2, 3], np.int64))):
        total(dataset)
    assert [spec.shape.as_list() for spec in traces] == [[], [3]]


def test_types_of_arguments_are_freed_with_their_datasets():
    spec = tf.TensorSpec([71, 73])
    NumberType.of("dataset", spec)
    gc.collect()
    assert not any(key[2] == (spec,) for key in NumberType._in_use)
