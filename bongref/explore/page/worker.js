// The library in WebAssembly: pyodide, NumPy, autograd and bongref, all from this folder. It takes requests as JSON and no code.

importScripts("pyodide/pyodide.js", "python.js");

const say = (said) => postMessage({ said });
const reason = (error) => String(error.message || error).trim().split("\n").pop();

async function read(name) {
  const file = await fetch(`packages/${name}`);
  if (!file.ok) throw new Error(`packages/${name}: ${file.status}`);
  return file.arrayBuffer();
}

async function load() {
  say("Python is loading …");
  const files = Promise.all(["numpy.tar.gz", "autograd.zip", "bongref.zip"].map(read));
  const pyodide = await loadPyodide({ indexURL: new URL("pyodide/", location.href).href, packages: [] });
  say("the library is loading …");
  const [numpy, ...archives] = await files;
  addLibrary(pyodide, numpy, archives);
  const answer = pyodide.runPython(`
import json
from bongref.explore import respond
def answer(text):
    return json.dumps(respond(json.loads(text)))
answer`);
  answer('{"t": 1}'); // what is read once is read now
  return answer;
}

const loaded = load();
loaded.then(() => postMessage({ ready: true }), (error) => postMessage({ failed: `Python did not load: ${reason(error)}` }));
onmessage = async ({ data }) => {
  const answer = await loaded;
  try {
    postMessage({ id: data.id, answer: answer(data.request) });
  } catch (error) {
    postMessage({ id: data.id, failed: `Python stopped: ${reason(error)}; load the page again` });
  }
};
