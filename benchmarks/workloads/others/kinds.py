"""Networks of a few layers, of kinds that the larger ones leave out, each a loss over a framework's operations."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.others.networks import classified
from benchmarks.workloads.others.sizes import Images, Sequences, Vectors


def _convolved(ops: Any, x: Any, width: int, **how: Any) -> Any:
    return ops.relu(ops.batch_norm(ops.conv(x, width, **how)))


def mobile(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Depthwise convolutions, each followed by one of single points (Howard et al. 2017)."""
    x = _convolved(ops, x, size.widths[0], stride=2)
    for width in size.widths[1:]:
        for step in (1, 2):
            channels = int(x.shape[ops.channels])
            x = _convolved(ops, x, channels, stride=step, groups=channels)
            x = _convolved(ops, x, width, window=1)
    return classified(ops, ops.mean(x), y)


def digits(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """LeCun et al. 1998, with maxima."""
    for width in size.widths[:-1]:
        x = ops.pool(ops.tanh(ops.conv(x, width, 5)))
    x = ops.reshape(x, (size.batch, -1))
    return classified(ops, ops.tanh(ops.dense(x, size.widths[-1])), y)


def hourglass(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """An image made narrower and narrower, and wide again by transposed convolutions (Masci et al. 2011)."""
    for width in size.widths:
        x = ops.relu(ops.conv(x, width, 3, 2))
    for width in reversed(size.widths[:-1]):
        x = ops.relu(ops.upconv(x, width, 3))
    difference = ops.sigmoid(ops.upconv(x, size.compared, 3)) - y
    return ops.average(difference * difference)


def mixer(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Dense layers along an image's positions, then along its channels (Tolstikhin et al. 2021)."""
    width, patch = size.widths
    x = ops.tokens(ops.conv(x, width, patch, patch))
    for _ in range(3):
        z = ops.transpose(ops.layer_norm(x), (0, 2, 1))
        places = int(z.shape[-1])
        x = x + ops.transpose(ops.dense(ops.gelu(ops.dense(z, 2 * places)), places), (0, 2, 1))
        x = x + ops.dense(ops.gelu(ops.dense(ops.layer_norm(x), 4 * width)), width)
    return classified(ops, ops.mean(ops.layer_norm(x)), y)


def phrases(ops: Any, size: Sequences, ids: Any, y: Any) -> Any:
    """Convolutions over three to five words with maxima over positions (Kim 2014)."""
    x = ops.signal(ops.gather(ops.weight(size.symbols, size.width), ids))
    found = [ops.most(ops.relu(ops.conv(x, size.hidden, window))) for window in (3, 4, 5)]
    return classified(ops, ops.join(found), y)


def contrasted(ops: Any, size: Vectors, x: Any, noise: Any) -> Any:
    """Contrastive loss: pairs against all others of a batch (Chen et al. 2020)."""
    one, other = (_direction(ops, size, each) for each in (x, x + 0.1 * ops.dense(noise, size.width)))
    log_probabilities = ops.softmax(10.0 * (one @ ops.transpose(other, (1, 0))))
    return ops.average(log_probabilities) - ops.average(one * other)


def _direction(ops: Any, size: Vectors, x: Any) -> Any:
    z = ops.dense(ops.relu(ops.dense(x, size.hidden)), size.latent)
    return z * ops.rsqrt(ops.lengths(z) + 1e-6)


def crossed(ops: Any, size: Sequences, ids: Any, y: Any) -> Any:
    """Products of columns with their own crossings, next to a few dense layers (Wang et al. 2017)."""
    x = ops.gather(ops.weight(size.symbols, size.width), ids)
    x = first = ops.reshape(x, (size.batch, -1))
    z = ops.relu(ops.dense(ops.relu(ops.dense(x, size.hidden)), size.hidden))
    for _ in range(3):
        x = first * ops.dense(x, 1) + x
    return classified(ops, ops.join([x, z]), y)
