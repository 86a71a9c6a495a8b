"""The shape of the code itself: size of modules, what the command line imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
FORBIDDEN_NAMES = ("Manager", "Helper", "Base", "Util")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_a_module_is_short_enough_to_read_and_opens_with_its_sentence(module: Path) -> None:
    text = module.read_text(encoding="utf-8")

    sentence = ast.get_docstring(ast.parse(text))

    assert len(text.splitlines()) <= 400, "look for the second noun inside"
    assert sentence, "a module opens with the sentence it must earn"


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_no_class_has_a_name_that_says_it_was_not_understood(module: Path) -> None:
    classes = [
        node.name
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]

    assert not [name for name in classes if name.endswith(FORBIDDEN_NAMES)]
    assert module.name != "utils.py"


def test_the_command_line_answers_without_importing_torch() -> None:
    program = (
        "import sys, argosy.cli.main\n"
        "from typer.testing import CliRunner\n"
        "result = CliRunner().invoke(argosy.cli.main.app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "print(sorted({'torch', 'transformers', 'uvicorn'} & set(sys.modules)))\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert said.stdout.strip() == "[]", said.stderr
