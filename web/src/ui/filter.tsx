/** A filter that is part of the page's address, and asked for when nobody types any more. */
import { useEffect, useRef, useState } from "preact/hooks";
import { place, refine } from "../core/router";

const WAIT = 250;

export function Filter({ name, label }: { name: string; label: string }) {
  const asked = () => place.value.query[name] ?? "";
  // It is typed over what the address says: when that says something else, what was typed is over.
  const [typed, setTyped] = useState({ over: asked(), text: asked() });
  if (typed.over !== asked()) setTyped({ over: asked(), text: asked() });
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (text: string) => {
    const over = asked();
    clearTimeout(timer.current);
    setTyped({ over, text });
    timer.current = setTimeout(() => {
      if (asked() === over && text !== over) refine({ [name]: text });
    }, WAIT);
  };
  return (
    <label>
      <span>{label}</span>
      <input type="search" name={name} value={typed.text} onInput={(event) => type(event.currentTarget.value)} />
    </label>
  );
}
