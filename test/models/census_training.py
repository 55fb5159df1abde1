"""Trains a class of the census: ten steps by PyTorch, the same ten by hyc's interpreter on one rank and on eight.

The torch side (`reference`) writes NAME.safetensors: the samples, and beside them PyTorch's losses and the first step's
gradients. The other side (`compare`) needs neither torch nor transformers. The model is what was exported: its evaluation
mode, so nothing is dropped and batch norm goes by its running averages.
"""
import json
import pathlib
import re
import resource
import signal
import subprocess
import time

STEPS, MICRO_BATCHES, SAMPLES = 10, 2, 2  # of a micro-batch
LIMIT = 300  # seconds that one program may compute, whatever else the machine does
LOSS_DIFFERENCE, GRADIENT_DIFFERENCE = 1e-5, 1e-3
ROUNDING = 2e-6  # how far PyTorch's losses may be from its own in f64, for a difference of hyc's to mean something
IGNORED = 1e-6  # of the largest gradient's elements: a gradient below is the rounding of zeros

SHIFTED = re.compile(r"ForCausalLM$|LMHeadModel$|ModelWithLMHead$")
CLASSES = re.compile(r"For(MaskedLM|ConditionalGeneration|\w*Classification|CausalImageModeling|SpeechToText)$|MTModel$|^(XLM|XLNet)")


def loss_of(model_class, output):
    """What the class itself computes from labels, where that is a cross entropy; else squared differences."""
    if len(output.shape) >= 2 and CLASSES.search(model_class):
        return "cross_entropy"
    return "causal_lm" if len(output.shape) == 3 and SHIFTED.search(model_class) else "mse"


def first_output(outputs, torch):
    """Its place among the tensors, as torch.export orders them, and the tensor: the logits, or else the first of floats."""
    tensors = [(str(path[-1]) if path else "", leaf) for path, leaf in torch.utils._pytree.tree_flatten_with_path(outputs)[0]
               if isinstance(leaf, torch.Tensor)]
    found = [place for place, (name, tensor) in enumerate(tensors) if "logits" in name and tensor.is_floating_point()]
    found += [place for place, (_, tensor) in enumerate(tensors) if tensor.is_floating_point() and tensor.dim() > 0]
    return found[0], tensors[found[0]][1]


def torch_loss(loss, output, labels, torch):
    functional = torch.nn.functional
    if loss == "mse":
        return functional.mse_loss(output, labels)
    if loss == "causal_lm":
        output, labels = output[:, :-1], labels[:, 1:]
    return functional.cross_entropy(output.flatten(0, -2), labels.flatten())


def train(model, loss, batches, rate, torch):
    """Losses of the steps, and the gradients of the first."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0
        for inputs, labels in batches[step * MICRO_BATCHES:(step + 1) * MICRO_BATCHES]:
            value = torch_loss(loss, first_output(model(**inputs), torch)[1], labels, torch) / MICRO_BATCHES
            value.backward()
            total += value.item()
        losses.append(total)
        if step == 0:
            gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
        optimizer.step()
    return losses, gradients


def rounding_of(model, weights, loss, batches, rate, losses, torch):
    """How far the losses in f32 are from those in f64, at most and of the latter; nothing for a model that insists on f32.

    Leaves other weights behind, of f32."""
    model.double()  # no copy: not every model can be copied
    model.load_state_dict(weights)
    widened = [tuple(torch.utils._pytree.tree_map(lambda each: each.double() if each.is_floating_point() else each, batch))
               for batch in batches]
    try:
        wide, _ = train(model, loss, widened, rate, torch)
    except RuntimeError:  # types that do not go together
        return None
    finally:
        model.float()
    return max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(losses, wide))


def reference(model, model_class, make_inputs, path, torch):
    """Ten steps of `model`, from the weights that it has; what hyc needs to do the same. Leaves other weights behind."""
    from safetensors.torch import save_file
    torch.manual_seed(7)
    place, output = first_output(model(**make_inputs()), torch)
    loss = loss_of(model_class, output)
    batches = []
    for _ in range(STEPS * MICRO_BATCHES):
        shape = output.shape[:-1]
        labels = torch.randn(output.shape) if loss == "mse" else torch.randint(0, output.shape[-1], shape)
        batches.append((make_inputs(), labels))
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    for rate in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8):  # the first that does not lead far away, and where rounding does not grow
        model.load_state_dict(weights)
        losses, gradients = train(model, loss, batches, rate, torch)
        rounding = rounding_of(model, weights, loss, batches, rate, losses, torch)
        if max(losses) < 1.5 * losses[0] and (rounding is None or rounding < ROUNDING):
            break
    samples = {name: torch.cat([inputs[name] for inputs, _ in batches]) for name in batches[0][0]}
    samples["labels"] = torch.cat([labels for _, labels in batches])
    samples |= {f"gradient of {name}": value for name, value in gradients.items()}
    save_file({name: value.contiguous() for name, value in samples.items()}, str(path))
    frozen = [name for name, each in model.named_parameters() if not each.requires_grad]
    return {"loss": loss, "output": place, "rate": rate, "losses": losses, "rounding": rounding, "frozen": frozen}


class Refused(Exception):
    """A tool has ended, or taken too long."""


def call(command):
    began = time.time()
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)))
    if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise Refused(f"{pathlib.Path(command[0]).name} took more than {LIMIT} s, or too much memory")
    if run.returncode:
        errors = [line.split("error:", 1)[1] for line in run.stderr.split("\n") if "error:" in line]
        told = errors[0] if errors else f"{pathlib.Path(command[0]).name} ended with {run.returncode}: {run.stderr[-150:]}"
        raise Refused(re.sub(r"(/[\w.+-]+)+/", "", told).strip()[:300])
    return run.stdout, time.time() - began


class Trainer:
    """hyc's side of one class."""

    def __init__(self, folder, name, told, tools, ending=".pt2"):
        self.folder, self.name, self.told, self.tools = folder, name, told, tools
        self.model = folder / f"{name}{ending}"
        self.samples = folder / f"{name}.safetensors"

    def output_name(self):
        text, _ = call([self.tools / "hyc-compile", self.model, "--micro-batch", SAMPLES, "--emit=model"])
        results = next(line for line in text.split("\n") if "hyc.func @train" in line).split("->", 1)[1]
        return re.findall(r'hyc\.output = "([^"]*)"', results)[self.told["output"]]

    def run(self, phase, *options, gradients=None):
        """Lines of losses; the parameters lie in NAME.parameters.safetensors then."""
        text = self.folder / f"{self.name}.mlir"
        call([self.tools / "hyc-compile", self.model, "--loss", self.told["loss"], "--logits", self.logits,
              "--optimizer", "sgd", "--lr", self.told["rate"], "--entry", "train", f"--emit={phase}", "-o", text, *options])
        extra = ["--gradients", gradients] if gradients else []
        told, _ = call([self.tools / "hyc-interpret", text, "--data", self.samples, "--steps", STEPS, "--lr", self.told["rate"],
                        "--micro-batches", MICRO_BATCHES, "--parameters", self.parameters(), *extra])
        text.unlink()
        return told.splitlines()

    def parameters(self):
        return self.folder / f"{self.name}.parameters.safetensors"

    def trained_though_frozen(self, file):
        from safetensors.numpy import load_file
        return sorted(set(load_file(file)) & set(self.told.get("frozen", [])))

    def gradient_difference(self, file, tokens):
        """The parameter whose gradient differs most from PyTorch's, of its own largest element, and by how much."""
        import numpy
        from safetensors.numpy import load_file
        wanted = {name[len("gradient of "):]: value for name, value in load_file(self.samples).items() if name.startswith("gradient of ")}
        actual = load_file(file)
        largest = max((numpy.abs(value).max() for value in wanted.values() if value.size), default=0)
        worst = ("", 0.0)
        for name, value in actual.items():
            if name not in wanted or not value.size:
                continue  # a tied weight's other name, or one that nothing reads
            if value.size != wanted[name].size:
                return (name, numpy.inf), 0, len(wanted)
            # hyc may have given a parameter other dimensions, heads for instance, of the same elements
            difference = numpy.abs(value.astype("f8").ravel() / tokens - wanted[name].ravel()).max()
            if not difference <= IGNORED * largest:
                worst = max(worst, (name, float(difference / numpy.abs(wanted[name]).max())), key=lambda each: each[1])
        return worst, len(set(actual) & set(wanted)), len(wanted)

    def compare(self):
        """Three findings: trained, spread, zero; each "yes" or why not."""
        found = {}
        began = time.time()
        mesh = ["--tp", 2, "--pp", 2, "--dp", 2, "--micro-batch", 1, "--grad-accum", MICRO_BATCHES, "--gradient-reduction", "micro_batch"]
        try:
            self.logits = self.output_name()
            file = self.folder / f"{self.name}.gradients.safetensors"
            one = self.run("train", "--micro-batch", SAMPLES, "--grad-accum", MICRO_BATCHES, gradients=file)
            found["trains"] = self.judge(one, file)
            file.unlink()
        except Refused as why:
            return {"trains": str(why), "seconds_of_training": round(time.time() - began, 1)}
        try:
            spread = self.run("local", *mesh)
            found["spread"] = difference_of(losses_of(spread), losses_of(one), "one rank's")
            before = self.parameters().read_bytes()
            zero = self.run("local", *mesh, "--zero", 3, "--stage3-param-persistence-threshold", 0)
            same = zero == spread and before == self.parameters().read_bytes()
            found["zero"] = "yes" if same else difference_of(losses_of(zero), losses_of(spread), "ZeRO 0's", 0)
        except Refused as why:
            found["zero" if "spread" in found else "spread"] = str(why)
        self.parameters().unlink(missing_ok=True)
        found["seconds_of_training"] = round(time.time() - began, 1)
        return found

    def judge(self, lines, file):
        if trained := self.trained_though_frozen(file):
            return f"{trained[0]} is trained, {len(trained)} in all, which PyTorch has frozen"
        told = difference_of(losses_of(lines), self.told["losses"], "PyTorch's")
        rounding = self.told.get("rounding") or 0
        if told != "yes" and rounding >= ROUNDING:
            told += f", whose own differ by {rounding:.1e} from those in f64"
        (name, difference), compared, wanted = self.gradient_difference(file, fields_of(lines[0])["tokens"])
        if told == "yes" and difference > GRADIENT_DIFFERENCE:
            return f"gradient of {name} differs from PyTorch's by {difference:.1e}"
        return told if told != "yes" or 2 * compared >= wanted else f"{wanted} parameters have gradients, {compared} here"


def fields_of(line):
    """hyc-interpret's line of one step, which has numbers that JSON does not."""
    return json.loads(line.replace("-nan", "nan").replace("nan", "NaN").replace("inf", "Infinity"))


def losses_of(lines):
    return [fields_of(line)["loss"] for line in lines]


def difference_of(losses, expected, whose, most=LOSS_DIFFERENCE):
    """"yes", or how far the losses are from what was expected."""
    differences = [abs(a - b) / max(abs(b), 1e-30) for a, b in zip(losses, expected)]
    worst = max((each if each == each else float("inf"), step + 1) for step, each in enumerate(differences))
    if worst[0] <= most and most:
        return "yes"
    if worst[0] == 0:
        return f"parameters' bits differ from {whose}"
    return f"losses differ from {whose} by {worst[0]:.1e} at step {worst[1]}"
