/** One command: what it says, and each of its states. */
import { path } from "../core/api";
import { number, time } from "../core/format";
import { t } from "../core/i18n";
import { lines } from "../core/legible";
import { useLive } from "../core/live";
import { Empty } from "../ui/notes";
import { Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { Watched } from "./devices/command";
import { TargetLink } from "./devices/parts";
import type { CommandWithBody } from "./devices/types";

function OneCommand({ id = "" }: Record<string, string>) {
  const live = useLive<CommandWithBody>(path("commands", id), {}, 5000);
  const command = live.data;
  return (
    <>
      <Head title={t("command.title")} of={id} />
      <div class="panels">
        <Panel title={t("command.states")}>
          <Watched id={id} />
        </Panel>
        {command && (
          <Panel title={t("device.about")}>
            <Facts
              of={[
                [t("commands.target"), <TargetLink key="target" target={command.target} />],
                [t("commands.sender"), command.sender || "–"],
                [t("commands.accepted"), time(command.accepted_at)],
                [t("commands.deadline"), time(command.deadline)],
                [t("commands.attempts"), number(command.attempts)],
              ]}
            />
            <h3>{t("commands.body")}</h3>
            {command.body_base64 === undefined ? (
              <Empty text={t("commands.for_operators")} />
            ) : (
              <p class="said">{lines(command.body ?? command.body_base64)}</p>
            )}
          </Panel>
        )}
      </div>
    </>
  );
}

export default { path: "commands/:id", title: "command.title", view: OneCommand } satisfies Page;
