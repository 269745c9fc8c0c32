"""Public architectures as seeds: small builds with random weights, from configuration alone; nothing is loaded."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """A model of a library as text: what is imported, the expression that builds it, its inputs, how it is called."""

    name: str
    library: str  #: the name under which it is imported and installed
    imports: str
    build: str
    inputs: tuple[str, ...]
    call: str = ""  #: the arguments where they are not the inputs in their order
    names: str = "x"  #: of the inputs, in ``call``

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.library) is not None

    def seed_text(self, training: bool) -> str:
        """A module seed: in eval mode without gradients, or in train mode with those of the parameters."""
        mode = "in train mode" if training else "in eval mode, without gradients"
        head = [f'"""{self.name} of {self.library}, random weights, {mode}."""', "", "import torch", self.imports, ""]
        head += ['ORIGIN = "fxmorph seeds models"'] + ([] if training else ['META = {"no_grad": True}'])
        body = [
            *("", "", "def make_fn():", f"    return {self.build}.{'train' if training else 'eval'}()"),
            *("", "", "def make_inputs():", "    return [", *(f"        {text}," for text in self.inputs), "    ]"),
        ]
        if self.call:
            body += ["", "", f"def drive(g, {self.names}):", f"    return g({self.call})"]
        return "\n".join(head + body) + "\n"


#: Of most models of transformers, small.
_SIZES = "hidden_size=32, num_hidden_layers=2, num_attention_heads=4"
_TEXT = f"vocab_size=96, {_SIZES}"
_LLAMA = f"{_TEXT}, intermediate_size=64"
_VISION = f"{_SIZES}, intermediate_size=64, image_size=32, patch_size=8"
_ENDS = "bos_token_id=1, eos_token_id=2"
_IDS, _ANSWER = "torch.randint(3, 90, (2, 12))", "torch.randint(3, 90, (2, 7))"


def _transformer(
    name: str, word: str, sizes: str, inputs: tuple[str, ...] = (_IDS,), call: str = "", names: str = "x"
) -> Architecture:
    """One of transformers; ``word`` is what its model and its configuration are called after."""
    build = f"{word}Model({word}Config({sizes}))"
    return Architecture(
        name, "transformers", f"from transformers import {word}Config, {word}Model", build, inputs, call, names
    )


def _vision(name: str, library: str, build: str) -> Architecture:
    """One of timm or torchvision for images of 64 by 64."""
    return Architecture(name, library, f"import {library}", build, ("torch.randn(2, 3, 64, 64)",))


def _graph(name: str, word: str) -> Architecture:
    """One of torch_geometric, on 30 nodes and 90 edges."""
    build = f"{word}(8, 16, num_layers=2, out_channels=4)"
    inputs = ("torch.randn(30, 8)", "torch.randint(0, 30, (2, 90))")
    return Architecture(name, "torch_geometric", f"from torch_geometric.nn import {word}", build, inputs)


#: Decoders, encoders, both, sound, vision, graphs.
ARCHITECTURES = (
    _transformer("gpt2", "GPT2", f"vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, {_ENDS}"),
    _transformer("llama", "Llama", f"{_LLAMA}, num_key_value_heads=2"),
    _transformer("mistral", "Mistral", f"{_LLAMA}, num_key_value_heads=2, sliding_window=6"),
    _transformer("mixtral", "Mixtral", f"{_LLAMA}, num_key_value_heads=2, num_local_experts=4"),
    _transformer("qwen2", "Qwen2", f"{_LLAMA}, num_key_value_heads=2"),
    _transformer("gemma2", "Gemma2", f"{_LLAMA}, num_key_value_heads=2, head_dim=8"),
    _transformer("falcon", "Falcon", _TEXT),
    _transformer("phi", "Phi", _LLAMA),
    _transformer("mamba", "Mamba", "vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8"),
    _transformer("bert", "Bert", _LLAMA),
    _transformer("distilbert", "DistilBert", "vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=64"),
    _transformer("deberta_v2", "DebertaV2", f"{_LLAMA}, relative_attention=True, pos_att_type=['p2c', 'c2p']"),
    _transformer(
        "t5",
        "T5",
        "vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4",
        (_IDS, _ANSWER),
        "input_ids=ids, decoder_input_ids=answer",
        "ids, answer",
    ),
    _transformer(
        "whisper",
        "Whisper",
        "vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, "
        "decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=20, "
        f"max_target_positions=20, pad_token_id=0, decoder_start_token_id=1, {_ENDS}",
        ("torch.randn(2, 8, 40)", _ANSWER),
        "input_features=sound, decoder_input_ids=answer",
        "sound, answer",
    ),
    _transformer(
        "wav2vec2",
        "Wav2Vec2",
        f"{_SIZES}, intermediate_size=64, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), "
        "num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, apply_spec_augment=False",
        ("torch.randn(2, 800)",),
    ),
    _transformer(
        "clip",
        "CLIP",
        f"text_config=dict({_TEXT}, intermediate_size=64, {_ENDS}), vision_config=dict({_VISION}), projection_dim=16",
        (_IDS, "torch.randn(2, 3, 32, 32)"),
    ),
    _transformer("vit", "ViT", _VISION, ("torch.randn(2, 3, 32, 32)",)),
    _transformer(
        "swin",
        "Swin",
        "image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4",
        ("torch.randn(2, 3, 32, 32)",),
    ),
    _vision("resnet", "torchvision", "torchvision.models.resnet18()"),
    _vision("mobilenet_v3", "torchvision", "torchvision.models.mobilenet_v3_small()"),
    _vision("convnext", "timm", "timm.create_model('convnext_atto')"),
    _vision("efficientnet", "timm", "timm.create_model('efficientnet_lite0')"),
    _vision("regnet", "timm", "timm.create_model('regnetx_002')"),
    _vision("mlp_mixer", "timm", "timm.create_model('mixer_s32_224', img_size=64)"),
    _graph("gcn", "GCN"),
    _graph("gat", "GAT"),
    _graph("graph_sage", "GraphSAGE"),
    _graph("gin", "GIN"),
)
