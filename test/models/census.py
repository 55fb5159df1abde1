#!/usr/bin/env python3
"""Tries transformers' classes, tiny and with random weights: which torch.export exports, hyc imports, and trains as torch does.

The classes stand in census.txt. What becomes of each is kept in FOLDER/NAME.json with its archive and what PyTorch computed,
so that a run with the same folder only tries what it does not know and what refused; classes given by name are tried again
whole but for the export, which --again repeats. The table goes to docs/models.md with --table, which needs neither torch nor
transformers; rows that stand there of classes that FOLDER does not know stay as they are. Made with torch 2.15.0 and transformers 5.24.0 on the CPU, in one thread.

Usage: census.py FOLDER [NAME ...] [--tools BUILD/bin] [--again] [--table FILE]
"""
import argparse
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import warnings

from census_training import Trainer

HERE = pathlib.Path(__file__).parent
EXPORT_LIMIT, IMPORT_LIMIT = 900, 120  # seconds of a processor
BATCH, SEQUENCE, IMAGE = 2, 8, 32
ASTRAY = 1e-4  # from here on an archive is another model than its class, and trained as what it is

# What configurations call their sizes, and the tiny ones. Groups of one size; a configuration's own lists stand in census.txt.
TINY = {
    32: "hidden_size d_model n_embd dim embed_dim emb_dim embedding_size projection_dim word_embed_proj_dim decoder_hidden_size "
        "encoder_hidden_size qk_out_dim attention_hidden_size pooler_dim hidden_dim lru_width d_embed mlp_dim "
        "encoder_embed_dim decoder_embed_dim n_embed output_dim mask_feature_size feature_size fpn_feature_size "
        "shared_expert_hidden_size vision_output_dim encoder_hidden_dim",
    64: "intermediate_size ffn_dim d_ff d_inner encoder_ffn_dim decoder_ffn_dim n_inner dim_feedforward encoder_feedforward_dim "
        "dim_feedforward decoder_intermediate_size hidden_dims ffn_hidden_size "
        "max_position_embeddings n_positions n_ctx max_source_positions max_target_positions context_length max_seq_len "
        "classifier_proj_size max_2d_position_embeddings",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers num_encoder_layers "
       "encoder_num_hidden_layers decoder_num_hidden_layers num_experts_per_tok num_experts_per_token num_key_value_heads "
       "linear_num_key_heads num_conv_pos_embedding_groups mamba_expand expand num_adapter_layers top_k_experts",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_decoder_attention_heads "
       "encoder_num_attention_heads decoder_num_attention_heads num_experts n_routed_experts num_local_experts patch_size "
       "moe_num_experts time_step_rank decoder_n_points encoder_n_points "
       "linear_num_value_heads num_encoder_attention_heads",
    8: "head_dim attention_head_size state_size kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim num_queries "
       "linear_key_head_dim linear_value_head_dim sliding_window attention_chunk_size chunk_size mamba_chunk_size d_kv "
       "num_conv_pos_embeddings kv_channels global_head_dim index_head_dim local_attention "
       "mamba_d_state mamba_chunk_size mamba_headdim",
    16: "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size",
    99: "vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size vocab_size_per_layer_input",
    1: "n_group topk_group n_shared_experts num_register_tokens",
}
SIZES = {name: size for size, names in TINY.items() for name in names.split()} | {"image_size": 32}
TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id", "sep_token_id",
          "cls_token_id", "mask_token_id")
CONVOLUTIONS = {"conv_dim": [16, 16], "conv_kernel": [4, 2], "conv_stride": [2, 2]}  # of waves


def own_size(config, name):
    """Nothing where it has none, or one for each layer."""
    try:
        return getattr(config, name, None)
    except Exception:  # transformers' own, that is no AttributeError
        return None


def sizes_of(config_class, inputs):
    """The tiny configuration's arguments: every size that the default one has, and the same of configurations within."""
    default = config_class()
    chosen = {}
    aliases = getattr(config_class, "attribute_map", {})
    for name, size in SIZES.items():
        is_own = name not in aliases and not isinstance(getattr(config_class, name, None), property)
        value = own_size(default, name) if is_own else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            if name == "num_key_value_heads" and value == getattr(default, "num_attention_heads", None):
                size = 4
            chosen[name] = min(size, value) if name != "patch_size" else size
    if inputs.startswith("wave"):
        chosen.update({key: value for key, value in CONVOLUTIONS.items() if isinstance(getattr(default, key, None), (list, tuple))})
    for name in TOKENS:
        token = getattr(default, name, None)
        if isinstance(token, int) and token >= 99:
            chosen[name] = 2
        elif isinstance(token, list):
            chosen[name] = 2
    if hasattr(default, "use_cache"):
        chosen["use_cache"] = False
    if hasattr(default, "use_mamba_kernels"):
        chosen["use_mamba_kernels"] = False
    for name, inner in getattr(config_class, "sub_configs", {}).items():
        kind = type(getattr(default, name, None))
        if getattr(inner, "__name__", "") == "AutoConfig" and hasattr(kind, "model_type"):
            chosen[name] = {"model_type": kind.model_type, **sizes_of(kind, inputs)}
        elif kind.__name__ == getattr(inner, "__name__", ""):
            chosen[name] = sizes_of(inner, inputs)
    return chosen


def backbone():
    """What detectors and segmenters stand on, instead of a downloaded one."""
    return {"model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1],
            "layer_type": "basic", "out_features": ["stage1", "stage2", "stage3", "stage4"]}


BACKBONES = {"@resnet": backbone(), "@dinov2": {
    "model_type": "dinov2", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 4, "mlp_ratio": 2, "image_size": 32,
    "patch_size": 4, "out_indices": [1, 2, 3, 4], "apply_layernorm": True, "reshape_hidden_states": False}}


def configure(row, transformers):
    model_class = getattr(transformers, row["class"])
    sizes = sizes_of(model_class.config_class, row["inputs"])
    for path, value in row["settings"].items():
        *outer, last = path.split(".")
        place = sizes
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = BACKBONES.get(value, value) if isinstance(value, str) else value
    config = model_class.config_class(**sizes)
    for each in (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", {}))):
        if hasattr(each, "use_cache"):
            each.use_cache = False  # some set it for themselves
    return model_class, config


def inputs_of(kind, config, torch):
    """The model's arguments. Kinds that end in _to_text decode as well; wave2000 is of so many samples."""
    def tokens(size=99):
        return torch.randint(3, size - 12, (BATCH, SEQUENCE))

    def image(inner=config):
        size = getattr(inner, "image_size", IMAGE)
        size = IMAGE if not isinstance(size, (int, list, tuple)) else size
        height, width = (size, size) if isinstance(size, int) else size
        return torch.randn(BATCH, getattr(inner, "num_channels", 3) or 3, height, width)

    vision = getattr(config, "vision_config", config)
    decoded = {"decoder_input_ids": tokens()}
    if kind == "text":
        return {"input_ids": tokens()}
    if kind == "text_masked":
        return {"inputs": tokens()}
    if kind == "text_to_text":
        return {"input_ids": tokens(), **decoded}
    if kind == "text_mask_to_text":
        return {"input_ids": tokens(), "attention_mask": torch.ones(BATCH, SEQUENCE, dtype=torch.int64), **decoded}
    if kind == "image":
        return {"pixel_values": image()}
    if kind == "image_noise":  # what the class would draw to choose patches by
        return {"pixel_values": image(), "noise": torch.rand(BATCH, (config.image_size // config.patch_size) ** 2)}
    if kind == "image_text":
        return {"input_ids": tokens(), "pixel_values": image(getattr(config, "image_config", vision))}
    if kind == "image_points":
        return {"pixel_values": image(vision), "input_points": torch.rand(BATCH, 1, 1, 2) * IMAGE}
    if kind == "image_tokens":  # as many places as the image has features
        side = vision.image_size // vision.patch_size
        count = getattr(config, "mm_tokens_per_image", None) or side * side // getattr(config, "scale_factor", 1) ** 2
        marker = getattr(config, "image_token_id", None) or config.image_token_index
        text = torch.randint(3, 80, (BATCH, count + 4))
        text[:, :count] = marker
        pixels = image(vision)
        return {"input_ids": text, "pixel_values": pixels.unsqueeze(1) if config.model_type == "idefics3" else pixels}
    if kind == "video":
        return {"pixel_values": torch.randn(BATCH, config.num_frames, 3, IMAGE, IMAGE)}
    if kind.startswith("wave"):
        length = int(re.match(r"wave(\d*)", kind)[1] or 400)
        shape = (BATCH, 1, 64) if "Dac" in type(config).__name__ else (BATCH, length)
        return {"input_values": torch.randn(*shape), **(decoded if kind.endswith("to_text") else {})}
    if kind == "features":
        return {"input_values": torch.randn(BATCH, config.max_length, config.num_mel_bins)}
    if kind == "features_to_text":
        return {"input_features": torch.randn(BATCH, 16, config.input_feat_per_channel), **decoded}
    if kind == "features_audio":
        return {"input_features": torch.randn(BATCH, 16, config.feature_projection_input_dim)}
    if kind == "features_whisper":
        return {"input_features": torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions), **decoded}
    if kind == "series":
        return {"past_values": torch.randn(BATCH, config.context_length, config.num_input_channels)}
    if kind == "tables":
        return {"input_ids": tokens(), "token_type_ids": torch.zeros(BATCH, SEQUENCE, 7, dtype=torch.int64)}
    if kind == "boxes":
        return {"input_ids": tokens(), "bbox": torch.randint(0, 20, (BATCH, SEQUENCE, 4)), "pixel_values": torch.randn(BATCH, 3, 32, 32)}
    if kind == "decisions":
        return {"states": torch.randn(BATCH, 6, config.state_dim), "actions": torch.randn(BATCH, 6, config.act_dim),
                "rewards": torch.randn(BATCH, 6, 1), "returns_to_go": torch.randn(BATCH, 6, 1),
                "timesteps": torch.arange(6).repeat(BATCH, 1), "attention_mask": torch.ones(BATCH, 6)}
    raise ValueError(f"knows no inputs of kind {kind}")


def without_names(message):
    """One line of an error, without what is of one machine."""
    line = next((line for line in str(message).split("\n") if line.strip()), "")
    return re.sub(r"(/[\w.+-]+)+/", "", line).strip()[:200]


def difference_between(model, exported, arguments, torch):
    """How far what torch.export made of a model is from it, in its first output or in gradients, of the largest element."""
    from census_training import first_output
    found = []
    for each in (model, exported):
        torch.manual_seed(3)
        output = first_output(each(**arguments), torch)[1]
        names, parameters = zip(*((name, own) for name, own in each.named_parameters() if own.requires_grad))
        gradients = torch.autograd.grad((output * torch.randn_like(output)).sum(), parameters, allow_unused=True)
        found.append({"": output.detach(), **{name: own for name, own in zip(names, gradients) if own is not None and own.numel()}})
    own, other = found
    largest = max(float(each.abs().max()) for name, each in own.items() if name)
    worst = 0.0
    for name in own.keys() & other.keys():
        size = float(own[name].abs().max())
        if not name or size > 1e-4 * largest:  # what is smaller is mostly rounding
            worst = max(worst, float((own[name] - other[name]).abs().max()) / max(size, 1e-30))
    return worst


def export(row, path):
    """Exports into `path` and trains there; says what went wrong, and where."""
    import torch
    import transformers
    from census_training import reference
    from exporting import save_archive
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    try:
        model_class, config = configure(row, transformers)
        model = model_class(config).eval()
        arguments = inputs_of(row["inputs"], config, torch)
        with torch.no_grad():
            model(**arguments)
    except Exception as error:  # whatever transformers says
        return {"built": False, "why": f"{type(error).__name__}: {without_names(error)}"}
    batch = {name: {0: torch.export.Dim.DYNAMIC} for name in arguments}
    told = {"built": True, "exported": False}
    for shapes in (batch, None):
        copies = {name: value.clone() for name, value in arguments.items()}  # torch notes on tensors what is dynamic of them
        try:
            exported = torch.export.export(model, (), copies, strict=False, dynamic_shapes=shapes)
            save_archive(exported, path)
            told.update(exported=True, batch=shapes is not None)
            told.pop("why", None)
            break
        except Exception as error:  # whatever torch says
            told["why"] = f"{type(error).__name__}: {without_names(error)}"
    try:
        if told["exported"]:
            module = exported.module()
            told["astray"] = difference_between(model, module, arguments, torch)
            model = module if told["astray"] > ASTRAY else model  # what hyc is given, and no more than that
        told["reference"] = reference(model, row["class"], lambda: inputs_of(row["inputs"], config, torch), path.with_suffix(".safetensors"), torch)
    except Exception as error:
        told["untrained"] = f"PyTorch: {type(error).__name__}: {without_names(error)}"
    return told


def export_apart(row, path):
    """In a process of its own that has torch already, so that nothing of one class is left for the next."""
    result = path.with_suffix(".part")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (EXPORT_LIMIT, EXPORT_LIMIT))
        sys.stdout = sys.stderr = open(os.devnull, "w")
        result.write_text(json.dumps(export(row, path)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status or not result.exists():
        return {"built": False, "why": f"ended with status {status} (or took more than {EXPORT_LIMIT} s)"}
    told = json.loads(result.read_text())
    result.unlink()
    return told


def import_archive(compiler, path):
    """Phase 1 of it, with the batch that it was exported with where that is fixed."""
    command = [compiler, str(path), "--micro-batch", str(BATCH), "--emit=model", "-o", "/dev/null"]
    began = time.time()
    run = subprocess.run(command, capture_output=True, text=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (IMPORT_LIMIT, IMPORT_LIMIT)))
    if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"imported": False, "refusal": f"took more than {IMPORT_LIMIT} s"}
    errors = [line for line in run.stderr.split("\n") if "error:" in line]
    told = {"imported": run.returncode == 0, "status": run.returncode, "seconds": round(time.time() - began, 1)}
    if run.returncode:
        told["refusal"] = " / ".join(without_names(line.split("error:", 1)[1]) for line in errors[:6]) or run.stderr[-200:]
    return told


def rows_of(file):
    for line in file.read_text().split("\n"):
        if not line or line.startswith("#"):
            continue
        name, model_class, inputs, *settings = line.split()
        pairs = (setting.split("=", 1) for setting in settings)
        yield {"name": name, "class": model_class, "inputs": inputs, "settings": {key: json.loads(value) for key, value in pairs}}


COLUMNS = ("trains", "spread", "zero")
NOT_TRIED, EARLIER = "not tried", "earlier"


def cells_of(told):
    """The table's cells for one class, and what kept it from the first of them that does not say yes."""
    exported, imported = bool(told.get("exported")), bool(told.get("imported"))
    if not exported:
        return ["no", "no"] + [""] * len(COLUMNS), told.get("why", "")
    if not imported:
        return ["yes", "no"] + [""] * len(COLUMNS), told.get("refusal", "")
    findings = [told.get(column) for column in COLUMNS]
    astray = told.get("astray", 0)
    note = f"torch.export's graph gives other values or gradients than the class, by {astray:.0e}: held to the graph's" if astray > ASTRAY else ""
    why = next((each for each in findings if each not in (None, "yes")), told.get("untrained", note))
    return ["yes", "yes"] + ["" if each is None else "yes" if each == "yes" else "no" for each in findings], why


def entry_of(told):
    """A class's cells as they stand in the table, the day of its trial last but one."""
    cells, why = cells_of(told)
    return [*cells, told.get("day", EARLIER), why.replace("|", "\\|")]


def entries_of_table(file):
    """What an earlier run's table says of each class: {name: cells}. A table without days is taken up as of earlier ones."""
    entries, headings = {}, []
    for line in file.read_text().split("\n") if file.exists() else []:
        if not line.startswith("|"):
            continue
        name, _, *cells = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        if name == "name":
            headings = cells
        elif set(name) != {"-"} and cells[0] != NOT_TRIED:
            entries[name] = cells if "tried" in headings else [*cells[:-1], EARLIER, cells[-1]]
    return entries


def is_told_by(new, old):
    """Whether a run's finding takes an earlier one's place: unless it only imported what was trained before."""
    return not old or "no" in new[:2] or new[2] or not old[2]


def write_table(rows, folder, file):
    """The findings in `folder`, and of classes that it has none of those that stand in `file`."""
    entries = entries_of_table(file)
    for row in rows:
        told = json.loads(note_of(folder, row).read_text()) if note_of(folder, row).exists() else {"exported": True}
        if told.get("exported") and "imported" not in told:
            continue  # hyc has not seen it
        new = entry_of(told)
        if is_told_by(new, entries.get(row["name"])):
            entries[row["name"]] = new
    entries = {row["name"]: entries[row["name"]] for row in rows if row["name"] in entries}
    count = [sum(cells[place] == "yes" for cells in entries.values()) for place in range(2 + len(COLUMNS))]
    trained = sum(cells[2] != "" for cells in entries.values())
    whole = sum(cells[:5] == ["yes"] * 5 for cells in entries.values())
    lines = [
        "# Models", "",
        f"{len(rows)} classes of transformers in tiny configurations with random weights, tried by `test/models/census.py` (torch",
        "2.15.0, transformers 5.24.0; evaluation mode, the batch dynamic where torch can), programs executed by hyc's interpreter.",
        f"{len(entries)} were tried: {count[0]} export, {count[1]} import. {trained} of these were trained: {count[2]} as PyTorch, {count[3]} over",
        f"eight ranks as on one, {count[4]} under ZeRO 3 with the bits of ZeRO 0; {whole} all of it.", "",
        "- exports: `torch.export` makes an archive.",
        "- imports: `hyc-compile --emit=model` reads it.",
        "- trains: ten losses with SGD (f32, two micro-batches of two samples a step) within 1e-5 of PyTorch's, and every gradient of",
        "  the first step within 1e-3 of its largest element. The loss is a cross entropy where the class computes one from",
        "  labels, else the mean of squared differences of its first output from random numbers. The rate is the largest of 1e-1, …, 1e-8 at",
        "  which losses do not run away, and PyTorch's are within 2e-6 of those that it computes in f64, if it can; where none is, the last",
        "  column says so.",
        "- tp 2 × pp 2 × dp 2: the same losses within 1e-5 of one rank's.",
        "- ZeRO 3: losses and parameters after ten steps there, bit for bit those of ZeRO 0.",
        "- tried: the day on which hyc of that day found what the row says. A row is of one run; it stays until the class is tried anew.",
        "", f"An empty cell was not tried. Rows marked `{EARLIER}` are of runs that noted no day, some of those without training in larger",
        "configurations. Batch norm goes by its running averages, dropout drops nothing.", "",
        "| name | class | exports | imports | trains | tp 2 × pp 2 × dp 2 | ZeRO 3 | tried | what refused it |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = entries.get(row["name"], [NOT_TRIED] + [""] * (3 + len(COLUMNS)))
        lines.append(f"| {row['name']} | {row['class']} | " + " | ".join(cells) + " |")
    file.write_text("\n".join(lines) + "\n")


def note_of(folder, row):
    return folder / f"{row['name']}.json"


def try_class(row, arguments):
    """Takes what of the class is not known yet, or is asked for again."""
    folder, note = arguments.folder, note_of(arguments.folder, row)
    archive = folder / f"{row['name']}.pt2"
    told = json.loads(note.read_text()) if note.exists() else {}
    if arguments.again or told.get("row") != row or "ended with status" in told.get("why", ""):
        import torch  # noqa: F401 (before the processes part)
        import transformers  # noqa: F401
        told = {"row": row, "day": time.strftime("%Y-%m-%d"), **export_apart(row, archive)}
        note.write_text(json.dumps(told))
    if arguments.tools and told.get("exported") and (arguments.names or not told.get("imported")):
        told.pop("refusal", None)
        told.update(import_archive(arguments.tools / "hyc-compile", archive), day=time.strftime("%Y-%m-%d"))
    isSound = all(told.get(column) == "yes" for column in COLUMNS)
    if arguments.tools and told.get("imported") and "reference" in told and (arguments.names or not isSound):
        for column in COLUMNS:
            told.pop(column, None)
        told.update(Trainer(folder, row["name"], told["reference"], arguments.tools).compare(), day=time.strftime("%Y-%m-%d"))
    note.write_text(json.dumps(told))
    print(row["name"], *cells_of(told), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="all that is known of these is tried again; without names, what refused")
    parser.add_argument("--tools", type=pathlib.Path, help="the folder of hyc-compile and hyc-interpret")
    parser.add_argument("--again", action="store_true", help="export and train by PyTorch again")
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = list(rows_of(HERE / "census.txt"))
    if arguments.table:
        write_table(rows, arguments.folder, arguments.table)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    known = {row["name"]: row for row in rows}
    for name in arguments.names or known:
        try_class(known[name], arguments)


if __name__ == "__main__":
    main()
