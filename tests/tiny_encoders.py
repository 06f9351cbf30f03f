"""Small random-weight encoders in Hugging Face layout: BERT, XLM-RoBERTa and ModernBERT shapes.

Names and shapes of the weights are those of the real families' files, float32.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

Weights = dict[str, np.ndarray[Any, Any]]

SIZE, INNER, HEADS, LAYERS, POSITIONS = 32, 64, 4, 4, 130
SHARED = {
    "hidden_size": SIZE,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": POSITIONS,
}
BERT = {"model_type": "bert", "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
ROBERTA = {
    "model_type": "xlm-roberta",
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
    "pad_token_id": 1,
}
MODERN = {
    "model_type": "modernbert",
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
    "local_attention": 16,
    "norm_eps": 1e-5,
    "hidden_activation": "gelu",
    "classifier_pooling": "mean",
}
FAMILIES = {"bert": BERT, "xlm-roberta": ROBERTA, "modernbert": MODERN}
_CLASSES = {"bert": "Bert", "xlm-roberta": "XLMRoberta", "modernbert": "ModernBert"}
# What stands before a text, between two, and after the last one
_TEMPLATES = {
    "bert": ("[CLS]", ("[SEP]",), (0, 1)),
    "xlm-roberta": ("<s>", ("</s>", "</s>"), (0, 0)),
    "modernbert": ("[CLS]", ("[SEP]",), (0, 0)),
}


def make_encoder(
    folder: Path, family: str, *, scores: bool = False, labels: int = 1, **changes: Any
) -> Weights:
    """Write a folder; the weights as they are in its file."""
    tokenizer = _tokenizer(family)
    vocab_size = tokenizer.get_vocab_size()
    name = _CLASSES[family] + ("ForSequenceClassification" if scores else "Model")
    config = {**SHARED, **FAMILIES[family], "architectures": [name], "vocab_size": vocab_size}
    weights = _Maker(seed=3).family(family, vocab_size, labels=labels if scores else 0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config | changes))
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(weights, str(folder / "model.safetensors"))
    return weights


def write_sentence_files(
    folder: Path, mode: str, *, normalizes: bool = True, others: tuple[str, ...] = ()
) -> None:
    names = ["Transformer", "Pooling", *(["Normalize"] if normalizes else []), *others]
    modules = [
        {"idx": at, "name": str(at), "path": f"{at}_{name}" if at else "", "type": f"x.y.{name}"}
        for at, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = {"pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens"}
    settings = {one: one == mode for one in modes | {mode}}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))


def _tokenizer(family: str) -> Tokenizer:
    """A token per byte, and the family's own."""
    start, between, (_, second_type) = _TEMPLATES[family]
    special = list(dict.fromkeys((start, "<pad>", *between)))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {one: at for at, one in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    middle = " ".join(f"{one}:0" for one in between)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {between[-1]}",
        pair=f"{start}:0 $A:0 {middle} $B:{second_type} {between[-1]}:{second_type}",
        special_tokens=[(one, vocab[one]) for one in special],
    )
    return tokenizer


class _Maker:
    def __init__(self, *, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._made: Weights = {}

    def family(self, family: str, vocab_size: int, *, labels: int) -> Weights:
        if family == "modernbert":
            self._modern(vocab_size, labels=labels)
        else:
            self._bert(vocab_size, is_roberta=family != "bert", labels=labels)
        return self._made

    def _bert(self, vocab_size: int, *, is_roberta: bool, labels: int) -> None:
        prefix = "roberta." if is_roberta else "bert."
        prefix = prefix if labels else ""
        self._array(f"{prefix}embeddings.word_embeddings.weight", vocab_size, SIZE)
        self._array(f"{prefix}embeddings.position_embeddings.weight", POSITIONS, SIZE)
        types = 1 if is_roberta else 2
        self._array(f"{prefix}embeddings.token_type_embeddings.weight", types, SIZE)
        self._norm(f"{prefix}embeddings.LayerNorm")
        for number in range(LAYERS):
            layer = f"{prefix}encoder.layer.{number}"
            for part in ("self.query", "self.key", "self.value", "output.dense"):
                self._linear(f"{layer}.attention.{part}", SIZE, SIZE)
            self._norm(f"{layer}.attention.output.LayerNorm")
            self._linear(f"{layer}.intermediate.dense", INNER, SIZE)
            self._linear(f"{layer}.output.dense", SIZE, INNER)
            self._norm(f"{layer}.output.LayerNorm")
        if not is_roberta:
            self._linear(f"{prefix}pooler.dense", SIZE, SIZE)
        if labels and is_roberta:
            self._linear("classifier.dense", SIZE, SIZE)
            self._linear("classifier.out_proj", labels, SIZE)
        elif labels:
            self._linear("classifier", labels, SIZE)

    def _modern(self, vocab_size: int, *, labels: int) -> None:
        prefix = "model." if labels else ""
        self._array(f"{prefix}embeddings.tok_embeddings.weight", vocab_size, SIZE)
        self._norm(f"{prefix}embeddings.norm", has_bias=False)
        for number in range(LAYERS):
            layer = f"{prefix}layers.{number}"
            if number:
                self._norm(f"{layer}.attn_norm", has_bias=False)
            self._array(f"{layer}.attn.Wqkv.weight", 3 * SIZE, SIZE)
            self._array(f"{layer}.attn.Wo.weight", SIZE, SIZE)
            self._norm(f"{layer}.mlp_norm", has_bias=False)
            self._array(f"{layer}.mlp.Wi.weight", 2 * INNER, SIZE)
            self._array(f"{layer}.mlp.Wo.weight", SIZE, INNER)
        self._norm(f"{prefix}final_norm", has_bias=False)
        if labels:
            self._array("head.dense.weight", SIZE, SIZE)
            self._norm("head.norm", has_bias=False)
            self._linear("classifier", labels, SIZE)

    def _linear(self, name: str, given: int, taken: int) -> None:
        self._array(f"{name}.weight", given, taken)
        self._array(f"{name}.bias", given)

    def _norm(self, name: str, *, has_bias: bool = True) -> None:
        self._made[f"{name}.weight"] = self._random.uniform(0.5, 1.5, SIZE).astype(np.float32)
        if has_bias:
            self._array(f"{name}.bias", SIZE)

    def _array(self, name: str, *shape: int) -> None:
        # Wide enough that attention is far from even
        self._made[name] = self._random.normal(0, 0.3, shape).astype(np.float32)
