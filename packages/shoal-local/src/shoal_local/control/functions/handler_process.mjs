// The process of a Lambda function in Node.js: reads invocations as JSON lines from one pipe and answers on another, as
// handler_process.py does. Every runtime of Node.js is the one that shoal-local brings.
import dns from "node:dns";
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import { createRequire, registerHooks } from "node:module";
import net from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const MARK = "\0end-of-invocation";
const [requests, answers] = process.argv.slice(2, 4).map(Number);
const libraries = [import.meta.url, pathToFileURL(path.join(process.argv[4], "functions.mjs")).href];
const endpoint = new URL(process.env.AWS_ENDPOINT_URL);
const require = createRequire(import.meta.url);

// AWS's runtimes have the AWS SDK; here it is what is installed above this file, or in the Python environment.
registerHooks({
  resolve(specifier, context, next) {
    try {
      return next(specifier, context);
    } catch (error) {
      if (!specifier.startsWith("@") || libraries.includes(context.parentURL)) throw error;
      for (const library of libraries) {
        try {
          return { url: pathToFileURL(createRequire(library).resolve(specifier)).href, shortCircuit: true };
        } catch {}
      }
      if (specifier.startsWith("@aws-sdk/"))
        error.message += `\nAWS's runtimes contain it; here, run \`npm install --prefix ${process.argv[4]} ${specifier}\``;
      throw error;
    }
  },
});

// The AWS SDK puts a bucket's name before the host's, and not every system knows the names below localhost.
const lookup = dns.lookup;
dns.lookup = (host, ...rest) => lookup(host.endsWith(".localhost") ? "localhost" : host, ...rest);

// CDK's handlers take the scheme and the port of CloudFormation's ResponseURL for granted.
const requestByTls = https.request;
https.request = (options, ...rest) =>
  options?.hostname === endpoint.hostname
    ? http.request({ ...options, port: endpoint.port }, ...rest)
    : requestByTls(options, ...rest);

function failure(errorType, errorMessage, trace = []) {
  return { errorType, errorMessage, trace };
}

async function load() {
  const [file, name] = process.env._HANDLER.split(/\.(?=[^.]+$)/);
  const stem = path.join(process.env.LAMBDA_TASK_ROOT, file);
  const found = [".js", ".mjs", ".cjs"].map((ending) => stem + ending).find((each) => fs.existsSync(each));
  if (!found) throw failure("Runtime.ImportModuleError", `Error: Cannot find module '${file}'`);
  const module = found.endsWith(".mjs") ? await import(pathToFileURL(found)) : require(found);
  if (typeof module[name] !== "function")
    throw failure("Runtime.HandlerNotFound", `${process.env._HANDLER} is undefined or not exported`);
  return module[name];
}

function described(error) {
  if (error?.errorType) return error;
  const kind = error?.code?.endsWith("MODULE_NOT_FOUND") ? "Runtime.ImportModuleError" : error?.name;
  return failure(kind ?? typeof error, String(error?.message ?? error), String(error?.stack ?? "").split("\n"));
}

function contextOf({ request_id, function_arn, deadline_ms }) {
  return {
    awsRequestId: request_id,
    callbackWaitsForEmptyEventLoop: true,
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: "$LATEST",
    getRemainingTimeInMillis: () => Math.max(deadline_ms - Date.now(), 0),
    invokedFunctionArn: function_arn,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
  };
}

function called(handler, event, context) {
  return new Promise((resolve, reject) => {
    const callback = (error, value) => (error ? reject(error) : resolve(value));
    const returned = handler(event, context, callback);
    if (typeof returned?.then === "function") returned.then(resolve, reject);
    else if (handler.length < 3) resolve(null);
  });
}

async function outcomeOf(handler, invocation) {
  try {
    const value = await called(await handler, invocation.event, contextOf(invocation));
    return { payload: JSON.stringify(value) ?? "null" };
  } catch (error) {
    const shown = described(error);
    console.log(`ERROR\tInvoke Error\t${JSON.stringify(shown)}`);
    return { error: shown };
  }
}

function say(message) {
  fs.writeSync(answers, `${JSON.stringify(message)}\n`);
}

const handler = load();
await handler.catch(() => {}); // every invocation is answered with why it cannot be loaded
say({ ready: true });
for await (const line of createInterface({ input: new net.Socket({ fd: requests, writable: false }) })) {
  const invocation = JSON.parse(line);
  const outcome = await outcomeOf(handler, invocation);
  const memory = /VmHWM:\s*(\d+)/.exec(fs.readFileSync("/proc/self/status", "ascii"));
  process.stdout.write(`${MARK} ${invocation.request_id}\n`);
  const max_memory_kib = Number(memory?.[1] ?? process.resourceUsage().maxRSS);
  say({ ...outcome, max_memory_kib, request_id: invocation.request_id });
}
process.exit(0);
