/**
 * Shapes of parameters: each is a JSON Schema for the server, a check for the worker and a type
 * for the compiler, so that the three cannot drift apart.
 */

import { ParametersInvalid } from "./errors.js";

export type JsonSchema = { readonly [key: string]: unknown };

/**
 * What an action declares of its parameters. `shape.object` makes one; a library such as zod
 * fits too: `{ schema: z.toJSONSchema(Order), parse: (value) => Order.parse(value) }`.
 */
export interface Parameters<T> {
  readonly schema: JsonSchema;
  parse(value: unknown): T;
}

/** Notes a problem with its place. */
type Note = (place: string, problem: string) => void;

export class Shape<T> implements Parameters<T> {
  constructor(
    readonly schema: JsonSchema,
    /** Checks a value and notes every problem; what it returns counts if there is none. */
    readonly check: (value: unknown, place: string, note: Note) => T,
    readonly isOptional = false,
  ) {}

  parse(value: unknown): T {
    const problems: string[] = [];
    const result = this.check(value, "$", (place, problem) => problems.push(`${place}: ${problem}`));
    if (problems.length > 0) {
      throw new ParametersInvalid(problems);
    }
    return result;
  }

  /** The same shape with a sentence for people. */
  describe(description: string): Shape<T> {
    return new Shape({ ...this.schema, description }, this.check, this.isOptional);
  }
}

export type Infer<S> = S extends Parameters<infer T> ? T : never;

type OptionalKeys<M> = {
  [K in keyof M]: M[K] extends OptionalShape<unknown> ? K : never;
}[keyof M];

export type ObjectOf<M> = {
  [K in Exclude<keyof M, OptionalKeys<M>>]: Infer<M[K]>;
} & { [K in OptionalKeys<M>]?: Infer<M[K]> };

/** A member that may be missing. */
export interface OptionalShape<T> extends Shape<T> {
  readonly isOptional: true;
}

function scalar<T>(type: string, name: string, fits: (value: unknown) => boolean): Shape<T> {
  return new Shape<T>({ type }, (value, place, note) => {
    if (!fits(value)) {
      note(place, `expected ${name}, got ${nameOf(value)}`);
    }
    return value as T;
  });
}

function object<M extends Record<string, Shape<unknown>>>(members: M): Shape<ObjectOf<M>> {
  const entries = Object.entries(members);
  const schema = {
    type: "object",
    properties: Object.fromEntries(entries.map(([name, member]) => [name, member.schema])),
    required: entries.filter(([, member]) => !member.isOptional).map(([name]) => name),
    additionalProperties: false,
  };
  return new Shape(schema, (value, place, note) => {
    if (!isObject(value)) {
      note(place, `expected an object, got ${nameOf(value)}`);
      return {} as ObjectOf<M>;
    }
    for (const key of Object.keys(value)) {
      if (!Object.hasOwn(members, key)) {
        const known = entries.map(([name]) => name).join(", ") || "none";
        note(`${place}.${key}`, `unknown key; the known keys are: ${known}`);
      }
    }
    const result: [string, unknown][] = [];
    for (const [name, member] of entries) {
      if (Object.hasOwn(value, name)) {
        result.push([name, member.check(value[name], `${place}.${name}`, note)]);
      } else if (!member.isOptional) {
        note(`${place}.${name}`, "required and missing");
      }
    }
    return Object.fromEntries(result) as ObjectOf<M>;
  });
}

function list<T>(item: Shape<T>): Shape<T[]> {
  return new Shape({ type: "array", items: item.schema }, (value, place, note) => {
    if (!Array.isArray(value)) {
      note(place, `expected an array, got ${nameOf(value)}`);
      return [];
    }
    return value.map((each, index) => item.check(each, `${place}[${index}]`, note));
  });
}

function record<T>(item: Shape<T>): Shape<Record<string, T>> {
  const schema = { type: "object", additionalProperties: item.schema };
  return new Shape(schema, (value, place, note) => {
    if (!isObject(value)) {
      note(place, `expected an object, got ${nameOf(value)}`);
      return {};
    }
    const entries = Object.entries(value);
    return Object.fromEntries(
      entries.map(([key, each]) => [key, item.check(each, `${place}.${key}`, note)]),
    );
  });
}

function oneOf<const T extends readonly (string | number | boolean | null)[]>(
  ...values: T
): Shape<T[number]> {
  return new Shape<T[number]>({ enum: values }, (value, place, note) => {
    if (!values.includes(value as T[number])) {
      const names = values.map((each) => JSON.stringify(each)).join(", ");
      note(place, `expected one of ${names}, got ${nameOf(value)}`);
    }
    return value as T[number];
  });
}

function nullable<T>(inner: Shape<T>): Shape<T | null> {
  const schema = { anyOf: [inner.schema, { type: "null" }] };
  return new Shape<T | null>(schema, (value, place, note) =>
    value === null ? null : inner.check(value, place, note),
  );
}

function optional<T>(inner: Shape<T>): OptionalShape<T> {
  return new Shape(inner.schema, inner.check, true) as OptionalShape<T>;
}

/** A JSON Schema that the server alone checks, with the type that it stands for. */
function schema<T>(given: JsonSchema): Shape<T> {
  return new Shape<T>(given, (value) => value as T);
}

export const shape = {
  text: (): Shape<string> => scalar("string", "text", (value) => typeof value === "string"),
  number: (): Shape<number> => scalar("number", "a number", (value) => typeof value === "number"),
  integer: (): Shape<number> => scalar("integer", "an integer", Number.isInteger),
  boolean: (): Shape<boolean> =>
    scalar("boolean", "a boolean", (value) => typeof value === "boolean"),
  any: (): Shape<unknown> => schema<unknown>({}),
  object,
  list,
  record,
  oneOf,
  nullable,
  optional,
  schema,
} as const;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function nameOf(value: unknown): string {
  if (value === null || value === undefined) {
    return "null";
  }
  if (Array.isArray(value)) {
    return "an array";
  }
  const names: Record<string, string> = { object: "an object", string: "text", number: "a number" };
  return names[typeof value] ?? `a ${typeof value}`;
}
