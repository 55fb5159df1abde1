#!/usr/bin/env python3
"""Exports a tiny model of each family of decoders that hyc builds from a config.json (lib/Import/HuggingFace/DecoderFamilies.h)
besides Llama and Qwen2, which export_transformers.py has: families/NAME.pt2, and families/NAME/config.json.

The committed files were made with torch 2.15.0 and transformers 5.23.0 on the CPU. hyc itself never runs this script. Both files
are to be the same model: test/Driver/decoder-families.test. Every key that sets a family apart differs from its default.
"""
import pathlib

import torch
import transformers

from exporting import save_archive

SIZES = dict(vocab_size=17, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=32, use_cache=False, bos_token_id=0, eos_token_id=0, attn_implementation="sdpa")
FAMILIES = {
    "mistral": (transformers.MistralForCausalLM, dict(head_dim=8, sliding_window=None, pad_token_id=3)),
    "qwen3": (transformers.Qwen3ForCausalLM, dict(head_dim=8, attention_bias=True)),
    "granite": (transformers.GraniteForCausalLM, dict(embedding_multiplier=12.0, residual_multiplier=0.25, logits_scaling=8.0,
                                                       attention_multiplier=0.125, mlp_bias=True)),
}


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).parent / "families"
    for name, (model_class, settings) in FAMILIES.items():
        torch.manual_seed(1)
        model = model_class(model_class.config_class(**SIZES, **settings)).eval()
        (folder / name).mkdir(parents=True, exist_ok=True)
        model.config.to_json_file(folder / name / "config.json")
        tokens = torch.zeros(2, 16, dtype=torch.int64)
        exported = torch.export.export(model, (), {"input_ids": tokens}, strict=False,
                                       dynamic_shapes={"input_ids": {0: torch.export.Dim("batch", min=2)}})
        save_archive(exported, folder / f"{name}.pt2")


if __name__ == "__main__":
    main()
