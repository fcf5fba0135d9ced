"""A Llama network as a torch module; layers are named as the file names them. `generate` continues a text, greedily, with cached keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lowbit.frontends.gguf.file import GGUFFile
from lowbit.frontends.gguf.llama import Llama, rotations, sizes

Cache = list[tuple[Tensor, Tensor]]  # keys and values of each block so far


class Block(nn.Module):
    def __init__(self, s: Llama) -> None:
        super().__init__()
        self.s = s
        self.attn_norm, self.ffn_norm = nn.RMSNorm(s.width, s.eps), nn.RMSNorm(s.width, s.eps)
        self.attn_q = nn.Linear(s.width, s.heads * s.head, bias=False)
        self.attn_k, self.attn_v = (nn.Linear(s.width, s.kv_heads * s.head, bias=False) for _ in range(2))
        self.attn_output = nn.Linear(s.heads * s.head, s.width, bias=False)
        self.ffn_gate, self.ffn_up = (nn.Linear(s.width, s.hidden, bias=False) for _ in range(2))
        self.ffn_down = nn.Linear(s.hidden, s.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h = self.attn_norm(x)
        n, t, _ = h.shape
        q, k, v = (f(h).view(n, t, -1, self.s.head).transpose(1, 2) for f in (self.attn_q, self.attn_k, self.attn_v))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        keys, values = (a.repeat_interleave(self.s.shared, 1) for a in (k, v))
        y = F.scaled_dot_product_attention(q, keys, values, is_causal=past is None)
        x = x + self.attn_output(y.transpose(1, 2).reshape(n, t, -1))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h)), (k, v)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Neighbouring features turned by the angle of their position."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class LlamaModule(nn.Module):
    """ids (batch, seq) to logits (batch, seq, vocabulary)."""

    cos: Tensor
    sin: Tensor

    def __init__(self, s: Llama, tied: bool) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(s.vocabulary, s.width)
        self.blk = nn.ModuleList([Block(s) for _ in range(s.layers)])
        self.output_norm = nn.RMSNorm(s.width, s.eps)
        self.output = nn.Linear(s.width, s.vocabulary, bias=False)
        if tied:
            self.output.weight = self.token_embd.weight
        for name, table in zip(("cos", "sin"), rotations(s, s.length)):
            self.register_buffer(name, torch.from_numpy(table), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.step(ids, None)[0]

    def step(self, ids: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        """Logits of these tokens, which follow those in `past`, and the cache for the next ones. After the first step: one at a time."""
        begin = 0 if past is None else past[0][0].shape[2]
        x, now = self.token_embd(ids), []
        cos, sin = self.cos[begin : begin + ids.shape[1]], self.sin[begin : begin + ids.shape[1]]
        for i, block in enumerate(self.blk):
            x, kept = block(x, cos, sin, None if past is None else past[i])
            now.append(kept)
        return self.output(self.output_norm(x)), now

    @torch.no_grad()
    def generate(self, ids: Tensor, count: int) -> Tensor:
        """The `count` tokens that follow, each the likeliest: (batch, count)."""
        logits, past = self.step(ids, None)
        made = [logits[:, -1].argmax(-1, keepdim=True)]
        while len(made) < count:
            logits, past = self.step(made[-1], past)
            made.append(logits[:, -1].argmax(-1, keepdim=True))
        return torch.cat(made, 1)


def load(file: GGUFFile) -> LlamaModule:
    """The module with the file's weights as float32."""
    model = LlamaModule(sizes(file), "output.weight" not in file.tensors)
    model.load_state_dict({name: torch.from_numpy(file.real(name)) for name in file.tensors}, strict="output.weight" in file.tensors)
    return model.eval()
