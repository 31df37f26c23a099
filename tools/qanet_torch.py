"""QANet in plain PyTorch, written from its formulas (Yu et al. 2018, and the choices of its two public implementations): padded
batches, masks, every word of every context looked up for itself. What lshformer's QANet is tested against (make_qanet_golden.py)
and timed against (time_word_model.py).

    model = load("folder")          # a folder of lshformer: config.json, and model.safetensors or else random weights
    start, end = model(context, question)          # log-probabilities [B, T]

A text is a dictionary of "words" [B, n] and "characters" [B, n, 16], ids with 0 for padding; a word counts where its id in
"words" is not 0. Attention is exact, whatever the config's "attention" says; "reversible" is heeded, and keeps all it computes.
"""
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from bidaf_torch import MASKED, WINDOW, Embeddings

DEFAULTS = {"embedding_size": 300, "hidden_size": 128, "num_hidden_layers": 7, "num_attention_heads": 8, "reversible": False, "vocab_size": 50000,
            "fixed_word_embeddings": False, "character_vocab_size": 200, "character_embedding_size": 64, "character_filters": 128,
            "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-6, "embedding_encoder_convolutions": 4,
            "embedding_encoder_kernel_size": 7, "model_encoder_convolutions": 2, "model_encoder_kernel_size": 5, "layer_dropout": 0.1}


class Highway(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.transform, self.gate, self.dropout = nn.Linear(width, width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return g * self.dropout(self.transform(x)) + (1 - g) * x


def position_signal(length, width, like):
    half = width // 2
    scales = torch.exp(-torch.arange(half, dtype=torch.float64) * (math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * scales
    return F.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, width % 2)).to(like)


class Sublayer(nn.Module):
    """What is added to x: nothing, with probability layer_dropout, or a function of LayerNorm(x)."""

    def __init__(self, config, input_dropout, layer_dropout):
        super().__init__()
        self.add_module("input_norm" if config["reversible"] else "norm", nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"]))
        self.input_dropout, self.output_dropout = nn.Dropout(input_dropout), nn.Dropout(layer_dropout)

    def forward(self, x, mask):
        if self.training and torch.rand(()) < self.output_dropout.p:
            return torch.zeros_like(x)
        norm = self.input_norm if hasattr(self, "input_norm") else self.norm
        return self.output_dropout(self.function(self.input_dropout(norm(x)), mask))


class Convolution(Sublayer):
    def __init__(self, config, kernel_size, *dropout):
        super().__init__(config, *dropout)
        width = config["hidden_size"]
        self.depthwise = nn.Conv1d(width, width, kernel_size, padding=kernel_size // 2, groups=width, bias=False)
        self.pointwise = nn.Linear(width, width)

    def function(self, x, mask):
        x = x * mask[:, :, None]                     # nothing stands behind the end of a sequence
        return F.relu(self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2)))


class Attention(Sublayer):
    def __init__(self, config, *dropout):
        super().__init__(config, *dropout)
        width = config["hidden_size"]
        self.heads, self.weight_dropout = config["num_attention_heads"], nn.Dropout(config["attention_probs_dropout_prob"])
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.bias = nn.Parameter(torch.zeros(1))

    def function(self, x, mask):
        batch, length, width = x.shape
        query, key, value = (m(x).view(batch, length, self.heads, -1).transpose(1, 2) for m in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / math.sqrt(width // self.heads) + self.bias
        weights = self.weight_dropout(scores.masked_fill(~mask[:, None, None, :], MASKED).softmax(3))
        return (weights @ value).transpose(1, 2).reshape(batch, length, width)


class FeedForward(Sublayer):
    def __init__(self, config, *dropout):
        super().__init__(config, *dropout)
        width = config["hidden_size"]
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def function(self, x, mask):
        return self.outer(F.relu(self.inner(x)))


class Block(nn.Module):
    def __init__(self, config, convolutions, kernel_size, layer_dropouts):
        super().__init__()
        dropout = config["hidden_dropout_prob"]
        self.convolutions = nn.ModuleList(Convolution(config, kernel_size, dropout * (i % 2 == 0), layer_dropouts[i]) for i in range(convolutions))
        self.attention = Attention(config, dropout, layer_dropouts[-2])
        self.feed_forward = FeedForward(config, dropout, layer_dropouts[-1])

    def sublayers(self):
        return [*self.convolutions, self.attention, self.feed_forward]


class Stack(nn.ModuleList):
    """Blocks one after another; with "reversible" in two streams. States: what is behind each, or the mean of the streams."""

    def __init__(self, config, blocks, convolutions, kernel_size):
        size = convolutions + 2
        rates = [config["layer_dropout"] * (i + 1) / (blocks * size) for i in range(blocks * size)]
        super().__init__(Block(config, convolutions, kernel_size, rates[i * size:(i + 1) * size]) for i in range(blocks))
        self.reversible = config["reversible"]

    def forward(self, x, mask):
        signal, states, first, second = position_signal(x.shape[1], x.shape[2], x), [], x, x
        for block in self:
            sublayers = block.sublayers()
            if self.reversible:
                first, second = first + signal, second + signal
                for f, g in zip(sublayers[::2], sublayers[1::2]):
                    first = first + f(second, mask)
                    second = second + g(first, mask)
                states.append((first + second) / 2)
            else:
                x = x + signal
                for sublayer in sublayers:
                    x = x + sublayer(x, mask)
                states.append(x)
        return states


class ContextQueryAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.context, self.query, self.product = (nn.Parameter(torch.zeros(width).uniform_(-1, 1) / math.sqrt(width)) for _ in range(3))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, context, question, context_mask, question_mask):
        scores = (context @ self.context)[:, :, None] + (question @ self.query)[:, None, :] + (context * self.product) @ question.transpose(1, 2) + self.bias
        rows = scores.masked_fill(~question_mask[:, None, :], MASKED).softmax(2)
        columns = scores.masked_fill(~context_mask[:, :, None], MASKED).softmax(1)
        a = rows @ question
        b = rows @ (columns.transpose(1, 2) @ context)
        return torch.cat([context, a, context * a, context * b], 2)


class Qanet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config = {**DEFAULTS, **config}
        width, dropout = config["hidden_size"], config["hidden_dropout_prob"]
        self.embeddings = Embeddings({**config, "embedding_map": True})
        self.embeddings.highway = nn.ModuleList(Highway(width, dropout) for _ in range(2))
        self.embedding_encoder = Stack(config, 1, config["embedding_encoder_convolutions"], config["embedding_encoder_kernel_size"])
        self.context_query_attention = ContextQueryAttention(width)
        self.resizer = nn.Linear(4 * width, width, bias=False)
        self.model_encoder = Stack(config, config["num_hidden_layers"], config["model_encoder_convolutions"], config["model_encoder_kernel_size"])
        self.dropout = nn.Dropout(dropout)
        self.start, self.end = nn.Linear(2 * width, 1, bias=False), nn.Linear(2 * width, 1, bias=False)

    def states(self, context, question):
        """What stands behind the embeddings of the context and every block, and the masked logits."""
        mask, question_mask = context["words"] != 0, question["words"] != 0
        embedded = self.embeddings(context)
        states = [embedded, *self.embedding_encoder(embedded, mask)]
        question = self.embedding_encoder(self.embeddings(question), question_mask)[-1]
        x = self.dropout(self.resizer(self.context_query_attention(states[-1], question, mask, question_mask)))
        passes = []
        for number in range(3):
            states += self.model_encoder(self.dropout(x) if number == 2 else x, mask)
            passes.append(x := states[-1])
        start, end = self.start(torch.cat(passes[:2], 2)), self.end(torch.cat(passes[::2], 2))
        return states, start.squeeze(2).masked_fill(~mask, MASKED), end.squeeze(2).masked_fill(~mask, MASKED)

    def forward(self, context, question):
        _, start, end = self.states(context, question)
        return torch.log_softmax(start, 1), torch.log_softmax(end, 1)

    def tensors(self, of=lambda parameter: parameter):
        """What a model file of lshformer holds: convolutions have the shapes [filters, window · width] and [channels, window]."""
        named = {}
        for name, parameter in self.named_parameters():
            tensor = of(parameter)
            if tensor is not None and name.endswith("character_convolution.weight"):
                tensor = tensor.transpose(1, 2).flatten(1)
            if tensor is not None and name.endswith("depthwise.weight"):
                tensor = tensor.squeeze(1)
            named[name] = tensor
        return named

    def take(self, tensors):
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, tensor in tensors.items():
                if name.endswith("character_convolution.weight"):
                    tensor = tensor.view(tensor.shape[0], WINDOW, -1).transpose(1, 2)
                own[name].copy_(tensor.view(own[name].shape) if name.endswith("depthwise.weight") else tensor)


def load(folder):
    from safetensors.torch import load_file
    model = Qanet(json.loads((Path(folder) / "config.json").read_text()))
    weights = Path(folder) / "model.safetensors"
    if weights.exists():
        model.take(load_file(weights))
    return model.eval()
