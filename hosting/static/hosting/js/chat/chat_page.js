/** Brings the parts of the page together: what the person does becomes a request, what arrives becomes paint. */

import { api, goToSignIn } from "./api.js";
import { Announcer } from "./announcer.js";
import { Composer } from "./composer.js";
import { ConnectionNotice } from "./connection_notice.js";
import { ConversationList } from "./conversation_list.js";
import { byId } from "./dom.js";
import { Drafts } from "./drafts.js";
import { limitsLink } from "./limits.js";
import { MessageIds } from "./message_ids.js";
import { ModelPicker } from "./model_picker.js";
import { OpenConversation } from "./open_conversation.js";
import { Painter } from "./painter.js";
import { ScrollKeeper } from "./scroll.js";
import { END_SENTENCES, callsQuestion, stateSentence } from "./sentences.js";
import { Settings } from "./settings.js";
import { listenToShortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { ChatSocket } from "./socket.js";
import { Thread } from "./thread.js";
import { ToolPicker } from "./tool_picker.js";
import { toast } from "./toast.js";

const HINT_DELAY_MS = 150;
const LOAD_AGAIN_MS = 3000;
const LONGEST_FIRST_WORDS = 60;

/** @typedef {import("./api.js").Message} Message */

export class ChatPage {
  /** @type {OpenConversation} */
  #conversation;
  #drafts = new Drafts(byId("composer").dataset.person);
  #ids = new MessageIds();
  #painter = new Painter();
  #announcer = new Announcer(byId("announcer"));
  #connection = new ConnectionNotice(() => this.#onHint(this.#conversation.id));
  #hintTimer = 0;
  #spokenPhase = "";
  #askedQuestion = "";

  constructor() {
    this.thread = new Thread(byId("thread"), {
      onRegenerate: (message) => this.#regenerate(message),
      onEdit: (message, said) => this.#send(said, message.parent),
      onShowVersion: (id) => this.#showVersion(id),
      onDecide: (call, decision) => this.#decide(call, decision),
      onGoOn: (calls) => this.#try(this.#conversation.goOn(calls)),
    });
    this.scroll = new ScrollKeeper(byId("scroller"), byId("thread"), byId("jump"));
    this.sidebar = new Sidebar();
    this.settings = new Settings({ onSystemPrompt: (text) => this.#keepSystemPrompt(text) });
    this.tools = new ToolPicker({ onChange: (servers) => this.#keepToolServers(servers) });
    this.list = new ConversationList({
      onOpen: (id) => this.#go(id),
      onDeleted: (id) => id === this.#conversation.id && this.#go(null),
    });
    this.composer = new Composer(this.#drafts, {
      onSend: (said) => this.#send(said, this.#conversation.leaf),
      onStop: () => this.#try(this.#conversation.stop()),
      onEditLast: () => this.#editLast(),
    });
    this.socket = this.#connect();
    this.#open(conversationInAddress());
    this.picker = new ModelPicker({ onChange: (model, isByPerson) => this.#onModel(model, isByPerson) });
    this.#listen();
    this.#try(this.list.refresh());
  }

  #connect() {
    return new ChatSocket("/ws/chat", {
      onEvent: (generation, seq, event) => this.#conversation.onEvent(generation, event),
      onLost: (generation) => this.#conversation.onLost(generation),
      onHint: (conversation) => this.#onHint(conversation),
      onConnection: (state) => this.#connection.note(state),
      onSignedOut: goToSignIn,
    });
  }

  #listen() {
    for (const button of document.querySelectorAll("[data-new-chat]")) {
      button.addEventListener("click", (event) => {
        event.preventDefault();
        this.#go(null);
      });
    }
    for (const example of document.querySelectorAll("[data-example]")) {
      example.addEventListener("click", () => this.#send({ content: example.textContent.trim(), images: [] }, null));
    }
    addEventListener("popstate", () => this.#open(conversationInAddress()));
    addEventListener("pagehide", () => {
      this.settings.leave();
      this.#rememberPlace();
    });
    const help = byId("help");
    byId("help-button").addEventListener("click", () => help.showModal());
    listenToShortcuts({
      stop: () => this.#conversation.isBusy && this.#try(this.#conversation.stop()),
      newChat: () => this.#go(null),
      search: () => {
        this.sidebar.open();
        byId("search").focus();
      },
      write: () => this.composer.focus(),
      sidebar: () => this.sidebar.toggle(),
      help: () => help.showModal(),
    });
  }

  /** @param {string | null} id */
  #go(id) {
    const address = id ? `/c/${id}` : "/";
    if (address !== location.pathname) history.pushState(null, "", address);
    this.sidebar.closeDrawer();
    this.#open(id);
  }

  /** What is not there takes no place in the history: the way back would end at it. */
  #goFromGone() {
    history.replaceState(null, "", "/");
    this.#open(null);
    toast("This conversation no longer exists.");
  }

  /** @param {string | null} id */
  async #open(id) {
    if (this.#conversation) {
      this.settings.leave();
      this.#rememberPlace();
      this.#conversation.leave();
      this.composer.stopWaiting();
    }
    const conversation = new OpenConversation(id, {
      socket: this.socket,
      onChange: () => conversation === this.#conversation && this.#show(),
      onProgress: (...progress) => conversation === this.#conversation && this.#onProgress(...progress),
    });
    this.#conversation = conversation;
    this.composer.showNotice("");
    if (!this.composer.isWaiting) this.composer.giveBack(this.#drafts.take(id));
    this.settings.systemPrompt = id ? "" : this.#drafts.systemPrompt;
    this.tools.show(id ? [] : this.#drafts.toolServers);
    byId("scroller").setAttribute("aria-busy", String(Boolean(id)));
    this.#show();
    this.composer.focusUnlessTouched();
    if (id) await this.#load(conversation);
  }

  /** @param {OpenConversation} conversation */
  async #load(conversation) {
    try {
      await conversation.fetch();
    } catch (error) {
      if (conversation === this.#conversation) this.#onLoadFailed(conversation, error);
      return;
    }
    if (conversation !== this.#conversation) return;
    byId("scroller").setAttribute("aria-busy", "false");
    this.composer.showNotice("");
    this.settings.systemPrompt = conversation.details?.system_prompt ?? "";
    this.tools.show(conversation.details?.tool_servers ?? []);
    this.picker.show(conversation.details?.model ?? null);
    this.scroll.restore(conversation.id);
  }

  /** @param {OpenConversation} conversation @param {import("./api.js").ApiError} error */
  #onLoadFailed(conversation, error) {
    if (error.status === 404) return this.#goFromGone();
    this.composer.showNotice(`This conversation is not loaded yet, trying again: ${error.message}`);
    return setTimeout(() => conversation === this.#conversation && this.#load(conversation), LOAD_AGAIN_MS);
  }

  #show() {
    const { path, details, isBusy, tree, id } = this.#conversation;
    byId("empty").hidden = path.length > 0 || id !== null;
    this.thread.show(path, (message, index) => ({
      versions: tree.versions(message),
      answer: message.role === "assistant" ? this.#conversation.answerOf(message) : undefined,
      modelName: this.picker?.displayName(message.model) ?? "",
      isBusy,
      hasCallsBelow: path[index + 1]?.role === "tool",
      isLast: message === path.at(-1),
    }));
    this.#announceCalls();
    const firstWords = path[0]?.content.slice(0, LONGEST_FIRST_WORDS) ?? "";
    if (id && !details?.title && firstWords) this.list.noteFirstWords(id, firstWords);
    const title = details?.title || firstWords;
    byId("title").textContent = title;
    document.title = title ? `${title} · Hearth` : "Hearth";
    this.composer.showRunning(isBusy);
    this.composer.attachments.showPath(path);
    this.list.select(id);
    this.#showReady();
  }

  /** Not before it is known where the thread ends and which models there are. */
  #showReady() {
    const { id, details } = this.#conversation;
    this.composer.showReady((id === null || details !== null) && Boolean(this.picker?.wasAsked));
  }

  /** @param {import("./api.js").Said} said @param {string | null} parent */
  async #send(said, parent) {
    const conversation = this.#conversation;
    const fault = this.composer.faultOf(said);
    if (fault) return this.#onSendFailed(conversation, said, new Error(fault));
    const isNew = conversation.id === null;
    const { systemPrompt } = this.settings;
    const toolServers = this.tools.chosen;
    const message = {
      conversation: conversation.id,
      parent,
      ...said,
      ...this.#choice(),
      ...(isNew && systemPrompt ? { system_prompt: systemPrompt } : {}),
      ...(isNew && toolServers.length ? { tool_servers: toolServers } : {}),
    };
    if (isNew) Object.assign(this.#drafts, { systemPrompt: "", toolServers: [] });
    const sent = conversation.send({ id: this.#ids.of(message), ...message });
    this.scroll.toEnd();
    this.composer.focusUnlessTouched();
    try {
      await sent;
    } catch (error) {
      if (isNew) Object.assign(this.#drafts, { systemPrompt, toolServers });
      return this.#onSendFailed(conversation, said, error);
    }
    this.#ids.forget(message);
    if (isNew) this.#onConversationBegun(conversation);
    return this.list.change(conversation.id, { is_generating: true });
  }

  /** @param {OpenConversation} conversation */
  #onConversationBegun({ id, details }) {
    this.list.add({ ...details, id, updated_at: new Date().toISOString(), is_generating: true });
    if (id !== this.#conversation.id) return;
    history.replaceState(null, "", `/c/${id}`);
    this.list.select(id);
  }

  /** The text goes back to where it was written; if that was left, it waits there. */
  #onSendFailed({ id }, said, error) {
    if (id !== this.#conversation.id) {
      this.#drafts.keep(id, said);
      return toast(`A message was not sent: ${error.message}`, { action: "Go back", onAction: () => this.#go(id) });
    }
    this.composer.giveBack(said);
    this.composer.showNotice(error.message, limitsLink(error));
    if (error.code === "model_not_found") this.picker.refresh();
    this.#announcer.say(error.message);
    return this.#fetchChanges(); // it may have arrived all the same
  }

  /** @param {Message} answer */
  async #regenerate(answer) {
    await this.#try(this.#conversation.regenerate(answer, this.#choice()));
    this.scroll.toEnd();
    this.composer.focus();
  }

  /** @param {import("./api.js").ToolCall} call @param {string} decision */
  async #decide(call, decision) {
    await this.#try(this.#conversation.decide(call, decision));
    const next = byId("thread").querySelector(".call-choices button");
    if (next) next.focus();
    else this.composer.focusUnlessTouched();
  }

  /** Once for each call that waits for a decision. */
  #announceCalls() {
    const question = callsQuestion(this.#conversation.openCalls?.calls ?? []);
    if (question && question !== this.#askedQuestion) this.#announcer.say(question);
    this.#askedQuestion = question;
  }

  /** @param {string} id */
  #showVersion(id) {
    this.#try(this.#conversation.showVersion(id));
    this.thread.view(id)?.node.querySelector(".versions button:enabled")?.focus();
  }

  /** A number that is no good is told, and left to the model. */
  #choice() {
    const { fault } = this.settings;
    if (fault) toast(`${fault} The model's own value is taken.`);
    const model = this.picker.current?.name;
    return { ...(model ? { model } : {}), options: this.settings.options };
  }

  #editLast() {
    const last = this.#conversation.path.findLast((message) => message.role === "user");
    if (last && !this.#conversation.isBusy) this.thread.view(last.id)?.edit();
  }

  /** @param {Message} message @param {import("./live_answer.js").LiveAnswer} answer @param {any} event */
  #onProgress(message, answer, event) {
    const view = this.thread.view(message.id);
    if (view) this.#painter.request(view.paint);
    if (view) this.#speak(answer, message);
    if (event.type === "Loading") this.picker.note(message.model, { state: "loading", fraction: event.fraction });
    if (event.type === "Started") this.picker.note(message.model, { state: "loaded", fraction: null });
    if (!answer.isEnded) return;
    this.list.change(this.#conversation.id, { is_generating: false });
    this.#painter.request(() => {
      this.#show();
      const isNowhere = [document.body, this.composer.button].includes(document.activeElement);
      if (isNowhere) this.composer.focusUnlessTouched();
    });
  }

  /** @param {import("./live_answer.js").LiveAnswer} answer @param {Message} message */
  #speak(answer, message) {
    const isNewPhase = answer.phase !== this.#spokenPhase;
    this.#spokenPhase = answer.phase;
    if (answer.isEnded) return this.#announcer.end(END_SENTENCES[answer.phase]);
    if (answer.phase === "writing") return this.#announcer.grow(answer.text);
    if (isNewPhase) this.#announcer.say(stateSentence(answer, this.picker.displayName(message.model)));
    return undefined;
  }

  /** @param {import("./api.js").Model | null} model @param {boolean} isByPerson */
  #onModel(model, isByPerson) {
    this.settings.showModel(model);
    this.tools.showModel(model);
    this.composer.attachments.showModel(model, this.picker?.models ?? []);
    this.#showReady();
    if (isByPerson && model) this.#saveDetails({ model: model.name });
    if (isByPerson) this.composer.focus();
  }

  /** Of a chat that has not begun until its first message. @param {string} text */
  #keepSystemPrompt(text) {
    if (this.#conversation.id) this.#saveDetails({ system_prompt: text });
    else this.#drafts.systemPrompt = text;
  }

  /** The same of what is switched on. @param {number[]} servers */
  #keepToolServers(servers) {
    if (this.#conversation.id) this.#saveDetails({ tool_servers: servers });
    else this.#drafts.toolServers = servers;
  }

  /** @param {object} changes of the conversation, if the server knows it yet */
  #saveDetails(changes) {
    const { id } = this.#conversation;
    if (id) this.#try(api.changeConversation(id, changes));
  }

  /** Hints come in bursts; one look is enough. @param {string} id */
  #onHint(id) {
    if (id === this.#conversation.id) this.#conversation.isStale = true;
    clearTimeout(this.#hintTimer);
    this.#hintTimer = setTimeout(() => this.#refetch(), HINT_DELAY_MS);
  }

  async #refetch() {
    this.#try(this.list.refresh());
    await this.#fetchChanges();
  }

  async #fetchChanges() {
    const conversation = this.#conversation;
    if (!conversation.isStale || conversation.isSending) return;
    conversation.isStale = false;
    try {
      await conversation.fetch();
    } catch (error) {
      if (error.status === 404 && conversation === this.#conversation) this.#goFromGone();
    }
    for (const said of this.#ids.takeArrived(conversation.tree)) this.composer.takeBack(said);
  }

  #rememberPlace() {
    if (this.#conversation.id) this.scroll.remember(this.#conversation.id);
  }

  /** @param {Promise<any> | null} request a failure is shown, and that is all */
  async #try(request) {
    try {
      await request;
    } catch (error) {
      toast(error.message, { link: limitsLink(error) });
    }
  }
}

/** @returns {string | null} */
function conversationInAddress() {
  return location.pathname.match(/^\/c\/([0-9a-f-]{36})/)?.[1] ?? null;
}
