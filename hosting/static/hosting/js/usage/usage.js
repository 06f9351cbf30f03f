// The usage pages: draws what the server has put into the page, and follows a changed choice at once.
import { Board } from "../../admin/plots.js";

const history = JSON.parse(document.getElementById("history").textContent);
new Board(document.getElementById("plots")).draw(history);

const filters = document.querySelector("[data-filters]");
filters.addEventListener("change", () => filters.requestSubmit());
