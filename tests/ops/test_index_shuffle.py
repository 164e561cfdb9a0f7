"""Positions in a shuffled sequence: TensorFlow's numbers are in tests/parity/seldom.py."""

import pytest

import tvtf as tf
from tvtf.ops import index_shuffle


@pytest.mark.parametrize("last", [0, 3, 8, 1000, index_shuffle.FEW - 1])
def test_short_sequences_are_shuffled_by_one_table_of_all_blocks(monkeypatch, last):
    """Mapped again one by one until they are inside, positions of a sequence of one take up to 2**16 encryptions."""
    lengths, encrypt = [], index_shuffle._Cipher.encrypt

    def counted(self, blocks):
        lengths.append(blocks.size)
        return encrypt(self, blocks)

    monkeypatch.setattr(index_shuffle._Cipher, "encrypt", counted)
    places = tf.random_index_shuffle(tf.range(last + 1), [1, 2, 3], last)
    assert lengths == [1 << 16] and sorted(places.numpy()) == list(range(last + 1))
    monkeypatch.setattr(index_shuffle, "FEW", 0)
    some = tf.range(last + 1)[:: last // 4 or 1]
    assert tf.random_index_shuffle(some, [1, 2, 3], last).numpy().tolist() == places.numpy()[some.numpy()].tolist()
