// Writes src/types.ts from the API's OpenAPI document, read from standard input: one type per model.
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { schemas = {} } = JSON.parse(Buffer.concat(chunks).toString("utf8")).components ?? {};

const nameOf = (name) => name.replace(/[^A-Za-z0-9]+/g, "_").replace(/_$/, "");
const union = (types) => [...new Set(types)].join(" | ");
const quoted = (key) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? key : JSON.stringify(key));
const grouped = (type) => (type.includes(" | ") ? `(${type})` : type);

function objectType(schema) {
  const { properties, additionalProperties } = schema;
  if (!properties) return `Record<string, ${additionalProperties && additionalProperties !== true ? typeOf(additionalProperties) : "unknown"}>`;
  const required = new Set(schema.required ?? []);
  // An answer always has the fields that have a default; a request may leave them out.
  const fields = Object.entries(properties).map(([key, one]) => `${quoted(key)}${required.has(key) || "default" in one ? "" : "?"}: ${typeOf(one)}`);
  return `{ ${fields.join("; ")} }`;
}

function typeOf(schema) {
  if (schema.$ref) return nameOf(schema.$ref.split("/").pop());
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return union(several.map(typeOf));
  if (schema.allOf) return schema.allOf.map(typeOf).join(" & ");
  if (schema.type === "array") {
    if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
    return `${grouped(typeOf(schema.items ?? {}))}[]`;
  }
  if (schema.type === "object") return objectType(schema);
  return { string: "string", integer: "number", number: "number", boolean: "boolean", null: "null" }[schema.type] ?? "unknown";
}

function declare([name, schema]) {
  const comment = schema.description ? `/** ${schema.description.split("\n\n")[0].replaceAll("\n", " ").replaceAll("*/", "")} */\n` : "";
  const type = typeOf(schema);
  if (!type.startsWith("{ ")) return `${comment}export type ${nameOf(name)} = ${type};`;
  const fields = Object.entries(schema.properties).map(([key, one]) => {
    const optional = (schema.required ?? []).includes(key) || "default" in one ? "" : "?";
    return `  ${quoted(key)}${optional}: ${typeOf(one)};`;
  });
  return `${comment}export interface ${nameOf(name)} {\n${fields.join("\n")}\n}`;
}

const declarations = Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)).map(declare);
const head = "// Generated from the API's OpenAPI document by `make studio`; do not edit.";
writeFileSync(join(dirname(fileURLToPath(import.meta.url)), "src", "types.ts"), `${[head, ...declarations].join("\n\n")}\n`);
