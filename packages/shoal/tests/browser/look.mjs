// Opens pages one after the other, and prints what a test asks of each as a line of JSON.
// Standard input: {"pages": [{"url", "width", "dark", "keys", "evaluate", "picture"}, ...]}
// Exit code 3: no browser starts here. Any other failure has Node.js's own.
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";
import { readFileSync } from "node:fs";

const { pages } = JSON.parse(readFileSync(0, "utf8"));
const browser = await puppeteer.launch({
  args: chromium.args,
  executablePath: await chromium.executablePath(),
  headless: "shell",
}).catch((error) => {
  console.error(error.message.replace(/\s+/g, " "));
  process.exit(3);
});
try {
  for (const asked of pages) {
    const page = await browser.newPage();
    const said = [];
    page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => said.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("request", (request) => { if (!request.url().startsWith(asked.url)) said.push(`request: ${request.url()}`); });
    await page.setViewport({ width: asked.width, height: 900 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: asked.dark ? "dark" : "light" }]);
    const started = Date.now();
    await page.goto(asked.url, { waitUntil: "load" });
    const loaded = Date.now() - started;
    for (const key of asked.keys ?? []) await page.keyboard.press(key);
    const found = await page.evaluate(asked.evaluate);
    if (asked.picture) await page.screenshot({ path: asked.picture, fullPage: true });
    console.log(JSON.stringify({ found, said, loaded }));
    await page.close();
  }
} finally {
  await browser.close();
}
