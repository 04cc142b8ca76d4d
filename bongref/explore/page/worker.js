// The library in WebAssembly: pyodide, NumPy, autograd and bongref, all from this folder. It takes requests as JSON and no code.

importScripts("pyodide/pyodide.js");

const say = (said) => postMessage({ said });

async function load() {
  say("Python is loading …");
  const base = new URL("pyodide/", location.href).href;
  const pyodide = await loadPyodide({ indexURL: base, packages: [] });
  say("the library is loading …");
  for (const name of ["numpy.tar.gz", "autograd.zip", "bongref.zip"]) {
    const file = await fetch(`packages/${name}`);
    if (!file.ok) throw new Error(`packages/${name}: ${file.status}`);
    const data = await file.arrayBuffer();
    if (name.startsWith("numpy")) unpackNumpy(pyodide, data);
    else pyodide.unpackArchive(data, "zip", { extractDir: "/library" });
  }
  pyodide.runPython("import sys; sys.path[:0] = ['/library', '/numpy/lib/python3.11/site-packages']");
  const answer = pyodide.runPython(`
import json
from bongref.explore import respond
def answer(text):
    return json.dumps(respond(json.loads(text)))
answer`);
  answer("{}"); // what is read once is read now
  return answer;
}

function unpackNumpy(pyodide, data) {
  pyodide.unpackArchive(data, "gztar", { extractDir: "/numpy" });
}

const loaded = load();
loaded.then(() => postMessage({ ready: true }), (error) => postMessage({ failed: String(error.message || error).split("\n").pop() }));
onmessage = async ({ data }) => {
  const answer = await loaded;
  postMessage({ id: data.id, answer: answer(data.request) });
};
