"""The tutorial of docs/python.md as a script: python examples/tutorial.py [MODEL_FOLDER]

Without a folder it makes a small BERT of random weights, so that it needs nothing but torch and transformers.
"""

from __future__ import annotations

import sys
import tempfile

import torch
import transformers

import lshformer
import lshformer.functional as functional
import lshformer.transformers


class Numbers:
    """Stands in for a tokenizer where there is none: words are ids."""

    def __call__(self, text: str, **unused: object) -> dict[str, torch.Tensor]:
        ids = torch.tensor([[int(word) for word in text.split()]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def operator() -> None:
    """1. The operator on tensors."""
    torch.manual_seed(0)
    # Two sequences of 900 and 300 tokens, one after another: no padding.
    query, key, value = (torch.randn(1200, 4, 32, requires_grad=True) for _ in range(3))
    offsets = torch.tensor([0, 900, 1200], dtype=torch.int32)
    exact = functional.attention(query, key, value, offsets)
    spec = {"type": "clustered", "cluster": 16, "open": 4}
    clustered = functional.attention(query, key, value, offsets, spec)
    clustered.square().mean().backward()
    counts = functional.plan(query, key, offsets, spec)
    near = torch.nn.functional.cosine_similarity(exact, clustered, dim=-1).mean()
    print(f"1. random vectors: {counts.share:.0%} of all pairs, cosine to exact {near:.3f}, gradient {query.grad.norm():.3g}")


def model_of(folder: str | None) -> tuple[transformers.PreTrainedModel, object]:
    if folder is not None:
        return transformers.AutoModel.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.BertConfig(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256, vocab_size=1000,
        max_position_embeddings=1024,
    )
    return transformers.BertModel(config), Numbers()


def model(folder: str | None) -> None:
    """2. A model of transformers."""
    encoder, tokenizer = model_of(folder)
    encoder.eval()
    text = " ".join(str(i % 900 + 5) for i in range(0, 70000, 97))
    batch = tokenizer(text, return_tensors="pt", truncation=True)
    with torch.no_grad():
        before = encoder(**batch).last_hidden_state
        lshformer.transformers.use(encoder, "dense")
        dense = encoder(**batch).last_hidden_state
    print(f"2. dense: {(dense - before).abs().max() / before.abs().max():.1e} from the model's own attention")
    lshformer.transformers.use(encoder, {"type": "clustered", "cluster": 16, "open": 4})
    print(f"3. clustered, beside exact attention\n{lshformer.report(encoder, [text, text[: len(text) // 2]], tokenizer=tokenizer)}")
    with tempfile.TemporaryDirectory() as saved:
        encoder.save_pretrained(saved)
        again = lshformer.transformers.use(type(encoder).from_pretrained(saved).eval())
        with torch.no_grad():
            same = torch.equal(encoder(**batch).last_hidden_state, again(**batch).last_hidden_state)
    print(f"4. saved and read again: {again.config.attention['type']}, {'the same' if same else 'other'} states")


def training() -> None:
    """5. One step of training, on a padded batch."""
    encoder, _ = model_of(None)
    lshformer.transformers.use(encoder, "clustered").train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4)
    ids = torch.randint(5, 1000, (2, 600))
    mask = torch.ones(2, 600, dtype=torch.long)
    mask[1, 350:] = 0
    loss = encoder(ids, attention_mask=mask).last_hidden_state[mask.bool()].square().mean()
    loss.backward()
    optimizer.step()
    print(f"5. a step of training: loss {loss.item():.3f}")


def refused() -> None:
    """6. What is not computed is refused."""
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=100)
    try:
        lshformer.transformers.use(transformers.GPT2Model(config), "clustered")
    except ValueError as error:
        print(f"6. {error}")


if __name__ == "__main__":
    operator()
    model(sys.argv[1] if len(sys.argv) > 1 else None)
    training()
    refused()
