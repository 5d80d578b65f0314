/** A filter that is part of the page's address, and asked for when nobody types any more. */
import { useEffect, useState } from "preact/hooks";
import { place, refine } from "../core/router";

const WAIT = 250;

export function Filter({ name, label }: { name: string; label: string }) {
  const [text, setText] = useState(place.value.query[name] ?? "");
  useEffect(() => {
    const timer = setTimeout(() => {
      if ((place.value.query[name] ?? "") !== text) refine({ [name]: text });
    }, WAIT);
    return () => clearTimeout(timer);
  }, [name, text]);
  return (
    <label>
      <span>{label}</span>
      <input type="search" name={name} value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}
