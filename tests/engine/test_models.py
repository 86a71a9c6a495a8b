"""The job's model, whatever it is made of, and its parameters as one vector."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from argosy.core.errors import SpecError
from argosy.core.job import Model, ModelFromClass, ModelFromConfig, ModelFromFolder
from argosy.engine import architectures, models

SMALL = {
    "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 48,
}  # fmt: skip
LLAMA = ModelFromConfig(config=SMALL)

CODE = """
from torch import nn


class Bigram(nn.Module):
    def __init__(self, vocabulary, width=8):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.out(self.table(tokens))


class Pooled(Bigram):
    def forward(self, tokens):
        return super().forward(tokens).mean(1)


class Silent(Bigram):
    def forward(self, tokens):
        return {"loss": 1.0}


class Clumsy(Bigram):
    def forward(self, tokens):
        return self.out(tokens)


class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(300, 100)

    def forward(self, tokens):
        return {"logits": self.table(tokens)}


def number():
    return 3


def broken():
    raise RuntimeError("no luck")
"""


@pytest.fixture
def own(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A module of the user's own in the job's folder; each test has another name for it."""
    name = "own_" + str(abs(hash(request.node.name)))
    (tmp_path / f"{name}.py").write_text(CODE, encoding="utf-8")
    return name


def build(model: Model, root: Path = Path(), vocabulary: int = 257) -> nn.Module:
    torch.manual_seed(7)
    return models.build(model, vocabulary, root=root)


def test_a_config_makes_a_model_with_the_tokenizer_s_vocabulary() -> None:
    module = build(LLAMA)

    # by hand: embeddings and head 2 x 257 x 32, four projections 32 x 32, three 32 x 48, norms 3 x 32
    assert models.size(module) == 2 * 257 * 32 + 4 * 32 * 32 + 3 * 32 * 48 + 3 * 32
    assert models.table(module)[0] == ("model.embed_tokens.weight", [257, 32])
    assert models.count(LLAMA, 257, root=Path()) == models.size(module)


def test_the_loss_of_an_untrained_model_is_that_of_guessing() -> None:
    tokens = torch.randint(0, 257, (4, 33), generator=torch.Generator().manual_seed(1))

    loss = models.loss(build(LLAMA), tokens)

    assert loss.item() == pytest.approx(math.log(257), abs=0.15)


def test_the_loss_is_the_mean_over_next_tokens(tmp_path: Path, own: str) -> None:
    module = build(ModelFromClass(target=f"{own}:Bigram"), tmp_path)
    tokens = torch.tensor([[1, 2, 3]])

    logits = models.logits_of(module, tokens[:, :-1])
    by_hand = -(
        torch.log_softmax(logits[0, 0], 0)[2].item() + torch.log_softmax(logits[0, 1], 0)[3].item()
    )

    assert models.loss(module, tokens).item() == pytest.approx(by_hand / 2, rel=1e-5)


def test_the_flat_vector_goes_out_and_in(tmp_path: Path) -> None:
    module = build(LLAMA)
    vector = models.flat(module)

    models.load_flat(module, vector + np.float32(1))

    assert vector.dtype == np.float32
    np.testing.assert_array_equal(models.flat(module), vector + np.float32(1))
    name, shape = models.table(module)[1]
    start = 257 * 32
    np.testing.assert_array_equal(
        dict(module.named_parameters())[name].detach().numpy().ravel(),
        (vector + np.float32(1))[start : start + shape[0] * shape[1]],
    )


def test_a_read_only_vector_can_be_loaded_and_narrow_parameters_round_it() -> None:
    module = build(LLAMA).bfloat16()
    vector = np.full(models.size(module), 1.001, np.float32)
    vector.flags.writeable = False

    models.load_flat(module, vector)

    assert set(models.flat(module)) == {np.float32(1.0)}


def test_tied_parameters_stand_once() -> None:
    module = build(ModelFromConfig(config=SMALL | {"tie_word_embeddings": True}))

    assert models.size(module) == 257 * 32 + 4 * 32 * 32 + 3 * 32 * 48 + 3 * 32
    models.load_flat(module, np.zeros(models.size(module), np.float32))
    assert not module.lm_head.weight.detach().any()  # type: ignore[union-attr,operator]


def test_a_described_model_is_built_again_without_its_folder(tmp_path: Path) -> None:
    module = build(ModelFromConfig(config=SMALL | {"rms_norm_eps": 0.5}))
    described = models.described(module)

    again = models.build(
        ModelFromFolder(folder="elsewhere"), 257, root=tmp_path, config=described, weights=False
    )

    assert models.table(again) == models.table(module)
    assert models.described(again) == described


def test_an_architecture_whose_names_break_the_rule_is_found() -> None:
    gpt2 = {"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
    module = build(ModelFromConfig(config=gpt2))

    assert type(module).__name__ == "GPT2LMHeadModel"
    with pytest.raises(SpecError, match="reads 32 tokens at most"):
        models.check(module, 257, 64)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "expected model_type"),
        ({"model_type": "lama"}, "did you mean llama"),
        ({"model_type": "zzzzzzzz"}, "for example llama"),
        (SMALL | {"hiden_size": 3}, "did you mean hidden_size"),
        (SMALL | {"zzzzzzzzzz": 3}, "has no setting 'zzzzzzzzzz'"),
        (SMALL | {"vocab_size": 100}, "vocab_size is 100, the tokenizer has 257 tokens"),
        (SMALL | {"num_attention_heads": 5}, "no model can be made of this configuration"),
        (SMALL | {"hidden_act": "magic"}, "no model can be made of this configuration"),
    ],
)
def test_a_config_that_makes_no_model_is_refused(config: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as refusal:
        build(ModelFromConfig(config=config))

    assert said in str(refusal.value)
    assert refusal.value.where == "model.config"


def test_pretrained_weights_are_taken_from_a_folder(tmp_path: Path) -> None:
    module = build(LLAMA)
    module.save_pretrained(tmp_path / "mine")  # type: ignore[operator]

    loaded = build(ModelFromFolder(folder="mine"), tmp_path)

    np.testing.assert_array_equal(models.flat(loaded), models.flat(module))
    assert all(parameter.dtype == torch.float32 for parameter in loaded.parameters())
    assert models.count(ModelFromFolder(folder="mine"), 257, root=tmp_path) == models.size(module)


def test_a_bare_config_json_starts_from_random_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(SMALL | {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}),
        encoding="utf-8",
    )

    module = build(ModelFromFolder(folder="."), tmp_path)

    assert models.table(module) == models.table(build(LLAMA))
    assert next(module.parameters()).dtype == torch.float32


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"config\.json cannot be read"):
        build(ModelFromFolder(folder="nothing"), tmp_path)

    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(SpecError, match=r"config\.json is not JSON"):
        build(ModelFromFolder(folder="."), tmp_path)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL), encoding="utf-8")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")

    with pytest.raises(SpecError, match="pickles"):
        build(ModelFromFolder(folder="."), tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    build(LLAMA).save_pretrained(tmp_path)  # type: ignore[operator]
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))

    deeper = json.dumps(config | {"num_hidden_layers": 2})
    (tmp_path / "config.json").write_text(deeper, encoding="utf-8")
    with pytest.raises(SpecError, match=r"lack 9 parameters of the model, first model\.layers\.1"):
        build(ModelFromFolder(folder="."), tmp_path)

    (tmp_path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(SpecError):
        build(ModelFromFolder(folder="."), tmp_path)


def test_a_class_of_the_user_is_given_the_vocabulary(tmp_path: Path, own: str) -> None:
    model = ModelFromClass(target=f"{own}:Bigram", arguments={"width": 4})
    module = build(model, tmp_path)

    models.check(module, 257, 16)

    assert models.table(module) == [("table.weight", [257, 4]), ("out.weight", [257, 4])]
    assert models.described(module) == ""
    assert models.count(model, 257, root=tmp_path) == 2 * 257 * 4


def test_logits_in_a_dictionary_are_found(tmp_path: Path, own: str) -> None:
    module = build(ModelFromClass(target=f"{own}:Fixed"), tmp_path)

    assert models.logits_of(module, torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 100)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("Bigram", "expected module:Class"),
        ("{own}:Trigram", "no Trigram in own_"),
        ("nowhere:Bigram", "there is no nowhere.py in"),
        ("{own}:number", "made a int, expected a torch.nn.Module"),
        ("{own}:broken", "broken() fails: no luck"),
    ],
)
def test_a_class_that_cannot_be_made_is_refused(
    tmp_path: Path, own: str, target: str, said: str
) -> None:
    with pytest.raises(SpecError) as refusal:
        build(ModelFromClass(target=target.format(own=own)), tmp_path)

    assert said in str(refusal.value)


def test_a_module_that_fails_or_lacks_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own_wrong.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(SpecError, match="own_wrong cannot be imported: division by zero"):
        build(ModelFromClass(target="own_wrong:X"), tmp_path)

    (tmp_path / "own_needy.py").write_text("import not_installed\n", encoding="utf-8")
    with pytest.raises(SpecError, match="own_needy itself imports not_installed"):
        build(ModelFromClass(target="own_needy:X"), tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Pooled", "logits of shape [1, 257] for tokens of shape [1, 16], expected [1, 16, "),
        ("Silent", "the model returned dict, expected logits"),
        ("Clumsy", "the model fails on a sequence of 16 tokens"),
        ("Fixed", "the model tells 100 tokens apart, the tokenizer 257"),
    ],
)
def test_a_class_whose_forward_is_wrong_is_refused(
    tmp_path: Path, own: str, name: str, said: str
) -> None:
    module = build(ModelFromClass(target=f"{own}:{name}"), tmp_path)
    module.train()

    with pytest.raises(SpecError) as refusal:
        models.check(module, 257, 16)

    assert said in str(refusal.value)
    assert module.training


def test_what_takes_anything_takes_nothing_in_particular() -> None:
    assert architectures._takes(type("Odd", (), {"__signature__": 3})) == set()


def test_a_message_that_goes_on_below_a_colon_is_said_whole() -> None:
    wrong = ValueError(
        "Validation error for field 'hidden_size':\n\n   expected int, got str\nmore"
    )

    assert (
        architectures.said(wrong)
        == "Validation error for field 'hidden_size': expected int, got str"
    )
    assert architectures.said(ValueError("one\ntwo")) == "one"
    assert architectures.said(ValueError()) == "ValueError"


def test_a_wrong_model_is_told_with_the_line_of_its_section() -> None:
    config: dict[str, object] = {"model_type": "llama", "hidden_size": "large"}

    with pytest.raises(SpecError) as refused, models.written_at("mine/job.yaml:4"):
        models.build(ModelFromConfig(config=config), 257, root=Path())

    assert refused.value.where == "mine/job.yaml:4"
    assert refused.value.what.startswith("model.config: no model can be made")
    assert not refused.value.what.endswith(":")


def test_without_a_line_a_wrong_model_is_told_as_it_was() -> None:
    with pytest.raises(SpecError) as refused, models.written_at(""):
        raise SpecError("no", where="model.config")

    assert (refused.value.where, refused.value.what) == ("model.config", "no")
