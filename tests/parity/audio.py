"""``tf.audio``: sounds in WAV files."""

import struct

import numpy as np


def programs(tf):
    audio = tf.audio
    sound = np.array([[0.0, 0.25], [0.5, -0.5], [1.0, -1.0], [0.3, 1e-5]], np.float32)
    wav = audio.encode_wav(sound, 8000)
    plain = bytes(wav.numpy())

    def shown(found):
        return found.audio, found.sample_rate

    def changed(place, value):
        return plain[:place] + value + plain[place + len(value) :]

    @tf.function
    def decoded(contents):
        found, rate = audio.decode_wav(contents, desired_channels=1)
        return tf.squeeze(found, axis=-1), rate

    @tf.function(input_signature=[tf.TensorSpec([None, 1]), tf.TensorSpec([], tf.int32)])
    def encoded(samples, rate):
        return audio.encode_wav(samples, rate)

    chunk = b"LIST" + struct.pack("<I", 4) + b"abcd"
    return {
        "encode": lambda: wav,
        "encode, rounded and clipped": lambda: audio.encode_wav([[1.5], [-1.5], [0.5 / 32768], [-1.5 / 32768]], 16000),
        "encode, traced": lambda: encoded(sound[:, :1], 44100),
        "encode a vector": lambda: audio.encode_wav([1.0], 8000),
        "decode": lambda: shown(audio.decode_wav(wav)),
        "decode, named": lambda: type(audio.decode_wav(wav)).__name__,
        "decode one channel": lambda: shown(audio.decode_wav(wav, 1)),
        "decode three channels": lambda: shown(audio.decode_wav(wav, desired_channels=3)),
        "decode fewer samples": lambda: shown(audio.decode_wav(wav, desired_samples=2)),
        "decode more samples": lambda: shown(audio.decode_wav(wav, desired_samples=6)),
        "decode, traced": lambda: decoded(wav),
        "decode other chunks": lambda: shown(audio.decode_wav(plain[:36] + chunk + plain[36:])),
        "decode no file": lambda: audio.decode_wav(b"not a sound file at all, but something else entirely"),
        "decode nothing": lambda: audio.decode_wav(b""),
        "decode another format": lambda: audio.decode_wav(changed(20, b"\3\0")),
        "decode other samples": lambda: audio.decode_wav(changed(34, b"\x08\0")),
        "decode a vector": lambda: audio.decode_wav([wav]),
        "in a dataset": lambda: list(tf.data.Dataset.from_tensors(wav).map(lambda x: audio.decode_wav(x)[0])),
    }
