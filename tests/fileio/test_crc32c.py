import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvtf.errors import DataLossError
from tvtf.fileio import crc32c


@pytest.fixture(params=["package", "numpy"], autouse=True, scope="module")
def implementation(request):
    """All tests run on the package google-crc32c, and without it."""
    if request.param == "package":
        pytest.importorskip("google_crc32c")
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crc32c, "extend", None)
        yield


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
        (b"", 0),
    ],
)
def test_vectors_of_rfc_3720(data, expected):
    assert crc32c.crc32c(data) == expected


def one_bit_at_a_time(data: bytes, crc: int) -> int:
    state = crc ^ 0xFFFFFFFF
    for octet in data:
        state ^= octet
        for _ in range(8):
            state = (state >> 1) ^ (crc32c.POLYNOMIAL if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize("size", [1, 7, crc32c.SHORT, crc32c.SHORT + 1, 4096, 10007, 10008, 10009, 80063, 80065])
@pytest.mark.parametrize("crc", [0, 0x12345678])
def test_every_way_of_folding_agrees_with_the_definition(size, crc):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    assert crc32c.crc32c(data, crc) == one_bit_at_a_time(data, crc)


def test_messages_of_several_segments_extend_shorter_ones():
    data = np.random.default_rng(0).integers(0, 256, 2 * crc32c.SEGMENT_BYTES + 77, np.uint8)
    assert crc32c.crc32c(data[50001:], crc32c.crc32c(data[:50001])) == crc32c.crc32c(data)


@given(st.binary(max_size=600), st.binary(max_size=600))
def test_a_checksum_is_extended_by_what_follows(head, tail):
    assert crc32c.crc32c(tail, crc32c.crc32c(head)) == crc32c.crc32c(head + tail)


def test_the_polynomial_divides_the_tetranomial():
    power, powers = 0x80000000, {}
    for exponent in range(crc32c.TETRANOMIAL[0] + 1):
        powers[exponent] = power
        power = (power >> 1) ^ (crc32c.POLYNOMIAL if power & 1 else 0)
    high, middle, low = crc32c.TETRANOMIAL
    assert powers[high] ^ powers[middle] ^ powers[low] ^ powers[0] == 0


def test_the_input_is_left_alone():
    data = np.arange(200_000, dtype=np.uint8)
    crc32c.crc32c(data)
    np.testing.assert_array_equal(data, np.arange(200_000, dtype=np.uint8))


def test_arrays_of_any_dtype_count_as_their_bytes():
    array = np.arange(1000, dtype=np.float64).reshape(10, 100)
    assert crc32c.crc32c(array) == crc32c.crc32c(array.tobytes())


def test_a_mismatch_says_both_checksums():
    with pytest.raises(DataLossError) as caught:
        crc32c.check(b"abc", 1, "x.index, block 0")
    assert caught.value.message == (
        "x.index, block 0: checksum does not match: stored 0x00000001, computed 0x21f1576e. "
        "The file is damaged; restore an older checkpoint."
    )
