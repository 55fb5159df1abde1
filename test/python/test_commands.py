"""hyc data, hyc train and hyc check: from text to what hyc-run reads, and to a folder that transformers loads."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

numpy = pytest.importorskip("numpy")
tokenizers = pytest.importorskip("tokenizers")

from conftest import MODELS, processes_naming
from corpora import TEXT, hyc, make_model, read_tokens, write_tokenizer

from hyc.command import main


@pytest.fixture
def model(tmp_path):
    """A folder of a model with a tokenizer."""
    return make_model(tmp_path)


def test_text_and_json_lines_become_a_stream_with_ends_of_documents(model, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": f"the fox {n}"}) + "\n" for n in range(600)))
    done = hyc("data", tmp_path / "a.txt", tmp_path / "b*.jsonl", "--tokenizer", model, "-o", tmp_path / "tokens")
    assert done.returncode == 0, done.stderr
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    end = tokenizer.token_to_id("<end>")
    expected, expected_ends = [], []
    for text in [TEXT, *(f"the fox {n}" for n in range(600))]:
        expected += [*tokenizer.encode(text, add_special_tokens=False).ids, end]
        expected_ends.append(len(expected))
    tokens, ends, mask = read_tokens(tmp_path / "tokens.bin")
    assert (tokens.tolist(), ends.tolist(), mask) == (expected, expected_ends, None)
    about = json.loads((tmp_path / "tokens.json").read_text())
    assert (about["documents"], about["tokens"], about["vocabulary"]) == (601, len(expected), 257)
    assert f"601 documents, {len(expected)} tokens" in done.stdout


def test_data_overwrites_neither_its_sources_nor_what_it_has_not_written(model, tmp_path):
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps([{"text": TEXT}] * 3))
    before = corpus.read_bytes()
    (tmp_path / "link.json").symlink_to(corpus)
    (tmp_path / "tokens.bin").write_bytes(b"another's")
    (tmp_path / "notes.json").write_text('{"format_version": 1}')
    (tmp_path / "deep").mkdir()

    def refused(name, says, *more):
        names = sorted(tmp_path.rglob("*"))
        done = hyc("data", corpus, "--tokenizer", model, "-o", name, *more)
        assert done.returncode == 64 and says in done.stderr, done.stderr
        assert corpus.read_bytes() == before and sorted(tmp_path.rglob("*")) == names

    refused(tmp_path / "corpus", "would overwrite", "--pack", "--sequence", 16)
    refused(tmp_path / "deep" / ".." / "corpus", f"would overwrite '{corpus}', which is read")
    refused(tmp_path / "link", f"would overwrite '{corpus}', which is read")
    refused(tmp_path / "tokens", "tokens.bin', which hyc data has not written")
    refused(tmp_path / "notes", "notes.json', which hyc data has not written")
    refused(model / "model", "model.safetensors', which hyc data has not written", "--pack", "--sequence", 16)
    refused(model / "config", "config.json', which hyc data has not written")
    for more in ((), ("--pack", "--sequence", 16)):  # its own, once more
        for _ in range(2):
            done = hyc("data", corpus, "--tokenizer", model, "-o", tmp_path / "own", *more)
            assert done.returncode == 0, done.stderr


def test_a_long_text_is_tokenised_in_parts_and_is_one_document(model, tmp_path):
    (tmp_path / "long.txt").write_text(TEXT * 20000)
    assert hyc("data", tmp_path / "long.txt", "--tokenizer", model, "-o", tmp_path / "t.bin").returncode == 0
    tokens, ends, _ = read_tokens(tmp_path / "t.bin")
    assert ends.tolist() == [len(tokens)]
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    assert (tokens == tokenizer.token_to_id("<end>")).sum() == 1 and tokens[-1] == tokenizer.token_to_id("<end>")
    assert len(tokens) > 20000 * 14


def test_prompts_do_not_count_and_answers_do(model, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    rows = [{"prompt": "the quick ", "completion": "brown fox"}, {"instruction": "the lazy", "output": "dog"}]
    (tmp_path / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hyc("data", tmp_path / "i.jsonl", "--tokenizer", model, "-o", tmp_path / "i", "--sequence", 24)
    assert done.returncode == 0, done.stderr
    data = safetensors.load_file(tmp_path / "i.safetensors")
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    prompt = tokenizer.encode("the quick ", add_special_tokens=False).ids
    answer = [*tokenizer.encode("brown fox", add_special_tokens=False).ids, tokenizer.token_to_id("<end>")]
    both = len(prompt) + len(answer)
    assert data["input_ids"][0, :both].tolist() == prompt + answer
    assert data["labels"][0].tolist() == [-100] * len(prompt) + answer + [-100] * (24 - both)
    assert data["input_ids"].shape == (2, 24)


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_of_rows_gives_the_tokens_that_the_same_rows_give_line_by_line(model, tmp_path, indent):
    rows = [{"instruction": f"the {n} \u2028 [", "input": "", "output": "dog, ]"} for n in range(300)]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = json.dumps(rows, indent=indent, ensure_ascii=False)
    (tmp_path / "array.json").write_text("\n" + text + "\n\n", encoding="utf-8-sig")
    for name in ("lines.jsonl", "array.json"):
        output = tmp_path / f"tokens-of-{pathlib.Path(name).stem}"
        done = hyc("data", tmp_path / name, "--tokenizer", model, "-o", output, "--sequence", 32)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "tokens-of-array.safetensors").read_bytes() == (tmp_path / "tokens-of-lines.safetensors").read_bytes()


def test_of_a_chat_what_the_assistant_says_counts(model, tmp_path):
    pytest.importorskip("transformers")
    safetensors = pytest.importorskip("safetensors.numpy")
    messages = [
        {"role": "user", "content": "the fox"},
        {"role": "assistant", "content": "jumps"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "runs home"},
    ]
    (tmp_path / "c.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    done = hyc("data", tmp_path / "c.jsonl", "--tokenizer", model, "-o", tmp_path / "c", "--sequence", 64)
    assert done.returncode == 0, done.stderr
    labels = safetensors.load_file(tmp_path / "c.safetensors")["labels"][0]
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    counted = tokenizer.decode([int(token) for token in labels if token != -100], skip_special_tokens=False)
    assert counted.replace(" ", "").replace("▁", "") == "jumps<end>runshome<end>"


@pytest.mark.parametrize(
    "name, content, status, says",
    [
        ("empty.txt", b"", 65, "empty.txt' is empty"),
        ("blank.jsonl", b"\n\n", 65, "has no document"),
        ("torn.jsonl", b'{"text": "a"}\n{"text": "b', 65, "torn.jsonl:2: no JSON: .*the file ends within this line"),
        ("list.jsonl", b"[1]\n", 65, "list.jsonl:1: found a list, expected an object with text"),
        ("keys.jsonl", b'{"txt": "a"}\n', 65, "keys.jsonl:1: found txt, expected text; messages"),
        ("latin.txt", b"caf\xe9\n", 65, "latin.txt:1: byte 4 is 0xe9, no part of UTF-8"),
        (
            "mixed.jsonl",
            b'{"text": "a"}\n{"prompt": "a", "completion": "b"}\n',
            65,
            "mixed.jsonl:2: found an instruction",
        ),
        (
            "both.jsonl",
            b'{"text": "a", "instruction": "b", "output": "c"}\n',
            65,
            "both.jsonl:1: found text beside instruction and output, expected one of them.* --rows-as text or instruction",
        ),
        (
            "two.jsonl",
            b'{"prompt": "a", "completion": "b", "response": "c"}\n',
            65,
            "two.jsonl:1: found prompt and completion beside prompt and response.* leave the others out",
        ),
        ("i.jsonl", b'{"prompt": "a"}\n', 65, "i.jsonl:1: found prompt, expected text"),
        ("deep.jsonl", b"[" * 100000 + b"\n", 65, "deep.jsonl:1: no JSON"),
        ("role.jsonl", b'{"messages": [{"who": "x"}]}\n', 65, None),
        ("i.json", b'[\n{"text": "a"},\n\n{"txt": "a"}]', 65, "i.json:4: found txt, expected text"),
        ("torn.json", b'[{"text": "a"},\n{"text": "b"', 65, "torn.json:2: no JSON, in an array of rows"),
        ("ends.json", b'[{"text": "a"}\n', 65, "ends.json:2: found the end of the file behind a row"),
        ("two.json", b'[{"text": "a"}]\n[{"text": "a"}]', 65, "two.json:2: found '\\[' behind the array of rows"),
        ("none.json", b"[ ]\n", 65, "none.json' has no document"),
        ("deep.json", b"[" * 100000, 65, "deep.json:1: no JSON, in an array of rows"),
        ("missing-*", None, 65, "is no file, and matches none"),
    ],
)
def test_a_bad_corpus_is_one_message_and_leaves_nothing(model, tmp_path, name, content, status, says, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    out = tmp_path / "made"
    out.mkdir()
    words = ["data", str(tmp_path / name), "--tokenizer", str(model), "-o", str(out / "tokens")]
    words += ["--sequence", "8"] if says is None else []
    assert main(words) == status
    error = capsys.readouterr().err
    import re

    assert error.startswith("hyc data: error: ") and re.search(
        says or "found a message.*expected role and content", error
    )
    assert list(out.iterdir()) == []


def test_rows_of_several_layouts_are_read_as_they_are_told_to(model, tmp_path, capsys):
    row = {"text": "the fox jumps", "instruction": "the", "input": "", "output": "jumps"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "answer.jsonl").write_text(json.dumps({"instruction": "the", "output": "jumps"}) + "\n")
    (tmp_path / "text.jsonl").write_text(json.dumps({"text": "the fox jumps"}) + "\n")

    def tokens(name, *more):
        words = ["data", str(tmp_path / name), "--tokenizer", str(model), "-o", str(tmp_path / "out"), *more]
        assert main(words) == 0, capsys.readouterr().err
        return (tmp_path / "out.bin").read_bytes()

    assert tokens("rows.jsonl", "--rows-as", "text") == tokens("text.jsonl")
    assert tokens("rows.jsonl", "--rows-as", "instruction") == tokens("answer.jsonl") != tokens("text.jsonl")
    (tmp_path / "rows.jsonl").write_text(json.dumps({**row, "text": ""}) + "\n" + json.dumps(row) + "\n")
    assert tokens("rows.jsonl", "--rows-as", "text")  # a row without text among others
    for wrong, says in (("prompt", "expected prompt (--rows-as)"), ("chat", "invalid choice")):
        words = ["data", str(tmp_path / "rows.jsonl"), "--tokenizer", str(model), "-o", str(tmp_path / "none")]
        assert main([*words, "--rows-as", wrong]) == (65 if wrong == "prompt" else 64)
        assert says in capsys.readouterr().err


def test_a_tokenizer_that_does_not_fit_the_model(model, tmp_path, capsys):
    write_tokenizer(model, 900, alphabet=map(chr, range(0x4E00, 0x4E00 + 400)))
    (tmp_path / "a.txt").write_text("the fox\nand \u4f00\n")
    assert main(["data", str(tmp_path / "a.txt"), "--tokenizer", str(model), "-o", str(tmp_path / "t")]) == 65
    error = capsys.readouterr().err
    assert "a.txt:1: the tokenizer makes token" in error and "expected less than 257, the vocab_size of" in error
    assert not (tmp_path / "t.bin").exists()


def test_a_folder_without_a_tokenizer(tmp_path, capsys):
    (tmp_path / "a.txt").write_text(TEXT)
    for folder, says in ((tmp_path / "nowhere", "is no folder"), (MODELS / "llama", "no tokenizer|not installed")):
        assert main(["data", str(tmp_path / "a.txt"), "--tokenizer", str(folder), "-o", str(tmp_path / "t")]) in (
            65,
            69,
        )
        import re

        assert re.search(says, capsys.readouterr().err)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "tokenizer.json").write_text('{"version": ')
    assert (
        main(["data", str(tmp_path / "a.txt"), "--tokenizer", str(tmp_path / "torn"), "-o", str(tmp_path / "t")]) == 65
    )
    assert "tokenizer.json' is no tokenizer" in capsys.readouterr().err


def test_trains_from_a_folder_and_text_to_a_folder_that_transformers_loads(model, tmp_path):
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": TEXT * 4}) + "\n" for _ in range(20)))
    done = hyc(
        "train", model, "--data", tmp_path / "*.jsonl", "--steps", 30, "--device-memory", "1GiB", "--micro-batch", 4,
        "--lr", "0.01", "--seed=1", "-o", tmp_path / "trained", "--log-file", tmp_path / "log.jsonl",
        "--csv", tmp_path / "log.csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "compiled in " in done.stdout and "train with" not in done.stdout
    losses = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(losses) == 30 and losses[-1] < losses[0] - 0.5
    with open(tmp_path / "log.csv") as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == losses
    assert sorted(path.name for path in (tmp_path / "trained").iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    transformers = pytest.importorskip("transformers")
    trained = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "trained")
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"][:, :16]
    assert trained(input_ids=ids, labels=ids).loss.item() < losses[0] - 0.5
    again = hyc("train", model, "--data", tmp_path / "*.jsonl", "-o", tmp_path / "trained")
    assert again.returncode == 64 and "is there already" in again.stderr


TOOL = """#!%s
import os, pathlib, signal, sys, time
if sys.argv[1].startswith("--print"):
    print("[]")
    sys.exit()
if sys.argv[0].endswith("hyc-compile"):
    sys.exit()
here = pathlib.Path(sys.argv[0]).parent
def end(number, _):
    name = signal.Signals(number).name
    with open(here / "heard", "a") as heard:
        heard.write(name + " ")
    print("hyc-run: stopped by " + name, file=sys.stderr, flush=True)
    time.sleep(2.5)
    os._exit(75 if number == signal.SIGTERM else 128 + number)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
print("hyc-run: rank 1 was ended by SIGTERM; the ranks are started again", file=sys.stderr, flush=True)
(here / "pid").write_text(str(os.getpid()))
time.sleep(100)
"""


@pytest.mark.parametrize("is_for_all", [False, True], ids=["for hyc train", "for all processes"])
@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 75), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_for_train_ends_the_run_once_and_the_command_with_its_status(model, tmp_path, number, status, is_for_all):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("hyc-compile", "hyc-run"):
        (tools / name).write_text(TOOL % sys.executable)
        (tools / name).chmod(0o755)
    (tmp_path / "a.txt").write_text(TEXT * 10)
    code = "import sys; from hyc.command import main; sys.exit(main())"
    words = ["train", model, "--data", tmp_path / "a.txt", "-o", tmp_path / "trained"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], env={**os.environ, "HYC_TOOLS": str(tools)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tools / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)  # what was said of a signal so long ago was about another
    (os.killpg if is_for_all else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert (tools / "heard").read_text().split() == [number.name]
    assert not processes_naming(str(tools / "hyc-run"))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".trained")]


@pytest.mark.parametrize(
    "words, status, says",
    [
        (["--micro-bach", "2"], 64, "unknown flag '--micro-bach'; the nearest is '--micro-batch'"),
        (["--save-weights", "x"], 64, "--save-weights is set by hyc train itself: it is -o that says where"),
        (["--dim", "seq=32"], 64, "--dim is set by hyc train itself: it is --sequence that says how many tokens"),
        (["--loss=mse"], 64, "--loss is set by hyc train itself: it is causal_lm; other losses have hyc-compile"),
        (["--micro-batch"], 64, "--micro-batch has no value"),
        (["--steps", "0"], 64, "argument --steps: found '0', expected a whole number from 1"),
        (["--zero", "9"], 64, "hyc-compile ended with status 64"),
    ],
)
def test_flags_of_train_that_are_none(model, tmp_path, words, status, says, capsys):
    (tmp_path / "a.txt").write_text(TEXT * 10)
    line = ["train", str(model), "--data", str(tmp_path / "a.txt"), "-o", str(tmp_path / "trained"), *words]
    assert main(line) == status
    assert says in capsys.readouterr().err
    assert not (tmp_path / "trained").exists()


def test_check_tells_what_is_there(capfd):
    assert main(["check"]) == 0
    told = capfd.readouterr().out
    assert f"\ncores           {len(os.sched_getaffinity(0))}" in told
    assert "hyc-compile     " in told and "trains on CPUs: yes" in told
    assert "\ntransformers    " in told
    assert main(["check", "--ports", "1-2"]) == 64
    assert "--ports is given without hosts" in capfd.readouterr().err


def test_check_tells_what_is_missing(tmp_path):
    code = "import sys; from hyc.command import main; sys.exit(main(['check']))"
    environment = {**os.environ, "HYC_TOOLS": str(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 69
    assert "hyc check: error: hyc-check is in none of " in done.stderr


def test_commands_that_are_none(capsys):
    assert main(["trian"]) == 64
    assert "unknown command 'trian', expected train, data, check" in capsys.readouterr().err
    assert main([]) == 64
    assert main(["--help"]) == 0
