/** The way to the page of limits, for who met one or may not use a model. What holds is the server's business. */

import { element } from "./dom.js";

const PAGE = "/limits/";
const WORDS = {
  rate_limit_exceeded: "See your limits",
  insufficient_quota: "See your limits",
  model_not_found: "See which models you may use",
};

/** @param {{code?: string}} error @returns {HTMLElement | null} null where that page does not help */
export function limitsLink({ code = "" }) {
  return code in WORDS ? element("a", { href: PAGE }, WORDS[code]) : null;
}
