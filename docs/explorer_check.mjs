// bongref check bongref.conformance:Reference in WebAssembly under Node:  node explorer_check.mjs FOLDER BONGREF.zip [argument ...]
// FOLDER is what docs/explorer_build.py makes. Called by `python docs/explorer_build.py OUT --check`.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, library, ...rest] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide", "pyodide.mjs")));
const read = (path) => new Uint8Array(readFileSync(path));
process.on("uncaughtException", (error) => {
  console.error(error.message); // without the line of pyodide that it came through, which is a megabyte
  process.exit(1);
});
const pyodide = await loadPyodide({ indexURL: join(folder, "pyodide") + "/", packages: [] });
await import(pathToFileURL(join(folder, "python.js")));
const packages = (name) => read(join(folder, "packages", name));
addLibrary(pyodide, packages("numpy.tar.gz"), [packages("autograd.zip"), read(library)]);
pyodide.globals.set("arguments", JSON.stringify(rest));
const status = pyodide.runPython(`
import sys, json
import numpy
from bongref.cli import main
print(f"Python {sys.version.split()[0]} on {sys.platform}, NumPy {numpy.__version__}")
assert sys.platform == "emscripten" and "scipy" not in sys.modules
large = numpy.ones(10**6)
assert numpy.sum(large * large + large) == 2 * 10**6  # temporaries of more than 256 kB
main(["check", "bongref.conformance:Reference", "--quiet", "--no-diagnosis", *json.loads(arguments)])
`);
process.exit(status);
