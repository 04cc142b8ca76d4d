// What pyodide needs to run the library: the packages, and a function that this build of NumPy expects. Used by the worker and under Node.

globalThis.addLibrary = (pyodide, numpy, archives) => {
  // NumPy asks for a C backtrace before it reuses a temporary array of 256 kB or more; 0 frames means that it does not reuse it
  pyodide._module.mergeLibSymbols({ backtrace: () => 0 }, "bongref");
  pyodide.unpackArchive(numpy, "gztar", { extractDir: "/numpy" });
  for (const data of archives) pyodide.unpackArchive(data, "zip", { extractDir: "/library" });
  pyodide.runPython("import sys; sys.path[:0] = ['/library', '/numpy/lib/python3.11/site-packages']");
};
