/** The way to the page of limits, for who met one. What the limits are is the server's business. */

import { element } from "./dom.js";

const PAGE = "/limits/";
const CODES = new Set(["rate_limit_exceeded", "insufficient_quota"]);

/** @param {{code?: string}} error @returns {HTMLElement | null} null where it was no limit */
export function limitsLink({ code = "" }) {
  return CODES.has(code) ? element("a", { href: PAGE }, "See your limits") : null;
}
