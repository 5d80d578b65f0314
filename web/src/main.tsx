import { render } from "preact";
import { attend } from "./core/api";
import { begin } from "./core/session";
import { App } from "./ui/app";
import "./ui/legible";
import "./style.css";

for (const doing of ["pointerdown", "keydown", "wheel"])
  addEventListener(doing, attend, { capture: true, passive: true });
render(<App />, document.getElementById("app") as HTMLElement);
void begin();
