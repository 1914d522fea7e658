import { render } from "preact";
import { Shell } from "./shell";
import { startTheme } from "./theme";

startTheme();
const place = document.getElementById("app");
if (place) render(<Shell />, place);
