import { render } from "preact";
import { begin } from "./core/session";
import { App } from "./ui/app";
import "./ui/legible";
import "./style.css";

render(<App />, document.getElementById("app") as HTMLElement);
void begin();
