import { render } from "preact";
import { findSession, signedIn } from "./core/api.ts";
import { enterByLink } from "./core/login-link.ts";
import { followLocation } from "./core/location.ts";
import { restoreTheme } from "./core/theme.ts";
import { ErrorNote } from "./parts/notice.tsx";
import { Shell } from "./shell/shell.tsx";
import { Entry } from "./shell/sign-in.tsx";
import { CurrentView } from "./shell/views.tsx";
import { signal } from "@preact/signals";

const startError = signal<Error | null>(null);

function App() {
  const who = signedIn.value;
  if (startError.value !== null) {
    return (
      <main class="entry">
        <ErrorNote error={startError.value} onRetry={start} />
      </main>
    );
  }
  if (who === "unknown") return <main class="entry" aria-busy="true" />;
  if (who === null) return <Entry />;
  return (
    <Shell who={who}>
      <CurrentView />
    </Shell>
  );
}

function start(): void {
  startError.value = null;
  enterByLink()
    .then(findSession)
    .catch((error: unknown) => {
      startError.value = error as Error;
    });
}

restoreTheme();
followLocation();
start();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
