/** The list of conversations in the sidebar: loading, searching, and what can be done to one. Knows no messages. */

import { api } from "./api.js";
import { ConversationItem } from "./conversation_item.js";
import { groupByDay } from "./days.js";
import { byId, element } from "./dom.js";
import { anchorPanel, moveByArrows } from "./panel.js";
import { toast } from "./toast.js";

const SEARCH_DELAY_MS = 200;

/** @typedef {import("./api.js").ConversationRow} Row */

export class ConversationList {
  /** @type {Row[]} */
  #rows = [];
  #next = null;
  #query = "";
  /** What the rows are the answer to; null before the first one. @type {string | null} */
  #answered = null;
  #asked = 0;
  /** Conversation -> what was changed here, until the server has it. @type {Map<string, Partial<Row>>} */
  #changes = new Map();
  /** Deleted, but it can still be undone. @type {Set<string>} */
  #deleted = new Set();
  /** @type {string | null} */
  #current = null;
  /** @type {Map<string, ConversationItem>} as rendered last */
  #items = new Map();
  /** Whose menu is open; the item itself may be rendered anew meanwhile. */
  #menuOwner = "";
  #isRenaming = false;
  /** Conversation -> its first words, until it has a title. @type {Map<string, string>} */
  #firstWords = new Map();

  /** @param {{onOpen: (id: string) => void, onDeleted: (id: string) => void}} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    this.container = byId("conversations");
    this.more = byId("more-conversations");
    this.menu = byId("conversation-menu");
    this.search = byId("search");
    this.#query = this.search.value.trim(); // typed before this ran, or put back by the browser
    this.more.addEventListener("click", () => this.#loadMore().catch((error) => toast(error.message)));
    this.#listenToSearch();
    this.#listenToMenu();
  }

  /** @param {string | null} id the conversation open on the page */
  select(id) {
    this.#current = id;
    this.#render();
  }

  async refresh() {
    const asked = ++this.#asked;
    const query = this.#query;
    const page = await api.conversations({ query });
    if (asked !== this.#asked) return; // a later request is on its way
    const oldest = page.conversations.findLast((row) => !row.is_pinned)?.updated_at;
    const ids = new Set(page.conversations.map((row) => row.id));
    const isOlder = (row) => page.next && oldest && row.updated_at < oldest && !ids.has(row.id);
    const kept = query === this.#answered ? this.#rows.filter(isOlder) : [];
    this.#answered = query;
    if (!kept.length) this.#next = page.next;
    const changed = page.conversations.map((row) => ({ ...row, ...this.#changes.get(row.id) }));
    this.#rows = [...changed, ...kept];
    this.#render();
  }

  /** @param {string} id @param {Partial<Row>} changes shown at once; the server is told elsewhere */
  change(id, changes) {
    this.#rows = this.#rows.map((row) => (row.id === id ? { ...row, ...changes } : row));
    this.#render();
  }

  /** @param {string} id @param {string} text the first message of a conversation without a title */
  noteFirstWords(id, text) {
    this.#firstWords.set(id, text);
  }

  /** @param {Row} row a conversation that has just begun */
  add(row) {
    this.#rows = [row, ...this.#rows.filter((other) => other.id !== row.id)];
    this.#render();
  }

  async #loadMore() {
    const [query, before] = [this.#answered, this.#next];
    const page = await api.conversations({ query, before });
    if (query !== this.#answered || before !== this.#next) return; // other rows are shown by now
    this.#next = page.next;
    const ids = new Set(this.#rows.map((row) => row.id));
    this.#rows = [...this.#rows, ...page.conversations.filter((row) => !ids.has(row.id))];
    this.#render();
  }

  #listenToSearch() {
    let timer = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#search(this.search.value.trim()), SEARCH_DELAY_MS);
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.search.value) return;
      event.stopPropagation();
      this.search.value = "";
      this.#search("");
    });
  }

  /** @param {string} query */
  #search(query) {
    this.#query = query;
    this.refresh().catch((error) => toast(error.message));
  }

  #render() {
    if (this.#isRenaming) return;
    const focused = document.activeElement?.closest("[data-conversation]")?.dataset.conversation;
    const rows = this.#rows.filter((row) => !this.#deleted.has(row.id));
    this.#items.clear();
    this.container.replaceChildren(...groupByDay(rows).map((group) => this.#group(group)));
    if (!rows.length) this.container.append(element("p", { class: "sidebar-empty" }, this.#emptySentence()));
    this.more.hidden = !this.#next;
    if (focused) this.container.querySelector(`[data-conversation="${focused}"] a`)?.focus();
  }

  #emptySentence() {
    if (this.#answered === null) return ""; // nobody knows yet
    return this.#answered ? "No conversation matches." : "Your conversations will be here.";
  }

  /** @param {[string, Row[]]} group */
  #group([heading, rows]) {
    const items = rows.map((row) => this.#item(row).node);
    return element(
      "section",
      { class: "sidebar-group" },
      element("h2", {}, heading),
      element("ul", {}, ...items),
    );
  }

  /** @param {Row} row */
  #item(row) {
    const title = row.title || this.#firstWords.get(row.id) || "New conversation";
    const item = new ConversationItem({ ...row, title }, row.id === this.#current, {
      onOpen: (id) => this.handlers.onOpen(id),
      onMenu: (id) => (this.#menuOwner = id),
      menu: this.menu,
    });
    this.#items.set(row.id, item);
    return item;
  }

  #listenToMenu() {
    anchorPanel(this.menu, () => this.#items.get(this.#menuOwner)?.menuButton ?? this.container, () => this.#prepareMenu());
    moveByArrows(this.menu);
    this.menu.addEventListener("click", (event) => {
      const chosen = event.target.closest("a, [data-command]");
      const item = this.#items.get(this.#menuOwner);
      if (!chosen || !item) return;
      this.menu.hidePopover();
      this.#perform(chosen.dataset.command, item);
    });
  }

  #prepareMenu() {
    const row = this.#items.get(this.#menuOwner)?.row;
    if (!row) return;
    for (const link of this.menu.querySelectorAll("a")) {
      link.href = `/chat/conversations/${row.id}/export?format=${link.dataset.format}`;
    }
    this.menu.querySelector('[data-command="pin"] span').textContent = row.is_pinned ? "Unpin" : "Pin";
  }

  /** @param {string | undefined} command none: a link, which goes its own way @param {ConversationItem} item */
  #perform(command, item) {
    if (command === "rename") this.#rename(item);
    if (command === "pin") this.#update(item.row.id, { is_pinned: !item.row.is_pinned });
    if (command === "delete") this.#delete(item.row);
  }

  /** @param {ConversationItem} item */
  async #rename(item) {
    this.#isRenaming = true;
    const title = await item.askTitle();
    this.#isRenaming = false;
    if (title && title !== item.row.title) await this.#update(item.row.id, { title });
    else this.#render();
  }

  /** @param {string} id @param {Partial<Row>} changes */
  async #update(id, changes) {
    const all = { ...this.#changes.get(id), ...changes };
    this.#changes.set(id, all);
    this.change(id, changes);
    try {
      await api.changeConversation(id, changes);
    } catch (error) {
      toast(error.message);
    }
    if (this.#changes.get(id) === all) this.#changes.delete(id);
    await this.refresh();
  }

  /** The server hears of it when undoing is no longer offered. @param {Row} row */
  #delete(row) {
    this.#deleted.add(row.id);
    this.#render();
    this.handlers.onDeleted(row.id);
    toast("Conversation deleted", {
      action: "Undo",
      onAction: () => {
        this.#deleted.delete(row.id);
        this.#render();
      },
      onGone: () => api.deleteConversation(row.id).catch((error) => this.#onDeleteFailed(row, error)),
    });
  }

  /** @param {Row} row @param {import("./api.js").ApiError} error */
  #onDeleteFailed(row, error) {
    if (error.status === 404) return;
    this.#deleted.delete(row.id);
    this.#render();
    toast(error.message);
  }
}
