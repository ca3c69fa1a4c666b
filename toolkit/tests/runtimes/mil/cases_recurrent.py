"""Cases of the recurrent operators and of control flow."""

from typing import Any

import numpy as np
import torch
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Array, Case, between, integers, mb, normal

IN, HIDDEN = 3, 4
SEQUENCE, H, C = normal(5, 2, IN), normal(2, HIDDEN), normal(2, HIDDEN)


def _weights(gates: int) -> dict[str, Array]:
    return {
        "weight_ih": between(-1, 1, gates * HIDDEN, IN),
        "weight_hh": between(-1, 1, gates * HIDDEN, HIDDEN),
        "bias": between(-1, 1, gates * HIDDEN),
    }


def _reordered(array: Array, order: tuple[int, ...]) -> torch.Tensor:
    """MIL's gates in torch's order."""
    parts = np.split(array, len(order))
    return tensor(np.concatenate([parts[i] for i in order]))


def _torch_lstm(there: dict[str, Array], back: dict[str, Array] | None = None) -> torch.nn.LSTM:
    """torch's order is input, forget, cell, output; MIL's input, forget, output, cell."""
    lstm = torch.nn.LSTM(IN, HIDDEN, bidirectional=back is not None)
    state = {}
    for suffix, weights in (("", there), ("_reverse", back)):
        if weights is not None:
            state[f"weight_ih_l0{suffix}"] = _reordered(weights["weight_ih"], (0, 1, 3, 2))
            state[f"weight_hh_l0{suffix}"] = _reordered(weights["weight_hh"], (0, 1, 3, 2))
            state[f"bias_ih_l0{suffix}"] = _reordered(weights["bias"], (0, 1, 3, 2))
            state[f"bias_hh_l0{suffix}"] = torch.zeros(4 * HIDDEN)
    lstm.load_state_dict(state)
    return lstm


_LSTM, _LSTM_BACK, _GRU, _RNN = _weights(4), _weights(4), _weights(3), _weights(1)
_GRU_INPUT_BIAS = between(-1, 1, 3 * HIDDEN)


@torch.no_grad()
def _lstm(x: Array, h: Array, c: Array) -> tuple[torch.Tensor, ...]:
    out, (hn, cn) = _torch_lstm(_LSTM)(tensor(x), (tensor(h)[None], tensor(c)[None]))
    return out, hn[0], cn[0]


@torch.no_grad()
def _lstm_reverse(x: Array, h: Array, c: Array) -> tuple[torch.Tensor, ...]:
    _, (hn, cn) = _torch_lstm(_LSTM)(tensor(x).flip(0), (tensor(h)[None], tensor(c)[None]))
    return hn, hn[0], cn[0]


def _two(state: Array) -> torch.Tensor:
    return torch.stack(torch.tensor_split(tensor(state), 2, 1))


@torch.no_grad()
def _lstm_both(x: Array, h: Array, c: Array) -> tuple[torch.Tensor, ...]:
    out, (hn, cn) = _torch_lstm(_LSTM, _LSTM_BACK)(tensor(x), (_two(h), _two(c)))
    return out, torch.cat(tuple(hn), 1), torch.cat(tuple(cn), 1)


def _gru(x: Array, h: Array) -> tuple[Array, Array]:
    """The equations of Core ML's GRU, where the reset gate comes before the product."""

    def sigmoid(v: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-v)))

    wr, wo, wz = np.split(_GRU["weight_ih"], 3)
    rr, ro, rz = np.split(_GRU["weight_hh"], 3)
    br, bo, bz = np.split(_GRU["bias"], 3)
    states = []
    for step in x:
        r = sigmoid(step @ wr.T + h @ rr.T + br)
        z = sigmoid(step @ wz.T + h @ rz.T + bz)
        h = (1 - z) * np.tanh(step @ wo.T + (r * h) @ ro.T + bo) + z * h
        states.append(h)
    return np.stack(states), h


@torch.no_grad()
def _gru_torch(x: Array, h: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """torch's order is reset, update, new; MIL's reset, output (new), update."""
    gru = torch.nn.GRU(IN, HIDDEN)
    gru.load_state_dict(
        {
            "weight_ih_l0": _reordered(_GRU["weight_ih"], (0, 2, 1)),
            "weight_hh_l0": _reordered(_GRU["weight_hh"], (0, 2, 1)),
            "bias_ih_l0": _reordered(_GRU_INPUT_BIAS, (0, 2, 1)),
            "bias_hh_l0": _reordered(_GRU["bias"], (0, 2, 1)),
        }
    )
    out, hn = gru(tensor(x), tensor(h)[None])
    return out, hn[0]


@torch.no_grad()
def _rnn(x: Array, h: Array) -> tuple[torch.Tensor, torch.Tensor]:
    rnn = torch.nn.RNN(IN, HIDDEN, nonlinearity="relu")
    rnn.load_state_dict(
        {
            "weight_ih_l0": tensor(_RNN["weight_ih"]),
            "weight_hh_l0": tensor(_RNN["weight_hh"]),
            "bias_ih_l0": tensor(_RNN["bias"]),
            "bias_hh_l0": torch.zeros(HIDDEN),
        }
    )
    out, hn = rnn(tensor(x).flip(0), tensor(h)[None])
    return out.flip(0), hn[0]


def _peephole(x: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
    wi, wh, b = _LSTM["weight_ih"], _LSTM["weight_hh"], _LSTM["bias"]
    pi, pf, po = np.split(_PEEPHOLE, 3)
    for step in x:
        i, f, o, z = np.split(step @ wi.T + h @ wh.T + b, 4, axis=1)
        i, f = (1 / (1 + np.exp(-v)) for v in (i + pi * c, f + pf * c))
        c = f * c + i * np.tanh(z)
        h = 1 / (1 + np.exp(-(o + po * c))) * np.tanh(c)
    return h[None], h, c


_PEEPHOLE = between(-1, 1, 3 * HIDDEN)


def _power(base: Any, count: Any) -> Any:
    """base ** count by multiplying in a loop, and a cond around it."""

    def multiply() -> Any:
        return mb.while_loop(
            _cond=lambda i, value: mb.less(x=i, y=count),
            _body=lambda i, value: (mb.add(x=i, y=1), mb.mul(x=value, y=base)),
            loop_vars=(np.array([0], np.int32), mb.fill_like(ref_tensor=base, value=1.0)),
        )[1]

    positive = mb.reduce_max(x=mb.cast(x=mb.greater(x=count, y=0), dtype="int32"))
    return mb.cond(
        pred=mb.cast(x=positive, dtype="bool"), _true_fn=multiply, _false_fn=lambda: mb.sub(x=base, y=100.0)
    )


CASES = [
    Case(
        "lstm",
        {"x": SEQUENCE, "h": H, "c": C},
        lambda x, h, c: mb.lstm(x=x, initial_h=h, initial_c=c, **_LSTM, output_sequence=True),
        _lstm,
    ),
    Case(
        "lstm",
        {"x": SEQUENCE, "h": H, "c": C},
        lambda x, h, c: mb.lstm(x=x, initial_h=h, initial_c=c, **_LSTM, direction="reverse"),
        _lstm_reverse,
        "reverse",
    ),
    Case(
        "lstm",
        {"x": SEQUENCE, "h": normal(2, 2 * HIDDEN), "c": normal(2, 2 * HIDDEN)},
        lambda x, h, c: mb.lstm(
            x=x,
            initial_h=h,
            initial_c=c,
            **_LSTM,
            **{f"{name}_back": array for name, array in _LSTM_BACK.items()},
            direction="bidirectional",
            output_sequence=True,
        ),
        _lstm_both,
        "bidirectional",
    ),
    Case(
        "lstm",
        {"x": SEQUENCE, "h": H, "c": C},
        lambda x, h, c: mb.lstm(x=x, initial_h=h, initial_c=c, **_LSTM, peephole=_PEEPHOLE),
        _peephole,
        "peephole",
    ),
    Case(
        "gru",
        {"x": SEQUENCE, "h": H},
        lambda x, h: mb.gru(x=x, initial_h=h, **_GRU, output_sequence=True),
        _gru,
    ),
    Case(
        "gru",
        {"x": SEQUENCE, "h": H},
        lambda x, h: mb.gru(
            x=x, initial_h=h, **_GRU, input_bias=_GRU_INPUT_BIAS, reset_after=True, output_sequence=True
        ),
        _gru_torch,
        "reset_after",
        18,
    ),
    Case(
        "rnn",
        {"x": SEQUENCE, "h": H},
        lambda x, h: mb.rnn(
            x=x, initial_h=h, **_RNN, activation="relu", direction="reverse", output_sequence=True
        ),
        _rnn,
    ),
    Case(
        "while_loop",
        {"base": normal(3), "count": integers(3, 4, 1)},
        _power,
        lambda base, count: base**3,
        target=16,
    ),
    Case(
        "cond",
        {"base": normal(3), "count": integers(0, 1, 1)},
        _power,
        lambda base, count: base - 100,
        target=16,
    ),
]
