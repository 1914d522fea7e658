// Builds the front end into twinloop/studio/static, with a manifest of what it was built from and what came out.
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const REPOSITORY = dirname(HERE);
const OUT = join(REPOSITORY, "twinloop", "studio", "static");
const MANIFEST = join(OUT, "sources.sha256");
const MOST_BYTES = 1_500_000;
const SOURCES = ["build.mjs", "types.mjs", "package.json", "package-lock.json", "tsconfig.json", "index.html", "public", "src"];

function filesBelow(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).sort().flatMap((name) => filesBelow(join(path, name)));
}

function hashLine(file) {
  const digest = createHash("sha256").update(readFileSync(file)).digest("hex");
  return `${digest}  ${relative(REPOSITORY, file).split(sep).join("/")}`;
}

function writeIndex(metafile) {
  const outputs = Object.entries(metafile.outputs);
  const entry = (source) => outputs.find(([, one]) => one.entryPoint === source)[0];
  const script = entry("src/main.tsx");
  const eager = metafile.outputs[script].imports.filter((one) => one.kind === "import-statement").map((one) => one.path);
  const address = (file) => `/${relative(OUT, join(HERE, file)).split(sep).join("/")}`;
  const head = [
    `<link rel="stylesheet" href="${address(entry("src/style.css"))}">`,
    ...eager.map((file) => `<link rel="modulepreload" href="${address(file)}">`),
    `<script type="module" src="${address(script)}"></script>`,
  ];
  const page = readFileSync(join(HERE, "index.html"), "utf8").replace("    <!-- built files -->", head.map((line) => `    ${line}`).join("\n"));
  writeFileSync(join(OUT, "index.html"), page);
}

// What is built in keeps its licence beside it.
function writeLicences() {
  const { dependencies } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
  const texts = Object.keys(dependencies).sort().map((name) => `${name}\n\n${readFileSync(join(HERE, "node_modules", name, "LICENSE"), "utf8").trim()}\n`);
  writeFileSync(join(OUT, "licenses.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));
}

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
const result = await build({
  absWorkingDir: HERE,
  entryPoints: { main: "src/main.tsx", style: "src/style.css" },
  outdir: relative(HERE, join(OUT, "assets")),
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["chrome109", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  loader: { ".woff2": "file" },
  assetNames: "[name]-[hash]",
  metafile: true,
  logLevel: "warning",
});
writeIndex(result.metafile);
writeLicences();
if (existsSync(join(HERE, "public"))) cpSync(join(HERE, "public"), OUT, { recursive: true });
const built = filesBelow(OUT);
const size = built.reduce((sum, file) => sum + statSync(file).size, 0);
if (size > MOST_BYTES) throw new Error(`the built files take ${size} bytes; expected at most ${MOST_BYTES}`);
const sources = SOURCES.flatMap((name) => filesBelow(join(HERE, name)));
writeFileSync(MANIFEST, [...sources, ...built].map(hashLine).join("\n") + "\n");
console.log(`wrote ${relative(REPOSITORY, OUT)}: ${built.length} files, ${Math.round(size / 1000)} kB`);
