"""BiDAF in plain PyTorch, written from its formulas (Seo et al. 2017, and the variant of Stanford's CS224N): padded batches,
masks, every word of every context looked up for itself. What lshformer's BiDAF is tested against (make_bidaf_golden.py) and
timed against (time_word_model.py).

    model = load("folder")          # a folder of lshformer: config.json, and model.safetensors or else random weights
    start, end = model(context, question)          # log-probabilities [B, T]

A text is a dictionary of "words" [B, n] and "characters" [B, n, 16], ids with 0 for padding; a word counts where its id in
"words" is not 0. The places of one batch must hold at least one word.
"""
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

DEFAULTS = {"embedding_size": 300, "hidden_size": 100, "vocab_size": 50000, "fixed_word_embeddings": False, "character_vocab_size": 200,
            "character_embedding_size": 64, "character_filters": 100, "embedding_map": True, "question_to_context": "double_softmax",
            "end_pointer": "modelling", "second_biases": False}
CHARACTERS, WINDOW = 16, 5
MASKED = -1e30


class Highway(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return g * F.relu(self.transform(x)) + (1 - g) * x


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config["vocab_size"], config["embedding_size"], padding_idx=0)
        self.unknown_word = nn.Embedding(1, config["embedding_size"]) if config["fixed_word_embeddings"] else None
        if self.unknown_word is not None:
            self.word_embeddings.weight.requires_grad_(False)
        width, filters = config["embedding_size"] + config["character_filters"], config["character_filters"]
        if filters > 0:
            self.character_embeddings = nn.Embedding(config["character_vocab_size"], config["character_embedding_size"], padding_idx=0)
            self.character_convolution = nn.Conv1d(config["character_embedding_size"], filters, WINDOW)
        self.has_characters = filters > 0
        self.map = nn.Linear(width, config["hidden_size"], bias=False) if config["embedding_map"] else None
        self.width = config["hidden_size"] if config["embedding_map"] else width
        self.highway = nn.ModuleList(Highway(self.width) for _ in range(2))

    def forward(self, text):
        words, characters = text["words"], text["characters"]
        x = self.word_embeddings(words)
        if self.unknown_word is not None:
            x = torch.where((words == 1).unsqueeze(-1), self.unknown_word.weight[0], x)
        if self.has_characters:
            letters = self.character_embeddings(characters.flatten(0, 1)).transpose(1, 2)  # [B·n, e, 16]
            spelled = F.relu(self.character_convolution(letters)).amax(2)                  # [B·n, filters]
            x = torch.cat([x, spelled.view(*words.shape, -1)], 2)
        if self.map is not None:
            x = self.map(x)
        for layer in self.highway:
            x = layer(x)
        return x


class Lstm(nn.LSTM):
    """Both directions over padded sequences."""

    def __init__(self, inputs, hidden, layers, second_biases):
        super().__init__(inputs, hidden, layers, bidirectional=True, batch_first=True)
        if not second_biases:
            for name, parameter in self.named_parameters():
                if name.startswith("bias_hh"):
                    nn.init.zeros_(parameter).requires_grad_(False)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(super().forward(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class Vector(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width) / width ** 0.5)


class Attention(nn.Module):
    """Trilinear scores, and what context and question read of each other: [c; a; c∘a; c∘b]."""

    def __init__(self, width, question_to_context):
        super().__init__()
        self.context, self.question, self.product = Vector(width), Vector(width), Vector(width)
        self.bias = nn.Parameter(torch.zeros(1))
        self.maximum = question_to_context == "maximum"

    def forward(self, c, q, context_mask, question_mask):
        scores = (c @ self.context.weight).unsqueeze(2) + (q @ self.question.weight).unsqueeze(1)
        scores = scores + (c * self.product.weight) @ q.transpose(1, 2) + self.bias  # [B, T, J]
        by_question = torch.softmax(scores.masked_fill(~question_mask.unsqueeze(1), MASKED), 2)
        a = by_question @ q
        if self.maximum:
            best = scores.masked_fill(~question_mask.unsqueeze(1), MASKED).amax(2).masked_fill(~context_mask, MASKED)
            b = (torch.softmax(best, 1).unsqueeze(1) @ c).expand_as(c)
        else:
            by_context = torch.softmax(scores.masked_fill(~context_mask.unsqueeze(2), MASKED), 1)
            b = by_question @ by_context.transpose(1, 2) @ c
        return torch.cat([c, a, c * a, c * b], 2)


class Bidaf(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config = {**DEFAULTS, **config}
        d, two = config["hidden_size"], config["second_biases"]
        self.embeddings = Embeddings(config)
        self.encoder = Lstm(self.embeddings.width, d, 1, two)
        self.attention = Attention(2 * d, config["question_to_context"])
        self.modelling = Lstm(8 * d, d, 2, two)
        self.attended_start = config["end_pointer"] == "attended_start"
        self.end_encoder = Lstm((14 if self.attended_start else 2) * d, d, 1, two)
        self.outputs = nn.ModuleDict({"start_attended": nn.Linear(8 * d, 1), "end_attended": nn.Linear(8 * d, 1),
                                      "start_modelled": nn.Linear(2 * d, 1, bias=two), "end_modelled": nn.Linear(2 * d, 1, bias=two)})

    def states(self, context, question):
        """What every stage gives, and the masked logits."""
        context_mask, question_mask = context["words"] != 0, question["words"] != 0
        lengths = context_mask.sum(1)
        x = self.embeddings(context)
        c = self.encoder(x, lengths)
        q = self.encoder(self.embeddings(question), question_mask.sum(1))
        g = self.attention(c, q, context_mask, question_mask)
        m = self.modelling(g, lengths)
        start = (self.outputs["start_attended"](g) + self.outputs["start_modelled"](m)).squeeze(2).masked_fill(~context_mask, MASKED)
        read = m
        if self.attended_start:
            likely = (torch.softmax(start, 1).unsqueeze(1) @ m).expand_as(m)
            read = torch.cat([g, m, likely, m * likely], 2)
        last = self.end_encoder(read, lengths)
        end = (self.outputs["end_attended"](g) + self.outputs["end_modelled"](last)).squeeze(2).masked_fill(~context_mask, MASKED)
        return [x, c, g, m], start, end

    def forward(self, context, question):
        _, start, end = self.states(context, question)
        return torch.log_softmax(start, 1), torch.log_softmax(end, 1)

    def tensors(self, of=lambda parameter: parameter):
        """What a model file of lshformer holds: a convolution's weight is [filters, window · width], and there is no second bias
        where the model has none."""
        named = {}
        for name, parameter in self.named_parameters():
            if "bias_hh" in name and not self.config["second_biases"]:
                continue
            tensor = of(parameter)
            if tensor is not None and name.endswith("character_convolution.weight"):
                tensor = tensor.transpose(1, 2).flatten(1)
            named[name] = tensor
        return named

    def take(self, tensors):
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, tensor in tensors.items():
                if name.endswith("character_convolution.weight"):
                    tensor = tensor.view(tensor.shape[0], WINDOW, -1).transpose(1, 2)
                own[name].copy_(tensor)


def load(folder):
    from safetensors.torch import load_file
    model = Bidaf(json.loads((Path(folder) / "config.json").read_text()))
    weights = Path(folder) / "model.safetensors"
    if weights.exists():
        model.take(load_file(weights))
    return model.eval()
