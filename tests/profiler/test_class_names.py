"""Names that transformers' classes have for what a config says."""

from profiler.class_names import in_class_names
from tests.profiler.scenarios import GPT2


def test_configs_say_what_a_class_would_fill_in_otherwise_and_leave_out_what_it_works_out() -> None:
    latent = {"model_type": "deepseek_v2", "kv_lora_rank": 512}
    assert in_class_names(latent) == {**latent, "q_lora_rank": None}
    assert in_class_names({**latent, "q_lora_rank": 1536})["q_lora_rank"] == 1536
    assert in_class_names({"model_type": "falcon", "head_dim": 64}) == {"model_type": "falcon"}
    assert in_class_names(GPT2) == GPT2


def test_a_name_that_the_class_does_not_know_is_said_in_its_own() -> None:
    assert in_class_names({"model_type": "t5", "intermediate_size": 3072})["d_ff"] == 3072
    assert in_class_names({"model_type": "t5", "intermediate_size": 1, "d_ff": 7})["d_ff"] == 7
    both = in_class_names({"model_type": "whisper", "intermediate_size": 5, "num_attention_heads": 2})
    assert (both["encoder_ffn_dim"], both["decoder_ffn_dim"], both["decoder_attention_heads"]) == (5, 5, 2)
