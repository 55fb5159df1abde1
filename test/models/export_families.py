#!/usr/bin/env python3
"""Exports a tiny model of each family of decoders and encoders that hyc builds from a config.json (DecoderFamilies.cpp,
EncoderFamilies.cpp, EncoderDecoder.cpp, Whisper.cpp and Clip.cpp of lib/Import/HuggingFace) besides Llama and Qwen2, which export_transformers.py has, and what PyTorch computes
with it.

The committed files were made with torch 2.15.0 and transformers 5.24.0 on the CPU, in one thread. hyc itself never runs this script.

    families/NAME/config.json        every key of the family's configuration, defaults too
    families/NAME/model.safetensors  the weights, as save_pretrained names them; of mixtures of experts, as the model does
    families/NAME-apart/…            a mixture of experts once more, as transformers saves it: a tensor for each expert, in several files
    families/NAME.pt2.gz             torch.export of the same model, for 2 samples of 16 tokens, compressed
    families.reference.safetensors   tokens: int32 [STEPS, BATCH, 17]; of each NAME.logits, f32, those of the first two samples'
                                     first 16 tokens, and NAME.losses, f32 [STEPS], transformers' own of each step's BATCH samples,
                                     before each update by AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay 0.01 on all;
                                     of encoders NAME.labels, int32 [STEPS, BATCH, …], and of those of images NAME.pixels, too;
                                     of an encoder with a decoder NAME.labels and NAME.decoder_input_ids, its answers;
                                     of sound and images beside text NAME.input_features or NAME.pixel_values, f32, and 12 losses, the
                                     samples' steps over and over; of CLIP, whose loss compares the samples of a batch with each
                                     other, NAME.accumulated, too, the means over a step's two batches of two
                                     of samples that are padded NAME.attention_mask, and NAME.input_ids where tokens tell padding, too

Folder and archive are to be one model: test/Driver/decoder-families.test. Logits and losses are to be PyTorch's:
test/equivalence/FamiliesTest.cpp. Every key that sets a family apart differs from its default somewhere.

Usage: export_families.py [NAME ...]: these alone, the others' values in the reference stay
"""
import gzip
import json
import pathlib
import re
import shutil
import sys
import tempfile

import safetensors.numpy
import safetensors.torch
import torch
import transformers

from exporting import save_archive

HERE = pathlib.Path(__file__).parent
SEQUENCE, BATCH, STEPS, MORE_STEPS = 16, 4, 4, 12

SIZES = dict(vocab_size=17, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=32)
LATER = dict(SIZES, pad_token_id=None)  # of families whose default is beyond the vocabulary
GPT = dict(vocab_size=17, n_embd=16, n_layer=2, n_head=4, n_positions=32)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2)


def without(sizes, *keys):
    return {key: value for key, value in sizes.items() if key not in keys}


# NAME: (the class's name without ForCausalLM or LMHeadModel, settings)
FAMILIES = {
    "gpt2": ("GPT2", dict(GPT, n_inner=24, scale_attn_by_inverse_layer_idx=True, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
    "mistral": ("Mistral", dict(SIZES, head_dim=8, sliding_window=None, pad_token_id=3)),
    "mistral-window": ("Mistral", dict(SIZES, sliding_window=8)),
    "qwen3": ("Qwen3", dict(SIZES, head_dim=8, attention_bias=True)),
    "granite": ("Granite", dict(SIZES, embedding_multiplier=12.0, residual_multiplier=0.25, logits_scaling=8.0,
                                attention_multiplier=0.125, mlp_bias=True)),
    "gemma": ("Gemma", dict(SIZES, head_dim=8, pad_token_id=2)),
    "gemma2": ("Gemma2", dict(SIZES, head_dim=8, query_pre_attn_scalar=12, sliding_window=8, final_logit_softcapping=2.0,
                              attn_logit_softcapping=1.5)),
    "gemma3": ("Gemma3", dict(SIZES, head_dim=8, query_pre_attn_scalar=12, sliding_window=8,
                              layer_types=["sliding_attention", "full_attention"],
                              rope_parameters={"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                               "sliding_attention": dict(rope_type="default", rope_theta=1e4)})),
    "phi": ("Phi", SIZES),
    "phi-norms": ("Phi", dict(SIZES, qk_layernorm=True)),
    "phi3": ("Phi3", dict(LATER, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "phi3-long": ("Phi3", dict(LATER, max_position_embeddings=32, original_max_position_embeddings=16, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5], long_factor=[2.0, 3.0],
        original_max_position_embeddings=16))),
    "olmo2": ("Olmo2", dict(LATER, attention_bias=True)),
    "smollm3": ("SmolLM3", dict(LATER, no_rope_layers=[1, 0])),
    "starcoder2": ("Starcoder2", dict(SIZES, residual_dropout=0.0)),
    "stablelm": ("StableLm", dict(SIZES, use_qkv_bias=True, hidden_dropout=0.0,
                                  rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "stablelm-parallel": ("StableLm", dict(SIZES, use_parallel_residual=True, qk_layernorm=True, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "gpt_neox": ("GPTNeoX", dict(without(SIZES, "num_key_value_heads"), rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "gpt_neox-sequential": ("GPTNeoX", dict(without(SIZES, "num_key_value_heads"), use_parallel_residual=False, attention_bias=False,
                                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))),
    "gptj": ("GPTJ", dict(GPT, n_inner=24, rotary_dim=2)),
    "opt": ("OPT", dict(without(SIZES, "num_key_value_heads", "intermediate_size"), ffn_dim=24, dropout=0.0)),
    "opt-after": ("OPT", dict(without(SIZES, "num_key_value_heads", "intermediate_size"), ffn_dim=24, dropout=0.0,
                              do_layer_norm_before=False, word_embed_proj_dim=8)),
    "bloom": ("Bloom", dict(vocab_size=17, hidden_size=16, n_layer=2, n_head=4)),
    "bloom-after": ("Bloom", dict(vocab_size=17, hidden_size=24, n_layer=1, n_head=6, apply_residual_connection_post_layernorm=True)),
    "falcon": ("Falcon", dict(without(SIZES, "num_key_value_heads", "intermediate_size"))),
    "falcon-grouped": ("Falcon", dict(without(SIZES, "num_key_value_heads", "intermediate_size"), num_kv_heads=2,
                                      new_decoder_architecture=True, ffn_hidden_size=24)),
    "falcon-alibi": ("Falcon", dict(without(SIZES, "num_key_value_heads", "intermediate_size"), alibi=True, parallel_attn=False,
                                    multi_query=False, bias=True)),
    "cohere": ("Cohere", dict(SIZES, use_qk_norm=True, logit_scale=0.25)),
    "cohere2": ("Cohere2", dict(SIZES, sliding_window=8, layer_types=["sliding_attention", "full_attention"])),
    "glm": ("Glm", dict(LATER, head_dim=8)),
    "glm4": ("Glm4", dict(LATER, head_dim=8)),
    "mixtral": ("Mixtral", dict(SIZES, **EXPERTS)),
    "qwen3_moe": ("Qwen3Moe", dict(SIZES, moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                   mlp_only_layers=[0], head_dim=8)),
    "olmoe": ("Olmoe", dict(LATER, num_experts=4, num_experts_per_tok=2)),
    "gpt_oss": ("GptOss", dict(SIZES, head_dim=8, sliding_window=8, **EXPERTS)),
    "deepseek_v3": ("DeepseekV3", dict(SIZES, num_key_value_heads=4, moe_intermediate_size=12, n_routed_experts=4, num_experts_per_tok=2,
                                       n_group=2, topk_group=1, first_k_dense_replace=1, q_lora_rank=12, kv_lora_rank=8,
                                       qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=8)),
}


APART = ("mixtral", "qwen3_moe", "deepseek_v3")

TEXT = dict(without(SIZES, "num_key_value_heads"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
IMAGES = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4, num_labels=5)

# NAME: (the class's name, settings)
ENCODERS = {
    "bert": ("BertForMaskedLM", dict(TEXT, pad_token_id=3, type_vocab_size=3)),
    "bert-some": ("BertForMaskedLM", dict(TEXT, pad_token_id=3)),  # of whose labels most are -100, as of words that are not masked
    "bert-padded": ("BertForMaskedLM", dict(TEXT, pad_token_id=3)),  # with attention_mask, and labels of the tokens alone
    "bert-classes": ("BertForSequenceClassification", dict(TEXT, num_labels=5, hidden_act="relu")),
    "roberta": ("RobertaForMaskedLM", dict(TEXT, pad_token_id=3)),
    "roberta-padded": ("RobertaForMaskedLM", dict(TEXT, pad_token_id=3)),  # as a tokenizer pads; some tokens within are padding's number, too
    "roberta-classes": ("RobertaForSequenceClassification", dict(TEXT, pad_token_id=0, num_labels=5, type_vocab_size=1)),
    "modernbert": ("ModernBertForMaskedLM", dict(without(SIZES, "num_key_value_heads"), pad_token_id=3, local_attention=8)),
    "modernbert-padded": ("ModernBertForMaskedLM", dict(without(SIZES, "num_key_value_heads"), pad_token_id=3, local_attention=8)),
    "modernbert-classes": ("ModernBertForSequenceClassification", dict(
        without(SIZES, "num_key_value_heads"), pad_token_id=0, num_labels=5, classifier_pooling="mean", classifier_bias=True,
        attention_bias=True, mlp_bias=True, classifier_activation="relu", local_attention=64)),
    "vit": ("ViTForImageClassification", IMAGES),
    "vit-plain": ("ViTForImageClassification", dict(IMAGES, qkv_bias=False, num_channels=1)),
}
LABELS = 5

PAIR = dict(vocab_size=17, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
            relative_attention_max_distance=12, dropout_rate=0.0)

# NAME: (the class's name, settings), of an encoder and a decoder
PAIRS = {
    "t5": ("T5ForConditionalGeneration", dict(PAIR, num_decoder_layers=1)),
    "t5-gated": ("T5ForConditionalGeneration", dict(PAIR, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
}

BLOCKS = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4)

# NAME: (the class's name, settings), of text beside something else
TOWERS = {
    "whisper": ("WhisperForConditionalGeneration", dict(
        vocab_size=17, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=20, num_mel_bins=6, max_source_positions=10, max_target_positions=20, pad_token_id=3,
        bos_token_id=0, eos_token_id=0, decoder_start_token_id=0, init_std=0.2, begin_suppress_tokens=None)),
    "clip": ("CLIPModel", dict(
        projection_dim=12, logit_scale_init_value=1.5,
        text_config=dict(BLOCKS, vocab_size=17, max_position_embeddings=20, bos_token_id=0, eos_token_id=5, pad_token_id=1),
        vision_config=dict(BLOCKS, hidden_size=8, image_size=8, patch_size=4, hidden_act="gelu"))),
    "clip-greatest": ("CLIPModel", dict(  # as in files of the first years: ends of texts are the greatest tokens
        projection_dim=8, initializer_factor=2.0,
        text_config=dict(BLOCKS, vocab_size=17, max_position_embeddings=16, bos_token_id=0, eos_token_id=2, pad_token_id=1),
        vision_config=dict(BLOCKS, image_size=8, patch_size=4, num_channels=1))),
}


def class_of(name):
    if hasattr(transformers, name):
        return getattr(transformers, name)
    for suffix in ("ForCausalLM", "LMHeadModel"):
        if hasattr(transformers, name + suffix):
            return getattr(transformers, name + suffix)
    raise SystemExit(f"transformers has no {name}")


def build(name):
    class_name, settings = (FAMILIES | ENCODERS | PAIRS | TOWERS)[name]
    model_class = class_of(class_name)
    # OPT's, Bloom's and Falcon's own code asks what the others' does not.
    ids = dict(bos_token_id=0, eos_token_id=0, use_cache=False, initializer_range=0.2) if name in FAMILIES else dict(initializer_range=0.2)
    if name in PAIRS:
        ids = dict(decoder_start_token_id=0, use_cache=False)
    if name in TOWERS:
        ids = dict(use_cache=False) if name == "whisper" else {}
    if class_name == "OPT":
        ids["init_std"] = ids.pop("initializer_range")
    torch.manual_seed(1)
    # gemma2 and gpt_oss have no sdpa
    implementation = "sdpa" if class_name not in ("Gemma2", "GptOss", "Bloom", "T5ForConditionalGeneration") else "eager"
    config = model_class.config_class(**{**ids, **settings}, attn_implementation=implementation)
    model = model_class(config).eval()
    if name == "t5-gated":  # as the files of T5 1.1 have it, whatever this transformers makes of a configuration
        model.lm_head.weight = torch.nn.Parameter(0.2 * torch.randn(model.lm_head.weight.shape))
    with torch.no_grad():
        for parameter in list(model.parameters()) + [value for key, value in model.named_buffers() if "correction" in key]:
            if parameter.dim() == 1 or not parameter.any() or (parameter == 1).all():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def write_folder(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if any(name.endswith("gate_up_proj") for name, _ in model.named_parameters()):
        # As the model has them: save_pretrained would give every expert its own.
        tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
    elif folder.name in PAIRS:
        safetensors.torch.save_file(dict(model.named_parameters()), folder / "model.safetensors")
    else:
        with tempfile.TemporaryDirectory() as written:
            model.save_pretrained(written)
            shutil.move(f"{written}/model.safetensors", folder / "model.safetensors")
        if folder.name == "bert-classes":  # named as in files of BERT's first years, which transformers reads, too
            old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
            tensors = safetensors.torch.load_file(folder / "model.safetensors")
            tensors = {re.sub(r"LayerNorm\.\w+$", lambda found: old[found[0]], name): value for name, value in tensors.items()}
            safetensors.torch.save_file(tensors, folder / "model.safetensors")
    model.config.to_json_file(folder / "config.json", use_diff=False)


def write_apart(name, folder):
    """The values of the family's folder, as transformers saves a model that was made and not loaded."""
    model = build(name)
    model.load_state_dict(safetensors.torch.load_file(folder.parent / name / "model.safetensors"))
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="20KB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    shutil.copy(folder.parent / name / "config.json", folder)


def write_archive(model, path, samples):
    batch = torch.export.Dim("batch", min=2)
    shapes = {name: {0: batch} if isinstance(sample, torch.Tensor) else None for name, sample in samples.items()}
    try:
        exported = torch.export.export(model, (), samples, strict=False, dynamic_shapes=shapes)
    except Exception as error:  # a batch that torch specializes
        print(f"{path.name}: batch of 2 alone: {str(error).splitlines()[0]}", file=sys.stderr)
        exported = torch.export.export(model, (), samples, strict=False)
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / path.with_suffix("").name
        save_archive(exported, plain)
        path.write_bytes(gzip.compress(plain.read_bytes(), 9, mtime=0))


def samples_of(name, model, tokens):
    """The input's name, the inputs and the labels, by step; and what of them the reference is to have."""
    inputs = tokens[..., :-1].long()
    if name in FAMILIES:
        return "input_ids", inputs, inputs, {}
    if name in PAIRS:
        answers = tokens.flip(0)[..., 1:].contiguous()
        behind = torch.cat([torch.zeros_like(answers[..., :1]), answers[..., :-1]], -1)
        return "input_ids", inputs, answers.long(), {f"{name}.labels": answers.numpy(), f"{name}.decoder_input_ids": behind.numpy()}
    generator = torch.Generator().manual_seed(2)
    config = model.config
    labels = tokens[..., 1:] if "MaskedLM" in ENCODERS[name][0] else torch.randint(
        0, LABELS, (STEPS, BATCH), dtype=torch.int32, generator=generator)
    told = {}
    if name == "bert-some":
        labels = torch.where(torch.rand(labels.shape, generator=generator) < 0.7, -100, labels)
    if name.endswith("-padded"):
        mask = (torch.arange(SEQUENCE) < torch.randint(5, SEQUENCE + 1, (STEPS, BATCH, 1), generator=generator)).int()
        labels = torch.where(mask == 0, -100, labels)
        told[f"{name}.attention_mask"] = mask.numpy()
        if name.startswith("roberta"):  # whose positions count tokens that are not padding's
            inputs = torch.where(mask == 0, config.pad_token_id, inputs)
            told[f"{name}.input_ids"] = inputs.int().numpy()
    told[f"{name}.labels"] = labels.contiguous().numpy()
    if hasattr(config, "image_size"):
        inputs = torch.randn(STEPS, BATCH, config.num_channels, config.image_size, config.image_size, generator=generator)
        return "pixel_values", inputs, labels.long(), told | {f"{name}.pixels": inputs.numpy()}
    return "input_ids", inputs, labels.long(), told


def compute(model, name, inputs, labels, told):
    masks = next((torch.from_numpy(value).long() for key, value in told.items() if key.endswith("attention_mask")), None)
    masked = lambda step, samples: {} if masks is None else {"attention_mask": masks[step, :samples]}
    with torch.no_grad():
        behind = {"decoder_input_ids": torch.from_numpy(value[0, :2]).long() for key, value in told.items() if "decoder" in key}
        logits = model(**{name: inputs[0, :2]}, **behind, **masked(0, 2)).logits
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for step, (batch, answers) in enumerate(zip(inputs, labels)):
        loss = model(**{name: batch}, labels=answers, **masked(step, BATCH)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return logits, torch.tensor(losses)


def samples_of_towers(name, model, tokens):
    """The inputs by name, each [STEPS, BATCH, …]."""
    generator = torch.Generator().manual_seed(2)
    config = model.config
    if name == "whisper":
        labels = torch.where(torch.arange(SEQUENCE) < torch.randint(5, SEQUENCE + 1, (STEPS, BATCH, 1), generator=generator),
                             tokens[..., 1:], -100)
        shift = transformers.models.whisper.modeling_whisper.shift_tokens_right
        behind = shift(labels.flatten(0, 1), config.pad_token_id, config.decoder_start_token_id).view(labels.shape)
        features = torch.randn(STEPS, BATCH, config.num_mel_bins, 2 * config.max_source_positions, generator=generator)
        return {"input_features": features, "decoder_input_ids": behind, "labels": labels}
    side = config.vision_config
    pixels = torch.randn(STEPS, BATCH, side.num_channels, side.image_size, side.image_size, generator=generator)
    return {"input_ids": tokens[..., :-1], "pixel_values": pixels}


def train_towers(model, samples, parts):
    """Losses of MORE_STEPS steps, a step's samples in so many parts."""
    compares = {} if "labels" in samples else {"return_loss": True}
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3, betas=(0.9, 0.999),
                                  eps=1e-8, weight_decay=0.01)
    losses = []
    for step in range(MORE_STEPS):
        optimizer.zero_grad()
        total = 0
        for part in range(parts):
            size = BATCH // parts
            batch = {key: value[step % STEPS, part * size:(part + 1) * size] for key, value in samples.items()}
            loss = model(**batch, **compares).loss / parts
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return torch.tensor(losses).numpy()


def write_towers(name, tokens):
    """Folder and archive; what of it the reference is to have."""
    model = build(name)
    write_folder(model, HERE / "families" / name)
    samples = samples_of_towers(name, model, tokens)
    told = {f"{name}.{key}": value.contiguous().numpy() for key, value in samples.items() if key != "input_ids"}
    wide = {key: value if value.is_floating_point() else value.long() for key, value in samples.items()}
    first = {key: value[0, :2] for key, value in wide.items() if key != "labels"}
    with torch.no_grad():
        output = model(**first)
    told[f"{name}.logits"] = (output.logits if "logits" in output else output.logits_per_text).contiguous().numpy()
    if name in ("whisper", "clip"):
        write_archive(model, HERE / "families" / f"{name}.pt2.gz", first | ({"return_loss": True} if name == "clip" else {}))
    if name != "whisper":
        told[f"{name}.accumulated"] = train_towers(build(name), wide, 2)
    told[f"{name}.losses"] = train_towers(model, wide, 1)
    return told


def main(names):
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    reference_path = HERE / "families.reference.safetensors"
    reference = safetensors.numpy.load_file(reference_path) if names and reference_path.exists() else {}
    torch.manual_seed(0)
    tokens = torch.randint(0, SIZES["vocab_size"], (STEPS, BATCH, SEQUENCE + 1), dtype=torch.int32)
    reference["tokens"] = tokens.numpy()
    for name in names or FAMILIES | ENCODERS | PAIRS | TOWERS:
        if name in TOWERS:
            reference |= write_towers(name, tokens)
            print(name, *(f"{loss:.4f}" for loss in reference[f"{name}.losses"]))
            safetensors.numpy.save_file(reference, reference_path)
            continue
        model = build(name)
        input_name, inputs, labels, told = samples_of(name, model, tokens)
        write_folder(model, HERE / "families" / name)
        if name in APART:
            write_apart(name, HERE / "families" / f"{name}-apart")
        if name != "t5-gated" and not name.endswith(("-some", "-padded")):
            blank = torch.zeros_like(inputs[0, :2])
            write_archive(model, HERE / "families" / f"{name}.pt2.gz",
                          {input_name: blank} | ({"decoder_input_ids": blank} if name in PAIRS else {}))
        logits, losses = compute(model, input_name, inputs, labels, told)
        reference |= told
        reference[f"{name}.logits"], reference[f"{name}.losses"] = logits.numpy(), losses.numpy()
        print(name, *(f"{loss:.4f}" for loss in losses))
        safetensors.numpy.save_file(reference, reference_path)


if __name__ == "__main__":
    main(sys.argv[1:])
