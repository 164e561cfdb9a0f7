"""tf.signal: transforms, frames, windows."""

import numpy as np
from parity_numbers import calls

X = [[1.0, 2.0, -1.0, 0.5, 3.0, -2.0], [0.25, 1.5, 2.0, -1.0, 0.0, 1.0]]
Z = (np.array(X) + 1j * np.array(X)[::-1]).astype(np.complex64)
VOLUME = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3) % 5
WAVE = np.sin(np.arange(40) / 3).astype(np.float32) + np.arange(40, dtype=np.float32) % 3


def programs(tf):
    return calls(tf, _transforms(tf) | _framed(tf)) | _windows(tf) | _errors(tf)


def _transforms(tf):
    """TensorFlow's gradients fail where a transform has another size than its input, and it has none of rfft3d."""
    signal = tf.signal
    complexes = {n: (getattr(signal, n), Z) for n in ("fft", "ifft", "fft2d", "ifft2d", "irfft", "irfft2d")}
    reals = {n: (getattr(signal, n), X) for n in ("rfft", "rfft2d")}
    cubes = {n: (getattr(signal, n), VOLUME.astype(np.complex64)) for n in ("fft3d", "ifft3d")}
    return (
        complexes
        | reals
        | cubes
        | {
            "rfft3d": (lambda x: tf.stop_gradient(signal.rfft3d(x)), VOLUME),
            "irfft3d": (lambda x: tf.stop_gradient(signal.irfft3d(x)), VOLUME.astype(np.complex64)),
            "rfft of eight": (lambda x: signal.rfft(x, [8]), X),
            "rfft of five": (lambda x: tf.stop_gradient(signal.rfft(x, [5])), X),
            "irfft of five": (lambda x: tf.stop_gradient(signal.irfft(x, [5])), Z),
            "irfft of nine": (lambda x: tf.stop_gradient(signal.irfft(x, [9])), Z),
            "rfft2d of others": (lambda x: tf.stop_gradient(signal.rfft2d(x, [3, 4])), X),
            "fftshift": (signal.fftshift, X),
            "ifftshift": (lambda x: signal.ifftshift(x, axes=[1]), X),
            **{f"dct {t}": (lambda x, t=t: signal.dct(x, type=t), X) for t in (1, 2, 3, 4)},
            **{f"idct {t}": (lambda x, t=t: signal.idct(x, type=t), X) for t in (1, 2, 3, 4)},
            "dct ortho": (lambda x: signal.dct(x, type=2, norm="ortho"), X),
            "dct of four": (lambda x: signal.dct(x, n=4), X),
            "dct of eight": (lambda x: signal.dct(x, n=8), X),
        }
    )


def _framed(tf):
    signal = tf.signal
    return {
        "frame": (lambda x: signal.frame(x, 3, 2), X),
        "frame with end": (lambda x: signal.frame(x, 4, 3, pad_end=True, pad_value=9.0), X),
        "frame of columns": (lambda x: signal.frame(x, 1, 1, axis=0), X),
        "overlap_and_add": (lambda x: signal.overlap_and_add(x, 2), X),
        "stft": (lambda x: signal.stft(x, 12, 5), WAVE),
        "stft with end": (lambda x: signal.stft(x, 12, 5, fft_length=20, window_fn=signal.hamming_window, pad_end=True), WAVE),
        "inverse_stft": (lambda x: tf.round(1e3 * signal.inverse_stft(signal.stft(x, 8, 4), 8, 4, window_fn=signal.inverse_stft_window_fn(4))), WAVE),
        "mdct": (lambda x: signal.mdct(x, 8), WAVE),
        "mdct without window": (lambda x: signal.mdct(x, 8, window_fn=None, norm="ortho", pad_end=True), WAVE),
        "inverse_mdct": (lambda x: signal.inverse_mdct(signal.mdct(x, 8)), WAVE),
        "mfccs": (signal.mfccs_from_log_mel_spectrograms, X),
        "mel": (lambda x: tf.matmul(x, signal.linear_to_mel_weight_matrix(4, 6, 8000, 100.0, 3000.0)), X),
    }  # fmt: skip


def _windows(tf):
    signal = tf.signal
    made = {}
    for name in ("hann_window", "hamming_window"):
        for length in (1, 6, 7):
            for periodic in (True, False):
                made[f"{name} {length} {periodic}"] = (lambda f=getattr(signal, name), n=length, p=periodic: f(n, p),)
    made |= {f"vorbis_window {n}": (lambda n=n: signal.vorbis_window(n),) for n in (4, 8)}
    made |= {f"kaiser_window {n}": (lambda n=n: signal.kaiser_window(n, 6.0),) for n in (5, 8)}
    made["kaiser_bessel_derived_window"] = (lambda: signal.kaiser_bessel_derived_window(8, 4.0),)
    return calls(tf, made)


def _errors(tf):
    signal = tf.signal
    return {
        "mdct of six": lambda: signal.mdct(WAVE, 6),
        "dct of type 5": lambda: signal.dct(X, type=5),
        "dct 1 ortho": lambda: signal.dct(X, type=1, norm="ortho"),
        "mel beyond": lambda: signal.linear_to_mel_weight_matrix(4, 6, 8000, 100.0, 5000.0),
        "hann of integers": lambda: signal.hann_window(4, dtype=tf.int32),
    }
