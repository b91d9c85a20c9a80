/** Server-sent events: bytes into messages (HTML Standard, section 9.2.6). Must not know HTTP. */

export interface Message {
  readonly kind: string;
  readonly data: string;
}

/** The messages of a stream. A half message at its end is dropped: it comes again. */
export async function* messages(body: AsyncIterable<Uint8Array>): AsyncGenerator<Message> {
  let kind = "";
  let data: string[] = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) {
        yield { kind: kind || "message", data: data.join("\n") };
      }
      kind = "";
      data = [];
      continue;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    // A line that begins with a colon is a sign of life.
    if (name === "event") {
      kind = value;
    } else if (name === "data") {
      data.push(value);
    }
  }
}

async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      yield part.endsWith("\r") ? part.slice(0, -1) : part;
    }
  }
}
