// The uplink into Kafka; tests/system/test_uplink_kafka.py has had a record rejected, and then Kafka hang.
//
//   node kafka.mjs '{"base": …, "name": …, "password": …, "chromium": …, "shots": …, "topic": …, "dead": …}'
import { logIn } from "./login.mjs";
import { run } from "./run.mjs";

const settings = JSON.parse(process.argv[2]);

/** What was rejected, and why, and where it is. */
async function rejectedIsFound({ page, open, topic, dead }) {
  await open("#/uplink", ".tiles .tile");
  const line = page.getByRole("region", { name: "What the data platform rejected last" }).locator("tbody tr").first();
  await line.getByText(topic, { exact: true }).waitFor();
  await line.getByText(dead, { exact: true }).waitFor();
  await line.getByText(/too large/i).waitFor();
}

/** That Kafka hangs stands above all, and which node takes no messages. */
async function hangingIsTold({ page }) {
  await page.locator(".alarms li", { hasText: "the uplink does not take messages" }).waitFor();
  await page.locator("tr", { hasText: "Kafka" }).getByText("takes no messages").waitFor();
}

const pages = [["uplink-kafka", "#/uplink", ".alarms li"]];
await run(settings, [logIn, rejectedIsFound, hangingIsTold], pages);
