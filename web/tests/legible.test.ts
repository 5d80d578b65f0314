import { h, options } from "preact";
import { expect, test } from "vitest";
import { legible, lines } from "../src/core/legible";
import "../src/ui/legible";

test("what cannot be seen, or turns what is beside it, is written out", () => {
  const written = {
    "\u202e7-sserp": "\\u202e7-sserp",
    "press\u200b-7": "press\\u200b-7",
    "pre\u00adss-7": "pre\\u00adss-7",
    "a\u2066b\u2069\u061c\ufeff": "a\\u2066b\\u2069\\u061c\\ufeff",
    "tab\tline\nend\u0000\u007f\u0085": "tab\\u0009line\\u000aend\\u0000\\u007f\\u0085",
    "h\u3164\u115f\u034f\ufe0f\u2028": "h\\u3164\\u115f\\u034f\\ufe0f\\u2028",
    "\u{e0041}": "\\u{e0041}",
    "\ud800x": "\\ud800x",
  };
  for (const [name, shown] of Object.entries(written)) expect(legible(name), shown).toBe(shown);
  for (const plain of ["press-7", "日本", "العربية", "<b>", "é", "1\u202f234,5", "10\u00a0%", "👍", ""])
    expect(legible(plain)).toBe(plain);
});

test("a text of several lines keeps them", () => {
  expect(`${lines("a\n\tb\r\n\u202ec")}`).toBe("a\n\tb\r\n\\u202ec");
});

test("every text of a page is written out, and every attribute that is read to people", () => {
  // As preact makes a vnode of a text.
  const text = { type: null, props: "\u202egnp.exe" };
  options.vnode?.(text as never);
  expect(text.props).toBe("\\u202egnp.exe");
  const kept = { type: null, props: lines("a\nb") };
  options.vnode?.(kept as never);
  expect(`${kept.props}`).toBe("a\nb");
  const { props } = h("input", { title: "a\u200b", "aria-label": "b\u00ad", value: "c\u200b", href: "#/\u200b" });
  expect(props).toEqual({ title: "a\\u200b", "aria-label": "b\\u00ad", value: "c\u200b", href: "#/\u200b" });
});
