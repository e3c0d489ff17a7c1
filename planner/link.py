"""The share link: a scenario as one short piece of text for a URL, and back.

Layout of version 1: ``1.`` + base64url(3 check bytes + raw deflate of the canonical JSON, with `_DICTIONARY`
as preset dictionary). It holds ids and values, never labels, so a link reads the same in every language. The
dictionary belongs to the version: another dictionary needs another version number.
"""

import base64
import binascii
import json
import re
import zlib
from typing import Any, Final

from planner.checks.codes import make
from planner.checks.words import listed
from planner.issues import Issue, ScenarioError, Severity
from planner.scenario import Scenario, to_document
from planner.validation import parse_scenario

LINK_VERSION: Final = 1
LONGEST_LINK: Final = 32_000
LONGEST_JSON_BYTES: Final = 500_000
MOST_ROUNDS: Final = 40

_CHECK_BYTES: Final = 3
_TEXT: Final = re.compile(r"(\d{1,6})\.([A-Za-z0-9_-]*)")
_PARTS: Final = (
    '"virtual_tokens":20"layers":30"method":"dora""prefix""prompt""ia3""vera""adalora""rslora","modules_to_save":'
    '["embed_tokens","lm_head"],"quantization_aware":{"weights":"int8","activations":"int8"}"loading":{"method":"sharded"'
    '"checkpoint_interval_steps":500}"elastic":{"max_data":8,"min_data":2}"batching":{"max_delay_ms":1,"preferred":[4,8,16]}'
    '"cache_tiers":[{"gib":64,"hit_frac":0.3,"where":"host"}]"autoscale":{"gpu_utilisation_up":0.75,"idle_s_down":300,'
    '"queue_ms_up":200,"step_down":1,"step_up":2}"economics":{"currency":"USD","hosting_usd_per_month":0,'
    '"interest_frac_per_year":0.05,"power_usd_per_kwh":0.12,"purchase_usd":30000,"resale_frac":0.3,"utilisation_frac":0.6}'
    '"length_distribution":{"kind":"lognormal""uniform""list"}"beam_width":1"shared_prefix_tokens":0"prefix_hit_frac":0.0'
    '"requests_per_s":2.0"train_tokens":"epochs":3"links":{"host":"pcie5_x16","inter_node_gbit":400,"intra_node":"nvlink4",'
    '"nvme_gb_per_s":7}"driver_spill":true"host_memory_gib":1024"nvme_gb":4000"margin_frac":0.05'
    '"pipeline_layers":[16,32]"stages":[{"devices":[0,1],"layers":20,"tensor":2}]"bucket_mb":25"data_parallel":"ddp"'
    '"reshard_after_forward":true"virtual_stages":"pipeline_schedule":"interleaved""gpipe""zero_bubble""naive""1f1b"'
    '"offload":{"gradients":"cpu","optimizer":"cpu","parameters":"nvme""none"}"expert_tensor":1"speculative":"mtp""eagle3"'
    '"attention_max_batch_mib":512"mla_mode":3"no_kv_offload":true"pipeline_copies":4"split_mode":"layer""row""tensor_split":'
    '[25,75]"expert_layers":[12,12]"expert_weights":"iq3_k_r4""weights_file_bytes":"host_experts":true"gpu_layers":99'
    '"max_total_tokens":20480"block_size":16"cuda_graph_max_batch":512"prefix_caching":false"kv_cache_v":"q4_0""q8_0"'
    '"iq4_nl""q4_k_m""iq3_k""mxfp4""nvfp4""awq4""gptq8""int4""nf4_dq""fp8":"tensorwise""rowwise""blockwise""mxfp8"'
    '"fp4":"gradient_copy":"fp32""paged":true"in_backward":true"adamw_8bit""adafactor""sgd_momentum""lion_8bit""muon""galore"'
    '"activation_offload":true"checkpoint_modules":["moe_act"]"checkpoint_every":2"checkpoint_partitioned":true'
    '"decoder_sequence_length":128"packing":"padding_free""packed""none""flex""transformer_engine_unfused""fused_linear"'
    '"chunked""fused""selective_attention""selective_op""every_k""kernels":["rms_norm","rope","swiglu","lora_attention",'
    '"lora_mlp","softmax"]"dropout":0.1"engine":"v1""version":"0.19.0"},"torch":"2.4""compile":false'
    '"allocator":"expandable_segments""torchtune""torchtitan""litgpt""megatron_lm""deepspeed""unsloth""sglang""ollama"'
    '"tensorrt_llm""transformers""ik_llama_cpp""mlc_llm""llama_cpp""config":{"architectures":["LlamaForCausalLM"],'
    '"attention_bias":false,"attention_dropout":0.0,"bos_token_id":1,"eos_token_id":2,"first_k_dense_replace":'
    '"layer_types":["full_attention","sliding_attention","linear_attention","model_type":"mistral""qwen2""qwen3_moe"'
    '"mixtral""gemma2""gpt2""deepseek_v3""kv_lora_rank":512,"moe_intermediate_size":"n_routed_experts":"n_shared_experts":'
    '"num_experts":"num_experts_per_tok":8,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,'
    '"rope_scaling":null,"rope_theta":500000.0,"sliding_window":null,"torch_dtype":"bfloat16","transformers_version":'
    '"use_cache":true,"gated_mlp":true,"norm":"layer_norm""position_embedding":"add_bias_linear":true,'
    '"attention_bias":false,"head_dim":128,"hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,'
    '"intermediate_size":14336,"max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama","num_attention_heads":32,'
    '"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"tie_word_embeddings":false,"vocab_size":128256}'
    '"devices_per_node":8,"free_bytes":"memory_bytes":"count":4,"gpu":"generic-24gb""l40s-48gb""h200-sxm-141gb""a100-sxm-40gb"'
    '"rtx-3090-24gb""rtx-4090-24gb""a100-sxm-80gb""mistralai/Mistral-7B-v0.1""deepseek-ai/DeepSeek-V3""Qwen/Qwen3-8B"'
    '"Qwen/Qwen2.5-7B-Instruct""google/gemma-2-9b""meta-llama/Llama-3.1-70B-Instruct"}'
    '{"adapter":{"alpha":16,"base":"nf4","dropout":0.05,"dtype":"fp32","method":"lora","rank":16,"targets":"all_linear"'
    '"targets":["q_proj","k_proj","v_proj","o_proj","gate_proj","up_proj","down_proj"]},"hardware":{"devices":[{"count":8,'
    '"gpu":"h100-sxm-80gb"},{"count":1,"gpu":"a100-sxm-80gb"}],"devices_per_node":8},"model":{"id":"meta-llama/Llama-3.1-8B"},'
    '"name":"","parallel":{"context":1,"data":8,"expert":1,"pipeline":1,"sequence":true,"sharding":"zero3","sharding":"fsdp",'
    '"sharding_degree":8,"tensor":1},"runtime":{"allocator":"default","compile":false,"name":"vllm"},"name":"generic"},'
    '"name":"hf_trainer"},"serving":{"batched_tokens":8192,"cuda_graphs":true,"flash_attention":true,"kv_cache":"fp8",'
    '"max_model_len":8192,"max_sequences":256,"memory_utilization":0.9,"weights":"bf16"},"task":"pretrain","task":"full",'
    '"task":"qlora","task":"lora","task":"serve","training":{"attention":"eager""sdpa""flash","checkpointing":"none""full",'
    '"gradient_accumulation":1,"loss":"standard","micro_batch":1,"optimizer":{"implementation":"foreach""fused""single",'
    '"name":"adamw"},"precision":{"autocast":true,"compute":"bf16","gradients":"fp32","master":"none""fp32",'
    '"optimizer":"fp32","parameters":"bf16""fp16"},"sequence_length":4096},"version":1,"workload":{"concurrency":8,'
    '"output_tokens":256,"prompt_tokens":1024}}'
)
_DICTIONARY: Final = _PARTS.encode("ascii")


def encode(scenario: Scenario) -> str:
    """The link text of a scenario: every field that was set, nothing else.

    Returns:
        Characters that a URL query carries unescaped.

    Raises:
        ScenarioError: Too large for a link (`link_too_long`), which only a huge config can make it.
    """
    document = to_document(scenario)
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zdict=_DICTIONARY)
    packed = packer.compress(plain) + packer.flush()
    text = f"{LINK_VERSION}." + base64.urlsafe_b64encode(_check(plain) + packed).rstrip(b"=").decode("ascii")
    if len(text) > LONGEST_LINK or len(plain) > LONGEST_JSON_BYTES:
        raise ScenarioError((make("link_too_long", "link", given=len(text), allowed=LONGEST_LINK),))
    return text


def decode(text: str) -> tuple[Scenario | None, tuple[Issue, ...]]:
    """The scenario of a link, as far as it can be read; never raises.

    Returns:
        The scenario and nothing, or the scenario and one warning that names the fields left out because they
        are unknown here or hold a bad value, or None and the errors: a broken link, one from a newer version,
        or one that lacks what a question needs.
    """
    plain, issue = _unpack(text)
    if plain is None:
        return None, (issue,) if issue else ()
    try:
        document = json.loads(plain)
    except (ValueError, RecursionError):
        return None, (make("link_broken", "link", reason="not_json"),)
    return tolerant(document)


def _unpack(text: str) -> tuple[bytes | None, Issue | None]:
    if len(text) > LONGEST_LINK:
        return None, make("link_too_long", "link", given=len(text), allowed=LONGEST_LINK)
    match = _TEXT.fullmatch(text)
    if match is None:
        return None, make("link_broken", "link", reason="characters")
    version = int(match[1])
    if version > LINK_VERSION:
        return None, make("link_newer", "link", given=version, allowed=LINK_VERSION)
    if version < 1:
        return None, make("link_broken", "link", reason="version")
    try:
        raw = base64.urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4))
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS, zdict=_DICTIONARY)
        plain = unpacker.decompress(raw[_CHECK_BYTES:], LONGEST_JSON_BYTES)
    except (binascii.Error, zlib.error):
        return None, make("link_broken", "link", reason="damaged")
    if not unpacker.eof:
        size_known = bool(unpacker.unconsumed_tail)
        return None, make("link_broken", "link", reason="too_large" if size_known else "cut_short")
    if raw[:_CHECK_BYTES] != _check(plain):
        return None, make("link_broken", "link", reason="damaged")
    return plain, None


def _check(plain: bytes) -> bytes:
    return zlib.crc32(plain).to_bytes(4, "big")[-_CHECK_BYTES:]


def tolerant(document: Any) -> tuple[Scenario | None, tuple[Issue, ...]]:
    """The scenario of a plain document, fields that cannot be read left out and named in one warning.

    Args:
        document: What a JSON reader returned; fields are taken out of it.

    Returns:
        The scenario with no issue or the warning, or None with the errors that remain.
    """
    dropped: list[str] = []
    issues: tuple[Issue, ...] = ()
    for _ in range(MOST_ROUNDS):
        scenario, issues = parse_scenario(document)
        if scenario is not None:
            return scenario, _dropped(dropped)
        paths = [path for issue in issues if (path := _removable(issue, document))]
        if not paths or len(paths) < sum(issue.severity is Severity.ERROR for issue in issues):
            break
        for path in sorted(set(paths), key=lambda p: [part.zfill(9) for part in p], reverse=True):
            _remove(document, path)
            dropped.append(".".join(path))
    return None, issues


def _dropped(fields: list[str]) -> tuple[Issue, ...]:
    return (make("link_fields_dropped", "link", fields=listed(fields)),) if fields else ()


def _removable(issue: Issue, document: object) -> tuple[str, ...] | None:
    """The path to leave out so that the issue goes away: the field, or the block that lacks one."""
    path = tuple(issue.field.split(".")) if issue.field else ()
    if issue.code == "missing_field":
        path = path[:-1]
    while path and not _holds(document, path):
        path = path[:-1]
    return path if path and path != ("version",) else None


def _holds(document: object, path: tuple[str, ...]) -> bool:
    node = document
    for part in path:
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        else:
            return False
    return True


def _remove(document: Any, path: tuple[str, ...]) -> None:
    node = document
    for part in path[:-1]:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if isinstance(node, list):
        del node[int(path[-1])]
    else:
        del node[path[-1]]
