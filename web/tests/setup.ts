/** What pages ask a browser for as soon as they are loaded. */
const had = { localStorage: { getItem: () => null, setItem: () => {} }, navigator: { languages: ["en"] } };
for (const [name, value] of Object.entries(had))
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
