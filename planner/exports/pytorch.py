"""A runnable PyTorch loop: autocast, a gradient scaler for fp16 alone, checkpointing, FSDP2. Run on CPU in the tests.

bf16 has the exponent of fp32, so its gradients need no scaling (seed G17); a scaler stands in the text only under
autocast in fp16.
"""

from typing import Final

from planner.exports.facts import (
    ATTENTION,
    TORCH_NAMES,
    adapter_of,
    cards,
    model_name,
    nodes,
    offloaded,
    refuse,
    require,
    require_runtime,
    whole,
)
from planner.exports.peft import lora_lines, quantization_lines, quoted
from planner.exports.types import Export
from planner.plan_types import Plan
from planner.scenario import Optimizer

OPTIMIZERS: Final = {
    ("adamw", False): "torch.optim.AdamW",
    ("adam", False): "torch.optim.Adam",
    ("sgd", False): "torch.optim.SGD",
    ("sgd_momentum", False): "torch.optim.SGD",
    ("adafactor", False): "torch.optim.Adafactor",
    ("adamw", True): "bitsandbytes.optim.PagedAdamW32bit",
    ("adamw_8bit", False): "bitsandbytes.optim.AdamW8bit",
    ("adamw_8bit", True): "bitsandbytes.optim.PagedAdamW8bit",
    ("lion", False): "bitsandbytes.optim.Lion32bit",
    ("lion_8bit", False): "bitsandbytes.optim.Lion8bit",
    ("lion_8bit", True): "bitsandbytes.optim.PagedLion8bit",
}
WITH_IMPLEMENTATION: Final = frozenset({"adamw", "adam", "sgd", "sgd_momentum"})


def pytorch(plan: Plan) -> Export:
    """`train.py`, with the line that starts it at its head; the batches in it are random tokens to be replaced."""
    require_runtime(plan, "generic", "hf_trainer")
    _refuse_what_has_no_code(plan)
    name, remarks = model_name(plan.scenario)
    parts = [
        _head(plan),
        _imports(plan),
        _settings(plan, name),
        _arguments(),
        _build(plan),
        _divide(plan),
        _optimizer(plan.resolved.training.optimizer),
        _loop(plan),
        _main(plan),
    ]
    return Export(
        target="pytorch",
        file_name="train.py",
        text="\n\n".join(part for part in parts if part).replace("\n\n\n\n", "\n\n\n") + "\n",
        remarks=(*remarks, ("data_set", "batches")),
    )


def _refuse_what_has_no_code(plan: Plan) -> None:
    held = plan.resolved
    training, parallel = held.training, held.parallel
    require("parallel.sharding", parallel.sharding, "none", "fsdp")
    require("parallel.data_parallel", parallel.data_parallel, "ddp", None)
    for name in ("tensor", "pipeline", "context", "expert"):
        require(f"parallel.{name}", getattr(parallel, name), 1)
    require("training.checkpointing", training.checkpointing, "none", "full", "every_k")
    require("training.loss", training.loss, "standard")
    require("training.kernels", training.kernels or (), ())
    require("training.packing", training.packing, "none", "packed", None)
    require("training.attention", training.attention, *ATTENTION)
    require("training.precision.parameters", training.precision.parameters, *TORCH_NAMES)
    require("training.precision.compute", training.precision.compute, *TORCH_NAMES)
    if not training.precision.autocast and parallel.sharding == "none":
        require("training.precision.compute", training.precision.compute, training.precision.parameters)
    require("training.precision.gradients", training.precision.gradients, None, training.precision.parameters)
    require("training.precision.gradient_copy", training.precision.gradient_copy, None, "none")
    require("training.precision.master", training.precision.master, None, "none")
    require("training.precision.fp8", training.precision.fp8, None)
    if (training.optimizer.name, training.optimizer.paged) not in OPTIMIZERS:
        raise refuse("training.optimizer.name", training.optimizer.name, ", ".join(n for n, _ in OPTIMIZERS))
    if parallel.sharding == "fsdp" and training.optimizer.name == "adafactor":
        raise refuse("training.optimizer.name", "adafactor", "adamw, adam, sgd, sgd_momentum")
    require("training.activation_offload", training.activation_offload, False)
    adapter = adapter_of(plan)
    if adapter is not None:
        quantization_lines(adapter, training.precision.compute or "bf16")


def _head(plan: Plan) -> str:
    machines, each = nodes(plan)
    alone = (
        "--standalone"
        if machines == 1
        else f"--nnodes {machines} --rdzv_backend c10d --rdzv_endpoint HOST:29500"
    )
    start = f"torchrun {alone} --nproc_per_node {each} train.py" if cards(plan) > 1 else "python train.py"
    variables = ""
    if plan.resolved.runtime.allocator == "expandable_segments":
        variables = "PYTORCH_ALLOC_CONF=expandable_segments:True "
    return f'"""Start with: {variables}{start}"""'


def _imports(plan: Plan) -> str:
    held = plan.resolved
    adapter = adapter_of(plan)
    bitsandbytes = OPTIMIZERS[held.training.optimizer.name, held.training.optimizer.paged].startswith("bits")
    several = cards(plan) > 1
    lines = ["import argparse", "import os" if several else "", "import time", ""]
    lines += ["import bitsandbytes" if bitsandbytes else "", "import torch"]
    lines += ["import torch.distributed as dist" if several else ""]
    if adapter is not None:
        prepare = ", prepare_model_for_kbit_training" if held.task == "qlora" else ""
        lines.append(f"from peft import LoraConfig, get_peft_model{prepare}")
    if held.parallel.sharding == "fsdp" and several:
        lines.append("from torch.distributed.device_mesh import init_device_mesh")
        offload = "CPUOffloadPolicy, " if offloaded(plan) else ""
        lines.append(f"from torch.distributed.fsdp import {offload}MixedPrecisionPolicy, fully_shard")
    elif several:
        lines.append("from torch.nn.parallel import DistributedDataParallel")
    if held.training.checkpointing == "every_k":
        lines.append(
            "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper"
        )
    quantized = "BitsAndBytesConfig, " if adapter is not None and held.task == "qlora" else ""
    lines.append(
        f"from transformers import AutoConfig, AutoModelForCausalLM{', ' + quantized.rstrip(', ') if quantized else ''}"
    )
    return "\n".join(line for i, line in enumerate(lines) if line or i == 3)


def _settings(plan: Plan, name: str) -> str:
    training = plan.resolved.training
    return "\n".join(
        [
            f"MODEL = {quoted(name)}",
            f"MICRO_BATCH = {training.micro_batch}",
            f"ACCUMULATION = {training.gradient_accumulation}",
            f"SEQUENCE = {training.sequence_length}",
            f"PARAMETERS = torch.{TORCH_NAMES[training.precision.parameters or 'bf16']}",
            f"COMPUTE = torch.{TORCH_NAMES[training.precision.compute or 'bf16']}",
        ]
    )


def _arguments() -> str:
    return '''
def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=MODEL, help="name or folder")
    parser.add_argument("--random", action="store_true", help="random weights: only the config is read")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--sequence", type=int, default=SEQUENCE)
    return parser.parse_args()


def batches(vocabulary, sequence, device):
    """Random tokens: put your own data here."""
    while True:
        yield torch.randint(vocabulary, (MICRO_BATCH, sequence), device=device)
'''


def _build(plan: Plan) -> str:
    held = plan.resolved
    adapter = adapter_of(plan)
    training = held.training
    lines = ["", "def build(options, device):"]
    extra = ""
    if adapter is not None and held.task == "qlora":
        lines += [f"    {line}" for line in quantization_lines(adapter, training.precision.compute or "bf16")]
        extra = ", quantization_config=quantization"
    attention = ATTENTION[training.attention or "sdpa"]
    lines += [
        f'    choice = {{"dtype": PARAMETERS, "attn_implementation": {quoted(attention)}}}',
        "    if options.random:",
        "        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.model), **choice)",
        "    else:",
        f"        model = AutoModelForCausalLM.from_pretrained(options.model, **choice{extra})",
        "    model.config.use_cache = False",
    ]
    full = training.checkpointing == "full"
    if adapter is not None and held.task == "qlora":
        lines.append(f"    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing={full})")
    if full:
        reentrant = bool(training.checkpoint_reentrant)
        lines.append(
            f'    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{"use_reentrant": {reentrant}}})'
        )
    if training.checkpointing == "every_k":
        lines += [
            "    layers = model.base_model.layers",
            f"    for i in range(0, len(layers), {training.checkpoint_every or 1}):",
            "        layers[i] = checkpoint_wrapper(layers[i])",
        ]
    if adapter is not None:
        lines += [f"    {line}" for line in lora_lines(adapter)]
        lines += [
            "    model = get_peft_model(model, adapter)",
            "    model.enable_input_require_grads()" if full else "",
        ]
    lines += ["    model.train()", "    return model.to(device)"]
    if held.parallel.sharding == "fsdp" and cards(plan) > 1:
        lines[-1] = "    return model"
    return "\n".join(line for i, line in enumerate(lines) if line or i == 0) + "\n"


def _divide(plan: Plan) -> str:
    held = plan.resolved
    if cards(plan) == 1:
        return ""
    compiled = "    model.compile()\n" if held.runtime.compile else ""
    if held.parallel.sharding == "fsdp":
        return _fully_sharded(plan) + compiled + "    return model\n"
    bucket = "" if held.parallel.bucket_mb is None else f", bucket_cap_mb={whole(held.parallel.bucket_mb)}"
    return f"""
def divide(model, device):
    cards = [device.index] if device.type == "cuda" else None
{compiled}    return DistributedDataParallel(model, device_ids=cards{bucket})
"""


def _fully_sharded(plan: Plan) -> str:
    """One unit a layer and one for the rest; parameters are gathered in the type of the products."""
    held = plan.resolved
    again = held.parallel.reshard_after_forward is not False
    offload = ', "offload_policy": CPUOffloadPolicy()' if offloaded(plan) else ""
    return f"""
def divide(model, device):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=COMPUTE, reduce_dtype=PARAMETERS)
    choice = {{"mesh": mesh, "mp_policy": policy, "reshard_after_forward": {again}{offload}}}
    for block in [m for m in model.modules() if type(m).__name__ in set(model._no_split_modules or ())]:
        fully_shard(block, **choice)
    fully_shard(model, **choice)
"""


def _optimizer(optimizer: Optimizer) -> str:
    name = OPTIMIZERS[optimizer.name, optimizer.paged]
    extra = ""
    if optimizer.name in WITH_IMPLEMENTATION and not optimizer.paged:
        # The foreach form is PyTorch's own choice on a GPU; fused and single are asked for.
        extra = {"fused": ", fused=True", "single": ", foreach=False"}.get(optimizer.implementation or "", "")
    if optimizer.name == "sgd_momentum":
        extra += ", momentum=0.9"
    if not optimizer.in_backward:
        return f"""
def make_optimizer(parameters):
    return {name}(parameters, lr=1e-5{extra})
"""
    return f'''
def step_in_backward(parameters):
    """Each parameter is updated, and its gradient freed, as soon as the gradient is there."""
    for parameter in parameters:
        optimizer = {name}([parameter], lr=1e-5{extra})

        def update(one, optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        parameter.register_post_accumulate_grad_hook(update)
'''


def _loop(plan: Plan) -> str:
    training = plan.resolved.training
    autocast = bool(training.precision.autocast)
    scaled = autocast and training.precision.compute == "fp16"
    inside = training.optimizer.in_backward
    forward = "loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss / ACCUMULATION"
    step = [f"            {forward}"]
    if autocast:
        step = ["            with torch.autocast(device.type, dtype=COMPUTE):", f"                {forward}"]
    step.append("            scaler.scale(loss).backward()" if scaled else "            loss.backward()")
    step_lines = ["        scaler.step(optimizer)", "        scaler.update()"]
    after = step_lines if scaled else ["        optimizer.step()"]
    after.append("        optimizer.zero_grad(set_to_none=True)")
    lines = [
        "",
        f"def train(model, {'' if inside else 'optimizer, '}source, device, steps):",
        *(["    scaler = torch.amp.GradScaler(device.type)"] if scaled else []),
        "    for step in range(steps):",
        "        start = time.perf_counter()",
        "        for _ in range(ACCUMULATION):",
        "            tokens = next(source)",
        *step,
        *([] if inside else after),
        '        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0',
        "        seconds = time.perf_counter() - start",
        '        print(f"step {step}: loss {loss.item() * ACCUMULATION:.4f}, {seconds:.2f} s, peak {peak} bytes")',
    ]
    return "\n".join(lines) + "\n"


def _main(plan: Plan) -> str:
    several, inside = cards(plan) > 1, plan.resolved.training.optimizer.in_backward
    lines = ["", "def main():", "    options = arguments()"]
    if several:
        lines += [
            '    rank = int(os.environ.get("LOCAL_RANK", 0))',
            '    device = torch.device("cuda", rank) if options.device == "cuda" else torch.device(options.device)',
            '    if device.type == "cuda":',
            "        torch.cuda.set_device(device)",
            '    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")',
        ]
    else:
        lines.append("    device = torch.device(options.device)")
    lines.append("    model = build(options, device)")
    lines.append("    vocabulary = model.config.vocab_size")
    if several:
        lines.append("    model = divide(model, device)")
    elif plan.resolved.runtime.compile:
        lines.append("    model.compile()")
    lines.append("    parameters = [p for p in model.parameters() if p.requires_grad]")
    lines.append(
        "    step_in_backward(parameters)" if inside else "    optimizer = make_optimizer(parameters)"
    )
    source = "batches(vocabulary, options.sequence, device)"
    lines.append(f"    train(model, {'' if inside else 'optimizer, '}{source}, device, options.steps)")
    if several:
        lines.append("    dist.destroy_process_group()")
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    main()"])
