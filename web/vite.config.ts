import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const ADMIN = process.env.IOT_MQTT_ADMIN ?? "http://127.0.0.1:18083";

/** Writes each text file packed beside itself: the admin port sends what is there and packs nothing. */
function packed(): Plugin {
  let folder = "";
  return {
    name: "packed",
    apply: "build",
    configResolved: (config) => {
      folder = config.build.outDir;
    },
    closeBundle: () => {
      for (const one of readdirSync(folder, { recursive: true, encoding: "utf-8" })) {
        if (![".js", ".css", ".svg", ".html"].includes(extname(one))) continue;
        const path = join(folder, one);
        const plain = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(plain, { level: 9 }));
        const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
        writeFileSync(`${path}.br`, brotliCompressSync(plain, { params: quality }));
      }
    },
  };
}

export default defineConfig({
  base: "/",
  plugins: [packed()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // No file becomes a data: address, which the policy would have to allow; no preload script, which would be inline.
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: false, chunkSizeWarningLimit: 800 },
  test: { setupFiles: ["tests/setup.ts"] },
  server: { proxy: { "/api": ADMIN, "/health": ADMIN } },
});
