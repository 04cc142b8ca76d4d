// How the page reaches bongref.explore.respond: a server on loopback, or the library itself in a Web Worker (WebAssembly).

const kind = document.querySelector("meta[name=transport]").content;

function server() {
  return {
    first: async () => null,
    ready: Promise.resolve("the library runs on this machine"),
    ask: async (request) => {
      const answer = await fetch("respond", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(request),
      });
      return answer.json();
    },
  };
}

function wasm(say) {
  const worker = new Worker("worker.js");
  const waiting = new Map();
  let next = 0;
  const ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.said) say(data.said);
      else if (data.ready) resolve("the library runs in this page");
      else if (!data.id) reject(new Error(data.failed));
      else {
        const [done, failed] = waiting.get(data.id);
        waiting.delete(data.id);
        if (data.failed) failed(new Error(data.failed));
        else done(JSON.parse(data.answer));
      }
    };
    worker.onerror = (event) => reject(new Error(event.message || "the worker failed"));
  });
  return {
    first: async () => (await fetch("first.json")).json(), // computed when the page was built, drawn while Python loads
    ready,
    ask: async (request) => {
      await ready;
      return new Promise((done, failed) => {
        waiting.set((next += 1), [done, failed]);
        worker.postMessage({ id: next, request: JSON.stringify(request) });
      });
    },
  };
}

// a copy that was built where the packages could not be fetched: the first picture, and how to get the rest
function none() {
  const error = () => Promise.reject(new Error("this copy was built without WebAssembly; run `bongref explore`"));
  const ready = error();
  ready.catch(() => {});
  return { first: async () => (await fetch("first.json")).json(), ready, ask: error };
}

export const transport = (say) => ({ server, wasm, none })[kind](say);
