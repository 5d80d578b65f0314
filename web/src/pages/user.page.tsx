/** One user of the grid: what is kept of him, what he may do, and who he would be let in as. */
import { api, path } from "../core/api";
import { sentence, t } from "../core/i18n";
import { useLive } from "../core/live";
import { go, href } from "../core/router";
import { Action } from "../ui/action";
import { ProblemNote } from "../ui/notes";
import { Facts, Head, Panel } from "../ui/parts";
import type { Page } from ".";
import { LoginForm, MayForm } from "./access/asking";
import { limitsLine } from "./access/limits";
import type { User } from "./access/types";
import { ChangeUser } from "./access/user";
import { Enabled, proofOf } from "./users.page";

function OneUser({ name = "" }: Record<string, string>) {
  const live = useLive<User>(path("users", name), {}, 3000);
  const user = live.data;
  return (
    <>
      <Head title={t("user.title")} of={name}>
        {user && (
          <>
            <ChangeUser user={user} done={live.refresh} />
            <Able user={user} done={live.refresh} />
            <Action
              role="admin"
              danger
              label={t("user.delete")}
              question={sentence("user.delete_question", { name })}
              run={() => api.delete(path("users", name))}
              done={() => go(["users"])}
            />
          </>
        )}
      </Head>
      <ProblemNote problem={live.problem} />
      <div class="panels">
        {user && (
          <Panel title={t("user.about")}>
            <Facts
              of={[
                [t("users.state"), <Enabled key="state" user={user} />],
                [t("users.proof"), proofOf(user)],
                [
                  t("users.groups"),
                  <span key="groups" class="mono">
                    {user.groups.join(", ") || "–"}
                  </span>,
                ],
                [
                  t("users.client_ids"),
                  <span key="ids" class="mono">
                    {user.client_ids.join(", ") || t("users.any")}
                  </span>,
                ],
                [t("limits.title"), limitsLine(user.limits) || "–"],
                [
                  t("user.clients"),
                  <a key="clients" href={href(["clients"], { user: name })}>
                    {t("user.see_clients")}
                  </a>,
                ],
              ]}
            />
          </Panel>
        )}
        <MayForm key={`may ${name}`} user={name} />
        <LoginForm key={`login ${name}`} user={name} />
      </div>
    </>
  );
}

function Able({ user, done }: { user: User; done: () => void }) {
  const { name, enabled, version } = user;
  return (
    <Action
      role="admin"
      danger={enabled}
      label={t(enabled ? "user.disable" : "user.enable")}
      question={sentence(enabled ? "user.disable_question" : "user.enable_question", { name })}
      run={() => api.post(path("users", name), { enabled: !enabled, version })}
      done={done}
    />
  );
}

export default { path: "users/:name", title: "user.title", role: "admin", view: OneUser } satisfies Page;
