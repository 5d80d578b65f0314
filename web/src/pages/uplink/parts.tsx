/** Small parts of the pages of the uplink and the pipeline. */
import type { ComponentChildren } from "preact";

/** What may be wider than the page scrolls by itself, with keys, too. */
export function Over({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div role="group" class="over" tabIndex={0} aria-label={label}>
      {children}
    </div>
  );
}
