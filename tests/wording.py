"""House style of texts and names, counted: ``python -m tests.wording [PATH ...]``.

Every rule counts its breaches by kind of text; `make lint` holds the counts to ``CEILINGS``, which
may only fall. With paths, the breaches in these files and folders are listed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (
    *("accountants", "attacks", "auditor", "reports", "src", "targets"),
    *("benchmarks", "examples", "tests"),
)
PAGES = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "docs/*.md")
CEILINGS: dict[str, int] = {"name": 15}

_PARTICIPLE = (
    r"(?:\w+ed|\w+wn|told|found|said|seen|held|kept|met|made|sent|given|taken|left|chosen)"
)
_UNIT = (
    r"(?:attribute|bit|canary|cell|claim|client|column|coordinate|day|direction|entry|event|file|"
    r"game|item|kind|line|member|message|number|page|pair|parameter|room|round|row|run|sender|side|"
    r"system|target|task|trial|user|value|week|worker|world)"
)
# Pattern of each rule, applied to paragraphs of prose.
RULES = {
    "opening": (
        r"(?:^|(?<=[.;!] ))(?:Of|What|Whatever|Who|Whoever|Which|Where|Wherever)\b[^?]*?[.;!:]"
    ),
    "pronoun": r"^(?:It|That|Those|The same|So many|So much)\b",
    "participle": rf"\b(?:what|who|whoever) (?:is|was|are|were|has been|have been) {_PARTICIPLE}\b",
    "per": rf"\b(?:an?|one|two|three) (?!as\b|of\b|in\b|for\b|to\b|per\b)\w+ an? {_UNIT}\b",
    "not": (
        r"(?<!there )\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more|less|larger|smaller))"
    ),
    "so many": r"\bso (?:many|much|few)\b(?! as\b| that\b)",
    "tell": r"\b(?:told|tells|telling|heard|by luck)\b",
}
# Words of the first sentence of a public docstring.
LONGEST = 25
# Names that say nothing of what they hold; allowed within ten lines.
NAMES = frozenset(
    {
        *("found", "told", "said", "seen", "shown", "held", "one", "other", "each", "left", "most"),
        *("least", "mine", "ours", "theirs", "met", "heard", "asked", "kept"),
    }
)
_SHORT = 10


@dataclass(frozen=True)
class Text:
    """A paragraph of a kind ("docstring", "comment", "message", "page", "report") and its place."""

    kind: str
    place: str
    words: str


def split_paragraphs(text: str) -> Iterator[str]:
    """Prose of a docstring or a page: paragraphs without code, tables, sections and examples."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. ))", text):
        lines = paragraph.strip().splitlines()
        if not lines or lines[0].lstrip().startswith((">>>", "|", "#", "    ")):
            continue
        prose = " ".join(line.strip() for line in lines)
        yield re.sub(r"^(?:[-*]|\d+\.) +", "", prose)


def list_texts(path: Path) -> Iterator[Text]:
    """Texts of a Python file, a page or the table of the reports' words."""
    source = path.read_text(encoding="utf-8")
    place = str(path.relative_to(ROOT))
    if path.suffix != ".py":
        kind = "page" if path.suffix == ".md" else "report"
        for words in _list_strings(tomllib.loads(source)) if path.suffix == ".toml" else [source]:
            yield from (Text(kind, place, prose) for prose in split_paragraphs(words))
        return
    tree = ast.parse(source)
    documented = {node.body[0].lineno for _, node in _list_documented(tree) if node.body}
    for name, node in _list_documented(tree):
        public = not any(part.startswith("_") for part in name.split(".") if part != "__init__")
        for prose in split_paragraphs(ast.get_docstring(node) or ""):
            yield Text("docstring" if public else "comment", f"{place}:{name}", prose)
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.Call(args=arguments)):
                for words in map(ast.unparse, arguments):
                    prose = re.sub(r"^f?['\"]|['\"]$", "", words)
                    yield Text("message", f"{place}:{node.lineno}", prose)
            case ast.Expr(value=ast.Constant(value=str(words))) if node.lineno not in documented:
                for prose in split_paragraphs(words):
                    yield Text("comment", f"{place}:{node.lineno}", prose)
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            block.append(token.string.lstrip("# "))
        elif block and token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            yield Text("comment", f"{place}:{token.start[0]}", " ".join(block))
            block = []


def _list_strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _list_strings(inner)
        case list():
            for inner in value:
                yield from _list_strings(inner)


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def _list_documented(node: _Documented, name: str = "") -> Iterator[tuple[str, _Documented]]:
    yield name, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _list_documented(child, f"{name}.{child.name}".lstrip("."))


def list_breaches(path: Path) -> Iterator[tuple[str, str]]:
    """Rule and kind of each breach in a file, and where and what it is."""
    first = set()
    for text in list_texts(path):
        for rule, pattern in RULES.items():
            for match in re.finditer(pattern, text.words):
                yield f"{rule} in {text.kind}", f"{text.place}: {match[0]}"
        if text.kind == "docstring" and text.place not in first:
            first.add(text.place)
            sentence = re.split(r"[.:;](?= |$)", text.words)[0]
            if len(sentence.split()) > LONGEST:
                yield "long in docstring", f"{text.place}: {sentence}"
    if path.suffix == ".py":
        yield from _check_names(path)


def _check_names(path: Path) -> Iterator[tuple[str, str]]:
    """Names of no meaning: of functions, classes and fields, and of variables of long scope."""
    place = path.relative_to(ROOT)
    for _, node in _list_documented(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module) and node.name.lower().strip("_") in NAMES:
            yield "name", f"{place}:{node.lineno} {node.name}"
        if not isinstance(node, ast.FunctionDef):
            for target in (each.target for each in node.body if isinstance(each, ast.AnnAssign)):
                if ast.unparse(target).strip("_") in NAMES:
                    yield "name", f"{place}:{target.lineno} {ast.unparse(target)}"
            continue
        lines: dict[str, list[int]] = {}
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=name) | ast.arg(arg=name) if name in NAMES:
                    lines.setdefault(name, []).append(inner.lineno)
        for name, used in lines.items():
            if max(used) - min(used) > _SHORT:
                yield "name", f"{place}:{min(used)} {name}"


def _list_files(arguments: list[str]) -> list[Path]:
    pages = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    everything = [*(ROOT / folder for folder in FOLDERS), *pages, ROOT / "reports/say/words.toml"]
    given = [ROOT / argument for argument in arguments] or everything
    return [
        path
        for start in given
        for path in ([start] if start.is_file() else sorted(start.rglob("*.py")))
        if not any(part.is_symlink() for part in (path, *path.parents))
    ]


def main(arguments: list[str]) -> int:
    listed = [breach for path in _list_files(arguments) for breach in list_breaches(path)]
    if arguments:
        print(*(f"{kind}\t{where}" for kind, where in listed), sep="\n")
    counts = Counter(kind for kind, _ in listed)
    for kind, count in sorted(counts.items()):
        print(f"{kind}: {count}, ceiling {CEILINGS.get(kind, 0)}", file=sys.stderr)
    return not arguments and any(counts[kind] > CEILINGS.get(kind, 0) for kind in counts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
