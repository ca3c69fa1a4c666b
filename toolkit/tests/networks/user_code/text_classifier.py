"""A small transformer that classifies text given as bytes, 0 for padding."""

import torch
from torch import nn
from torch.nn import functional

LENGTH = 64
WIDTH = 96
HEADS = 4
LAYERS = 2
CLASSES = 4


class Encoder(nn.Module):
    """Self-attention and a feed-forward network, each after a layer norm, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.projections = nn.Linear(WIDTH, 3 * WIDTH)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.feed_norm = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """tokens: float32 [n, LENGTH, WIDTH]. seen: bool [n, 1, 1, LENGTH], false for padding."""
        split = self.projections(self.attention_norm(tokens)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
        heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        tokens = tokens + self.merge(heads.transpose(1, 2).flatten(2))
        fed: torch.Tensor = self.narrow(functional.gelu(self.widen(self.feed_norm(tokens))))
        return tokens + fed


class TextClassifier(nn.Module):
    """int64 ids [n, LENGTH] to logits [n, CLASSES] and the mean token [n, WIDTH].

    Positions are counted from the ids, as language models with padding do: integer arithmetic whose result
    is an index.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.positions = nn.Embedding(LENGTH + 1, WIDTH)
        self.encoders = nn.ModuleList(Encoder() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and mean."""
        present = (ids != 0).to(torch.int64)
        positions = torch.arange(1, LENGTH + 1) * present
        tokens = self.bytes(ids) + self.positions(positions)
        seen = (ids != 0)[:, None, None, :]
        for encoder in self.encoders:
            tokens = encoder(tokens, seen)
        weights = present.to(torch.float32)[:, :, None]
        mean = (self.norm(tokens) * weights).sum(1) / weights.sum(1)
        return self.head(mean), mean


def network() -> nn.Module:
    """With random weights, the same ones each time."""
    torch.manual_seed(0)
    return TextClassifier()
