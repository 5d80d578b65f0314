// Lighthouse's scores of pages of a running node, as somebody who has logged in sees them:
//
//   npm install --no-save lighthouse@13.5.0
//   node tests/browser/lighthouse.mjs '{"base": …, "name": …, "password": …, "chromium": …}'
//
// It is no dependency: a hundred packages for a figure that is looked at now and then. Ends with 1 where one is below 95.
import { launch } from "chrome-launcher";
import lighthouse from "lighthouse";
import puppeteer from "puppeteer-core";

const LEAST = 95;
const PAGES = ["#/", "#/clients", "#/topics", "#/retained"];
const CATEGORIES = ["performance", "accessibility", "best-practices"];
/** As Lighthouse's own preset: a line of 10 Mbit/s, and this machine as it is. A phone is four times slower. */
const DESKTOP = {
  formFactor: "desktop",
  screenEmulation: { mobile: false, width: 1350, height: 940, deviceScaleFactor: 1, disabled: false },
  throttling: { rttMs: 40, throughputKbps: 10_240, cpuSlowdownMultiplier: 1 },
};
const { base, name, password, chromium } = JSON.parse(process.argv[2]);
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu"];
const chrome = await launch({ chromePath: chromium, chromeFlags: flags });
let worst = 100;
try {
  await logIn();
  for (const kind of [DESKTOP, { formFactor: "mobile" }]) {
    for (const address of PAGES) {
      const found = await lighthouse(`${base}/${address}`, {
        port: chrome.port,
        disableStorageReset: true,
        onlyCategories: CATEGORIES,
        ...kind,
      });
      const scores = Object.values(found.lhr.categories).map((one) => [one.id, Math.round(100 * one.score)]);
      worst = Math.min(worst, ...scores.map(([, score]) => score));
      console.log(kind.formFactor, address, ...scores.map((pair) => pair.join(" ")));
    }
  }
} finally {
  await chrome.kill();
}
process.exit(worst < LEAST ? 1 : 0);

async function logIn() {
  const browser = await puppeteer.connect({ browserURL: `http://127.0.0.1:${chrome.port}` });
  const page = await browser.newPage();
  await page.goto(base);
  await page.waitForSelector("input[name=name]");
  await page.type("input[name=name]", name);
  await page.type("input[name=password]", password);
  await page.click("button[type=submit]");
  await page.waitForSelector(".tiles .tile");
  await page.close();
  await browser.disconnect();
}
