/** Every text of every page passes here, and what titles and labels of elements say: no page can forget to make it legible. */
import { options } from "preact";
import { legible } from "../core/legible";

/** Attributes that people see or hear. */
const SAID = ["title", "aria-label"];
const before = options.vnode;

options.vnode = (vnode) => {
  // A text is a vnode without a type, and its props are the text.
  const one = vnode as { type: unknown; props: unknown };
  if (typeof one.type === "string") attributes(one.props as Record<string, unknown>);
  else if (one.type === null && typeof one.props === "string") one.props = legible(one.props);
  before?.(vnode);
};

function attributes(props: Record<string, unknown>): void {
  for (const name of SAID) {
    const value = props[name];
    if (typeof value === "string") props[name] = legible(value);
  }
}
