// A model's benchmarks over time: draws what the server has put into the page.
import { byId } from "./dom.js";
import { Board } from "./plots.js";

new Board(byId("plots")).draw(JSON.parse(byId("history").textContent));
