r"""The numbers that LaTeX prints, as a check of those that `ledger_from_tex.py` derives.

    python validation/printed_numbers.py PATH_TO_TEX

The source is one file that holds all files of the paper, each after a line `%% file: NAME`. They
are taken apart, compiled with pdflatex (Debian: texlive-latex-extra, texlive-science), and the
numbers are read from what LaTeX itself writes: the labels and the table of contents in the .aux
file, and a line in the log for each equation number that is typeset. The conference's style file
and fonts, which do not number anything, are replaced by empty ones. The result goes to
`printed_numbers.json`; `tests/test_ledger.py` compares it with the ledger.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).resolve().with_suffix(".json")
STUBS = {
    "neurips_2024.sty": r"\ProvidesPackage{neurips_2024}\DeclareOption{final}{}"
    r"\ProcessOptions\RequirePackage{natbib}"
    r"\newenvironment{ack}{\section*{Acknowledgments}}{}",
    "dsfont.sty": r"\ProvidesPackage{dsfont}\newcommand{\mathds}[1]{\mathbf{#1}}",
}
# each equation number that is typeset goes to the log, with the number of the line that ends its
# environment
HOOK = r"""
\makeatletter\let\realmaketag\maketag@@@
\def\maketag@@@#1{\ifmeasuring@\else\typeout{PRINTED \theequation}\fi\realmaketag{#1}}\makeatother
\setkeys{Gin}{draft}
\begin{document}"""


def compiled(tex: str, folder: Path) -> tuple[str, str]:
    """(.aux, .log) of the third run of pdflatex."""
    parts = re.split(r"^%% file: (.*)\n", tex, flags=re.MULTILINE)
    files = dict(zip(parts[1::2], parts[2::2], strict=True))
    main = next(iter(files))
    files["main.tex"] = (
        files[main]
        .replace(r"\begin{document}", HOOK, 1)
        .replace("{microtype}", "[expansion=false]{microtype}", 1)
    )
    files["main.bbl"] = files[main.replace(".tex", ".bbl")]
    for name, content in {**files, **STUBS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    for _ in range(3):  # errors about the figures, which are not here, are passed over
        subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "main.tex"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    return (folder / "main.aux").read_text(errors="replace"), (folder / "main.log").read_text(
        errors="replace"
    )


def main(path: str) -> None:
    """Compile, read, write."""
    with tempfile.TemporaryDirectory() as folder:
        aux, log = compiled(Path(path).read_text(encoding="utf-8"), Path(folder))
    found = re.findall(r"\\newlabel\{([^@}]*)\}\{\{([^}]*)\}", aux)
    kept = {label: number for label, number in found if not label.startswith(("fig:", "ft:"))}
    out = {
        "engine": log.split(" (preloaded", 1)[0].strip(),
        "sections": re.findall(r"contentsline \{(?:sub)*section\}\{\\numberline \{([^}]*)\}", aux),
        "equations": sorted({int(n) for n in re.findall(r"PRINTED (\d+)", log)})[-1],
        "labels": kept,
    }
    OUT.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    print(
        f"{len(kept)} labels, {out['equations']} equations, {len(out['sections'])} "
        f"sections to {OUT.name}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
