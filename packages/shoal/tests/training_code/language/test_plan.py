"""What the language model needs, said before it is trained, and its data prepared."""

import ast
import importlib.util
from pathlib import Path
from runpy import run_path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from local_kit.runtime import Runtime
from local_kit.tables import table
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError
from tests.repository import CHECKOUT
from tests.training_code.language.jobs import SMALL, Compute, Job

FOLDER = CHECKOUT / "training_code" / "language"
SCRIPT = Path(__file__).with_name("scripts") / "count_numbers.py"
plans = SimpleNamespace(**run_path(str(FOLDER / "plan.py")))
LLAMA_8B = plans.Config(128256, 4096, 14336, 32, 32, 8, tie_word_embeddings=False)
LLAMA_1B = plans.Config(128256, 2048, 8192, 16, 32, 8, tie_word_embeddings=True)


TABLE = table(__file__, "cases.yaml")["plan"]


def kept_selectively(shape: Any) -> int:
    """Return the bytes that torchtitan's selective checkpointing keeps of a layer and a token.

    That is what comes in, every second product of matrices (q, v, gate and down: 9dec370,
    parallelisms/parallelize_llama.py, `_save_list`) and attention's result with its sums.
    """
    shared = shape.hidden_size // shape.num_attention_heads * shape.num_key_value_heads
    numbers = 4 * shape.hidden_size + shared + shape.intermediate_size
    return int(2 * numbers + 4 * shape.num_attention_heads)


@pytest.mark.parametrize("row", TABLE["published"], ids=lambda row: row["table"])
def test_memory_is_within_a_twentieth_of_what_torchtitan_published(row: dict[str, Any]) -> None:
    numbers = plans.Numbers.of("bf16", "fsdp", fused_norm=False)
    kept = {"selective": kept_selectively(LLAMA_8B), "full": 2 * LLAMA_8B.hidden_size}
    again = plans.kept_by_layer(LLAMA_8B, numbers)
    kept_here = kept[row["checkpointing"]]
    parts = plans.memory(LLAMA_8B, numbers, row["gpus"], row["tokens"], kept_here, again)
    counted = sum(parts.values()) - parts["outside PyTorch"]
    assert counted / 2**30 == pytest.approx(row["gib"], rel=0.05)


def answer(**changes: Any) -> dict[str, Any]:
    job = {
        "hyperparameters": {"sharding": "fsdp", "precision": "bf16", "batch-size": 16},
        "channels": ["train", "test"],
        "ranks": 8,
        "ranks_per_node": 8,
        "gpu": "H100",
        "gpu_gib": 80,
        "framework_version": "2.12.1",
        "smddp": False,
    }
    hyperparameters = {**job["hyperparameters"], **changes.pop("hyperparameters", {})}  # type: ignore[dict-item]
    result: dict[str, Any] = plans.plan(job | changes | {"hyperparameters": hyperparameters})
    return result


@pytest.mark.parametrize(("options", "gib"), TABLE["measured"])
def test_memory_is_within_a_twentieth_of_what_was_measured(
    options: dict[str, Any], gib: float
) -> None:
    one = {"ranks": 1, "ranks_per_node": 1, "framework_version": "2.11.0"}
    parts = answer(hyperparameters={"context": 2048, **options}, **one)["memory"]
    counted = sum(parts.values()) - parts["outside PyTorch"]
    assert counted / 2**30 == pytest.approx(gib, rel=0.05)


@pytest.mark.parametrize(("options", "changes", "says"), TABLE["refused"])
def test_what_the_script_would_refuse_is_refused(
    options: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        answer(hyperparameters=options, **changes)


@pytest.mark.parametrize(("options", "smddp"), TABLE["possible"])
def test_what_the_script_can_do_is_not_refused(options: dict[str, Any], smddp: bool) -> None:
    assert answer(hyperparameters=options, smddp=smddp)["memory"]


def test_check_refuses_what_smddp_cannot_do_with_the_line_of_the_file() -> None:
    environment = load_environment("language", CHECKOUT)
    options = environment.training.hyperparameters | {"sharding": "hsdp"}
    training = environment.training.model_copy(update={"hyperparameters": options})
    with pytest.raises(ConfigError) as caught:
        check(environment.model_copy(update={"training": training}), CHECKOUT)
    (line,) = caught.value.lines
    assert line.startswith("environments/language.yaml:")
    assert "training.hyperparameters: sharding hsdp does not go with smddp" in line


@pytest.mark.parametrize(("now", "names"), TABLE["ways_out"])
def test_each_way_out_needs_less_than_those_before(now: dict[str, Any], names: list[str]) -> None:
    needs = answer(hyperparameters=now)
    ways = [answer(hyperparameters=now | change) for change in needs["smaller"]]
    sizes = [sum(each["memory"].values()) for each in (needs, *ways)]
    assert sizes == sorted(set(sizes), reverse=True)
    assert list(needs["smaller"][-1]) == names


def test_defaults_are_those_of_the_script() -> None:
    tree = ast.parse((FOLDER / "pytorch" / "train.py").read_text())
    defaults = {
        call.args[0].value: keyword.value.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
        for keyword in call.keywords
        if keyword.arg == "default" and isinstance(keyword.value, ast.Constant)
    }
    named = {name: value for name, value in plans.DEFAULTS.items() if name not in plans.SWITCHES}
    assert {name: defaults[f"--{name}"] for name in named} == named


@pytest.fixture(scope="module")
def counted(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("counted")
    return runtime.answer(runtime.alone(SCRIPT, folder / "answers.json"), folder)


def test_sizes_are_those_of_the_model(counted: dict[str, Any]) -> None:
    assert counted["weights"] == {"llama 3.1 8B": 8_030_261_248, "llama 3.2 1B": 1_235_814_400}
    assert (LLAMA_8B.weights, LLAMA_1B.weights) == tuple(counted["weights"].values())


@pytest.mark.parametrize(
    ("precision", "sharding"),
    [("bf16", "fsdp"), ("bf16", "ddp"), ("float32", "fsdp"), ("float64", "fsdp")],
)
def test_activations_are_autograds(counted: dict[str, Any], precision: str, sharding: str) -> None:
    shape = plans.Config(**counted["shape"])
    numbers = plans.Numbers.of(precision, sharding, fused_norm=False)  # a CPU has no such kernel
    copies = numbers.computed * shape.layer_weights if numbers.cast else 0
    norms = numbers.computed * 2 * shape.hidden_size if numbers.cast else 0  # are not cast
    expected = plans.kept_by_layer(shape, numbers) * counted["tokens"] + copies - norms
    assert counted["kept by a layer"][f"{precision} {sharding}"] == expected


def test_checkpointing_keeps_what_comes_into_a_layer(counted: dict[str, Any]) -> None:
    width, tokens = counted["shape"]["hidden_size"], counted["tokens"]
    assert counted["kept by a layer"]["checkpointing"] == 2 * width * tokens


def test_ranks_that_share_weights_keep_whole_gradients_between_passes(
    compute: Compute, tmp_path: Path
) -> None:
    options = SMALL | {"accumulation": 2, "steps": 1}
    jobs = [
        Job(tmp_path / "bf16", options | {"sharding": "fsdp", "precision": "bf16"}, 2),
        Job(tmp_path / "float64", options | {"sharding": "hsdp", "shard-size": 2}, 2),
    ]
    for result in compute(*jobs, probe="gradients"):
        assert result.status == 0, result.output
        changes = {"hyperparameters": result.job.options, "ranks": 2, "ranks_per_node": 2}
        memory = answer(**changes)["memory"]
        assert result.bytes_of("kept behind a pass: whole") == {"whole": memory["whole gradients"]}
        assert result.bytes_of("kept behind a pass: last") == {"last": 0}
        assert result.kept.items() <= memory.items()


PREPARE = CHECKOUT / "training_code" / "language" / "prepare.py"


@pytest.fixture
def prepare() -> ModuleType:
    """The script as a module of its own, so that a test may change it."""
    spec = importlib.util.spec_from_file_location("language_prepare", PREPARE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def paragraphs(folder: Path) -> set[str]:
    """Return every paragraph below a folder, without the name that begins it."""
    texts = [file.read_text() for file in folder.iterdir()]
    assert texts
    return {part.partition(": ")[2].strip() for text in texts for part in text.split("\n\n")}


def test_the_documentation_is_the_measured_one_and_the_services_are_apart(
    prepare: ModuleType, tmp_path: Path
) -> None:
    assert prepare.main(["--out", str(tmp_path)]) is None
    assert {file.stem for file in (tmp_path / "test").iterdir()} == set(prepare.TEST)
    assert paragraphs(tmp_path / "train").isdisjoint(paragraphs(tmp_path / "test"))


def test_another_documentation_is_not_written(
    prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "TRAIN", ("sqs",))
    wrong = prepare.main(["--out", str(tmp_path)])
    assert f", not {prepare.SHA256['train']};" in wrong
    assert wrong.endswith("measure again and write the new sums into prepare.py")
    assert list(tmp_path.iterdir()) == []


def test_html_becomes_a_line_for_each_paragraph_and_item(prepare: ModuleType) -> None:
    text = "<p>A <b>bold</b>\n   word.</p><ul> <li><p>&lt;one&gt;</p></li><li>two</li></ul>"
    assert prepare.plain_text(text) == "A bold word.\n<one>\ntwo"
