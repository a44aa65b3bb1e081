import { ask, findSession, hintSession } from "../core/api.ts";
import { fieldsOf, useSubmission, type FormFields } from "../core/submit.ts";
import { TextField } from "../parts/field.tsx";
import { ErrorNote } from "../parts/notice.tsx";
import { useLoaded } from "../core/query.ts";
import { useEffect } from "preact/hooks";
import { Logo } from "./logo.tsx";

/** Who is not signed in sees this in place of every page. The address stays, so that the page follows after the sign-in. */
export function Entry() {
  const start = useLoaded<{ readonly first_account: boolean; readonly command: string }>("/start");
  useEffect(() => {
    document.title = "Sign in · Sluice";
  }, []);
  const isFirst = start.data.value?.first_account === true;
  return (
    <main class="entry">
      <section>
        <div class="row">
          <Logo />
          <h1>{isFirst ? "Create the first account" : "Sign in to Sluice"}</h1>
        </div>
        <ErrorNote error={start.error.value} onRetry={() => start.reload()} />
        {isFirst ? <FirstAccount /> : <SignIn command={start.data.value?.command ?? "sluice"} />}
      </section>
    </main>
  );
}

async function enter(name: string | undefined, password: string | undefined): Promise<void> {
  await ask("/login", { method: "POST", body: { name, password } });
  hintSession(true);
  await findSession();
}

interface SignInMethods {
  readonly local_accounts: boolean;
  readonly oidc: { readonly issuer: string; readonly path: string } | null;
}

/** `command` is what comes before a command on the machine of the gateway. */
function SignIn({ command }: { readonly command: string }) {
  const methods = useLoaded<SignInMethods>("/sign-in/methods");
  const { value } = methods.data;
  if (value === null) return <ErrorNote error={methods.error.value} onRetry={() => methods.reload()} />;
  return (
    <>
      {value.oidc === null ? null : (
        <a class="button main" href={providerAddress(value.oidc.path)} onClick={() => hintSession(true)}>
          Sign in with {new URL(value.oidc.issuer).host}
        </a>
      )}
      {value.local_accounts ? <PasswordForm command={command} /> : null}
    </>
  );
}

/** The provider sends the browser back to the page that it came from. */
function providerAddress(path: string): string {
  const place = location.pathname + location.search;
  return place.length > placeCharactersMax ? path : `${path}?return_to=${encodeURIComponent(place)}`;
}

const placeCharactersMax = 500;

function PasswordForm({ command }: { readonly command: string }) {
  const { error, busy, run } = useSubmission(async ({ name, password }: FormFields) => {
    await enter(name, password);
  });
  return (
    <form onSubmit={(event) => run(fieldsOf(event))}>
      <TextField label="Name" name="name" autoComplete="username" required autoFocus />
      <TextField label="Password" name="password" type="password" autoComplete="current-password" required />
      <ErrorNote error={error.value} />
      <button class="button main" disabled={busy.value}>
        Sign in
      </button>
      <p class="small muted">
        Forgotten? On the machine of the gateway, <code>{command} accounts password NAME</code> sets a new one.
      </p>
    </form>
  );
}

function FirstAccount() {
  const { error, busy, run } = useSubmission(async ({ token = "", name, password }: FormFields) => {
    await ask("/bootstrap", { method: "POST", body: { token: token.trim(), name, password } });
    await enter(name, password);
  });
  return (
    <form onSubmit={(event) => run(fieldsOf(event))}>
      <p class="muted">
        This gateway has no account yet. Its start wrote a token into the file <code>bootstrap-token</code> of its data directory, to prove
        that you may read it.
      </p>
      <TextField
        label="Token"
        name="token"
        hint="For example: cat data/bootstrap-token"
        autoComplete="off"
        required
        autoFocus
        error={error.value}
      />
      <TextField label="Name" name="name" autoComplete="username" required error={error.value} />
      <TextField
        label="Password"
        name="password"
        type="password"
        autoComplete="new-password"
        minLength={12}
        hint="At least 12 characters. Three or four unrelated words are good."
        required
        error={error.value}
      />
      <ErrorNote error={error.value} />
      <button class="button main" disabled={busy.value}>
        Create the account
      </button>
    </form>
  );
}
