/**
 * Writes src/generated/api.ts from the OpenAPI document of the server binary that
 * WINDLASS_BINARY names, or from the document that WINDLASS_OPENAPI names (a file or URL).
 *
 * The file is not committed: it is made before every build, so that the client is always
 * compiled against the document of the server beside it.
 */

import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import openapiTS, { astToString } from "openapi-typescript";

const HEADER = "// @generated from the OpenAPI document by `npm run generate`. Do not edit.\n\n";

const document = await load();
const ast = await openapiTS(document, {
  // A member that has a default may be left out of a request.
  defaultNonNullable: false,
});
await mkdir("src/generated", { recursive: true });
await writeFile("src/generated/api.ts", HEADER + astToString(ast));

async function load() {
  const source = process.env.WINDLASS_OPENAPI;
  if (source?.startsWith("http")) {
    return (await fetch(source)).json();
  }
  if (source) {
    return JSON.parse(await readFile(source, "utf8"));
  }
  const binary = process.env.WINDLASS_BINARY;
  if (!binary) {
    throw new Error("set WINDLASS_BINARY to a windlass binary, or WINDLASS_OPENAPI to its document");
  }
  return fromBinary(binary);
}

/** Starts the server on a free port, for as long as its document is read. */
async function fromBinary(binary) {
  const folder = await mkdtemp(join(tmpdir(), "windlass-openapi-"));
  const server = spawn(
    binary,
    ["serve", "--listen", "127.0.0.1:0", "--json", "--data-dir", join(folder, "data")],
    {
      cwd: folder,
      env: { ...process.env, WINDLASS_LOG: "error" },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  try {
    const ended = new Promise((_, reject) => {
      server.on("error", reject);
      server.on("exit", (code) => reject(new Error(`${binary} ended with ${code}`)));
    });
    const first = (async () => {
      for await (const line of createInterface({ input: server.stdout })) {
        return JSON.parse(line).url;
      }
    })();
    const url = await Promise.race([first, ended]);
    ended.catch(() => undefined);
    return await (await fetch(`${url}/api/openapi.json`)).json();
  } finally {
    const gone = new Promise((resolve) => server.once("exit", resolve));
    if (server.exitCode === null && server.kill("SIGTERM")) {
      await gone;
    }
    await rm(folder, { recursive: true, force: true });
  }
}
